// States that meet within a block: along a team of neighbouring threads, or along its columns.
//
//   merge_team      THREADS threads are teams of 2^n neighbours; thread 0 of a team gets the
//                   states of all, in a fixed order
//   merge_columns   thread (x, y) of a block `columns` wide; thread (x, 0) gets those of (x, any)
//   team_total      a number of every thread of a team, joined; all of them get the whole
//   Divisor64       division of any index below 2^63 by a number that is known at launch
//
// A state has `merge(other)` and `moved(move)`: see reductions.cuh. Every thread of the block takes
// part. Shared memory: one state a warp for merge_team and team_total, one a thread for
// merge_columns.
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

// `slots` has one state a thread and is free again when the call returns.
template <typename STATE>
__device__ __forceinline__ void merge_columns(STATE& state, i32 columns, i32 threads,
                                              STATE* slots) {
    const i32 self = threadIdx.x;
    slots[self] = state;
#pragma unroll 1
    for (i32 half = threads / 2; half >= columns; half /= 2) {
        __syncthreads();
        if (self < half) {
            state.merge(slots[self + half]);
            slots[self] = state;
        }
    }
    __syncthreads();
}

// JOIN is commutative; `slots` has one number a warp and is free again when the call returns.
template <typename T, typename JOIN>
__device__ __forceinline__ T team_total(T value, i32 team, T* slots, JOIN join) {
#pragma unroll 1
    for (i32 step = 1; step < WARP && step < team; step *= 2) {
        value = join(value, shuffle_xor(value, step));
    }
    if (team <= WARP) return value;
    const i32 warps = team / WARP;
    const i32 first = warp_index() / warps * warps;
    if (lane_index() == 0) slots[warp_index()] = value;
    __syncthreads();
    value = slots[first];
    for (i32 k = 1; k < warps; ++k) value = join(value, slots[first + k]);
    __syncthreads();
    return value;
}
