// What surrounds the tiles of a product of matrices: its parameters, its epilogue, its stores.
//
//   GemmProblem    extents, axes and strides, as softcuda/backends/cuda/gemm.py packs them
//   Extras         strides of the further operands of the epilogue, RANK axes of each index
//   store_rows     sums to global memory, rounded, vectors of a row where `has_vectors`
//   store_chain    the same through a fused chain of elementwise ops
//
// Shared memory: store_chain takes SLAB_ROWS * BLOCK_N elements of it, which hold no tile any more.
#pragma once

#include "tile.cuh"

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
    i32 splits;
    i32 k_chunk;      // k of a split, a multiple of BLOCK_K
    i32 has_vectors;  // neighbouring columns of out are contiguous, and never cut by an extent
};

static_assert(sizeof(GemmProblem) == 1032, "the planner packs it so");

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

// ---- epilogue -----------------------------------------------------------------------------------

template <typename T>
struct Rounded {
    using Result = T;
    static __device__ __forceinline__ T apply(T product) { return product; }
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

// The offsets of one element of the product; `parts` of them are those of rows, say.
template <i32 COUNT, i32 RANK>
struct ExtraPlace {
    const GemmProblem& problem;
    const Extras<COUNT, RANK>& extras;

    __device__ __forceinline__ Offsets<COUNT> element(i32 batch, i32 row, i32 column) const {
        Offsets<COUNT> result;
#pragma unroll
        for (i32 e = 0; e < COUNT; ++e) {
            result.of[e] = problem.batch_axes.offset(extras.of[e].batches, batch) +
                           problem.row_axes.offset(extras.of[e].rows, row) +
                           problem.column_axes.offset(extras.of[e].columns, column);
        }
        return result;
    }
};

// ---- stores -------------------------------------------------------------------------------------

// The sums of every thread, rounded to R, straight to rows and columns of global memory.
template <typename TILE, typename R, typename C>
__device__ __forceinline__ void store_rows(R* out, const C (&sums)[TILE::THREAD_M][TILE::THREAD_N],
                                           const i64* row_offsets, const i64* column_offsets,
                                           i32 rows, i32 columns, bool has_vectors) {
    constexpr i32 WIDTH = FRAGMENT<C>;
    const Place<TILE, C> place;
#pragma unroll
    for (i32 i = 0; i < TILE::THREAD_M; ++i) {
        if (place.row(i) >= rows) continue;
        R* const row = out + row_offsets[place.row(i)];
#pragma unroll
        for (i32 j = 0; j < TILE::THREAD_N; j += WIDTH) {
            Vector<R, WIDTH> rounded;
#pragma unroll
            for (i32 lane = 0; lane < WIDTH; ++lane) {
                rounded.lanes[lane] = convert<R>(sums[i][j + lane]);
            }
            const i32 column = place.column(j);
            if (has_vectors) {
                if (column < columns) store(row + column_offsets[column], rounded);
                continue;
            }
#pragma unroll
            for (i32 lane = 0; lane < WIDTH; ++lane) {
                if (column + lane < columns) {
                    row[column_offsets[column + lane]] = rounded.lanes[lane];
                }
            }
        }
    }
}

// The sums through shared memory, one row of every thread at a time, so that the chain stands in a
// loop and neighbouring threads store neighbouring columns.
template <typename TILE, typename T, typename EPILOGUE, typename C, i32 COUNT, i32 RANK>
__device__ __forceinline__ void store_chain(typename EPILOGUE::Result* out, C* slab,
                                            const C (&sums)[TILE::THREAD_M][TILE::THREAD_N],
                                            const i64* row_offsets, const i64* column_offsets,
                                            const ExtraPlace<COUNT, RANK>& extra_place,
                                            const void* const* extra, i32 batch, i32 first_row,
                                            i32 first_column) {
    constexpr i32 WIDTH = FRAGMENT<C>;
    constexpr i32 LINES = TILE::THREADS / TILE::BLOCK_N;
    const GemmProblem& problem = extra_place.problem;
    const Place<TILE, C> place;
    const i32 column = threadIdx.x % TILE::BLOCK_N;
#pragma unroll
    for (i32 i = 0; i < TILE::THREAD_M; ++i) {
        __syncthreads();
#pragma unroll
        for (i32 j = 0; j < TILE::THREAD_N; j += WIDTH) {
            Vector<C, WIDTH> piece;
#pragma unroll
            for (i32 lane = 0; lane < WIDTH; ++lane) piece.lanes[lane] = sums[i][j + lane];
            store(slab + place.slab_row() * TILE::BLOCK_N + place.column(j), piece);
        }
        __syncthreads();
#pragma unroll 1
        for (i32 line = threadIdx.x / TILE::BLOCK_N; line < TILE::SLAB_ROWS; line += LINES) {
            const i32 row = place.row_of_slab(line, i);
            if (first_row + row >= problem.m || first_column + column >= problem.n) continue;
            const auto at = extra_place.element(batch, first_row + row, first_column + column);
            const T product = convert<T>(slab[line * TILE::BLOCK_N + column]);
            out[row_offsets[row] + column_offsets[column]] =
                EPILOGUE::of(ChainReader<T, COUNT>{product, extra, at});
        }
    }
}
