// Contractions of tensors where they lie: boxes over several labels, summed in shared memory.
//
//   out[b.., m.., n..] = epilogue(sum_k.. A[b.., m.., k..] * B[b.., k.., n..]), up to 8 labels each
//
//   contract       A and B any dtypes, T their common float dtype; operands are converted to T,
//                  products are summed by FMA in f32 (T = f64: f64) and rounded to T once; every
//                  architecture. WAY_A and WAY_B say how they are read (contract_tile.cuh), OFFSET
//                  is i32, or i64 where an offset within a batch or box passes 2^31. Tiles from
//                  `whole` on are cut along k; the sums of their parts go to `partial`
//   contract_sum   adds the parts in order, rounds, applies the epilogue; 256 threads
//
// EPILOGUE is Chain of the generated chain.cuh, or Rounded<T>; argument 0 is the sum, EXTRA are the
// dtypes of its further operands, whose strides broadcast them to the result's extents.
// A is a dtype, or Made<dtype, ChainA, NUMBER...> where a chain makes its elements as they are
// loaded (made.cuh), and so is B; the last EXTRA are the numbers of these chains, A's, then B's.
//
// Launch: contract BOX::THREADS threads, any number of blocks: they take tasks in turns, and fetch
// the first steps of the next one while they still sum and store the one before. contract_sum one
// thread a vector of rows of a tile that is cut.
// Where stores take memory as long as sums take, blocks start `apart_ns` apart: else all of them
// would store at once and then leave memory idle, task after task.
// Shared memory: static, STAGES * BLOCK_K * STRIDEs of BoxLine * sizeof(compute_t<T>) and tables of
// rows, columns and TABLE_DEPTH k.
// Limits: extents of b, m, n, k and tasks below 2^31. k = 0 gives zeros.
// Source: as in contract_tile.cuh; Osama et al., Stream-K (2023), for cutting only some tiles.
#include "chain.cuh"
#include "contract_feed.cuh"
#include "contract_store.cuh"

template <typename A, typename B, typename T, typename BOX, i32 WAY_A, i32 WAY_B, typename OFFSET,
          typename EPILOGUE, i32 RANK, typename... EXTRA>
__global__ void __launch_bounds__(BOX::THREADS, BOX::RESIDENT)
    contract(typename EPILOGUE::Result* __restrict__ out, compute_t<T>* __restrict__ partial,
             const A* __restrict__ a, const B* __restrict__ b,
             const __grid_constant__ Contraction problem,
             const __grid_constant__ ExtraOperands<sizeof...(EXTRA), RANK> extras,
             const EXTRA* __restrict__... extra) {
    using C = compute_t<T>;
    using Feed = Feeder<A, B, T, BOX, WAY_A, WAY_B, OFFSET>;
    constexpr bool IS_SWAPPED = Feed::LoaderA::IS_SWAPPED;
    constexpr i32 COUNT = sizeof...(EXTRA) - Making<A>::numbers() - Making<B>::numbers();
    using Write = Writer<T, BOX, IS_SWAPPED, OFFSET, EPILOGUE, COUNT, RANK>;
    constexpr i32 BLOCK_K = BOX::BLOCK_K, STAGES = BOX::STAGES;
    constexpr i32 IS_PLAIN = BOX::FETCH_K >= 0 ? 1 : 0;  // of fetches among products
    constexpr i32 SETS = sizeof(C) == 4 ? 2 : 1;  // of fragments: one is read while one is used

    // indices
    const Corner<BOX, C> corner(threadIdx.x);
    if (problem.apart_ns > 0) __nanosleep(problem.apart_ns * blockIdx.x);

    // shared memory
    __shared__ typename Feed::Shared feeding;
    __shared__ typename Write::Shared writing;

    // load
    const void* const pointers[] = {extra..., nullptr};
    Feed feeder(problem, a, b, pointers + COUNT, feeding);
#pragma unroll 1
    for (i32 step = 0; step < STAGES - 1; ++step) {
        feeder.prepare();
        feeder.fetch(step);
        feeder.template stash<false>(step);
        __syncthreads();
    }
    i32 stage = 0, filled = STAGES - 1;
    const auto await = [] {
        if constexpr (__CUDA_ARCH__ >= 800) ptx::wait_async<STAGES - 2>();
        __syncthreads();
    };
    const auto turn = [&](auto is_plain) {
        feeder.template stash<is_plain.value != 0>(filled);
        filled = stage;
        stage = stage + 1 == STAGES ? 0 : stage + 1;
        await();
    };
    BoxFragments<BOX, C> fragments[SETS];
    const i32 own_row = Feed::LoaderA::Line::held(corner.first_row);
    const i32 own_column = Feed::LoaderB::Line::held(corner.first_column);
    const auto read = [&](BoxFragments<BOX, C>& set, i32 k) {
        set.read(feeding.a[stage] + k * Feed::LoaderA::STRIDE + own_row,
                 feeding.b[stage] + k * Feed::LoaderB::STRIDE + own_column);
    };
    await();
    if (SETS == 2) read(fragments[0], 0);

    // compute, store
    Write writer{problem, first_of<COUNT>(extras), pointers, out, partial, writing, corner};
    C sums[BOX::THREAD_M][BOX::THREAD_N] = {};
    u32 task = blockIdx.x, slot = 0;
    i32 left = feeding.goals[slot].depth;
#pragma unroll 1
    while (true) {
        feeder.prepare();
        const bool is_whole = left >= BLOCK_K && (IS_PLAIN == 0 || feeder.is_plain);
        if (IS_PLAIN == 0 || !is_whole) feeder.fetch(filled);
        if (is_whole) {
#pragma unroll
            for (i32 k = 0; k < BLOCK_K; ++k) {
                if (k == BOX::FETCH_K) feeder.fetch_plain(filled);
                if (SETS == 1) read(fragments[0], k);
                if (k + 1 == BLOCK_K) turn(Constant<IS_PLAIN>{});
                if (SETS == 2) read(fragments[(k + 1) % 2], (k + 1) % BLOCK_K);
                fragments[k % SETS].add_to(sums);
            }
        } else {
#pragma unroll 1
            for (i32 k = 0; k < min(left, BLOCK_K); ++k) {
                read(fragments[0], k);
                fragments[0].add_to(sums);
            }
            turn(Constant<0>{});
            if (SETS == 2) read(fragments[0], 0);
        }
        left -= BLOCK_K;
        if (left > 0) continue;
        writer.finish(task, feeding.goals[slot], sums);
        task += gridDim.x;
        if (task >= static_cast<u32>(problem.tasks)) break;
        slot = (slot + 1) % Feed::SLOTS;
        left = feeding.goals[slot].depth;
#pragma unroll
        for (i32 i = 0; i < BOX::THREAD_M; ++i) {
#pragma unroll
            for (i32 j = 0; j < BOX::THREAD_N; ++j) sums[i][j] = C(0);
        }
    }
    if constexpr (__CUDA_ARCH__ >= 800) ptx::wait_async<0>();
}

