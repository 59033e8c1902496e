// What surrounds the tiles of a product of matrices: its parameters, its epilogue, its stores.
//
//   GemmProblem    extents, axes and strides, as softcuda/backends/cuda/gemm_plan.py packs them
//   Extras         strides of the further operands of the epilogue, RANK axes of each index
//   Work           which tile a block sums, and which part of k
//   Slab           the sums of a tile, a few columns at a time, in shared memory: neighbouring
//                  threads then store neighbouring columns
//   finish_taken   rounds sums of a slab, applies the epilogue and hands the results on
//
// Shared memory: a slab takes Slab::SIZE elements of it, which hold no tile any more.
#pragma once

#include "operands.cuh"
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
    i32 block_m;      // extents of a tile
    i32 block_n;
    i32 whole;        // tiles whose k one block sums
    i32 splits;       // parts of k of the tiles behind them, a block each
    i32 k_chunk;      // k of a part, a multiple of BLOCK_K
    i32 has_vectors;  // neighbouring columns of out are contiguous, and never cut by an extent
    FastDivisor tiles;       // of a batch
    FastDivisor band_tiles;  // of a band of tile rows
    FastDivisor last_rows;   // tile rows of the last band
};

static_assert(sizeof(GemmProblem) == 1080, "the planner packs it so");

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

// ---- tiles of the product -----------------------------------------------------------------------

// Where a tile lies. Tiles are counted batch by batch, in bands of BAND tile rows, column by
// column: blocks that run at once then share rows and columns in the L2 cache.
struct TilePlace {
    i32 batch, first_row, first_column;

