// Batched products of matrices with any strides, by tiles in shared memory.
//
//   out[b, m, n] = epilogue(sum_k A[b, m, k] * B[b, k, n]), b m n k of up to 8 axes each
//
//   gemm_tiled       A and B any dtypes, T their common float dtype; operands are converted to T,
//                    products are summed by FMA in f32 (T = f64: f64) and rounded to T once; every
//                    architecture. PATH_A and PATH_B say how they are read (tile_loader.cuh). Tiles
//                    from `whole` on are cut along k; the sums of their parts go to `partial`
//   gemm_split_sum   adds the parts in order, rounds, applies the epilogue; 256 threads
//
// EPILOGUE is Chain of the generated chain.cuh, or Rounded<T>; argument 0 is the product, EXTRA are
// the dtypes of its further operands, whose strides broadcast them to the product's extents.
// A, and so B, is a dtype, or Made<dtype, ChainA, NUMBER...> where a chain makes its elements as
// they are loaded (made.cuh); the last EXTRA are the numbers of these chains.
//
// Launch: gemm_tiled TILE::THREADS threads; blocks = whole + (tiles - whole) * splits, the parts of
// a tile beside each other. gemm_split_sum a thread a vector of a tile that is cut.
// Shared memory: static, STAGES * BLOCK_K * (BLOCK_M + BLOCK_N + 2 vectors) * sizeof(compute_t<T>)
// and the gaps of Layered, 8 * (BLOCK_M + BLOCK_N) bytes, and 48 * BLOCK_K where a path is ANY.
// Limits: extents of b, m, n, k below 2^31, blocks too. k = 0 gives zeros.
// Source: as in tile.cuh; Osama et al., Stream-K (2023), for cutting only the tiles of a last wave.
#include "chain.cuh"
#include "gemm.cuh"

template <typename A, typename B, typename T, typename TILE, i32 PATH_A, i32 PATH_B,
          typename EPILOGUE, i32 RANK, typename... EXTRA>
