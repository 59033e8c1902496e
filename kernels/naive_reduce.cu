// Reductions, running sums, softmax and layer normalisation, one thread an output or a row: plain
// loops in f64 and i64, for every dtype, rank and stride.
//
//   naive_reduce       out[k] = finish(over r: x[k, r])              STATE: see reductions.cuh
//   naive_scan         out[r, i] = sum over j <= i of x[r, j]        SUM: f64 i64
//   naive_softmax      exp(x - m) / sum exp(x - m), or its logarithm
//   naive_layer_norm   (x - mean) / sqrt(var + eps) * weight + bias
//   dtypes: all, numbers at launch; complex ones in naive_reduce alone: product, norms, any, all
//
// Launch: 256 threads a block, a grid-stride loop over outputs or rows.
// Shared memory: none. Limits: 64 axes. Sums of f64 are compensated; each result rounds once.
// Source: Knuth, The Art of Computer Programming 2, 4.2.2 (the exact error of a sum).
#include "complex_ops.cuh"
#include "converting.cuh"
#include "moments.cuh"
#include "walk.cuh"

constexpr i32 COMPLEX64 = 7;  // its number, behind those of convert_from; complex128 is 8

__device__ __forceinline__ complex128 complex_at(const void* array, i64 offset, i32 dtype) {
    if (dtype == COMPLEX64) {
        return as_complex<complex128>(static_cast<const complex64*>(array)[offset]);
    }
    return static_cast<const complex128*>(array)[offset];
}

// An element of a reduction; of a complex number its size, or whether it is not 0.
template <typename VALUE>
__device__ __forceinline__ VALUE element_of(const void* array, i64 offset, i32 dtype) {
    if constexpr (is_complex<VALUE>) {
        return complex_at(array, offset, dtype);
    } else {
        if constexpr (is_same<VALUE, bool>) {
            if (dtype >= COMPLEX64) return convert<bool>(complex_at(array, offset, dtype));
        } else if constexpr (is_same<VALUE, f64>) {
            if (dtype >= COMPLEX64) return Abs<complex128>::apply(complex_at(array, offset, dtype));
        }
        return convert_from<VALUE>(array, offset, dtype);
    }
}

// An array of a dtype that is known at launch.
struct Array {
    const void* at;
    i32 dtype;
    i32 operand;  // the dtype its elements are converted to before they are computed with

    template <typename VALUE>
    __device__ __forceinline__ VALUE value(i64 offset) const {
        switch (operand) {
            case 3: return convert<VALUE>(convert_from<f16>(at, offset, dtype));
            case 4: return convert<VALUE>(convert_from<bf16>(at, offset, dtype));
            case 5: return convert<VALUE>(convert_from<f32>(at, offset, dtype));
            default: return convert_from<VALUE>(at, offset, dtype);
        }
    }
};

template <typename VALUE>
__device__ __forceinline__ void put(void* out, i64 offset, i32 dtype, VALUE value) {
    switch (dtype) {
        case 0: static_cast<bool*>(out)[offset] = convert<bool>(value); break;
        case 1: static_cast<i32*>(out)[offset] = convert<i32>(value); break;
        case 2: static_cast<i64*>(out)[offset] = convert<i64>(value); break;
        case 3: static_cast<f16*>(out)[offset] = convert<f16>(value); break;
        case 4: static_cast<bf16*>(out)[offset] = convert<bf16>(value); break;
        case 5: static_cast<f32*>(out)[offset] = convert<f32>(value); break;
        default: static_cast<f64*>(out)[offset] = convert<f64>(value);
    }
}

__device__ __forceinline__ void put(void* out, i64 offset, i32 dtype, complex128 value) {
    if (dtype == COMPLEX64) {
        static_cast<complex64*>(out)[offset] = as_complex<complex64>(value);
    } else {
        static_cast<complex128*>(out)[offset] = value;
    }
}

// of_sizes: the elements' absolute values are reduced.
template <typename STATE>
__global__ void __launch_bounds__(THREADS, 2)
    naive_reduce(void* __restrict__ out, i64 outputs, i64 count, i32 out_dtype, i32 of_sizes,
                 const void* __restrict__ source, i32 dtype,
                 const __grid_constant__ Options options,
                 const __grid_constant__ Walk<i64, 1> kept,
                 const __grid_constant__ Walk<i64, 1> reduced) {
    using Value = typename STATE::Value;
    const auto all = [](i32) { return true; };
    for (i64 n = grid_thread(); n < outputs; n += grid_threads()) {
        const i64 begin = offset_of<0>(kept, n);
        STATE state = STATE::empty();
#pragma unroll 1
        for (i64 r = 0; r < count; ++r) {
            Value x[1] = {element_of<Value>(source, begin + offset_of<0>(reduced, r), dtype)};
            if constexpr (!is_complex<Value>) {
                if (of_sizes) x[0] = Abs<Value>::apply(x[0]);
            }
            state.take(x, all, [=](i32) { return r; }, options);
        }
        put(out, n, out_dtype, state.finish(options));
    }
}

