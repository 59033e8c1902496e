// What surrounds the boxes of a contraction: its parameters, tables, epilogue and stores.
//
//   Side          rows (labels of A and the result) or columns (of B and the result): how boxes
//                 count them, in the order of the operand's memory and in that of the result's
//   Contraction   sides, batches, depth, tasks; softcuda/backends/cuda/contract_pack.py packs it
//   Task, Goal    a box of the result and a part of its depth: what a block does at a time, and
//                 where it puts that
//   Finisher      rounds a sum and applies the epilogue, whose further operands it finds
//
// A side is cut into boxes over several labels: the innermost part of each label that a box spans
// is an axis of `entries` and `places`, what is left of it one of `tiles`. Boxes at the end of up
// to two labels are smaller: their rows beyond a limit do not exist. A flat side is not cut label
// by label: its boxes are neighbours of one index, and its tables are made anew for each.
#pragma once

#include "contract_tile.cuh"
#include "gemm.cuh"

constexpr i32 TABLE_DEPTH = 256;  // k whose offsets are in shared memory at once, at most
constexpr i32 NO_LIMIT = 0x7fffffff;
constexpr i32 NO_KEY = 0x80000000;  // of tables that hold nothing yet

// Where a box begins, and how much of the labels that end in it exists.
struct Origin {
    i64 from;  // in the operand
    i64 to;    // in the result
    i32 limits[2];
    i32 first;  // of a flat side: the index of its first row

    // Tables that were made for one origin hold for all with this key.
    __device__ __forceinline__ i32 key() const {
        return first >= 0 ? first : -1 - (min(limits[0], 4095) * 4096 + min(limits[1], 4095));
    }
};

struct Side {
    MultiIndex tiles;
    Strides tiles_from;
    Strides tiles_to;
    MultiIndex entries;
    Strides entries_from;
    Strides entries_place;
    Strides entries_edge;  // coordinates along the labels that end: one in each half of 64 bits
    MultiIndex places;
    Strides places_to;
    Strides places_edge;
    i32 count;  // rows of a whole box; of a flat side, all rows
    i32 block;
    i32 is_flat;
    i32 edge_axes[2];  // of tiles; -1 where there is none
    i32 edge_limits[2];
    i32 pitch;  // places between rows that are neighbours in the operand, where one vector has them

    __device__ __forceinline__ Origin origin(u32 number) const {
        const i32 first = is_flat != 0 ? static_cast<i32>(number) * block : -1;
        Origin found{0, 0, {NO_LIMIT, NO_LIMIT}, first};
        if (is_flat != 0) return found;
#pragma unroll 1
        for (i32 axis = 0; axis < tiles.count; ++axis) {
            const u32 quotient = tiles.extents[axis].quotient(number);
            const u32 at = tiles.extents[axis].remainder(number, quotient);
            number = quotient;
            found.from += tiles_from.along[axis] * at;
            found.to += tiles_to.along[axis] * at;
            const bool is_last = at + 1 == tiles.extents[axis].divisor;
            if (is_last && axis == edge_axes[0]) found.limits[0] = edge_limits[0];
            if (is_last && axis == edge_axes[1]) found.limits[1] = edge_limits[1];
        }
        return found;
    }

    __device__ __forceinline__ static bool is_beyond(i64 coordinates, const Origin& origin) {
        return static_cast<i32>(coordinates) >= origin.limits[0] ||
               static_cast<i32>(coordinates >> 32) >= origin.limits[1];
    }
    __device__ __forceinline__ static bool has_limits(const Origin& origin) {
        return origin.limits[0] != NO_LIMIT || origin.limits[1] != NO_LIMIT;
    }

    // Entries of a LOADER, in the operand's order; those of rows that do not exist read the first
    // row of the box.
    template <typename LOADER, typename OFFSET>
    __device__ __forceinline__ void fill(Entry<OFFSET>* table, const Origin& origin) const {
#pragma unroll 1
        for (i32 at = threadIdx.x; at < LOADER::ENTRIES; at += LOADER::THREADS) {
            const i32 own = at * LOADER::RUN, index = max(origin.first, 0) + own;
            Entry<OFFSET> entry{0, LOADER::spare(own)};
            if (index < count) {
                entry.from = static_cast<OFFSET>(entries.offset(entries_from, index));
                const i32 place = is_flat != 0 ? own : entries.offset(entries_place, index);
                entry.place = LOADER::placed(place);
                const bool is_out = has_limits(origin) &&
                                    is_beyond(entries.offset(entries_edge, index), origin);
                if (is_out) entry.from = 0;
            }
            table[at] = entry;
        }
    }

    // Offset in the result of the row at a place of the box; negative where there is none.
    __device__ __forceinline__ i64 offset_of(i32 place, const Origin& origin) const {
        const i32 index = max(origin.first, 0) + place;
        if (index >= count) return -1;
        if (has_limits(origin) && is_beyond(places.offset(places_edge, index), origin)) return -1;
        return places.offset(places_to, index);
    }
};

struct Contraction {
    Side rows;
    Side columns;
    MultiIndex batch_axes;
    Strides a_batches;
    Strides b_batches;
    Strides out_batches;
    MultiIndex depth_axes;
    Strides a_depth;
    Strides b_depth;
    FastDivisor tiles;       // of a batch
    FastDivisor band_tiles;  // of a band of tile rows
    FastDivisor band_rows;
    FastDivisor last_rows;  // of the last band
    FastDivisor splits;     // parts of the depth of tiles from `whole` on, a task each
    i32 tiles_m;
    i32 depth;
    i32 tasks;
    i32 whole;  // tiles whose depth one task sums
    i32 k_chunk;
    i32 has_vectors;  // the first rows of a place are contiguous in the result
    i32 apart_ns;     // nanoseconds by which neighbouring blocks start apart
    f32 one;
};

