// Batched products of matrices with any strides, by tiles in shared memory.
//
//   out[b, m, n] = epilogue(sum_k A[b, m, k] * B[b, k, n]), b m n k of up to 8 axes each
//
//   gemm_tiled       A and B any dtypes, T their common float dtype; operands are converted to T,
//                    products are summed by FMA in f32 (T = f64: f64) and rounded to T once; every
//                    architecture. With splits > 1 it writes the sums of its part of k to `partial`
//   gemm_split_sum   adds the parts in order, rounds, applies the epilogue; 256 threads
//
// EPILOGUE is Chain of the generated chain.cuh, or Rounded<T>; argument 0 is the product, EXTRA are
// the dtypes of its further operands, whose strides broadcast them to the product's extents.
//
// Launch: gemm_tiled TILE::THREADS threads; blocks = tiles_m * tiles_n * splits * batches, tiles
// fastest, in bands of BAND tile rows for the L2 cache. gemm_split_sum one thread an element.
// Shared memory: static, 2 * BLOCK_K * (BLOCK_M + BLOCK_N + 2 vectors) * sizeof(compute_t<T>) and
// 8 * (BLOCK_M + BLOCK_N) bytes: two buffers, one written while the other is read.
// Limits: extents of b, m, n, k below 2^31, blocks too. k = 0 gives zeros.
// Source: as in tile.cuh; Scott Gray, maxas SGEMM (2014), for the order of a warp's lanes.
#include "chain.cuh"
#include "gemm.cuh"

// ---- kernels ------------------------------------------------------------------------------------

template <typename A, typename B, typename T, typename TILE, typename EPILOGUE, i32 RANK,
          typename... EXTRA>
