// The way of a contraction's sums to the result.
//
//   swapped     rows of a pair exchanged, as parts of cut tiles hold them
//   put_rows    results of neighbouring rows of a column
//   Writer      finish: writes the sums of a task, rounded and through the epilogue, or as they are
//               where the task is a part of a tile
//
// Without a chain sums go from registers to memory. A chain is one loop over sums that a thread has
// put into shared memory.
// Shared memory: Shared, held by the caller; with a chain also tables of offsets in its operands
// and HELD_COLUMNS columns of every thread.
#pragma once

#include "contract.cuh"

constexpr i32 HELD_COLUMNS = 2;

// Rows of a pair change places, so that the sums of even rows lie in odd registers: the compiler
// keeps neighbours of a store in neighbouring registers, and the factors of even rows lie in even
// ones. Results are stored in order: sums are multiplied by one to lie in registers of their own,
// unless rows were exchanged on their way into the box (IS_SWAPPED).
template <typename C, i32 WIDTH>
__device__ __forceinline__ Vector<C, WIDTH> swapped(const Vector<C, WIDTH>& sums) {
    Vector<C, WIDTH> result;
#pragma unroll
    for (i32 lane = 0; lane < WIDTH; ++lane) result.lanes[lane] = sums.lanes[lane ^ 1];
    return result;
}

// Results of so many rows are stored at once: a vector of sums, fewer where they are more than 16
// bytes, as those of 8 bytes behind sums of 4 are.
template <typename R, i32 WIDTH>
constexpr i32 STORED = WIDTH * sizeof(R) > 16 ? 16 / static_cast<i32>(sizeof(R)) : WIDTH;

// Results of WIDTH rows at their offsets `rows`, negative where there is no row.
template <i32 WIDTH, typename R, typename OFFSET>
__device__ __forceinline__ void put_rows(R* column, const OFFSET* rows, bool is_vector,
                                         const Vector<R, WIDTH>& made) {
    if (is_vector) {
        if (rows[0] >= 0) store(column + rows[0], made);
        return;
    }
#pragma unroll
    for (i32 lane = 0; lane < WIDTH; ++lane) {
        if (rows[lane] >= 0) column[rows[lane]] = made.lanes[lane];
    }
}

// IS_SWAPPED: the sums of a thread are those of rows of which each pair is exchanged.
template <typename T, typename BOX, bool IS_SWAPPED, typename OFFSET, typename EPILOGUE, i32 COUNT,
          i32 RANK>
struct Writer {
    using C = compute_t<T>;
    using Result = typename EPILOGUE::Result;
    using Finish = Finisher<T, EPILOGUE, COUNT>;
    using Sums = C[BOX::THREAD_M][BOX::THREAD_N];
    static constexpr i32 BLOCK_M = BOX::BLOCK_M, BLOCK_N = BOX::BLOCK_N, THREADS = BOX::THREADS;
    static constexpr i32 WIDTH = FRAGMENT<C>;
    static constexpr i32 ROWS = BOX::THREAD_M, COLUMNS = BOX::THREAD_N;

    struct Shared {
        OFFSET rows[BLOCK_M];
        OFFSET columns[BLOCK_N];
    };

    const Contraction& problem;
    const ExtraOperands<COUNT, RANK>& extras;
    const void* const* pointers;  // of the further operands
    Result* out;
    C* partial;
    Shared& shared;
    const Corner<BOX, C>& corner;
    i32 rows_key = NO_KEY, columns_key = NO_KEY;

    __device__ __forceinline__ void finish(u32 number, const Goal& goal, const Sums& sums) {
        if (goal.part >= 0) {
            C* const part = partial + static_cast<i64>(goal.part) * (BLOCK_M * BLOCK_N);
            put_part(part, sums);
            return;
        }
        const Origin row = goal.row, column = goal.column;
        const bool is_new = row.key() != rows_key || column.key() != columns_key;
        if (is_new) find_places(row, column);
        Result* const first = out + goal.to;
        const bool is_vector = problem.has_vectors != 0 &&
                               reinterpret_cast<u64>(first) % (sizeof(Result) * WIDTH) == 0;
        if constexpr (Finish::IS_PLAIN) {
            if (is_new) __syncthreads();
            if (is_vector) {
                put_sums<WIDTH>(first, sums);
            } else {
                put_sums<1>(first, sums);
            }
        } else {
            put_chain(Task(problem, number), row, column, first, is_vector, sums);
        }
    }

    // Offsets of the rows and columns of a box in the result.
    __device__ __forceinline__ void find_places(const Origin& row, const Origin& column) {
#pragma unroll 1
        for (i32 at = threadIdx.x; at < BLOCK_M; at += THREADS) {
            shared.rows[at] = static_cast<OFFSET>(problem.rows.offset_of(at, row));
        }
#pragma unroll 1
        for (i32 at = threadIdx.x; at < BLOCK_N; at += THREADS) {
            shared.columns[at] = static_cast<OFFSET>(problem.columns.offset_of(at, column));
        }
        rows_key = row.key();
        columns_key = column.key();
    }

