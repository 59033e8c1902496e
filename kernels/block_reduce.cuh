// States that meet within a block: along a team of neighbouring threads, or along its columns.
//
//   merge_team      THREADS threads are teams of 2^n neighbours; thread 0 of a team gets the
//                   states of all, in a fixed order
//   merge_columns   thread (x, y) of a block `columns` wide; thread (x, 0) gets those of (x, any)
//   merge_tile      the same for several columns a thread, at one barrier
//   merge_transposed  several states a lane, one an output; each lane gets outputs of its own
//   lanes_total     a number of every lane of a team, joined; all of them get the whole
//   warps_value     a number of every warp of a team, for all of them
//   Divisor64       division of any index below 2^63 by a number that is known at launch
//
// A state has `merge(other)` and `moved(move)`: see reductions.cuh. Every thread of the block takes
// part. Shared memory: one state a warp for merge_team and warps_value, one a thread for
// merge_columns, WIDTH a thread for merge_tile.
// Source: Granlund and Montgomery, Division by Invariant Integers using Multiplication (1994).
#pragma once

#include "common.cuh"

struct Divisor64 {
    u64 divisor;
    u64 multiplier;
    i64 shift;

    __device__ __forceinline__ i64 quotient(i64 n) const {
        const u64 m = static_cast<u64>(n);
        return static_cast<i64>((__umul64hi(m, multiplier) + m) >> shift);
    }
    __device__ __forceinline__ i64 remainder(i64 n, i64 quotient_of_n) const {
        return n - quotient_of_n * static_cast<i64>(divisor);
    }
};

// Blocks that a multiprocessor holds at once, as the second of launch bounds: BLOCKS, or as many as
// its threads allow. From sm_100 on compilers add in pairs, which takes more registers.
constexpr i32 MOST_THREADS =
    __CUDA_ARCH__ == 750 ? 1024
    : __CUDA_ARCH__ == 800 || __CUDA_ARCH__ == 900 || __CUDA_ARCH__ / 100 == 10 ? 2048
                                                                                  : 1536;
template <i32 BLOCK, i32 BLOCKS>
constexpr i32 blocks_held = BLOCKS * BLOCK > MOST_THREADS ? MOST_THREADS / BLOCK
                            : __CUDA_ARCH__ >= 1000 && BLOCKS > 2 ? BLOCKS - 1
                                                                  : BLOCKS;

// Lanes of a warp in teams of `team`, a power of two; lane 0 of each gets the whole.
template <typename STATE>
__device__ __forceinline__ void merge_lanes(STATE& state, i32 team) {
#pragma unroll 1
    for (i32 step = 1; step < team; step *= 2) {
        state.merge(state.moved([=](auto field) { return shuffle_down(field, step); }));
    }
}

// `slots` has one state a warp and is free again when the call returns.
template <typename STATE>
__device__ __forceinline__ void merge_team(STATE& state, i32 team, STATE* slots) {
    merge_lanes(state, team < WARP ? team : WARP);
    if (team <= WARP) return;
    const i32 warps = team / WARP;
    if (lane_index() == 0) slots[warp_index()] = state;
    __syncthreads();
    if (warp_index() % warps == 0) {
        state = lane_index() < warps ? slots[warp_index() + lane_index()] : STATE::empty();
        merge_lanes(state, warps);
    }
    __syncthreads();
}

// A block of THREADS threads is `columns` wide, a power of two; thread (x, 0) gets the states of
// all (x, y): first those of its warp, then one warp after the other. `slots` has one state a
// thread and is free again when the call returns.
template <i32 THREADS, typename STATE>
__device__ __forceinline__ void merge_columns(STATE& state, i32 columns, STATE* slots) {
#pragma unroll 1
    for (i32 step = columns; step < WARP; step *= 2) {
        state.merge(state.moved([=](auto field) { return shuffle_down(field, step); }));
    }
    if (columns == THREADS) return;
    const i32 self = threadIdx.x;
    const i32 x = self & (columns - 1);
    const i32 rows = columns < WARP ? THREADS / WARP : THREADS / columns;
    const i32 y = columns < WARP ? warp_index() : self / columns;
    if (columns >= WARP || lane_index() < columns) slots[y * columns + x] = state;
    __syncthreads();
    if (self < columns) {
#pragma unroll 1
        for (i32 row = 1; row < rows; ++row) state.merge(slots[row * columns + x]);
    }
    __syncthreads();
}