// rows: operand 0 is x, operand 1 the result.
template <typename SUM>
__global__ void __launch_bounds__(THREADS, 2)
    naive_scan(void* __restrict__ out, i64 rows, i64 length, i64 step, i64 out_step,
               i32 out_dtype, const void* __restrict__ source, i32 dtype,
               const __grid_constant__ Walk<i64, 2> walk) {
    const Options options = {};
    for (i64 row = grid_thread(); row < rows; row += grid_threads()) {
        const i64 from = offset_of<0>(walk, row);
        const i64 to = offset_of<1>(walk, row);
        Sum<SUM> sum = Sum<SUM>::empty();
#pragma unroll 1
        for (i64 i = 0; i < length; ++i) {
            const SUM x[1] = {convert_from<SUM>(source, from + i * step, dtype)};
            sum.take(x, [](i32) { return true; }, [](i32) { return i64(0); }, options);
            put(out, to + i * out_step, out_dtype, sum.finish(options));
        }
    }
}

template <typename T>
__global__ void __launch_bounds__(THREADS, 2)
    naive_softmax(void* __restrict__ out, i64 rows, i64 length, i64 step, i64 out_step,
                  i32 out_dtype, i32 is_log, const void* __restrict__ source, i32 dtype,
                  i32 operand, const __grid_constant__ Walk<i64, 2> walk) {
    static_assert(is_same<T, f64>, "computed in f64");
    const Array x = {source, dtype, operand};
    for (i64 row = grid_thread(); row < rows; row += grid_threads()) {
        const i64 from = offset_of<0>(walk, row);
        const i64 to = offset_of<1>(walk, row);
        T top = lowest<T>();
#pragma unroll 1
        for (i64 i = 0; i < length; ++i) top = maximum(top, x.value<T>(from + i * step));
        Sum<T> sum = Sum<T>::empty();
#pragma unroll 1
        for (i64 i = 0; i < length; ++i) {
            sum.merge({exp(x.value<T>(from + i * step) - top), 0.0});
        }
        const T total = sum.total + sum.rest;
#pragma unroll 1
        for (i64 i = 0; i < length; ++i) {
            const T away = x.value<T>(from + i * step) - top;
            put(out, to + i * out_step, out_dtype, is_log ? away - log(total) : exp(away) / total);
        }
    }
}

// rows: operand 0 is x; elements: x, weight, bias. weight and bias may be null; out is dense.
template <typename T>
__global__ void __launch_bounds__(THREADS, 2)
    naive_layer_norm(void* __restrict__ out, i64 rows, i64 length, f64 eps, i32 out_dtype,
                     i32 operand, const void* __restrict__ source, i32 dtype,
                     const void* __restrict__ weight, i32 weight_dtype,
                     const void* __restrict__ bias, i32 bias_dtype,
                     const __grid_constant__ Walk<i64, 1> walk,
                     const __grid_constant__ Walk<i64, 3> elements) {
    static_assert(is_same<T, f64>, "computed in f64");
    const Array x = {source, dtype, operand};
    const Array w = {weight, weight_dtype, operand};
    const Array b = {bias, bias_dtype, operand};
    for (i64 row = grid_thread(); row < rows; row += grid_threads()) {
        const i64 from = offset_of<0>(walk, row);
        Sum<T> sum = Sum<T>::empty();
#pragma unroll 1
        for (i64 i = 0; i < length; ++i) {
            sum.merge({x.value<T>(from + offset_of<0>(elements, i)), 0.0});
        }
        const T mean = (sum.total + sum.rest) / length;
        sum = Sum<T>::empty();
#pragma unroll 1
        for (i64 i = 0; i < length; ++i) {
            const T away = x.value<T>(from + offset_of<0>(elements, i)) - mean;
            sum.merge({away * away, 0.0});
        }
        const T deviation = sqrt((sum.total + sum.rest) / length + eps);
#pragma unroll 1
        for (i64 i = 0; i < length; ++i) {
            T y = (x.value<T>(from + offset_of<0>(elements, i)) - mean) / deviation;
            if (weight != nullptr) y = y * w.value<T>(offset_of<1>(elements, i));
            if (bias != nullptr) y = y + b.value<T>(offset_of<2>(elements, i));
            put(out, row * length + i, out_dtype, y);
        }
    }
}