__global__ void __launch_bounds__(TILE::THREADS, 1)
    gemm_tiled(typename EPILOGUE::Result* __restrict__ out, compute_t<T>* __restrict__ partial,
               const A* __restrict__ a, const B* __restrict__ b,
               const __grid_constant__ GemmProblem problem,
               const __grid_constant__ Extras<sizeof...(EXTRA), RANK> extras,
               const EXTRA* __restrict__... extra) {
    using C = compute_t<T>;
    using LoaderA = TileLoader<A, T, TILE::BLOCK_M, TILE::BLOCK_K, TILE::THREADS, PATH_A>;
    using LoaderB = TileLoader<B, T, TILE::BLOCK_N, TILE::BLOCK_K, TILE::THREADS, PATH_B>;
    using Held = Slab<TILE, C>;
    using LinesA = typename LoaderA::Lines;
    using LinesB = typename LoaderB::Lines;
    constexpr i32 BLOCK_K = TILE::BLOCK_K, STAGES = TILE::STAGES, SLICE_K = TILE::SLICE_K;
    constexpr i32 SETS = sizeof(C) == 4 ? 2 : 1;  // of fragments: one is read while one is used
    constexpr i32 SIZE_A = LinesA::SIZE, SIZE = SIZE_A + LinesB::SIZE;
    constexpr i32 REST = 2;  // of depth_offsets; the others take turns
    constexpr bool IS_LONG = BLOCK_K >= 64;  // steps are few: none reads ahead in vain
    constexpr bool HAS_OFFSETS = PATH_A == ANY || PATH_B == ANY;
    static_assert(Held::SIZE <= STAGES * SIZE, "the slab takes the place of tiles");

    // indices
    const Work work(problem);
    const TilePlace tile(problem, work.tile);

    // shared memory
    alignas(16) __shared__ C tiles[STAGES * SIZE];  // a stage: of A, then of B
    __shared__ i64 row_offsets[TILE::BLOCK_M];
    __shared__ i64 column_offsets[TILE::BLOCK_N];
    __shared__ i64 depth_offsets[3][HAS_OFFSETS ? 2 * BLOCK_K : 1];  // [bytes] of A's k, then B's

    // load
    LoaderA load_a;
    LoaderB load_b;
    constexpr i32 NUMBERS = Making<A>::numbers() + Making<B>::numbers();
    const void* const pointers[] = {extra..., nullptr};
    const void* const* const numbers = pointers + sizeof...(EXTRA) - NUMBERS;
    load_a.making.begin(numbers);
    load_b.making.begin(numbers + Making<A>::numbers());
    load_a.open(a + problem.batch_axes.offset(problem.a.batches, tile.batch), problem.a,
                problem.row_axes, tile.first_row, problem.m, row_offsets);
    load_b.open(b + problem.batch_axes.offset(problem.b.batches, tile.batch), problem.b,
                problem.column_axes, tile.first_column, problem.n, column_offsets);
    load_a.skip(work.k_first, problem.a);
    load_b.skip(work.k_first, problem.b);
    // Whole tiles of k come behind what is not one: all, where an operand's vectors lie askew.
    const bool is_aligned = load_a.is_aligned && load_b.is_aligned;
    const i32 depth = work.k_end - work.k_first, tiles_k = is_aligned ? depth / BLOCK_K : 0;
    const i32 first_k = depth - tiles_k * BLOCK_K;
    const auto find_depth = [&](i32 k, i32 slot) {
        const i32 thread = threadIdx.x;
        if (!HAS_OFFSETS || thread >= 2 * BLOCK_K) return;
        const OperandLayout& layout = thread < BLOCK_K ? problem.a : problem.b;
        const i64 bytes = thread < BLOCK_K ? sizeof(A) : sizeof(B);
        const i32 own = k + thread % BLOCK_K;
        const i32 found = work.k_first + (own < depth ? own : 0);
        depth_offsets[slot][thread] = problem.depth_axes.offset(layout.depth, found) * bytes;
    };
    const auto use_offsets = [&](LoaderA& of_a, LoaderB& of_b, i32 slot) {
        if constexpr (PATH_A == ANY) of_a.offsets = depth_offsets[slot];
        if constexpr (PATH_B == ANY) of_b.offsets = depth_offsets[slot] + BLOCK_K;
    };
    LoaderA rest_a = load_a;
    LoaderB rest_b = load_b;
    load_a.skip(first_k, problem.a);
    load_b.skip(first_k, problem.b);
    // Bytes of shared memory: where this thread fills a stage, and where it reads factors.
    constexpr i32 STAGE = SIZE * static_cast<i32>(sizeof(C));
    const u32 base = ptx::shared_address(tiles);
    u32 fill_a = base + LoaderA::place() * sizeof(C);
    u32 fill_b = base + (SIZE_A + LoaderB::place()) * sizeof(C);
    const Place<TILE, C> place;
    const u32 first_a = base + place.row(0) * sizeof(C);
    const u32 first_b = base + (SIZE_A + place.column(0)) * sizeof(C);
    u32 line_a = first_a + LinesA::line(place.slice * SLICE_K) * sizeof(C);
    u32 line_b = first_b + LinesB::line(place.slice * SLICE_K) * sizeof(C);
    const auto at = [](u32 address) { return ptx::shared_pointer<C>(address); };
    i32 left = tiles_k;  // tiles that are not fetched
    const auto fetch = [&](i32 slot) {
        use_offsets(load_a, load_b, slot);
        load_a.fetch(at(fill_a));
        load_b.fetch(at(fill_b));
        --left;
        load_a.advance(left > 0);
        load_b.advance(left > 0);
        if constexpr (__CUDA_ARCH__ >= 800) ptx::commit_async();
    };
    const auto stash = [&] {
        load_a.stash(at(fill_a));
        load_b.stash(at(fill_b));
    };
    const auto await = [&](auto groups) {
        if constexpr (__CUDA_ARCH__ >= 800) ptx::wait_async<groups.value>();
        __syncthreads();
    };
    Fragments<TILE, C> fragments[SETS];
    C sums[TILE::THREAD_M][TILE::THREAD_N] = {};
    find_depth(first_k, 0);
    if (HAS_OFFSETS) __syncthreads();
#pragma unroll 1
    for (i32 step = 0; step < STAGES - 1; ++step) {
        if (step < tiles_k) {
            fetch(step & 1);
            stash();
        } else if constexpr (__CUDA_ARCH__ >= 800) {
            ptx::commit_async();
        }
        fill_a += STAGE;
        fill_b += STAGE;
        find_depth(first_k + (step + 1) * BLOCK_K, (step + 1) & 1);
        if (HAS_OFFSETS) __syncthreads();
    }
#pragma unroll 1
    for (i32 k = 0; k < first_k; k += BLOCK_K) {
        const i32 count = min(first_k - k, BLOCK_K);
        find_depth(k, REST);
        if (HAS_OFFSETS) __syncthreads();
        use_offsets(rest_a, rest_b, REST);
        rest_a.fetch_rest(count, at(fill_a));
        rest_b.fetch_rest(count, at(fill_b));
        rest_a.stash(at(fill_a));
        rest_b.stash(at(fill_b));
        rest_a.skip(count, problem.a);
        rest_b.skip(count, problem.b);
        if constexpr (__CUDA_ARCH__ >= 800) ptx::commit_async();
        await(Constant<0>{});
        constexpr i32 BEHIND = (STAGES - 1) * STAGE;
#pragma unroll 1
        for (i32 i = place.slice; i < count; i += TILE::SLICES) {
            fragments[0].read(at(first_a + BEHIND) + LinesA::line(i),
                              at(first_b + BEHIND) + LinesB::line(i));
            fragments[0].add_to(sums);
        }
        __syncthreads();
    }
    await(Constant<STAGES - 2>{});
    if (SETS == 2) fragments[0].read(at(line_a), at(line_b));

    // compute
    i32 stage = 0;
    i32 next_fill = (1 - STAGES) * STAGE;  // the stage that was just read is filled next
#pragma unroll 1
    for (i32 step = 0; step < tiles_k; ++step) {
        const bool reads_ahead = !IS_LONG || step + STAGES - 1 < tiles_k;
#pragma unroll
        for (i32 k = 0; k < SLICE_K; ++k) {
            if (k == TILE::FETCH_K) {
                if (reads_ahead) {
                    fetch((step + STAGES - 1) & 1);
                } else if constexpr (__CUDA_ARCH__ >= 800) {
                    ptx::commit_async();
                }
                find_depth(first_k + (step + STAGES) * BLOCK_K, (step + STAGES) & 1);
            }
            if (SETS == 1) {
                fragments[0].read(at(line_a) + LinesA::line(k), at(line_b) + LinesB::line(k));
            }
            if (k + 1 == SLICE_K) {
                if (reads_ahead) stash();
                fill_a += next_fill;
                fill_b += next_fill;
                stage = stage + 1 == STAGES ? 0 : stage + 1;
                next_fill = stage == 0 ? (1 - STAGES) * STAGE : STAGE;
                line_a += next_fill;
                line_b += next_fill;
                await(Constant<STAGES - 2>{});
            }
            if (SETS == 2) {
                const i32 next = (k + 1) % SLICE_K;
                fragments[(k + 1) % 2].read(at(line_a) + LinesA::line(next),
                                            at(line_b) + LinesB::line(next));
            }
            fragments[k % SETS].add_to(sums);
        }
    }

    // store
    if constexpr (__CUDA_ARCH__ >= 800) ptx::wait_async<0>();
    __syncthreads();
    for (i32 row = threadIdx.x; row < TILE::BLOCK_M; row += TILE::THREADS) {
        const i32 own = min(tile.first_row + row, problem.m - 1);
        row_offsets[row] = problem.row_axes.offset(problem.out_rows, own);
    }
    for (i32 column = threadIdx.x; column < TILE::BLOCK_N; column += TILE::THREADS) {
        const i32 own = min(tile.first_column + column, problem.n - 1);
        column_offsets[column] = problem.column_axes.offset(problem.out_columns, own);
    }
    const Finish<T, EPILOGUE, RANK, EXTRA...> finish{problem, extras, pointers};
    auto* const result = out + problem.batch_axes.offset(problem.out_batches, tile.batch);
    C* const part = partial + static_cast<i64>(work.part) * (TILE::BLOCK_M * TILE::BLOCK_N);
    constexpr i32 WIDTH = Held::WIDTH;
    constexpr i32 AT_ONCE = Held::PASSES == 1 ? 8 : 4;  // results of a thread
    constexpr u64 BYTES = sizeof(*result) * WIDTH;
    constexpr bool TAKES_VECTORS = finish.IS_PLAIN && BYTES <= 16;  // f64 of f32 sums does not
    const i32 rows = problem.m - tile.first_row, columns = problem.n - tile.first_column;
    const bool has_vectors = TAKES_VECTORS && problem.has_vectors != 0 &&
                             reinterpret_cast<u64>(result) % BYTES == 0;
    const Held slab{tiles};
#pragma unroll
    for (i32 pass = 0; pass < Held::PASSES; ++pass) {
        slab.write(sums, pass);
        __syncthreads();
        if (work.part >= 0) {
            slab.template visit<WIDTH, 1>(pass, [&](const auto& taken) {
                store(part + taken.rows[0] * TILE::BLOCK_N + taken.columns[0], taken.sums[0]);
            });
        } else if (has_vectors) {
            slab.template visit<WIDTH, 1>(pass, [&](const auto& taken) {
                const i32 row = taken.rows[0], column = taken.columns[0];
                if (row >= rows || column >= columns) return;
                if constexpr (TAKES_VECTORS) {
                    Vector<typename EPILOGUE::Result, WIDTH> made;
#pragma unroll
                    for (i32 lane = 0; lane < WIDTH; ++lane) {
                        const C sum = taken.sums[0].lanes[lane];
                        made.lanes[lane] = convert<typename EPILOGUE::Result>(sum);
                    }
                    store(result + row_offsets[row] + column_offsets[column], made);
                }
            });
        } else {
            slab.template visit<1, AT_ONCE>(pass, [&](auto taken) {
                finish_taken(finish, tile, taken, [&](i32 row, i32 column, auto made) {
                    result[row_offsets[row] + column_offsets[column]] = made;
                });
            });
        }
        __syncthreads();
    }
}