static_assert(sizeof(Contraction) == 2208, "the planner packs it so");

// A box of the result and a part of its depth. Tiles are counted batch by batch, in bands of tile
// rows, column by column: tasks that run at once then share rows and columns in the L2 cache.
struct Task {
    u32 batch, tile_m, tile_n;
    i32 part;  // number among all parts; -1 for a whole tile
    i32 k_first, depth;

    __device__ __forceinline__ void place(const Contraction& c, u32 tile) {
        batch = c.tiles.quotient(tile);
        const u32 inside = c.tiles.remainder(tile, batch);
        const u32 band = c.band_tiles.quotient(inside);
        const u32 within = c.band_tiles.remainder(inside, band);
        const u32 first = band * c.band_rows.divisor;
        const bool is_last = first + c.band_rows.divisor > static_cast<u32>(c.tiles_m);
        const FastDivisor& rows = is_last ? c.last_rows : c.band_rows;
        tile_n = rows.quotient(within);
        tile_m = first + rows.remainder(within, tile_n);
    }
    __device__ __forceinline__ Task(const Contraction& c, u32 number) {
        const u32 beyond = number - c.whole;
        const bool is_whole = number < static_cast<u32>(c.whole);
        const u32 cut = is_whole ? 0 : c.splits.quotient(beyond);
        place(c, is_whole ? number : c.whole + cut);
        part = is_whole ? -1 : static_cast<i32>(beyond);
        k_first = is_whole ? 0 : c.splits.remainder(beyond, cut) * c.k_chunk;
        depth = is_whole ? c.depth : min(c.k_chunk, c.depth - k_first);
    }
};

// Where the factors of a task come from and its sums go: what a block knows of its next tasks.
struct Goal {
    Origin row, column;
    i64 from_a, from_b;  // offsets in the operands
    i64 to;              // offset in the result
    i32 part, k_first, depth;

    __device__ __forceinline__ static Goal of(const Contraction& c, u32 number) {
        const Task task(c, number);
        const Origin row = c.rows.origin(task.tile_m), column = c.columns.origin(task.tile_n);
        const i64 from_a = c.batch_axes.offset(c.a_batches, task.batch) + row.from;
        const i64 from_b = c.batch_axes.offset(c.b_batches, task.batch) + column.from;
        const i64 to = c.batch_axes.offset(c.out_batches, task.batch) + row.to + column.to;
        return Goal{row, column, from_a, from_b, to, task.part, task.k_first, task.depth};
    }
};

// ---- epilogue -----------------------------------------------------------------------------------

// Strides of a further operand of the epilogue: RANK axes of each index.
template <i32 RANK>
struct SideStrides {
    struct {
        i64 along[RANK];
    } tiles, places;
};

template <i32 RANK>
struct ExtraSides {
    struct {
        i64 along[RANK];
    } batches;
    SideStrides<RANK> rows, columns;
};

template <i32 COUNT, i32 RANK>
struct ExtraOperands {
    ExtraSides<RANK> of[COUNT == 0 ? 1 : COUNT];
};

// The first FIRST of them.
template <i32 FIRST, i32 COUNT, i32 RANK>
__device__ __forceinline__ const ExtraOperands<FIRST, RANK>& first_of(
    const ExtraOperands<COUNT, RANK>& all) {
    static_assert(FIRST <= COUNT, "no more than there are");
    return reinterpret_cast<const ExtraOperands<FIRST, RANK>&>(all);
}

// Offset of a row or column in a further operand. Callers whose row does not exist ask for place 0,
// which always does: the operand is read there, though nothing is stored.
template <typename STRIDES>
__device__ __forceinline__ i64 extra_offset(const Side& side, const STRIDES& strides, u32 tile,
                                            const Origin& origin, i32 place) {
    const i64 within = side.places.offset(strides.places, max(origin.first, 0) + place);
    return side.is_flat != 0 ? within : within + side.tiles.offset(strides.tiles, tile);
}

// Offsets of one element in every further operand of the epilogue.
template <i32 COUNT>
struct Offsets {
    i64 of[COUNT == 0 ? 1 : COUNT];
};

// Argument 0 of a chain is the product, the others are elements of the further operands.
template <typename T, i32 COUNT>
struct ChainReader {
    T product;
    const void* const* extra;
    Offsets<COUNT> at;

    template <typename SLOT>
    __device__ __forceinline__ auto operator()(SLOT) const {
        if constexpr (SLOT::NUMBER == 0) {
            return product;
        } else {
            using Read = typename SLOT::type;
            constexpr i32 PLACE = SLOT::NUMBER - 1;
            return static_cast<const Read*>(extra[PLACE])[at.of[PLACE]];
        }
    }
};

// Sum to result: rounded to T, then through the chain.
template <typename T, typename EPILOGUE, i32 COUNT>
struct Finisher {
    static constexpr bool IS_PLAIN = is_same<EPILOGUE, Rounded<T>>;
    using Result = typename EPILOGUE::Result;

    __device__ __forceinline__ static Result of(compute_t<T> sum, const void* const* extra,
                                                const Offsets<COUNT>& at) {
        if constexpr (IS_PLAIN) {
            return convert<T>(sum);
        } else {
            return EPILOGUE::of(ChainReader<T, COUNT>{convert<T>(sum), extra, at});
        }
    }
};
