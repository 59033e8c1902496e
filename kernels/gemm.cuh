// What surrounds the tiles of a product of matrices: its parameters, its epilogue, its stores.
//
//   GemmProblem    extents, axes and strides, as softcuda/backends/cuda/gemm_plan.py packs them
//   Extras         strides of the further operands of the epilogue, RANK axes of each index
//   Work           which tile a block sums, and which part of k
//   Slab           the sums of a tile, a few columns at a time, in shared memory: neighbouring
//                  threads then store neighbouring columns
//   store_tile     rounds the sums of a tile, applies the epilogue and writes the result
//   store_part     writes the sums of a part of k as they are, a tile after the other
//
// Shared memory: a slab takes Slab::SIZE elements of it, which hold no tile any more.
#pragma once

#include "tile_loader.cuh"

constexpr i32 BAND = 8;  // tile rows that neighbouring blocks share out, column by column

struct GemmProblem {
    OperandLayout a;
    OperandLayout b;
    Strides out_batches;
    Strides out_rows;
    Strides out_columns;
    MultiIndex batch_axes;
    MultiIndex row_axes;
    MultiIndex column_axes;
    MultiIndex depth_axes;
    i32 m;
    i32 n;
    i32 k;
    i32 batches;
    i32 first_batch;
    i32 tiles_m;
    i32 tiles_n;
    i32 block_m;      // extents of a tile
    i32 block_n;
    i32 whole;        // tiles whose k one block sums
    i32 splits;       // parts of k of the tiles behind them, a block each
    i32 k_chunk;      // k of a part, a multiple of BLOCK_K
    i32 has_vectors;  // neighbouring columns of out are contiguous, and never cut by an extent
};

static_assert(sizeof(GemmProblem) == 1048, "the planner packs it so");

// Strides of the epilogue's further operands, RANK axes of each index.
template <i32 RANK>
struct ExtraStrides {
    struct {
        i64 along[RANK];
    } batches, rows, columns;
};

template <i32 COUNT, i32 RANK>
struct Extras {
    ExtraStrides<RANK> of[COUNT == 0 ? 1 : COUNT];
};

// Offsets of one element in every further operand of the epilogue.
template <i32 COUNT>
struct Offsets {
    i64 of[COUNT == 0 ? 1 : COUNT];
};

// ---- tiles of the product -----------------------------------------------------------------------

// Where a tile lies. Tiles are counted batch by batch, in bands of BAND tile rows, column by
// column: blocks that run at once then share rows and columns in the L2 cache.
struct TilePlace {
    i32 batch, first_row, first_column;

    __device__ __forceinline__ TilePlace(const GemmProblem& problem, u32 number) {
        const u32 tiles = static_cast<u32>(problem.tiles_m) * problem.tiles_n;
        const u32 inside = number % tiles;
        const u32 band = BAND * static_cast<u32>(problem.tiles_n);
        const i32 band_first = inside / band * BAND;
        const i32 band_rows = min(BAND, problem.tiles_m - band_first);
        batch = problem.first_batch + number / tiles;
        first_row = (band_first + inside % band % band_rows) * problem.block_m;
        first_column = inside % band / band_rows * problem.block_n;
    }
};

// What a block sums: blocks up to `whole` a tile each, the others a part of one.
struct Work {
    u32 tile;
    i32 part;  // number among all parts; -1 for a whole tile
    i32 k_first, k_end;

    __device__ __forceinline__ explicit Work(const GemmProblem& problem) {
        const u32 beyond = blockIdx.x - problem.whole;
        if (blockIdx.x < static_cast<u32>(problem.whole)) {
            tile = blockIdx.x;
            part = -1;
            k_first = 0;
            k_end = problem.k;
        } else {
            tile = problem.whole + beyond / problem.splits;
            part = beyond;
            k_first = beyond % problem.splits * problem.k_chunk;
            k_end = min(k_first + problem.k_chunk, problem.k);
        }
    }
};

// ---- epilogue -----------------------------------------------------------------------------------

