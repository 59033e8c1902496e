// Batched products of a matrix with a few rows: each element of the wide operand is read once.
//
//   out[b, m, n] = epilogue(sum_k A[b, m, k] * B[b, k, n]), m up to FEW, b m n of up to 8 axes each
//
//   gemm_narrow   A and B any dtypes, T their common float dtype; operands are converted to T,
//                 products are summed by FMA in f32 (T = f64: f64) and rounded to T once; every
//                 architecture. From tile `whole` on blocks sum a part of k and write it to
//                 `partial`, which gemm_split_sum of gemm_tiled.cu adds
//
// Neighbouring lanes read neighbours of B, vectors of WIDTH: along n (a lane keeps COLUMNS columns,
// warps share out k) or along k (IS_ALONG_DEPTH: a warp keeps them, lanes share out k).
// A and B may be Made as in gemm_tiled.cu: a block makes each element of A that it holds once, a
// thread each of B that it reads.
// Rows of A beyond the last are read as the last. The sums of lanes or warps are added in a fixed
// order.
//
// Launch: WARPS * 32 threads; blocks = whole + (tiles - whole) * splits, a tile is FEW rows and
// SPAN columns.
// Shared memory: static, sizeof(compute_t<T>) * FEW * max(NARROW_DEPTH, SPAN * LAYERS).
// Limits: the depth is one axis; extents and blocks below 2^31; vectors of an operand whose address
// is no multiple of 16 bytes are read element by element. k = 0 gives zeros.
// Source: as in tile.cuh; Osama et al., Stream-K (2023), for parts that are added in order.
#include "chain.cuh"
#include "gemm.cuh"

constexpr i32 NARROW_DEPTH = 512;  // k of A that shared memory holds at once

template <typename A, typename B, typename T, i32 FEW, i32 WARPS, i32 COLUMNS, i32 WIDTH,
          bool IS_ALONG_DEPTH>
struct NarrowTile {
    using C = compute_t<T>;
    static constexpr i32 THREADS = WARPS * WARP;
    static constexpr i32 SPAN = COLUMNS * (IS_ALONG_DEPTH ? WARPS : WARP);
    static constexpr i32 LAYERS = IS_ALONG_DEPTH ? 1 : WARPS;  // sums of an element in a block
    static constexpr i32 HELD = FEW * (LAYERS * SPAN > NARROW_DEPTH ? LAYERS * SPAN : NARROW_DEPTH);
    // Of a thread at a time: k along n, vectors of a column along k.
    static constexpr i32 UNROLL = IS_ALONG_DEPTH ? 2 : 8;
    static_assert(IS_ALONG_DEPTH || COLUMNS % WIDTH == 0, "a lane's columns are whole vectors");
    static_assert(NARROW_DEPTH % (WARP * WIDTH * 2) == 0, "lanes share out what is held");

    C (&held)[HELD];
    const B* at[IS_ALONG_DEPTH ? COLUMNS : COLUMNS / WIDTH];  // first k of this thread's columns
    i64 next_k;
    C sums[FEW][COLUMNS];
    Making<A> making_a;
    Making<B> making_b;

