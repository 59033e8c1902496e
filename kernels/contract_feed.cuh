// The way of a contraction's operands to shared memory, task after task.
//
//   Feeder    open: begins the reading of a task; prepare, fetch: start the way of its next step
//             into a stage of a ring; stash: ends the way of what came through registers
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
    using LoaderA = BoxLoader<A, T, BOX, BOX::BLOCK_M, WAY_A, OFFSET, true>;
    using LoaderB = BoxLoader<B, T, BOX, BOX::BLOCK_N, WAY_B, OFFSET, false>;
    static constexpr i32 BLOCK_K = BOX::BLOCK_K, STAGES = BOX::STAGES, THREADS = BOX::THREADS;
    static constexpr bool IS_HELD = !LoaderA::IS_DIRECT || !LoaderB::IS_DIRECT;
    static constexpr i32 SLOTS = 16, HALF = SLOTS / 2;
    static_assert(HALF / 2 >= STAGES, "tasks in the ring, and one that is still stored");
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
    i32 opened = 0;                   // tasks of this block that are read, or were
    i32 left = 0, steps = 0, k = 0;   // of the task that is being read
    i32 table_k = -1;                 // the first k in the table of depths
    i32 rows_key = NO_KEY, columns_key = NO_KEY;
    const A* from_a;
    const B* from_b;
    bool is_plain;  // see fetch_plain

    // `numbers` are the addresses of those that make A, then of those that make B.
    __device__ __forceinline__ Feeder(const Contraction& c, const A* first_a, const B* first_b,
                                      const void* const* numbers, Shared& held)
        : problem(c), a(first_a), b(first_b), shared(held) {
        load_a.making.begin(numbers);
        load_b.making.begin(numbers + Making<A>::numbers());
        load_a.is_aligned = reinterpret_cast<u64>(a) % LoaderA::BYTES == 0;
        load_b.is_aligned = reinterpret_cast<u64>(b) % LoaderB::BYTES == 0;
        is_plain = load_a.is_aligned && load_b.is_aligned && problem.depth > 0;
        load_a.pitch = problem.rows.pitch;
        load_b.pitch = problem.columns.pitch;
        find_goals<SLOTS>(0);
        __syncthreads();
    }

    // Finds goals of this block's tasks, from its task `first` on, a thread each: one after the
    // other they would be a wait in front of every task.
    template <i32 COUNT>
    __device__ __forceinline__ void find_goals(i32 first) {
        const i32 own = first + static_cast<i32>(threadIdx.x);
        const u32 number = task_of(own);
        if (threadIdx.x >= COUNT || number >= static_cast<u32>(problem.tasks)) return;
        shared.goals[own % SLOTS] = Goal::of(problem, number);
    }
    __device__ __forceinline__ static u32 task_of(i32 own) {
        return blockIdx.x + static_cast<u32>(own) * gridDim.x;
    }

    __device__ __forceinline__ void find_depths() {
        table_k = k;
#pragma unroll 1
        for (i32 at = threadIdx.x; at < DEPTHS; at += THREADS) {
            const i32 own = k + at < problem.depth ? k + at : 0;
            const MultiIndex& axes = problem.depth_axes;
            shared.depths[0][at] = static_cast<OFFSET>(axes.offset(problem.a_depth, own));
            shared.depths[1][at] = static_cast<OFFSET>(axes.offset(problem.b_depth, own));
        }
    }

    // Returns whether a table changed.
    __device__ __forceinline__ bool open() {
        const Goal& goal = shared.goals[opened % SLOTS];
        const Origin row = goal.row, column = goal.column;
        from_a = a + goal.from_a;
        from_b = b + goal.from_b;
        k = goal.k_first;
        left = goal.depth;
        steps = max(ceil_divide(left, BLOCK_K), 1);
        if (opened >= HALF && opened % HALF == HALF / 2) {
            find_goals<HALF>((opened / HALF + 1) * HALF);
        }
        ++opened;
        const bool has_rows = row.key() != rows_key, has_columns = column.key() != columns_key;
        if (has_rows) {
            rows_key = row.key();
            problem.rows.fill<LoaderA>(shared.rows, row);
        }
        if (has_columns) {
            columns_key = column.key();
            problem.columns.fill<LoaderB>(shared.columns, column);
        }
        const i32 from_table = k - table_k;
        const bool has_depths = table_k >= 0 && from_table >= 0 && from_table < DEPTHS &&
                                from_table % BLOCK_K == 0;
        if (!has_depths) find_depths();
        return has_rows || has_columns || !has_depths;
    }

    // Makes tables for the next step. All threads are behind a barrier since the last call, and so
    // may write them.
    __device__ __forceinline__ void prepare() {
        if (steps == 0) {
            const bool is_one = task_of(opened) < static_cast<u32>(problem.tasks);
            if (is_one && open()) __syncthreads();
        } else if (k == table_k + DEPTHS) {
            find_depths();
            __syncthreads();
        }
    }

    // Starts the way of the next step, if there is one.
    __device__ __forceinline__ void fetch(i32 stage) {
        if (steps > 0) fetch_from<false>(k - table_k, stage);
        if constexpr (__CUDA_ARCH__ >= 800) ptx::commit_async();
    }
    // The same without a branch, where `is_plain`: some step once more where there is none. What
    // comes through registers is loaded in front of all products behind this, and stored behind
    // them: the compiler moves neither across a branch.
    __device__ __forceinline__ void fetch_plain(i32 stage) {
        fetch_from<true>(steps > 0 ? k - table_k : 0, stage);
        if constexpr (__CUDA_ARCH__ >= 800) ptx::commit_async();
        if (IS_HELD && k < table_k) __trap();  // a step lies in its table
    }
    template <bool IS_PLAIN>
    __device__ __forceinline__ void fetch_from(i32 at, i32 stage) {
        const OFFSET* const a_depths = shared.depths[0] + at;
        const OFFSET* const b_depths = shared.depths[1] + at;
        load_a.template fetch<IS_PLAIN>(from_a, shared.rows, a_depths, left, shared.a[stage]);
        load_b.template fetch<IS_PLAIN>(from_b, shared.columns, b_depths, left, shared.b[stage]);
    }

    // Ends the way of a step; IS_PLAIN behind fetch_plain.
    template <bool IS_PLAIN>
    __device__ __forceinline__ void stash(i32 stage) {
        if ((IS_HELD || !IS_PLAIN) && steps == 0) return;
        load_a.template stash<IS_PLAIN>(shared.rows, left, shared.a[stage]);
        load_b.template stash<IS_PLAIN>(shared.columns, left, shared.b[stage]);
        if (steps == 0) return;
        k += BLOCK_K;
        left -= BLOCK_K;
        --steps;
    }
};
