// softmax and log_softmax along one axis, each row in one kernel.
//
//   out[r, i] = exp(x[r, i] - m[r]) / sum_i exp(x[r, i] - m[r]),  m[r] = max_i x[r, i]
//   out[r, i] = x[r, i] - m[r] - log(sum_i exp(x[r, i] - m[r]))              where IS_LOG is set
//
//   softmax_held     a team of 2^n threads a row, which stays in their registers: elements of dtype
//                    T, dense along the row, at most VECTORS * 16 bytes a thread
//   softmax_rows     a team of 2^n threads a row, which is read twice; any layout, any dtype
//   softmax_columns  neighbouring rows lie beside each other: threads across rows, and along them
//   T: f16 bf16 f32 f64, the dtype of the result; computed in f32 (f64); x of any dtype
//
// Launch: 256 threads a block, BLOCK of softmax_held; x counts teams, or tiles of columns, in a
// grid-stride loop, but for softmax_held.
// Shared memory: a state a warp (rows), a state a thread (columns).
// Limits: any extents and strides. NaN anywhere in a row, +inf, or -inf everywhere gives NaN.
// Source: Milakov and Gimelshein, Online normalizer calculation for softmax (2018).
#include "held_row.cuh"
#include "softmax_row.cuh"

template <typename T>
struct Normaliser {
    using Value = compute_t<T>;
    Value top;
    Value total;

    // NaN where exponents from the top are none: infinities.
    static __device__ __forceinline__ Normaliser of(const LogSumExp<Value>& state) {
        const Value none = state.top - state.top;
        return {state.top, static_cast<Value>(state.total) + none};
    }

    __device__ __forceinline__ Value apply(Value x, bool is_log) const {
        if (is_log) return x - top - Log<Value>::apply(total);
        return divide(exponential(x - top), total);
    }
};

// Where x lies, as numbers of its dtype turned into T, then into the compute dtype.
template <typename T>
struct Elements {
    const void* x;
    i32 dtype;

    __device__ __forceinline__ compute_t<T> at(i64 offset) const {
        return convert<compute_t<T>>(convert_from<T>(x, offset, dtype));
    }
};

// ---- rows in registers --------------------------------------------------------------------------

// The operand and the result are of dtype T and dense along a row, which its team holds.
template <typename T, i32 VECTORS, i32 BLOCK, i32 BLOCKS, bool IS_AHEAD>
__global__ void __launch_bounds__(BLOCK, (blocks_held<BLOCK, BLOCKS>))
    softmax_held(T* __restrict__ out, const T* __restrict__ source, i32 is_log,
                 const __grid_constant__ RowSpace<2> space) {
    static_assert(is_float<T>, "the result is of floats");
    static_assert(BLOCK % WARP == 0, "whole warps");
    using Value = compute_t<T>;
    using Held = HeldRow<T, VECTORS, IS_AHEAD>;
    constexpr i32 WIDTH = Held::WIDTH;

    // indices
    const bool aligned = space.is_even && is_vector_address(out) && is_vector_address(source);
    Held row(space, BLOCK, aligned);

    // shared memory: of a row and of the next, which some warps begin while others read
    __shared__ Found<Value> slots[1 + IS_AHEAD][BLOCK / WARP];
    i32 turn = 0;

    // load
    const T least = convert<T>(lowest<Value>());
    row.send(source, space, 1, row.number, least);

    row.for_each(source, space, 1, least, [&] {
        // compute
        const i32 team = 1 << space.team_log;
        const auto finish = finish_of<T>(row, is_log, AnyTeam{team}, team, slots[turn]);
        if constexpr (IS_AHEAD) turn ^= 1;
        // store
        const i64 begin = row.number < space.rows ? space.near_row(0, row.number) : 0;
#pragma unroll
        for (i32 k = 0; k < VECTORS; ++k) {
            Value y[WIDTH];
#pragma unroll
            for (i32 i = 0; i < WIDTH; ++i) {
                const Value x = row.x[k * WIDTH + i];
                y[i] = is_log ? (x - finish.from) + finish.scale : x * finish.scale;
            }
            row.store(out + begin, k, y);
        }
    });
}

// ---- rows of any layout -------------------------------------------------------------------------