template <typename T, typename EPILOGUE, i32 RANK, typename... EXTRA>
__global__ void __launch_bounds__(256, 1)
    contract_sum(typename EPILOGUE::Result* __restrict__ out,
                 const compute_t<T>* __restrict__ partial,
                 const __grid_constant__ Contraction problem,
                 const __grid_constant__ ExtraOperands<sizeof...(EXTRA), RANK> extras,
                 const EXTRA* __restrict__... extra) {
    // indices
    using C = compute_t<T>;
    using Result = typename EPILOGUE::Result;
    constexpr i32 WIDTH = FRAGMENT<C>, COUNT = sizeof...(EXTRA);
    const i32 block_m = problem.rows.block, area = block_m * problem.columns.block;
    const i32 cut = grid_thread() / (area / WIDTH);  // among the tiles that are cut
    const i32 inside = (grid_thread() - static_cast<i64>(cut) * (area / WIDTH)) * WIDTH;
    const i32 splits = problem.splits.divisor;
    if (static_cast<i64>(cut) * splits >= problem.tasks - problem.whole) return;
    const Task task(problem, problem.whole + cut * splits);
    const Origin row = problem.rows.origin(task.tile_m);
    const Origin column = problem.columns.origin(task.tile_n);
    const i32 first_row = inside % block_m, own_column = inside / block_m;
    const i64 column_offset = problem.columns.offset_of(own_column, column);
    if (column_offset < 0) return;

    // load
    const C* part = partial + static_cast<i64>(cut) * splits * area + inside;
    Vector<C, WIDTH> sums = swapped(load<WIDTH>(part));
#pragma unroll 4
    for (i32 split = 1; split < splits; ++split) {
        part += area;
        const Vector<C, WIDTH> more = swapped(load<WIDTH>(part));
#pragma unroll
        for (i32 lane = 0; lane < WIDTH; ++lane) sums.lanes[lane] += more.lanes[lane];
    }

    // store
    const void* const pointers[] = {extra..., nullptr};
    Result* const first = out + problem.batch_axes.offset(problem.out_batches, task.batch) +
                          row.to + column.to + column_offset;
    const bool is_vector = problem.has_vectors != 0 &&
                           reinterpret_cast<u64>(first) % (sizeof(Result) * WIDTH) == 0;
    constexpr i32 RUN = STORED<Result, WIDTH>;
    Vector<Result, RUN> made;
    i64 rows[RUN];
#pragma unroll
    for (i32 lane = 0; lane < WIDTH; ++lane) {
        const i32 own = lane % RUN;
        rows[own] = problem.rows.offset_of(first_row + lane, row);
        const i32 place = rows[own] < 0 ? 0 : first_row + lane;
        Offsets<COUNT> at;
#pragma unroll
        for (i32 e = 0; e < COUNT; ++e) {
            const auto& strides = extras.of[e];
            at.of[e] = problem.batch_axes.offset(strides.batches, task.batch) +
                       extra_offset(problem.rows, strides.rows, task.tile_m, row, place) +
                       extra_offset(problem.columns, strides.columns, task.tile_n, column,
                                    own_column);
        }
        made.lanes[own] = Finisher<T, EPILOGUE, COUNT>::of(sums.lanes[lane], pointers, at);
        if (own + 1 == RUN) put_rows(first, rows, is_vector, made);
    }
}