    __device__ __forceinline__ void put_part(C* part, const Sums& sums) const {
#pragma unroll
        for (i32 j = 0; j < COLUMNS; ++j) {
#pragma unroll
            for (i32 i = 0; i < ROWS; i += WIDTH) {
                Vector<C, WIDTH> found;
#pragma unroll
                for (i32 lane = 0; lane < WIDTH; ++lane) found.lanes[lane] = sums[i + lane][j];
                const Vector<C, WIDTH> part_of = IS_SWAPPED ? found : swapped(found);
                store(part + corner.column(j) * BLOCK_M + corner.row(i), part_of);
            }
        }
    }

    // Results in runs of RUN rows. Offsets are read before the first store, and a store depends on
    // a predicate, not on a branch: stores follow each other without a wait.
    template <i32 RUN>
    __device__ __forceinline__ void put_sums(Result* first, const Sums& sums) const {
        OFFSET rows[ROWS / RUN], columns[COLUMNS];
#pragma unroll
        for (i32 i = 0; i < ROWS; i += RUN) rows[i / RUN] = shared.rows[corner.row(i)];
#pragma unroll
        for (i32 j = 0; j < COLUMNS; ++j) columns[j] = shared.columns[corner.column(j)];
#pragma unroll
        for (i32 j = 0; j < COLUMNS; ++j) {
            Result* const line = first + columns[j];
#pragma unroll
            for (i32 i = 0; i < ROWS; i += RUN) {
                Vector<Result, RUN> made;
#pragma unroll
                for (i32 lane = 0; lane < RUN; ++lane) {
                    const C sum = sums[IS_SWAPPED ? (i + lane) ^ 1 : i + lane][j];
                    const C one = static_cast<C>(problem.one);
                    made.lanes[lane] = convert<Result>(IS_SWAPPED ? sum : sum * one);
                }
                const bool is_there = (rows[i / RUN] | columns[j]) >= 0;
                const auto bits = bit_cast<raw_t<sizeof(Result) * RUN>>(
                    Words<Result, RUN>::joined(made));
                ptx::store_where(is_there, line + rows[i / RUN], bits);
            }
        }
    }

    __device__ __forceinline__ void put_chain(const Task& task, const Origin& row,
                                              const Origin& column, Result* first, bool is_vector,
                                              const Sums& sums) const {
        constexpr i32 HELD = COUNT == 0 ? 1 : COUNT, RUN = STORED<Result, WIDTH>;
        __shared__ i64 extra_rows[HELD][BLOCK_M];
        __shared__ i64 extra_columns[HELD][BLOCK_N];
        __shared__ C held[ROWS * HELD_COLUMNS][THREADS];
#pragma unroll 1
        for (i32 e = 0; e < COUNT; ++e) {
            const auto& strides = extras.of[e];
            const i64 batch = problem.batch_axes.offset(strides.batches, task.batch);
            for (i32 at = threadIdx.x; at < BLOCK_M; at += THREADS) {
                const i32 place = shared.rows[at] < 0 ? 0 : at;
                const i64 own = extra_offset(problem.rows, strides.rows, task.tile_m, row, place);
                extra_rows[e][at] = batch + own;
            }
            for (i32 at = threadIdx.x; at < BLOCK_N; at += THREADS) {
                extra_columns[e][at] =
                    extra_offset(problem.columns, strides.columns, task.tile_n, column, at);
            }
        }
        __syncthreads();
#pragma unroll
        for (i32 j = 0; j < COLUMNS; j += HELD_COLUMNS) {
#pragma unroll
            for (i32 i = 0; i < ROWS * HELD_COLUMNS; ++i) {
                const i32 row = IS_SWAPPED ? i % ROWS ^ 1 : i % ROWS;
                held[i][threadIdx.x] = sums[row][j + i / ROWS];
            }
#pragma unroll 1
            for (i32 i = 0; i < ROWS * HELD_COLUMNS; i += RUN) {
                const i32 at_row = corner.row(i % ROWS), at_column = corner.column(j + i / ROWS);
                if (shared.columns[at_column] < 0) continue;
                Vector<Result, RUN> made;
#pragma unroll
                for (i32 lane = 0; lane < RUN; ++lane) {
                    Offsets<COUNT> at;
#pragma unroll
                    for (i32 e = 0; e < COUNT; ++e) {
                        at.of[e] = extra_rows[e][at_row + lane] + extra_columns[e][at_column];
                    }
                    made.lanes[lane] = Finish::of(held[i + lane][threadIdx.x], pointers, at);
                }
                Result* const to = first + shared.columns[at_column];
                put_rows(to, shared.rows + at_row, is_vector, made);
            }
        }
    }
};
