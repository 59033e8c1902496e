// Layer normalisation over the last axes, each row in one kernel.
//
//   out[r, i] = (x[r, i] - mean[r]) / sqrt(var[r] + eps) * weight[i] + bias[i]
//   mean[r] = sum_i x[r, i] / n,  var[r] = sum_i (x[r, i] - mean[r])^2 / n
//
//   layer_norm_held   a team of 2^n threads a row, which stays in their registers: x, weight and
//                     bias of dtype T, dense along the row, at most VECTORS * 16 bytes a thread
//   layer_norm        a team of 2^n threads a row, which is read twice; any layout, any dtype
//   T: f16 bf16 f32 f64, the dtype of the result; computed in f32 (f64), rounded once; x, weight
//   and bias of any dtype; weight and bias may be null
//
// Launch: 256 threads a block, BLOCK of layer_norm_held; x counts teams, in a grid-stride loop but
// for layer_norm_held without IS_AHEAD.
// Shared memory: a state a warp, and a pair of numbers a team.
// Limits: any extents and strides; out is dense.
// Source: Ba, Kiros and Hinton, Layer normalization (2016); Chan, Golub and LeVeque (1983).
#include "held_row.cuh"
#include "layer_norm_row.cuh"

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

// ---- rows in registers --------------------------------------------------------------------------

// x, weight and bias are of dtype T and dense along a row, which its team holds.
template <typename T, i32 VECTORS, i32 BLOCK, i32 BLOCKS, bool IS_AHEAD>
__global__ void __launch_bounds__(BLOCK, (norm_blocks<T, VECTORS, BLOCK, BLOCKS>))
    layer_norm_held(T* __restrict__ out, const T* __restrict__ source,
                    const T* __restrict__ weight, const T* __restrict__ bias, f64 eps,
                    const __grid_constant__ RowSpace<3> space) {
    static_assert(is_float<T>, "the result is of floats");
    static_assert(BLOCK % WARP == 0, "whole warps");
    using Value = compute_t<T>;
    using Held = HeldRow<T, VECTORS, IS_AHEAD>;
    using Packed = typename Held::Packed;
    constexpr i32 WIDTH = Held::WIDTH;

    // indices
    const bool aligned = space.is_even && is_vector_address(out) && is_vector_address(source) &&
                         is_vector_address(weight) && is_vector_address(bias);
    Held row(space, BLOCK, aligned);

    // shared memory
    __shared__ Value slots[2][BLOCK / WARP];

    // load: weight and bias stay where they serve several rows
    constexpr i32 GROUP = IS_AHEAD ? VECTORS : BLOCK < 1024 ? 2 : 1;
    Packed weights[GROUP];
    Packed biases[GROUP];
    const auto load_factors = [&](i32 k) {
        row.template load<false>(weights, weight, k, weight != nullptr, convert<T>(Value(1)));
        // x + -0 is x
        row.template load<false>(biases, bias, k, bias != nullptr, convert<T>(Value(-0.0)));
    };
    row.send(source, space, 0, row.number, convert<T>(Value(0)));
    if constexpr (IS_AHEAD) load_factors(0);
    const Value share = divide(Value(1), static_cast<Value>(row.length));
    const Value least = static_cast<Value>(eps);

    row.for_each(source, space, 0, convert<T>(Value(0)), [&] {
        // compute
        standardise<T>(row, least, share, 1 << space.team_log, slots);
        // store
        T* const begin = out + row.number * space.length;
#pragma unroll
        for (i32 k = 0; k < VECTORS; ++k) {
            if constexpr (!IS_AHEAD) {
                if (k % GROUP == 0) load_factors(k);
            }
            const Packed w = unrelated(weights[k % GROUP]);
            const Packed b = unrelated(biases[k % GROUP]);
            Value y[WIDTH];
#pragma unroll
            for (i32 i = 0; i < WIDTH; ++i) {
                y[i] = scaled<T>(row.x[k * WIDTH + i], convert<Value>(w.lane(i)),
                                 convert<Value>(b.lane(i)));
            }
            row.store(begin, k, y);
        }
    });
}

// ---- rows of any layout -------------------------------------------------------------------------

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

template <typename T>
__global__ void __launch_bounds__(THREADS, 2)
    layer_norm(T* __restrict__ out, const void* __restrict__ source,
               const void* __restrict__ weight, const void* __restrict__ bias, i32 source_dtype,
               i32 weight_dtype, i32 bias_dtype, f64 eps,
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

    // shared memory
    __shared__ Moments<Value> slots[THREADS / WARP];
    __shared__ Scale<Value> shared[THREADS];

    const i64 stride = static_cast<i64>(gridDim.x) * teams;
#pragma unroll 1
    for (i64 base = static_cast<i64>(blockIdx.x) * teams; base < space.rows; base += stride) {
        // load and compute
        const i64 row = base + (threadIdx.x >> space.team_log);
        const i64 length = row < space.rows ? space.length : 0;
        const i64 begin = row < space.rows ? space.row(0, row) : 0;
        const auto scale = measured<T>(x, space, begin, length, eps, lane, slots, shared);
        // store
        T* const target = out + row * space.length;
#pragma unroll 1
        for (i64 i = lane; i < length; i += team) {
            Value y = scale.apply(x.number<T>(begin + space.element(0, i)));
            if (weight != nullptr) y = y * w.number<T>(space.element(1, i));
            if (bias != nullptr) y = y + b.number<T>(space.element(2, i));
            target[i] = convert<T>(y);
        }
    }
}