    __device__ static __forceinline__ i32 column(i32 number) {
        if constexpr (IS_ALONG_DEPTH) return warp_index() * COLUMNS + number;
        return lane_index() * WIDTH + number / WIDTH * (WARP * WIDTH) + number % WIDTH;
    }
    __device__ __forceinline__ void open(const B* batch, const GemmProblem& problem,
                                         i32 first_column) {
        next_k = problem.b.depth.along[0];
        constexpr i32 STEP = IS_ALONG_DEPTH ? 1 : WIDTH;
#pragma unroll
        for (i32 j = 0; j < COLUMNS; j += STEP) {
            const i32 own = min(first_column + column(j), problem.n - STEP);
            at[j / STEP] = batch + problem.column_axes.offset(problem.b.rows, own);
        }
    }
    // A[m, k] of `count` k from `first` on to shared memory, [FEW][NARROW_DEPTH].
    __device__ __forceinline__ void hold(const A* batch, const GemmProblem& problem, i32 first_row,
                                         i32 first, i32 count) {
        __syncthreads();
        for (i32 i = threadIdx.x; i < FEW * NARROW_DEPTH; i += THREADS) {
            const i32 k = i % NARROW_DEPTH, row = min(first_row + i / NARROW_DEPTH, problem.m - 1);
            if (k >= count) continue;
            const i64 place = problem.row_axes.offset(problem.a.rows, row) +
                              problem.a.depth.along[0] * (first + k);
            held[i] = as_factor<T>(batch[place], making_a);
        }
        __syncthreads();
    }
    template <i32 N>
    __device__ static __forceinline__ Vector<B, N> read(const B* from, bool is_aligned) {
        Vector<B, N> found;
        if (N == 1 || is_aligned) {
            found = load_constant<N>(from);
        } else {
#pragma unroll
            for (i32 i = 0; i < N; ++i) found.lanes[i] = from[i];
        }
        return found;
    }
    // Vectors of every column times the factors of their k.
    __device__ __forceinline__ void add(const Vector<B, WIDTH> (&found)[COLUMNS], i32 k) {
#pragma unroll
        for (i32 row = 0; row < FEW; ++row) {
            const auto factors = load<WIDTH>(held + row * NARROW_DEPTH + k);
#pragma unroll
            for (i32 j = 0; j < COLUMNS; ++j) {
#pragma unroll
                for (i32 i = 0; i < WIDTH; ++i) {
                    const C other = as_factor<T>(found[j].lanes[i], making_b);
                    sums[row][j] = fma_of(factors.lanes[i], other, sums[row][j]);
                }
            }
        }
    }
    // A line of columns times the factors of one k.
    __device__ __forceinline__ void add_line(const Vector<B, WIDTH>* line, i32 k) {
#pragma unroll
        for (i32 row = 0; row < FEW; ++row) {
            const C factor = held[row * NARROW_DEPTH + k];
#pragma unroll
            for (i32 j = 0; j < COLUMNS; ++j) {
                const C other = as_factor<T>(line[j / WIDTH].lanes[j % WIDTH], making_b);
                sums[row][j] = fma_of(factor, other, sums[row][j]);
            }
        }
    }
    // The products of `count` k from `first` on, whose factors of A are held.
    __device__ __forceinline__ void sum(i32 first, i32 count, bool is_aligned) {
        if constexpr (IS_ALONG_DEPTH) return sum_columns(first, count, is_aligned);
        if constexpr (!IS_ALONG_DEPTH) sum_lines(first, count, is_aligned);
    }
    __device__ __forceinline__ void sum_lines(i32 first, i32 count, bool is_aligned) {
        constexpr i32 VECTORS = COLUMNS / WIDTH;
        const auto run = [&](auto lines, i32 k) {
            constexpr i32 LINES = lines.value;
            Vector<B, WIDTH> found[LINES][VECTORS];
#pragma unroll
            for (i32 line = 0; line < LINES; ++line) {
#pragma unroll
                for (i32 j = 0; j < VECTORS; ++j) {
                    const B* const from = at[j] + next_k * (first + k + line * WARPS);
                    found[line][j] = read<WIDTH>(from, is_aligned);
                }
            }
#pragma unroll
            for (i32 line = 0; line < LINES; ++line) add_line(found[line], k + line * WARPS);
        };
        i32 k = warp_index();
#pragma unroll 1
        for (; k + (UNROLL - 1) * WARPS < count; k += UNROLL * WARPS) run(Constant<UNROLL>{}, k);
#pragma unroll 1
        for (; k < count; k += WARPS) run(Constant<1>{}, k);
    }
    // The same where lanes share out k.
    __device__ __forceinline__ void sum_columns(i32 first, i32 count, bool is_aligned) {
        const auto run = [&](auto vectors, i32 k) {
            constexpr i32 VECTORS = vectors.value;
            Vector<B, WIDTH> found[VECTORS][COLUMNS];
#pragma unroll
            for (i32 piece = 0; piece < VECTORS; ++piece) {
#pragma unroll
                for (i32 j = 0; j < COLUMNS; ++j) {
                    const B* const from = at[j] + next_k * (first + k + piece * WARP * WIDTH);
                    found[piece][j] = read<WIDTH>(from, is_aligned);
                }
            }
#pragma unroll
            for (i32 piece = 0; piece < VECTORS; ++piece) {
                add(found[piece], k + piece * WARP * WIDTH);
            }
        };
        i32 k = lane_index() * WIDTH;
#pragma unroll 1
        for (; k + (UNROLL - 1) * WARP * WIDTH < count; k += UNROLL * WARP * WIDTH) {
            run(Constant<UNROLL>{}, k);
        }
#pragma unroll 1
        for (; k < count; k += WARP * WIDTH) run(Constant<1>{}, k);
    }
    // The sums to shared memory, [LAYERS][FEW][SPAN].
    __device__ __forceinline__ void gather() {
        __syncthreads();
        const i32 layer = IS_ALONG_DEPTH ? 0 : warp_index();
#pragma unroll
        for (i32 row = 0; row < FEW; ++row) {
#pragma unroll
            for (i32 j = 0; j < COLUMNS; ++j) {
                C sum = sums[row][j];
                if constexpr (IS_ALONG_DEPTH) {
#pragma unroll
                    for (i32 away = WARP / 2; away > 0; away /= 2) sum += shuffle_xor(sum, away);
                    if (lane_index() != 0) continue;
                }
                held[(layer * FEW + row) * SPAN + column(j)] = sum;
            }
        }
        __syncthreads();
    }
    __device__ __forceinline__ C total(i32 place) const {
        C sum = held[place];
#pragma unroll
        for (i32 layer = 1; layer < LAYERS; ++layer) sum += held[layer * FEW * SPAN + place];
        return sum;
    }
};

