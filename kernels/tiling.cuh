// Boxes of an index space that blocks move one after the other, and a thread's places in them.
//
//   Tiling      what the host decided: see softcuda/backends/cuda/tile_orders.py, which packs it
//   tile_at     where tile number n begins on every side
//   find_slots  the offsets of a thread's accesses inside any tile: made once a block
//
// A side is a set of strides: those of the input that leads a tile (IN), those of the result (OUT),
// and those of further operands. A tile is a box over up to 16 axes; it is a part of at most two of
// them, p and q, and in the last tile along these fewer values exist. Offsets count lanes (see
// permute.cu) and are 64 bits from tile to tile; inside a tile they are of type OFFSET: i32, or i64
// where they pass 2^31.
// Shared memory: none. Limits: 64 axes of two sides, 32 of more; 2^32 tiles.
#pragma once

#include "common.cuh"

constexpr i32 THREADS = 256;
constexpr i32 TILE_AXES = 16;
template <i32 SIDES>
constexpr i32 GRID_AXES = SIDES == 2 ? 64 : 32;  // the parameters of a kernel are 4 KiB

constexpr i32 IN = 0;
constexpr i32 OUT = 1;

// An axis of a tile, or a part of one: the number of the access in the order in which the tile is
// read, and how a step along it moves the offsets.
template <typename OFFSET, i32 SIDES>
struct Digit {
    FastDivisor extent;
    i32 place;
    OFFSET steps[SIDES];
};

// The order in which threads visit a tile. Digits `p` and `q` (or -1) count the two axes of which
// a tile may be a part.
template <typename OFFSET, i32 SIDES>
struct Order {
    Digit<OFFSET, SIDES> digits[TILE_AXES];
    i32 rank;
    i32 count;
    i32 p;
    i32 q;
    i32 edge_p;
    i32 edge_q;
};

template <typename OFFSET, i32 SIDES = 2>
struct Tiling {
    Order<OFFSET, SIDES> in;   // how the tile is read; not used by permute_runs
    Order<OFFSET, SIDES> out;  // how it is written
    i64 steps[SIDES][GRID_AXES<SIDES>];
    i64 row_strides[SIDES];     // between the rows of a vector that is written
    i64 column_strides[SIDES];  // between the columns of a vector that is read
    FastDivisor tiles[GRID_AXES<SIDES>];
    i32 grid_rank;
    i32 grid_p;
    i32 grid_q;
    u32 count;
    i32 swizzle;  // 3 to 31: see swizzled()
};

template <i32 SIDES>
struct Tile {
    i64 at[SIDES];
    bool is_edge_p;
    bool is_edge_q;
};

template <typename OFFSET, i32 SIDES>
__device__ __forceinline__ Tile<SIDES> tile_at(const Tiling<OFFSET, SIDES>& tiling, u32 number) {
    Tile<SIDES> tile{};
    u32 rest = number;
#pragma unroll 1
    for (i32 axis = 0; axis < tiling.grid_rank; ++axis) {
        const FastDivisor tiles = tiling.tiles[axis];
        const u32 above = tiles.quotient(rest);
        const u32 at = tiles.remainder(rest, above);
        rest = above;
#pragma unroll
        for (i32 side = 0; side < SIDES; ++side) tile.at[side] += at * tiling.steps[side][axis];
        const bool is_last = at + 1 == tiles.divisor;
        tile.is_edge_p |= is_last && axis == tiling.grid_p;
        tile.is_edge_q |= is_last && axis == tiling.grid_q;
    }
    return tile;
}

// What a thread reads or writes of every tile: one slot an access. What is not used is not made.
template <i32 COUNT, typename OFFSET, i32 SIDES>
struct Slots {
    static_assert(COUNT <= 32, "one bit a slot");
    OFFSET at[SIDES][COUNT];
    i32 places[COUNT];
    u32 is_there;  // one bit a slot
    u32 is_below_p;
    u32 is_below_q;

    __device__ __forceinline__ u32 mask(const Tile<SIDES>& tile) const {
        const u32 p = tile.is_edge_p ? is_below_p : ~0u;
        const u32 q = tile.is_edge_q ? is_below_q : ~0u;
        return is_there & p & q;
    }
};

// Slot k is access number first + k * THREADS of the order.
template <i32 COUNT, typename OFFSET, i32 SIDES>
__device__ __forceinline__ Slots<COUNT, OFFSET, SIDES> find_slots(
    const Order<OFFSET, SIDES>& order, i32 first) {
    Slots<COUNT, OFFSET, SIDES> slots{};
    u32 rest[COUNT];
    slots.is_below_p = slots.is_below_q = ~0u;
#pragma unroll
    for (i32 k = 0; k < COUNT; ++k) {
        rest[k] = first + k * THREADS;
        slots.is_there |= static_cast<u32>(first + k * THREADS < order.count) << k;
    }
#pragma unroll 1
    for (i32 axis = 0; axis < order.rank; ++axis) {
        const Digit<OFFSET, SIDES> digit = order.digits[axis];
        const u32 edge = axis == order.p ? order.edge_p : axis == order.q ? order.edge_q : ~0u;
        u32 beyond = 0;
#pragma unroll
        for (i32 k = 0; k < COUNT; ++k) {
            const u32 above = digit.extent.quotient(rest[k]);
            const u32 at = digit.extent.remainder(rest[k], above);
            rest[k] = above;
#pragma unroll
            for (i32 side = 0; side < SIDES; ++side) {
                slots.at[side][k] += static_cast<OFFSET>(at) * digit.steps[side];
            }
            slots.places[k] += static_cast<i32>(at) * digit.place;
            beyond |= static_cast<u32>(at >= edge) << k;
        }
        if (axis == order.p) slots.is_below_p = ~beyond;
        if (axis == order.q) slots.is_below_q = ~beyond;
    }
    return slots;
}

// Where access number `place` of a tile is held in shared memory, in units of BYTES: the banks of
// accesses that lie 2^swizzle apart are exchanged, so that they begin at different ones.
template <i32 BYTES>
__device__ __forceinline__ i32 swizzled(i32 place, i32 swizzle) {
    constexpr i32 WORD = BYTES < 4 ? 4 / BYTES : 1;  // accesses of a bank's word
    constexpr i32 BANKS = 128 / (BYTES < 4 ? 4 : BYTES);
    return place ^ ((place >> swizzle & (BANKS - 1)) * WORD);
}