    __device__ __forceinline__ TilePlace(const GemmProblem& problem, u32 number) {
        const u32 in_launch = problem.tiles.quotient(number);
        const u32 inside = problem.tiles.remainder(number, in_launch);
        const u32 band = problem.band_tiles.quotient(inside);
        const u32 within = problem.band_tiles.remainder(inside, band);
        const i32 band_first = band * BAND;
        const bool is_last = band_first + BAND > problem.tiles_m;
        const u32 rows = is_last ? problem.last_rows.divisor : BAND;
        const u32 column = is_last ? problem.last_rows.quotient(within) : within / BAND;
        batch = problem.first_batch + in_launch;
        first_row = (band_first + within - column * rows) * problem.block_m;
        first_column = column * problem.block_n;
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

// Sum to result: rounded to T, then through the chain. Elements of its further operands are read
// first, so that reads of several results wait together.
template <typename T, typename EPILOGUE, i32 RANK, typename... EXTRA>
struct Finish {
    static constexpr bool IS_PLAIN = is_same<EPILOGUE, Rounded<T>>;
    using Result = typename EPILOGUE::Result;
    using Values = Tuple<EXTRA...>;
    const GemmProblem& problem;
    const Extras<sizeof...(EXTRA), RANK>& extras;
    const void* const* extra;

    __device__ __forceinline__ Values read(i32 batch, i32 row, i32 column) const {
        return read_each(count_to<sizeof...(EXTRA)>{}, batch, row, column);
    }
    template <i32... K>
    __device__ __forceinline__ Values read_each(Numbers<K...>, i32 batch, i32 row,
                                                i32 column) const {
        return Values{{static_cast<const EXTRA*>(extra[K])[offset(K, batch, row, column)]}...};
    }
    // RANK is 1 where every index has one axis.
    __device__ __forceinline__ i64 offset(i32 number, i32 batch, i32 row, i32 column) const {
        const ExtraStrides<RANK>& strides = extras.of[number];
        if constexpr (RANK == 1) {
            return strides.batches.along[0] * batch + strides.rows.along[0] * row +
                   strides.columns.along[0] * column;
        } else {
            return problem.batch_axes.offset(strides.batches, batch) +
                   problem.row_axes.offset(strides.rows, row) +
                   problem.column_axes.offset(strides.columns, column);
        }
    }
    __device__ __forceinline__ Result operator()(compute_t<T> sum, Values& values) const {
        const T product = convert<T>(sum);
        if constexpr (IS_PLAIN) {
            return product;
        } else {
            return EPILOGUE::of(ValueReader<T, Values>{product, values});
        }
    }
    __device__ __forceinline__ Result operator()(compute_t<T> sum, i32 batch, i32 row,
                                                 i32 column) const {
        Values values = read(batch, row, column);
        return (*this)(sum, values);
    }
};

// ---- stores -------------------------------------------------------------------------------------

// COUNT places of a tile that a thread takes at once, N neighbouring columns each.
template <typename C, i32 N, i32 PLACES>
struct Taken {
    static constexpr i32 COUNT = PLACES;
    i32 rows[PLACES];
    i32 columns[PLACES];
    Vector<C, N> sums[PLACES];
};

// WIDTH columns of every thread at a time: [SLICES][COLUMNS][STRIDE], rows beside each other. Rows
// of a pair change places, so that the sums of even rows lie in odd registers: the compiler keeps
// neighbours of a store in neighbouring registers, and the factors of even rows lie in even ones.
template <typename TILE, typename C>
struct Slab {
    static constexpr i32 WIDTH = FRAGMENT<C>;
    static constexpr i32 PASSES = TILE::THREAD_N / WIDTH;
    static constexpr i32 COLUMNS = TILE::BLOCK_N / PASSES;
    static constexpr i32 STRIDE = TILE::BLOCK_M + WIDTH;
    static constexpr i32 SLICE = COLUMNS * STRIDE;
    static constexpr i32 SIZE = TILE::SLICES * SLICE;
    static constexpr i32 STRIP = TILE::LANES_N * WIDTH;  // columns of a warp

    C* held;

    __device__ __forceinline__ void write(const C (&sums)[TILE::THREAD_M][TILE::THREAD_N],
                                          i32 pass) const {
        const Place<TILE, C> place;
        const i32 first = place.warp_n * STRIP + place.lane_n * WIDTH;
        C* const own = held + place.slice * SLICE;
#pragma unroll
        for (i32 j = 0; j < WIDTH; ++j) {
#pragma unroll
            for (i32 i = 0; i < TILE::THREAD_M; i += WIDTH) {
                Vector<C, WIDTH> swapped;
#pragma unroll
                for (i32 lane = 0; lane < WIDTH; ++lane) {
                    swapped.lanes[lane] = sums[i + (lane ^ 1)][pass * WIDTH + j];
                }
                store(own + (first + j) * STRIDE + place.row(i), swapped);
            }
        }
    }
    __device__ __forceinline__ C sum(i32 row, i32 column) const {
        const C* const first = held + column * STRIDE + (row ^ 1);
        C result = *first;
#pragma unroll
        for (i32 slice = 1; slice < TILE::SLICES; ++slice) result += first[slice * SLICE];
        return result;
    }
    // The column of the tile that the slab holds as `column`.
    __device__ static __forceinline__ i32 column_of(i32 column, i32 pass) {
        return (column / STRIP * PASSES + pass) * STRIP + column % STRIP;
    }

    // Calls VISIT(Taken<C, N, up to MOST>) for all of a pass.
    template <i32 N, i32 MOST, typename VISIT>
    __device__ __forceinline__ void visit(i32 pass, VISIT visit_some) const {
        constexpr i32 NEAR = N == 1 ? 8 : 2;  // neighbours of a line that a warp takes at once
        constexpr i32 LINES = WARP / NEAR, ACROSS = COLUMNS / N / NEAR;
        constexpr i32 COUNT = COLUMNS / N * TILE::BLOCK_M, EACH = COUNT / TILE::THREADS;
        constexpr i32 AT_ONCE = EACH > MOST ? MOST : EACH > 0 ? EACH : 1;
        static_assert(COUNT % (TILE::THREADS * AT_ONCE) == 0 || COUNT < TILE::THREADS,
                      "no lane is idle, but where there are more than places");
        static_assert(COUNT % WARP == 0 && TILE::BLOCK_M % LINES == 0, "warps take whole lines");
#pragma unroll 1
        for (i32 first = threadIdx.x; first < COUNT; first += TILE::THREADS * AT_ONCE) {
            Taken<C, N, AT_ONCE> taken;
#pragma unroll
            for (i32 one = 0; one < AT_ONCE; ++one) {
                const i32 at = first + one * TILE::THREADS;
                const i32 group = at / WARP, lane = at % WARP;
                const i32 row = group / ACROSS * LINES + lane % LINES;
                const i32 column = (group % ACROSS * NEAR + lane / LINES) * N;
                taken.rows[one] = row;
                taken.columns[one] = column_of(column, pass);
#pragma unroll
                for (i32 j = 0; j < N; ++j) taken.sums[one].lanes[j] = sum(row, column + j);
            }
            visit_some(taken);
        }
    }
};

// Calls PUT(row, column, result) for the places of a slab that exist in the result.
template <typename FINISH, typename TAKEN, typename PUT>
__device__ __forceinline__ void finish_taken(const FINISH& finish, const TilePlace& tile,
                                             const TAKEN& taken, PUT put) {
    typename FINISH::Values values[TAKEN::COUNT];
    const i32 rows = finish.problem.m - tile.first_row;
    const i32 columns = finish.problem.n - tile.first_column;
#pragma unroll
    for (i32 one = 0; one < TAKEN::COUNT; ++one) {
        const i32 row = min(taken.rows[one], rows - 1);
        const i32 column = min(taken.columns[one], columns - 1);
        values[one] = finish.read(tile.batch, tile.first_row + row, tile.first_column + column);
    }
#pragma unroll
    for (i32 one = 0; one < TAKEN::COUNT; ++one) {
        const i32 row = taken.rows[one], column = taken.columns[one];
        if (row >= rows || column >= columns) continue;
        put(row, column, finish(taken.sums[one].lanes[0], values[one]));
    }
}