// ---- kernel -------------------------------------------------------------------------------------

template <typename A, typename B, typename T, i32 FEW, i32 WARPS, i32 COLUMNS, i32 WIDTH,
          bool IS_ALONG_DEPTH, typename EPILOGUE, i32 RANK, typename... EXTRA>
__global__ void __launch_bounds__(WARPS * 32, 1)
    gemm_narrow(typename EPILOGUE::Result* __restrict__ out, compute_t<T>* __restrict__ partial,
                const A* __restrict__ a, const B* __restrict__ b,
                const __grid_constant__ GemmProblem problem,
                const __grid_constant__ Extras<sizeof...(EXTRA), RANK> extras,
                const EXTRA* __restrict__... extra) {
    using C = compute_t<T>;
    using Own = NarrowTile<A, B, T, FEW, WARPS, COLUMNS, WIDTH, IS_ALONG_DEPTH>;

    // indices
    const Work work(problem);
    const TilePlace tile(problem, work.tile);

    // shared memory
    alignas(16) __shared__ C held[Own::HELD];

    // load and compute
    Own own{held, {}, 0, {}, {}, {}};
    constexpr i32 NUMBERS = Making<A>::numbers() + Making<B>::numbers();
    const void* const pointers[] = {extra..., nullptr};
    own.making_a.begin(pointers + sizeof...(EXTRA) - NUMBERS);
    own.making_b.begin(pointers + sizeof...(EXTRA) - Making<B>::numbers());
    const A* const few = a + problem.batch_axes.offset(problem.a.batches, tile.batch);
    const B* const wide = b + problem.batch_axes.offset(problem.b.batches, tile.batch);
    const bool is_aligned = reinterpret_cast<u64>(wide) % (WIDTH * sizeof(B)) == 0;
    own.open(wide, problem, tile.first_column);
#pragma unroll 1
    for (i32 first = work.k_first; first < work.k_end; first += NARROW_DEPTH) {
        const i32 count = min(work.k_end - first, NARROW_DEPTH);
        own.hold(few, problem, tile.first_row, first, count);
        own.sum(first, count, is_aligned);
    }
    own.gather();

    // store
    const Finish<T, EPILOGUE, RANK, EXTRA...> finish{problem, extras, pointers};
    auto* const result = out + problem.batch_axes.offset(problem.out_batches, tile.batch);
    C* const part = partial + static_cast<i64>(work.part) * (FEW * Own::SPAN);
    for (i32 place = threadIdx.x; place < FEW * Own::SPAN; place += Own::THREADS) {
        const C sum = own.total(place);
        const i32 row = tile.first_row + place / Own::SPAN;
        const i32 column = tile.first_column + place % Own::SPAN;
        if (work.part >= 0) {
            part[place] = sum;
        } else if (row < problem.m && column < problem.n) {
            result[problem.row_axes.offset(problem.out_rows, row) +
                   problem.column_axes.offset(problem.out_columns, column)] =
                finish(sum, tile.batch, row, column);
        }
    }
}