// A row of any layout: measured, then read again.
template <typename T>
__device__ __forceinline__ void any_row(T* out, const RowSpace<2>& space, i64 row,
                                        const Elements<T>& elements, bool is_log, i32 lane,
                                        LogSumExp<compute_t<T>>* slots, Normaliser<T>* shared) {
    using Value = compute_t<T>;
    constexpr i32 LOADS = 4;
    const i32 team = 1 << space.team_log;
    const i64 length = row < space.rows ? space.length : 0;
    const i64 begin = row < space.rows ? space.row(1, row) : 0;
    auto state = LogSumExp<Value>::empty();
#pragma unroll 1
    for (i64 first = lane; first < length; first += LOADS * team) {
        Value x[LOADS];
        const auto valid = [&](i32 u) { return first + u * team < length; };
#pragma unroll
        for (i32 u = 0; u < LOADS; ++u) {
            if (valid(u)) x[u] = elements.at(begin + space.element(1, first + u * team));
        }
        state.take(x, valid, [](i32) { return i64(0); }, Options{});
    }
    merge_team(state, team, slots);
    if (lane == 0) shared[threadIdx.x >> space.team_log] = Normaliser<T>::of(state);
    __syncthreads();
    const Normaliser<T> found = shared[threadIdx.x >> space.team_log];
    __syncthreads();
    const i64 target = row < space.rows ? space.row(0, row) : 0;
#pragma unroll 1
    for (i64 i = lane; i < length; i += team) {
        const Value x = elements.at(begin + space.element(1, i));
        out[target + space.element(0, i)] = convert<T>(found.apply(x, is_log));
    }
}

template <typename T>
__global__ void __launch_bounds__(THREADS, 2)
    softmax_rows(T* __restrict__ out, const void* __restrict__ source, i32 dtype, i32 is_log,
                 const __grid_constant__ RowSpace<2> space) {
    static_assert(is_float<T>, "the result is of floats");
    using Value = compute_t<T>;

    // indices
    const i32 teams = THREADS >> space.team_log;
    const i32 lane = threadIdx.x & ((1 << space.team_log) - 1);
    const Elements<T> elements = {source, dtype};

    // shared memory
    __shared__ LogSumExp<Value> slots[THREADS / WARP];
    __shared__ Normaliser<T> shared[THREADS];

    const i64 stride = static_cast<i64>(gridDim.x) * teams;
#pragma unroll 1
    for (i64 base = static_cast<i64>(blockIdx.x) * teams; base < space.rows; base += stride) {
        const i64 row = base + (threadIdx.x >> space.team_log);
        any_row(out, space, row, elements, is_log, lane, slots, shared);
    }
}

template <typename T>
__global__ void __launch_bounds__(THREADS, 2)
    softmax_columns(T* __restrict__ out, const void* __restrict__ source, i32 dtype, i32 is_log,
                    const __grid_constant__ RowSpace<2> space) {
    static_assert(is_float<T>, "the result is of floats");
    using Value = compute_t<T>;
    constexpr i32 LOADS = 4;

    // indices
    const i32 across = 1 << space.team_log;
    const i32 down = THREADS >> space.team_log;
    const i32 x = threadIdx.x & (across - 1);
    const i32 y = threadIdx.x >> space.team_log;
    const i64 step = space.strides[1][space.outer_rank];
    const Elements<T> elements = {source, dtype};

    // shared memory
    __shared__ LogSumExp<Value> slots[THREADS];
    __shared__ Normaliser<T> shared[THREADS];

    const i64 stride = static_cast<i64>(gridDim.x) * across;
#pragma unroll 1
    for (i64 base = static_cast<i64>(blockIdx.x) * across; base < space.rows; base += stride) {
        const i64 row = base + x;
        const i64 length = row < space.rows ? space.length : 0;
        const i64 begin = row < space.rows ? space.row(1, row) : 0;

        // load and compute
        auto state = LogSumExp<Value>::empty();
#pragma unroll 1
        for (i64 first = y; first < length; first += LOADS * down) {
            Value values[LOADS];
            const auto valid = [&](i32 u) { return first + u * down < length; };
#pragma unroll
            for (i32 u = 0; u < LOADS; ++u) {
                if (valid(u)) values[u] = elements.at(begin + (first + u * down) * step);
            }
            state.take(values, valid, [](i32) { return i64(0); }, Options{});
        }
        merge_columns<THREADS>(state, across, slots);
        if (y == 0) shared[x] = Normaliser<T>::of(state);
        __syncthreads();
        const Normaliser<T> found = shared[x];
        __syncthreads();

        // store
        const i64 target = row < space.rows ? space.row(0, row) : 0;
        const i64 out_step = space.strides[0][space.outer_rank];
#pragma unroll 1
        for (i64 i = y; i < length; i += down) {
            const Value value = elements.at(begin + i * step);
            out[target + i * out_step] = convert<T>(found.apply(value, is_log));
        }
    }
}
