// Sums over the threads of a block that come before each of them.
//
//   sum_before   the sum of what earlier threads hold; `total` becomes that of the whole block
//
// Every thread of the block takes part. Sums meet in a fixed order.
// Shared memory: `slots` has one number a warp and is free again when the call returns.
// Limits: blocks of 32 * WARPS threads.
// Source: Blelloch, Prefix sums and their applications (1990).
#pragma once

#include "common.cuh"

template <i32 WARPS, typename SUM, typename JOIN>
__device__ __forceinline__ SUM sum_before(SUM value, SUM& total, SUM* slots, JOIN join) {
    SUM sum = value;
#pragma unroll
    for (i32 step = 1; step < WARP; step *= 2) {
        const SUM before = shuffle_up(sum, step);
        if (lane_index() >= step) sum = join(sum, before);
    }
    if (lane_index() == WARP - 1) slots[warp_index()] = sum;
    __syncthreads();
    SUM before = 0;
    total = 0;
#pragma unroll
    for (i32 warp = 0; warp < WARPS; ++warp) {
        if (warp == warp_index()) before = total;
        total = join(total, slots[warp]);
    }
    __syncthreads();
    const SUM previous = shuffle_up(sum, 1);
    return lane_index() == 0 ? before : join(before, previous);
}
