// Contractions with one thread an output: any rank, strides and dtypes.
//
//   out[o] = sum_k A[o, k] * B[o, k]                 o and k of up to 64 axes
//   out[o] = sum_p A[o, p]
//
//   naive_contraction   A and B any dtypes, T their common dtype, which is out's
//   private_sum         A any dtype, converted to T; out dense in compute_t<T>, which the product
//                       then takes as it is: labels of one operand alone are summed first
//
// f16, bf16 and f32: FMA in f32 over blocks of BLOCK terms, blocks added in f64; f64 in blocks
// likewise; rounded once. Complex numbers: so for each part. Integers wrap.
// Launch: 256 threads a block, a grid-stride loop over the outputs. Shared memory: none.
// Limits: none on extents or offsets, which are 64-bit.
// Source: Blanchard, Higham, Mary, A Class of Fast and Accurate Summation Algorithms (2020), for
// sums in blocks.
#include "complex.cuh"
#include "tile.cuh"

constexpr i32 MAX_RANK = 64;

// Axes innermost first, with strides of OPERANDS operands.
template <i32 OPERANDS>
struct LoopAxes {
    i64 count;
    i64 extents[MAX_RANK];
    i64 strides[OPERANDS][MAX_RANK];
};

// n / divisor for n >= 0, in 32 bits where they suffice.
__device__ __forceinline__ i64 quotient_of(i64 n, i64 divisor) {
    if ((n | divisor) >> 32 == 0) return static_cast<u32>(n) / static_cast<u32>(divisor);
    return n / divisor;
}

// Adds the offsets of iteration `index` of the axes from `first` on.
template <i32 OPERANDS>
__device__ __forceinline__ void move_to(i64 (&offsets)[OPERANDS], const LoopAxes<OPERANDS>& axes,
                                        i64 index, i32 first) {
#pragma unroll 1
    for (i32 axis = first; axis < axes.count; ++axis) {
        const i64 quotient = quotient_of(index, axes.extents[axis]);
        const i64 rest = index - quotient * axes.extents[axis];
#pragma unroll
        for (i32 k = 0; k < OPERANDS; ++k) offsets[k] += rest * axes.strides[k][axis];
        index = quotient;
    }
}

// A sum of products of T in their compute type.
template <typename T>
struct BlockedSum {
    using C = compute_t<T>;
    static constexpr i32 BLOCK = 32;  // terms that are added before they join the total
    C block = 0;
    f64 total = 0;
    i32 terms = 0;

    __device__ __forceinline__ void add_product(C a, C b) {
        if constexpr (is_same<C, f64>) {
            block = __fma_rn(a, b, block);
        } else {
            block = __fmaf_rn(a, b, block);
        }
        if (++terms == BLOCK) flush();
    }
    __device__ __forceinline__ void add_term(C a) { add_product(a, C(1)); }
    __device__ __forceinline__ void flush() {
        total += block;
        block = 0;
        terms = 0;
    }
    template <typename R>
    __device__ __forceinline__ R rounded() {
        flush();
        return convert<R>(total);
    }
};

template <typename T>
struct WrappedSum {
    bits_t<T> total = 0;

    __device__ __forceinline__ void add_product(T a, T b) {
        total += static_cast<bits_t<T>>(a) * static_cast<bits_t<T>>(b);
    }
    __device__ __forceinline__ void add_term(T a) { total += static_cast<bits_t<T>>(a); }
    template <typename R>
    __device__ __forceinline__ R rounded() const {
        return static_cast<R>(total);
    }
};

// A sum of products of complex numbers: two terms a part and product.
template <typename T>
struct ComplexSum {
    using Part = decltype(T::re);
    BlockedSum<Part> re;
    BlockedSum<Part> im;

    __device__ __forceinline__ void add_product(T a, T b) {
        re.add_product(a.re, b.re);
        re.add_product(-a.im, b.im);
        im.add_product(a.re, b.im);
        im.add_product(a.im, b.re);
    }
    __device__ __forceinline__ void add_term(T a) {
        re.add_term(a.re);
        im.add_term(a.im);
    }
    template <typename R>
    __device__ __forceinline__ R rounded() {
        return {re.template rounded<Part>(), im.template rounded<Part>()};
    }
};

template <typename T>
using running_t = select_t<is_complex<T>, ComplexSum<T>,
                           select_t<is_float<T>, BlockedSum<T>, WrappedSum<T>>>;

// An element as it is multiplied.
template <typename T, typename S>
__device__ __forceinline__ compute_t<T> factor_of(S value) {
    if constexpr (is_complex<T>) {
        return as_complex<T>(value);
    } else {
        return as_factor<T>(value);
    }
}

template <typename A, typename B, typename T>
__global__ void __launch_bounds__(256)
    naive_contraction(T* __restrict__ out, const A* __restrict__ a, const B* __restrict__ b,
                      i64 count, i64 terms, const __grid_constant__ LoopAxes<2> outputs,
                      const __grid_constant__ LoopAxes<2> summed) {
    static_assert(!is_same<T, bool>, "bools are not multiplied");
    const i64 inner = summed.count > 0 ? summed.extents[0] : 1;
    const i64 step_a = summed.strides[0][0], step_b = summed.strides[1][0];
    for (i64 at = grid_thread(); at < count; at += grid_threads()) {
        // indices
        i64 first[2] = {};
        move_to(first, outputs, at, 0);

        // compute
        running_t<T> sum;
        for (i64 run = 0, done = 0; done < terms; ++run, done += inner) {
            i64 offsets[2] = {first[0], first[1]};
            move_to(offsets, summed, run, 1);
            for (i64 k = 0; k < inner; ++k) {
                sum.add_product(factor_of<T>(a[offsets[0] + k * step_a]),
                                factor_of<T>(b[offsets[1] + k * step_b]));
            }
        }

        // store
        out[at] = sum.template rounded<T>();
    }
}

template <typename A, typename T>
__global__ void __launch_bounds__(256)
    private_sum(compute_t<T>* __restrict__ out, const A* __restrict__ a, i64 count, i64 terms,
                const __grid_constant__ LoopAxes<1> outputs,
                const __grid_constant__ LoopAxes<1> summed) {
    static_assert(!is_same<T, bool>, "bools are not multiplied");
    const i64 inner = summed.count > 0 ? summed.extents[0] : 1;
    const i64 step = summed.strides[0][0];
    for (i64 at = grid_thread(); at < count; at += grid_threads()) {
        // indices
        i64 first[1] = {};
        move_to(first, outputs, at, 0);

        // compute
        running_t<T> sum;
        for (i64 run = 0, done = 0; done < terms; ++run, done += inner) {
            i64 offsets[1] = {first[0]};
            move_to(offsets, summed, run, 1);
            for (i64 p = 0; p < inner; ++p) {
                sum.add_term(factor_of<T>(a[offsets[0] + p * step]));
            }
        }

        // store
        out[at] = sum.template rounded<compute_t<T>>();
    }
}
