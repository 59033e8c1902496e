// Layer normalisation over the last axes, each row in one kernel.
//
//   out[r, i] = (x[r, i] - mean[r]) / sqrt(var[r] + eps) * weight[i] + bias[i]
//   mean[r] = sum_i x[r, i] / n,  var[r] = sum_i (x[r, i] - mean[r])^2 / n
//
//   layer_norm   a team of 2^n threads a row; the row stays in registers where its elements, the
//                weights and the biases are dense, aligned, of dtype T and at most 256 * 32 (f64:
//                256 * 16), else it is read twice
//   T: f16 bf16 f32 f64, the dtype of the result; computed in f32 (f64), rounded once; x, weight
//   and bias of any dtype; weight and bias may be null
//
// Launch: 256 threads a block; x counts teams in a grid-stride loop.
// Shared memory: a state a warp, and a pair of numbers a team.
// Limits: any extents and strides; out is dense.
// Source: Ba, Kiros and Hinton, Layer normalization (2016); Chan, Golub and LeVeque (1983).
#include "moments.cuh"
#include "row_space.cuh"

// A pointer to numbers of a dtype that is known at launch.
struct Numbers {
    const void* at;
    i32 dtype;

    template <typename T>
    __device__ __forceinline__ compute_t<T> number(i64 offset) const {
        return convert<compute_t<T>>(convert_from<T>(at, offset, dtype));
    }
};

template <typename VALUE>
struct Scale {
    VALUE mean;
    VALUE factor;

    __device__ __forceinline__ VALUE apply(VALUE x) const { return multiply(x - mean, factor); }
};

template <typename VALUE>
__device__ __forceinline__ VALUE inverse_deviation(VALUE variance, f64 eps) {
    return divide(VALUE(1), square_root(add(variance, static_cast<VALUE>(eps))));
}

// A row in registers: two passes over it.
template <typename T>
__device__ __forceinline__ void finish_row(Row<T>& row, const T* weight, const T* bias, f64 eps,
                                           i32 team, compute_t<T>* slots) {
    using Value = compute_t<T>;
    constexpr i32 WIDTH = Row<T>::WIDTH;
    const auto sum = [](Value a, Value b) { return add(a, b); };
    const Value count = static_cast<Value>(row.length);
    const Value mean = divide(team_total(tree(row.x, sum), team, slots, sum), count);
    Value squares[Row<T>::ELEMENTS];
#pragma unroll
    for (i32 i = 0; i < Row<T>::ELEMENTS; ++i) {
        row.x[i] = row.has(i / WIDTH) ? row.x[i] - mean : Value(0);
        squares[i] = row.x[i] * row.x[i];
    }
    const Value variance = divide(team_total(tree(squares, sum), team, slots, sum), count);
    const Value factor = inverse_deviation(variance, eps);
#pragma unroll
    for (i32 k = 0; k < Row<T>::VECTORS; ++k) {
        if (!row.has(k)) continue;
        const i64 at = row.first + k * row.stride;
        Vector<T, WIDTH> weights, biases;
        if (weight != nullptr) weights = load<WIDTH>(weight + at);
        if (bias != nullptr) biases = load<WIDTH>(bias + at);
#pragma unroll
        for (i32 lane = 0; lane < WIDTH; ++lane) {
            Value y = row.x[k * WIDTH + lane] * factor;
            if (weight != nullptr) y = y * convert<Value>(weights.lanes[lane]);
            if (bias != nullptr) y = y + convert<Value>(biases.lanes[lane]);
            row.x[k * WIDTH + lane] = y;
        }
    }
}

// Mean and factor of a row of any layout, for every thread of its team.
template <typename T>
__device__ __forceinline__ Scale<compute_t<T>> measured(const Numbers& x,
                                                        const RowSpace<3>& space, i64 begin,
                                                        i64 length, f64 eps, i32 lane,
                                                        Moments<compute_t<T>>* slots,
                                                        Scale<compute_t<T>>* shared) {
    using Value = compute_t<T>;
    constexpr i32 LOADS = 4;
    const i32 team = 1 << space.team_log;
    auto state = Moments<Value>::empty();
#pragma unroll 1
    for (i64 first = lane; first < length; first += LOADS * team) {
        Value values[LOADS];
        const auto valid = [&](i32 u) { return first + u * team < length; };
#pragma unroll
        for (i32 u = 0; u < LOADS; ++u) {
            if (valid(u)) values[u] = x.number<T>(begin + space.element(0, first + u * team));
        }
        state.take(values, valid, [](i32) { return i64(0); }, Options{});
    }
    merge_team(state, team, slots);
    if (lane == 0) {
        const Value variance = static_cast<Value>(state.squares / static_cast<f64>(length));
        shared[threadIdx.x >> space.team_log] = {static_cast<Value>(state.mean),
                                                 inverse_deviation(variance, eps)};
    }
    __syncthreads();
    const Scale<Value> found = shared[threadIdx.x >> space.team_log];
    __syncthreads();
    return found;
}

// `is_own`: x, weight and bias are of dtype T, and their elements of a row are dense.
template <typename T>
__global__ void __launch_bounds__(THREADS, (sizeof(T) == 8 ? 1 : 2))
    layer_norm(T* __restrict__ out, const void* __restrict__ source,
               const void* __restrict__ weight, const void* __restrict__ bias, i32 source_dtype,
               i32 weight_dtype, i32 bias_dtype, i32 is_own, f64 eps,
               const __grid_constant__ RowSpace<3> space) {
    static_assert(is_float<T>, "the result is of floats");
    using Value = compute_t<T>;

    // indices
    const i32 team = 1 << space.team_log;
    const i32 teams = THREADS >> space.team_log;
    const i32 lane = threadIdx.x & (team - 1);
    const Numbers x = {source, source_dtype};
    const Numbers w = {weight, weight_dtype};
    const Numbers b = {bias, bias_dtype};
    const bool fast = is_own && space.is_even && Row<T>::fits(space.length, team) &&
                      is_vector_address(out) && is_vector_address(source) &&
                      is_vector_address(weight) && is_vector_address(bias);

    // shared memory
    __shared__ Value numbers[THREADS / WARP];
    __shared__ Moments<Value> slots[THREADS / WARP];
    __shared__ Scale<Value> shared[THREADS];

    const i64 stride = static_cast<i64>(gridDim.x) * teams;
#pragma unroll 1
    for (i64 base = static_cast<i64>(blockIdx.x) * teams; base < space.rows; base += stride) {
        const i64 row = base + (threadIdx.x >> space.team_log);
        const i64 length = row < space.rows ? space.length : 0;
        const i64 begin = row < space.rows ? space.row(0, row) : 0;
        T* const target = out + row * space.length;
        if (fast) {
            Row<T> held;
            held.load_row(static_cast<const T*>(source) + begin, lane, team, length, Value(0));
            finish_row(held, static_cast<const T*>(weight), static_cast<const T*>(bias), eps, team,
                       numbers);
            held.store_row(target);
            continue;
        }
        const auto scale = measured<T>(x, space, begin, length, eps, lane, slots, shared);
#pragma unroll 1
        for (i64 i = lane; i < length; i += team) {
            Value y = scale.apply(x.number<T>(begin + space.element(0, i)));
            if (weight != nullptr) y = y * w.number<T>(space.element(1, i));
            if (bias != nullptr) y = y + b.number<T>(space.element(2, i));
            target[i] = convert<T>(y);
        }
    }
}