template <typename T, typename EPILOGUE, i32 RANK, typename... EXTRA>
__global__ void __launch_bounds__(256, 1)
    gemm_split_sum(typename EPILOGUE::Result* __restrict__ out,
                   const compute_t<T>* __restrict__ partial,
                   const __grid_constant__ GemmProblem problem,
                   const __grid_constant__ Extras<sizeof...(EXTRA), RANK> extras,
                   const EXTRA* __restrict__... extra) {
    // indices
    using C = compute_t<T>;
    constexpr i32 WIDTH = FRAGMENT<C>;
    const i32 area = problem.block_m * problem.block_n, pieces = area / WIDTH;
    const i32 cut = grid_thread() / pieces;  // among the tiles that are cut
    const i32 inside = (grid_thread() - static_cast<i64>(cut) * pieces) * WIDTH;
    const u32 number = problem.whole + cut;
    const TilePlace tile(problem, number);
    const i32 row = tile.first_row + inside / problem.block_n;
    const i32 first_column = tile.first_column + inside % problem.block_n;
    if (tile.batch >= problem.batches || row >= problem.m || first_column >= problem.n) return;

    // compute
    const C* part = partial + static_cast<i64>(cut) * problem.splits * area + inside;
    Vector<C, WIDTH> sums = load<WIDTH>(part);
#pragma unroll 4
    for (i32 split = 1; split < problem.splits; ++split) {
        part += area;
        const Vector<C, WIDTH> more = load<WIDTH>(part);
#pragma unroll
        for (i32 lane = 0; lane < WIDTH; ++lane) sums.lanes[lane] += more.lanes[lane];
    }

    // store
    const void* const pointers[] = {extra..., nullptr};
    const Finish<T, EPILOGUE, RANK, EXTRA...> finish{problem, extras, pointers};
    auto* const result = out + problem.batch_axes.offset(problem.out_batches, tile.batch) +
                         problem.row_axes.offset(problem.out_rows, row);
#pragma unroll
    for (i32 lane = 0; lane < WIDTH; ++lane) {
        const i32 column = first_column + lane;
        if (column >= problem.n) return;
        result[problem.column_axes.offset(problem.out_columns, column)] =
            finish(sums.lanes[lane], tile.batch, row, column);
    }
}