template <typename T>
struct Rounded {
    using Result = T;
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

// Sum to result: rounded to T, then through the chain, whose further operands it finds.
template <typename T, typename EPILOGUE, i32 COUNT, i32 RANK>
struct Finish {
    static constexpr bool IS_PLAIN = is_same<EPILOGUE, Rounded<T>>;
    using Result = typename EPILOGUE::Result;
    const GemmProblem& problem;
    const Extras<COUNT, RANK>& extras;
    const void* const* extra;

    __device__ __forceinline__ Result operator()(compute_t<T> sum, i32 batch, i32 row,
                                                 i32 column) const {
        const T product = convert<T>(sum);
        if constexpr (IS_PLAIN) {
            return product;
        } else {
            ChainReader<T, COUNT> reader{product, extra, {}};
#pragma unroll
            for (i32 e = 0; e < COUNT; ++e) {
                reader.at.of[e] = problem.batch_axes.offset(extras.of[e].batches, batch) +
                                  problem.row_axes.offset(extras.of[e].rows, row) +
                                  problem.column_axes.offset(extras.of[e].columns, column);
            }
            return EPILOGUE::of(reader);
        }
    }
};

// ---- stores -------------------------------------------------------------------------------------

// WIDTH columns of every thread at a time: [COLUMNS][STRIDE], rows beside each other. Rows of a
// pair change places, so that the sums of even rows lie in odd registers: the compiler keeps
// neighbours of a store in neighbouring registers, and the factors of even rows lie in even ones.
template <typename TILE, typename C>
struct Slab {
    static constexpr i32 WIDTH = FRAGMENT<C>;
    static constexpr i32 PASSES = TILE::THREAD_N / WIDTH;
    static constexpr i32 COLUMNS = TILE::BLOCK_N / PASSES;
    static constexpr i32 STRIDE = TILE::BLOCK_M + WIDTH;
    static constexpr i32 SIZE = COLUMNS * STRIDE;
    static constexpr i32 STRIP = TILE::LANES_N * WIDTH;  // columns of a warp

    C* held;

    __device__ __forceinline__ void write(const C (&sums)[TILE::THREAD_M][TILE::THREAD_N],
                                          i32 pass) const {
        const Place<TILE, C> place;
        const i32 first = place.warp_n * STRIP + place.lane_n * WIDTH;
#pragma unroll
        for (i32 j = 0; j < WIDTH; ++j) {
#pragma unroll
            for (i32 i = 0; i < TILE::THREAD_M; i += WIDTH) {
                Vector<C, WIDTH> swapped;
#pragma unroll
                for (i32 lane = 0; lane < WIDTH; ++lane) {
                    swapped.lanes[lane] = sums[i + (lane ^ 1)][pass * WIDTH + j];
                }
                store(held + (first + j) * STRIDE + place.row(i), swapped);
            }
        }
    }
    __device__ __forceinline__ C sum(i32 row, i32 column) const {
        return held[column * STRIDE + (row ^ 1)];
    }
    // The column of the tile that the slab holds as `column`.
    __device__ static __forceinline__ i32 column_of(i32 column, i32 pass) {
        return (column / STRIP * PASSES + pass) * STRIP + column % STRIP;
    }

    // Calls VISIT(row, column of the tile, sums of N neighbouring columns) for all of a pass.
    template <i32 N, typename VISIT>
    __device__ __forceinline__ void visit(i32 pass, VISIT visit_one) const {
        constexpr i32 GROUP = N == 1 ? 8 : 2;  // neighbours of a line that a warp takes at once
        constexpr i32 LINES = WARP / GROUP, ACROSS = COLUMNS / N / GROUP;
        constexpr i32 COUNT = COLUMNS / N * TILE::BLOCK_M;
        static_assert(COUNT % TILE::THREADS == 0 && TILE::BLOCK_M % LINES == 0, "no lane is idle");
#pragma unroll 1
        for (i32 at = threadIdx.x; at < COUNT; at += TILE::THREADS) {
            const i32 group = at / WARP, lane = at % WARP;
            const i32 row = group / ACROSS * LINES + lane % LINES;
            const i32 column = (group % ACROSS * GROUP + lane / LINES) * N;
            Vector<C, N> found;
#pragma unroll
            for (i32 j = 0; j < N; ++j) found.lanes[j] = sum(row, column + j);
            visit_one(row, column_of(column, pass), found);
        }
    }
};