// A block of THREADS threads is `across` wide, a power of two; a thread has a state of each of
// WIDTH columns, number i of which is column_of(i) of the block's across * WIDTH. Calls
// PUT(column, state) for each column, by neighbouring threads for neighbouring columns. `slots` has
// WIDTH states a thread and is free again behind the next barrier.
template <i32 THREADS, i32 WIDTH, typename STATE, typename COLUMN, typename PUT>
__device__ __forceinline__ void merge_tile(STATE (&states)[WIDTH], i32 across, COLUMN column_of,
                                           STATE* slots, PUT put) {
#pragma unroll 1
    for (i32 step = across; step < WARP; step *= 2) {
#pragma unroll
        for (i32 i = 0; i < WIDTH; ++i) {
            states[i].merge(states[i].moved([=](auto field) { return shuffle_down(field, step); }));
        }
    }
    const i32 columns = across * WIDTH;
    const i32 rows = across < WARP ? THREADS / WARP : THREADS / across;
    const i32 row = across < WARP ? warp_index() : threadIdx.x / across;
    if (across >= WARP || lane_index() < across) {
#pragma unroll
        for (i32 i = 0; i < WIDTH; ++i) slots[row * columns + column_of(i)] = states[i];
    }
    __syncthreads();
#pragma unroll 1
    for (i32 column = threadIdx.x; column < columns; column += THREADS) {
        STATE held[THREADS / WARP];  // there are no more rows than warps
#pragma unroll
        for (i32 k = 0; k < THREADS / WARP; ++k) {
            if (k < rows) held[k] = slots[k * columns + column];
        }
#pragma unroll
        for (i32 k = 1; k < THREADS / WARP; ++k) {
            if (k < rows) held[0].merge(held[k]);
        }
        put(column, held[0]);
    }
}

// The numbers of a team of at most a warp, joined by a commutative JOIN; all of them get the whole.
template <typename T, typename JOIN>
__device__ __forceinline__ T lanes_total(T value, i32 team, JOIN join) {
#pragma unroll 1
    for (i32 step = 1; step < team; step *= 2) value = join(value, shuffle_xor(value, step));
    return value;
}

// A team whose size is known at compile time, for numbers that are joined commutatively: `lanes`
// joins those of the lanes of a warp, `warps` what every warp found. SLOTS as of warps_value.
template <i32 TEAM>
struct FixedTeam {
    static constexpr i32 LANES = TEAM < WARP ? TEAM : WARP;
    static constexpr i32 WARPS = TEAM / LANES;

    template <typename T, typename JOIN>
    static __device__ __forceinline__ T lanes(T value, JOIN join) {
#pragma unroll
        for (i32 step = 1; step < LANES; step *= 2) value = join(value, shuffle_xor(value, step));
        return value;
    }
    template <typename T, typename JOIN>
    static __device__ __forceinline__ T warps(T value, JOIN join) {
#pragma unroll
        for (i32 step = 1; step < WARPS; step *= 2) value = join(value, shuffle_xor(value, step));
        return value;
    }
};

// The same of a team whose size is known at launch.
struct AnyTeam {
    i32 team;

    template <typename T, typename JOIN>
    __device__ __forceinline__ T lanes(T value, JOIN join) const {
        return lanes_total(value, team < WARP ? team : WARP, join);
    }
    template <typename T, typename JOIN>
    __device__ __forceinline__ T warps(T value, JOIN join) const {
        return lanes_total(value, team / WARP, join);
    }
};

// Numbers of the warps of a team: what each of them found, for all threads of the team. `slots` has
// one a warp; two calls in a row have slots of their own.
template <typename T>
__device__ __forceinline__ T warps_value(T value, i32 warps, T* slots) {
    if (lane_index() == 0) slots[warp_index()] = value;
    __syncthreads();
    return slots[(warp_index() & -warps) + (lane_index() & (warps - 1))];
}

// Each of COUNT states is one of an output that a team of at most a warp shares; the team has COUNT
// of them. Halves are exchanged, so that each lane is left with outputs of its own: states[0] to
// states[n - 1] become those of outputs `first` and on, n being what is returned. Lanes that are
// left with the same output have the same state.
template <i32 COUNT, typename STATE>
__device__ __forceinline__ i32 merge_transposed(STATE* states, i32 team, i32& first) {
    if constexpr (COUNT > 1) {
        if (team == 1) return COUNT;
        constexpr i32 HALF = COUNT / 2;
        const i32 apart = team / 2;
        const bool upper = (lane_index() & apart) != 0;
#pragma unroll
        for (i32 k = 0; k < HALF; ++k) {
            const STATE low = states[k];  // copies: a choice of places would be one of addresses
            const STATE high = states[k + HALF];
            STATE mine = upper ? high : low;
            const STATE other = upper ? low : high;
            mine.merge(other.moved([=](auto field) { return shuffle_xor(field, apart); }));
            states[k] = mine;
        }
        first += upper ? HALF : 0;
        return merge_transposed<HALF>(states, apart, first);
    } else {
#pragma unroll 1
        for (i32 apart = team / 2; apart > 0; apart /= 2) {
            states[0].merge(
                states[0].moved([=](auto field) { return shuffle_xor(field, apart); }));
        }
        return 1;
    }
}