__global__ void __launch_bounds__(TILE::THREADS, 1)
    gemm_tiled(typename EPILOGUE::Result* __restrict__ out, compute_t<T>* __restrict__ partial,
               const A* __restrict__ a, const B* __restrict__ b,
               const __grid_constant__ GemmProblem problem,
               const __grid_constant__ Extras<sizeof...(EXTRA), RANK> extras,
               const EXTRA* __restrict__... extra) {
    using C = compute_t<T>;
    using LoaderA = TileLoader<A, T, TILE::BLOCK_M, TILE::BLOCK_K, TILE::THREADS>;
    using LoaderB = TileLoader<B, T, TILE::BLOCK_N, TILE::BLOCK_K, TILE::THREADS>;
    constexpr i32 BLOCK_K = TILE::BLOCK_K;
    constexpr i32 SETS = sizeof(C) == 4 ? 2 : 1;  // of fragments: one is read while one is used
    constexpr i32 SIZE_A = BLOCK_K * LoaderA::STRIDE, SIZE_B = BLOCK_K * LoaderB::STRIDE;

    // indices
    const u32 tiles = static_cast<u32>(problem.tiles_m) * problem.tiles_n;
    const u32 part = blockIdx.x / tiles, tile = blockIdx.x - part * tiles;
    const u32 band = BAND * static_cast<u32>(problem.tiles_n);
    const i32 band_first = tile / band * BAND;
    const i32 band_rows = min(BAND, problem.tiles_m - band_first);
    const i32 first_row = (band_first + tile % band % band_rows) * TILE::BLOCK_M;
    const i32 first_column = tile % band / band_rows * TILE::BLOCK_N;
    const i32 split = part % problem.splits;
    const i32 batch = problem.first_batch + part / problem.splits;
    const i32 k_first = split * problem.k_chunk;
    const i32 k_end = min(k_first + problem.k_chunk, problem.k);

    // shared memory
    alignas(16) __shared__ C tiles_a[2 * SIZE_A];
    alignas(16) __shared__ C tiles_b[2 * SIZE_B];
    __shared__ i64 row_offsets[TILE::BLOCK_M];
    __shared__ i64 column_offsets[TILE::BLOCK_N];
    __shared__ i64 depth_offsets[2][2 * BLOCK_K];  // of A's k, then of B's

    // load
    LoaderA load_a;
    LoaderB load_b;
    load_a.open(a + problem.batch_axes.offset(problem.a.batches, batch), problem.a,
                problem.row_axes, first_row, problem.m, row_offsets);
    load_b.open(b + problem.batch_axes.offset(problem.b.batches, batch), problem.b,
                problem.column_axes, first_column, problem.n, column_offsets);
    const auto find_depth = [&](i32 step) {
        const i32 slot = threadIdx.x;
        if (slot >= 2 * BLOCK_K) return;
        const i32 k = min(k_first + step * BLOCK_K + slot % BLOCK_K, problem.k - 1);
        const OperandLayout& layout = slot < BLOCK_K ? problem.a : problem.b;
        depth_offsets[step & 1][slot] = problem.depth_axes.offset(layout.depth, k);
    };
    const auto fetch = [&](i32 step) {
        const i64* const offsets = depth_offsets[step & 1];
        const i32 depth = k_end - k_first - step * BLOCK_K;
        load_a.fetch(offsets, depth);
        load_b.fetch(offsets + BLOCK_K, depth);
    };
    const auto stash = [&](i32 buffer) {
        load_a.stash(tiles_a + buffer * SIZE_A);
        load_b.stash(tiles_b + buffer * SIZE_B);
        __syncthreads();
    };
    const i32 steps = ceil_divide(k_end - k_first, BLOCK_K);
    const Place<TILE, C> place;
    const C* const own_a = tiles_a + place.row(0);
    const C* const own_b = tiles_b + place.column(0);
    Fragments<TILE, C> fragments[SETS];
    C sums[TILE::THREAD_M][TILE::THREAD_N] = {};
    if (steps > 0) {
        find_depth(0);
        find_depth(1);
        __syncthreads();
        fetch(0);
        stash(0);
        if (SETS == 2) fragments[0].read(own_a, own_b);
    }

    // compute
#pragma unroll 1
    for (i32 step = 0; step < steps; ++step) {
        const bool has_next = step + 1 < steps;
        const i32 buffer = step & 1;
        if (has_next) fetch(step + 1);
        find_depth(step + 2);
#pragma unroll
        for (i32 k = 0; k < BLOCK_K; ++k) {
            const i32 here = SETS == 1 ? k : k + 1;
            if (here < BLOCK_K) {
                fragments[here % SETS].read(own_a + buffer * SIZE_A + here * LoaderA::STRIDE,
                                            own_b + buffer * SIZE_B + here * LoaderB::STRIDE);
            }
            if (k + 1 == BLOCK_K && has_next) {
                stash(1 - buffer);
                if (SETS == 2) {
                    fragments[0].read(own_a + (1 - buffer) * SIZE_A, own_b + (1 - buffer) * SIZE_B);
                }
            }
            fragments[k % SETS].add_to(sums);
        }
    }

    // store
    __syncthreads();
    const bool is_part = problem.splits > 1;
    for (i32 row = threadIdx.x; row < TILE::BLOCK_M; row += TILE::THREADS) {
        const i32 own = min(first_row + row, problem.m - 1);
        row_offsets[row] = is_part ? static_cast<i64>(own) * problem.n
                                   : problem.row_axes.offset(problem.out_rows, own);
    }
    for (i32 column = threadIdx.x; column < TILE::BLOCK_N; column += TILE::THREADS) {
        const i32 own = min(first_column + column, problem.n - 1);
        column_offsets[column] =
            is_part ? own : problem.column_axes.offset(problem.out_columns, own);
    }
    __syncthreads();
    const i32 rows = problem.m - first_row, columns = problem.n - first_column;
    const i64 matrix = static_cast<i64>(split) * problem.batches + batch;
    C* const part_out = partial + matrix * problem.m * problem.n;
    const bool has_part_vectors = problem.n % FRAGMENT<C> == 0;
    auto* const result = out + problem.batch_axes.offset(problem.out_batches, batch);
    constexpr u64 BYTES = sizeof(*result) * FRAGMENT<C>;
    const bool has_vectors =
        problem.has_vectors != 0 && reinterpret_cast<u64>(result) % BYTES == 0;
    constexpr bool IS_PLAIN = is_same<EPILOGUE, Rounded<T>>;
    if constexpr (IS_PLAIN && is_same<T, C>) {
        store_rows<TILE>(is_part ? part_out : result, sums, row_offsets, column_offsets, rows,
                         columns, is_part ? has_part_vectors : has_vectors);
    } else if (is_part) {
        store_rows<TILE>(part_out, sums, row_offsets, column_offsets, rows, columns,
                         has_part_vectors);
    } else if constexpr (IS_PLAIN) {
        store_rows<TILE>(result, sums, row_offsets, column_offsets, rows, columns, has_vectors);
    } else {
        const void* const pointers[] = {extra..., nullptr};
        const ExtraPlace<sizeof...(EXTRA), RANK> extra_place{problem, extras};
        store_chain<TILE, T, EPILOGUE>(result, tiles_b, sums, row_offsets, column_offsets,
                                       extra_place, pointers, batch, first_row, first_column);
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
    const i64 matrix = static_cast<i64>(problem.m) * problem.n;
    const i64 count = matrix * problem.batches;
    const void* const pointers[] = {extra..., nullptr};
    const ExtraPlace<sizeof...(EXTRA), RANK> extra_place{problem, extras};
    for (i64 at = grid_thread(); at < count; at += grid_threads()) {
        const i32 batch = at / matrix;
        const i64 inside = at - batch * matrix;
        const i32 row = inside / problem.n, column = inside - static_cast<i64>(row) * problem.n;

        // compute
        compute_t<T> sum = partial[at];
        for (i32 split = 1; split < problem.splits; ++split) sum += partial[split * count + at];
        const T product = convert<T>(sum);

        // store
        auto* const result = out + problem.batch_axes.offset(problem.out_batches, batch) +
                             problem.row_axes.offset(problem.out_rows, row) +
                             problem.column_axes.offset(problem.out_columns, column);
        if constexpr (is_same<EPILOGUE, Rounded<T>>) {
            *result = product;
        } else {
            const auto element = extra_place.element(batch, row, column);
            *result = EPILOGUE::of(ChainReader<T, sizeof...(EXTRA)>{product, pointers, element});
        }
    }
}
