// The way of a contraction's operands to shared memory, task after task.
//
//   Feeder    open: begins the reading of a task; feed: starts the way of its next step into a
//             stage of a ring; stash: ends the way of what came through registers
//
// A block's tasks follow each other in the ring: the first steps of the next task are on their way
// while the task before is still summed and stored. Tables are made anew only where they change:
// boxes have the same rows relative to their first one, except at the end of a label.
// Shared memory: Shared, held by the caller.
#pragma once

#include "contract.cuh"

template <typename A, typename B, typename T, typename BOX, i32 WAY_A, i32 WAY_B, typename OFFSET>
struct Feeder {
    using C = compute_t<T>;
    using LoaderA = BoxLoader<A, T, BOX, BOX::BLOCK_M, WAY_A, OFFSET>;
    using LoaderB = BoxLoader<B, T, BOX, BOX::BLOCK_N, WAY_B, OFFSET>;
    static constexpr i32 BLOCK_K = BOX::BLOCK_K, STAGES = BOX::STAGES, THREADS = BOX::THREADS;
    static constexpr i32 SLOTS = 8;
    static_assert(SLOTS > STAGES, "tasks in the ring, and one that is still stored");
    static constexpr i32 DEPTHS = TABLE_DEPTH / BLOCK_K * BLOCK_K;  // a step lies in one table

    struct Shared {
        alignas(16) C a[STAGES][LoaderA::SIZE];
        alignas(16) C b[STAGES][LoaderB::SIZE];
        Entry<OFFSET> rows[LoaderA::ENTRIES];
        Entry<OFFSET> columns[LoaderB::ENTRIES];
        OFFSET depths[2][DEPTHS];
        Goal goals[SLOTS];
    };

    const Contraction& problem;
    const A* a;
    const B* b;
    Shared& shared;
    LoaderA load_a;
    LoaderB load_b;
    u32 next;                         // the task that is opened next
    u32 slot = 0;                     // of its goal
    i32 left = 0, steps = 0, k = 0;   // of the task that is being read
    i32 table_k = -1;                 // the first k in the table of depths
    i32 rows_key = NO_KEY, columns_key = NO_KEY;
    const A* from_a;
    const B* from_b;

    __device__ __forceinline__ Feeder(const Contraction& c, const A* first_a, const B* first_b,
                                      Shared& held)
        : problem(c), a(first_a), b(first_b), shared(held), next(blockIdx.x) {
        load_a.is_aligned = reinterpret_cast<u64>(a) % LoaderA::BYTES == 0;
        load_b.is_aligned = reinterpret_cast<u64>(b) % LoaderB::BYTES == 0;
    }

    __device__ __forceinline__ void find_depths() {
        table_k = k;
#pragma unroll 1
        for (i32 at = threadIdx.x; at < DEPTHS; at += THREADS) {
            const i32 own = min(k + at, max(problem.depth - 1, 0));
            const MultiIndex& axes = problem.depth_axes;
            shared.depths[0][at] = static_cast<OFFSET>(axes.offset(problem.a_depth, own));
            shared.depths[1][at] = static_cast<OFFSET>(axes.offset(problem.b_depth, own));
        }
    }

    // Returns whether a table changed.
    __device__ __forceinline__ bool open() {
        const Task task(problem, next);
        const Origin row = problem.rows.origin(task.tile_m);
        const Origin column = problem.columns.origin(task.tile_n);
        from_a = a + problem.batch_axes.offset(problem.a_batches, task.batch) + row.from;
        from_b = b + problem.batch_axes.offset(problem.b_batches, task.batch) + column.from;
        k = task.k_first;
        left = task.depth;
        steps = max(ceil_divide(task.depth, BLOCK_K), 1);
        if (threadIdx.x == 0) {
            const i64 batch = problem.batch_axes.offset(problem.out_batches, task.batch);
            const i64 to = batch + row.to + column.to;
            shared.goals[slot] = Goal{row, column, to, task.part, task.depth};
        }
        slot = (slot + 1) % SLOTS;
        next += gridDim.x;
        const bool has_rows = row.key() != rows_key, has_columns = column.key() != columns_key;
        if (has_rows) {
            rows_key = row.key();
            problem.rows.fill<LoaderA::ENTRIES, LoaderA::RUN, THREADS>(shared.rows, row);
        }
        if (has_columns) {
            columns_key = column.key();
            problem.columns.fill<LoaderB::ENTRIES, LoaderB::RUN, THREADS>(shared.columns, column);
        }
        const i32 from_table = k - table_k;
        const bool has_depths = table_k >= 0 && from_table >= 0 && from_table < DEPTHS &&
                                from_table % BLOCK_K == 0;
        if (!has_depths) find_depths();
        return has_rows || has_columns || !has_depths;
    }

    // All threads are behind a barrier since the last call, and so may write the tables.
    __device__ __forceinline__ void feed(i32 stage) {
        if (steps == 0) {
            if (next < static_cast<u32>(problem.tasks) && open()) __syncthreads();
        } else if (k == table_k + DEPTHS) {
            find_depths();
            __syncthreads();
        }
        if (steps > 0) {
            const i32 at = k - table_k;
            load_a.fetch(from_a, shared.rows, shared.depths[0] + at, left, shared.a[stage]);
            load_b.fetch(from_b, shared.columns, shared.depths[1] + at, left, shared.b[stage]);
        }
        if constexpr (__CUDA_ARCH__ >= 800) ptx::commit_async();
    }

    __device__ __forceinline__ void stash(i32 stage) {
        if (steps == 0) return;
        load_a.stash(shared.rows, left, shared.a[stage]);
        load_b.stash(shared.columns, left, shared.b[stage]);
        k += BLOCK_K;
        left -= BLOCK_K;
        --steps;
    }
};
