// The index space of a reduction.
//
//   Space      kept axes and reduced axes; the innermost axis of all, and one reduced axis beside
//              it, have places of their own. The host packs it: softcuda/backends/cuda/spaces.py
//   Share      the iterations of a loop that a block takes
//
// Indices and offsets have 64 bits; nothing is divided where a loop has one axis.
// Source: none.
#pragma once

#include "block_reduce.cuh"
#include "reductions.cuh"

constexpr i32 THREADS = 256;
constexpr i32 THREADS_LOG = 8;
constexpr i32 WARP_LOG = 5;

// Which loop the blocks along y share.
constexpr i32 SPLIT_REST = 0;
constexpr i32 SPLIT_BESIDE = 1;
constexpr i32 SPLIT_CHUNKS = 2;

template <i32 COUNT>
struct At {
    i64 at[COUNT];

    __device__ __forceinline__ At moved(i64 steps, const i64* strides) const {
        At result;
#pragma unroll
        for (i32 k = 0; k < COUNT; ++k) result.at[k] = at[k] + steps * strides[k];
        return result;
    }
    __device__ __forceinline__ At moved_by(const At& step) const {
        At result;
#pragma unroll
        for (i32 k = 0; k < COUNT; ++k) result.at[k] = at[k] + step.at[k];
        return result;
    }
};

// Iterations begin, begin + step, ... of a loop.
struct Share {
    i64 begin;
    i64 step;
    i64 count;
};

// RESULTS: the result, then the operands of the epilogue. SOURCES: the operands of the prologue,
// then the places of elements, where the reduction counts them.
template <i32 RANK, i32 RESULTS, i32 SOURCES>
struct Space {
    static_assert(RANK >= 1 && RANK <= 64, "tensors have at most 64 axes");

    Options options;
    i64 outputs;       // numbers of the kept axes; of reduce_columns: with tiles of columns
    i64 results;       // elements of the result
    i64 inner;         // extent of the innermost axis
    i64 beside;        // extent of the reduced axis beside it
    i64 rest;          // numbers of the other reduced axes
    i64 each;          // iterations, or batches, of the shared loop that a block takes
    i32 kept_rank;     // axes 0 to kept_rank - 1, innermost first; then the other reduced axes
    i32 team_log;      // log2 of a team, or of a block's columns
    i32 is_even;       // vectors everywhere, if the pointers are aligned
    i32 is_beside_even;  // a step along `beside` keeps the distance to a vector boundary
    i32 split;         // the loop that blocks along y share
    i32 by_chunk;      // of reduce_even_rows: `beside` steps along the row, by a team's vectors
    i32 rest_rank;
    i32 turn_log;      // log2 of the blocks that deal a stretch of batches among themselves
    i32 longs;         // the first blocks along y: they take `each` batches, the others one
    Divisor64 extents[RANK];
    i64 strides[RESULTS + SOURCES][RANK];
    i64 inner_strides[RESULTS + SOURCES];
    i64 beside_strides[RESULTS + SOURCES];

    // Adds the offsets of number `n` of the axes from `axis` up to `end`, for the operands from
    // FIRST on. Nothing is divided for the last of these axes.
    template <i32 FIRST, i32 COUNT>
    __device__ __forceinline__ void advance(At<COUNT>& place, i64 n, i32 axis, i32 end) const {
        if (axis == end) return;
        i64 left = n;
#pragma unroll 1
        for (; axis + 1 < end && left != 0; ++axis) {
            const i64 above = extents[axis].quotient(left);
            step<FIRST>(place, extents[axis].remainder(left, above), axis);
            left = above;
        }
        step<FIRST>(place, left, axis);
    }

    template <i32 FIRST, i32 COUNT>
    __device__ __forceinline__ void step(At<COUNT>& place, i64 coordinate, i32 axis) const {
#pragma unroll
        for (i32 k = 0; k < COUNT; ++k) place.at[k] += coordinate * strides[FIRST + k][axis];
    }

    __device__ __forceinline__ At<SOURCES> kept_sources(i64 output) const {
        At<SOURCES> place = {};
        advance<RESULTS>(place, output, 0, kept_rank);
        return place;
    }

    __device__ __forceinline__ At<RESULTS> kept_results(i64 output) const {
        At<RESULTS> place = {};
        advance<0>(place, output, 0, kept_rank);
        return place;
    }

    __device__ __forceinline__ At<SOURCES> with_rest(At<SOURCES> place, i64 number) const {
        advance<RESULTS>(place, number, kept_rank, kept_rank + rest_rank);
        return place;
    }

    // What this block takes of a loop of `count` iterations: blocks take them by turns, so that
    // all of them read the same part of memory at a time. `each` is count / parts, rounded up.
    __device__ __forceinline__ Share shared(i32 loop, i64 count) const {
        if (loop != split || gridDim.y == 1) return {0, 1, count};
        const i64 parts = gridDim.y;
        const i64 rest_of_turns = count - (each - 1) * parts;
        return {blockIdx.y, parts, each - (blockIdx.y < rest_of_turns ? 0 : 1)};
    }

    // What this block takes of `count` batches: 2^turn_log blocks take a stretch by turns, so that
    // blocks that run at a time read one stretch of memory, however many batches they take; the
    // last blocks take one each, so that all end nearly together.
    __device__ __forceinline__ Share dealt(i32 loop, i64 count) const {
        if (loop != split || gridDim.y == 1) return {0, 1, count};
        const i64 part = blockIdx.y;
        if (part >= longs) return {longs * each + part - longs, 1, 1};
        const i64 of_turn = part & ((1 << turn_log) - 1);
        const i64 begin = (part - of_turn) * each + of_turn;
        const i64 there = (count - begin + (1 << turn_log) - 1) >> turn_log;
        return {begin, 1ll << turn_log, there < each ? there : each};
    }
};

template <typename STATE, typename PROLOGUE, typename EPILOGUE, i32 RANK>
using space_of = Space<RANK, EPILOGUE::COUNT, PROLOGUE::COUNT + (STATE::PLACED ? 1 : 0)>;
