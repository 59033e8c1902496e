// Tiles of the operands of a product of matrices: from any strides to shared memory.
//
//   MultiIndex    up to MAX_AXES axes that count as one index, innermost first; with Strides it
//                 gives the offset of an index in one operand
//   Tile          extents of a block's tile and of a thread's part, and what follows from them
//   TileLoader    fetch: a tile's elements of one operand into registers; stash: from there into
//                 shared memory, [BLOCK_K][STRIDE], rows beside each other, in the compute type
//
// An operand has rows (m of A, n of B) and a depth (k). Neighbouring threads read neighbours along
// the rows or along the depth, whichever lies closer in memory, as vectors of RUN elements where
// strides, extents and the address allow it: four ways, chosen once a kernel.
//
// Edges: rows beyond the last are read as the last, and never stored by the caller; what lies
// beyond the depth is 0.
// Shared memory: STRIDE is ROWS and one vector more, so that transposed stores spread over the
// banks. Limits: every extent below 2^31; offsets are 64-bit.
// Source: Volkov and Demmel, Benchmarking GPUs to Tune Dense Linear Algebra (2008); Boehm, How to
// Optimize a CUDA Matmul Kernel (2022); Matthews, High-Performance Tensor Contraction without
// Transposition (2018), for operands of several axes.
#pragma once

#include "common.cuh"

constexpr i32 MAX_AXES = 8;
constexpr i32 LANES_M = 8;  // threads of a warp along m, and along n
constexpr i32 LANES_N = 4;

// ---- indices of several axes --------------------------------------------------------------------

struct Strides {
    i64 along[MAX_AXES];
};

struct MultiIndex {
    i32 count;  // at least 1
    FastDivisor extents[MAX_AXES];

    template <typename STRIDES>
    __device__ __forceinline__ i64 offset(const STRIDES& strides, u32 index) const {
        i64 result = 0;
        const i32 last = count - 1;
#pragma unroll 1
        for (i32 axis = 0; axis < last; ++axis) {
            const u32 quotient = extents[axis].quotient(index);
            result += strides.along[axis] * extents[axis].remainder(index, quotient);
            index = quotient;
        }
        return result + strides.along[last] * index;
    }
};

// Where an operand's elements lie, and how they are best read.
struct OperandLayout {
    Strides batches;
    Strides rows;
    Strides depth;
    i32 is_along_depth;  // neighbouring threads read neighbours of k
    i32 has_vectors;     // RUN neighbours are contiguous and never cut by an extent
};

// ---- tiles --------------------------------------------------------------------------------------

template <i32 M, i32 N, i32 K, i32 PART_M, i32 PART_N>
struct Tile {
    static constexpr i32 BLOCK_M = M;
    static constexpr i32 BLOCK_N = N;
    static constexpr i32 BLOCK_K = K;
    static constexpr i32 THREAD_M = PART_M;
    static constexpr i32 THREAD_N = PART_N;
    static constexpr i32 THREADS = (M / PART_M) * (N / PART_N);
    static constexpr i32 WARPS_N = N / (LANES_N * PART_N);
    static constexpr i32 SLAB_ROWS = M / PART_M;  // one row of every thread

    static_assert(M % (LANES_M * PART_M) == 0, "warps tile the block along m");
    static_assert(N % (LANES_N * PART_N) == 0, "warps tile the block along n");
    static_assert(K % 2 == 0, "two sets of fragments take turns");
    static_assert(THREADS % M == 0 || M % THREADS == 0, "threads read whole lines of A");
    static_assert(THREADS % N == 0, "threads read whole lines of B, and store whole rows");
    static_assert(M <= THREADS, "a thread reads one row of A, or whole lines of k");
    static_assert(2 * K <= THREADS, "a thread finds the offset of one k of A or B");
};

template <typename C>
constexpr i32 FRAGMENT = 16 / static_cast<i32>(sizeof(C));  // elements of a shared-memory access

// An element of an operand in the type that it is multiplied in. A sum over private labels comes
// in that type already and is not rounded in between.
template <typename T, typename S>
__device__ __forceinline__ compute_t<T> as_factor(S value) {
    if constexpr (is_same<S, compute_t<T>>) {
        return value;
    } else {
        return convert<compute_t<T>>(convert<T>(value));
    }
}

template <typename S, typename T, i32 ROWS, i32 BLOCK_K, i32 THREADS>
struct TileLoader {
    using C = compute_t<T>;
    static constexpr i32 RUN = FRAGMENT<C>;
    static constexpr i32 STRIDE = ROWS + RUN;
    static constexpr i32 ELEMENTS = ROWS * BLOCK_K / THREADS;
    static constexpr bool CAN_BE_VECTORS = sizeof(S) * RUN <= 16;
    static_assert(ELEMENTS % RUN == 0, "a thread fetches whole vectors");
    static_assert(THREADS % (ROWS / RUN) == 0, "threads fetch whole lines of vectors of rows");
    static_assert(THREADS % BLOCK_K == 0, "threads fetch whole lines of the depth");

    const S* source;         // of the batch
    const i64* row_offsets;  // shared, of the tile's rows
    bool is_along_depth;
    bool is_vector;
    S staged[ELEMENTS];

    // Fills `table` with the offsets of the tile's rows, the first of which is `first` of `rows`.
    __device__ __forceinline__ void open(const S* batch, const OperandLayout& layout,
                                         const MultiIndex& axes, i32 first, i32 rows, i64* table) {
        constexpr u64 BYTES = sizeof(S) * RUN;
        source = batch;
        row_offsets = table;
        is_along_depth = layout.is_along_depth != 0;
        is_vector = CAN_BE_VECTORS && layout.has_vectors != 0 &&
                    reinterpret_cast<u64>(batch) % BYTES == 0;
        const i32 last = rows - (is_vector && !is_along_depth ? RUN : 1);
#pragma unroll 1
        for (i32 row = threadIdx.x; row < ROWS; row += THREADS) {
            table[row] = axes.offset(layout.rows, min(first + row, last));
        }
    }

    // Calls VISIT(piece, row, k) for every piece of WIDTH neighbours that this thread moves.
    template <i32 WIDTH, bool ALONG_DEPTH, typename VISIT>
    __device__ __forceinline__ static void pieces(VISIT visit) {
        constexpr i32 LINE = (ALONG_DEPTH ? BLOCK_K : ROWS) / WIDTH;
        const i32 near = threadIdx.x % LINE * WIDTH;
#pragma unroll
        for (i32 piece = 0; piece < ELEMENTS / WIDTH; ++piece) {
            const i32 far = threadIdx.x / LINE + piece * (THREADS / LINE);
            visit(piece, ALONG_DEPTH ? far : near, ALONG_DEPTH ? near : far);
        }
    }

    template <i32 WIDTH, bool ALONG_DEPTH>
    __device__ __forceinline__ void fetch_as(const i64* depth_offsets, i32 depth) {
        pieces<WIDTH, ALONG_DEPTH>([&](i32 piece, i32 row, i32 k) {
            Vector<S, WIDTH> read{};
            if (k < depth) read = load<WIDTH>(source + row_offsets[row] + depth_offsets[k]);
#pragma unroll
            for (i32 i = 0; i < WIDTH; ++i) staged[piece * WIDTH + i] = read.lanes[i];
        });
    }

    template <i32 WIDTH, bool ALONG_DEPTH>
    __device__ __forceinline__ void stash_as(C* tile) const {
        pieces<WIDTH, ALONG_DEPTH>([&](i32 piece, i32 row, i32 k) {
            Vector<C, WIDTH> written;
#pragma unroll
            for (i32 i = 0; i < WIDTH; ++i) {
                written.lanes[i] = as_factor<T>(staged[piece * WIDTH + i]);
            }
            if constexpr (ALONG_DEPTH) {
#pragma unroll
                for (i32 i = 0; i < WIDTH; ++i) tile[(k + i) * STRIDE + row] = written.lanes[i];
            } else {
                store(tile + k * STRIDE + row, written);
            }
        });
    }

    // Elements whose k is below `depth`, 0 for others; `depth_offsets` are those of the tile's k.
    __device__ __forceinline__ void fetch(const i64* depth_offsets, i32 depth) {
        if constexpr (CAN_BE_VECTORS) {
            if (is_vector && is_along_depth) return fetch_as<RUN, true>(depth_offsets, depth);
            if (is_vector) return fetch_as<RUN, false>(depth_offsets, depth);
        }
        if (is_along_depth) return fetch_as<1, true>(depth_offsets, depth);
        fetch_as<1, false>(depth_offsets, depth);
    }

    __device__ __forceinline__ void stash(C* tile) const {
        if constexpr (CAN_BE_VECTORS) {
            if (is_vector && is_along_depth) return stash_as<RUN, true>(tile);
            if (is_vector) return stash_as<RUN, false>(tile);
        }
        if (is_along_depth) return stash_as<1, true>(tile);
        stash_as<1, false>(tile);
    }
};

// ---- fragments ----------------------------------------------------------------------------------

// A thread's place in the tile: warps row-major, LANES_M x LANES_N threads a warp, every thread
// with groups of WIDTH rows and columns that lie a warp's width apart. Lanes that differ in bit 0
// share B, in bit 1 share A: a vector load of a half-warp then is one access of shared memory.
template <typename TILE, typename C>
struct Place {
    static constexpr i32 WIDTH = FRAGMENT<C>;
    i32 warp_m, warp_n, lane_m, lane_n;

    __device__ __forceinline__ Place() {
        const i32 lane = lane_index();
        warp_m = warp_index() / TILE::WARPS_N;
        warp_n = warp_index() % TILE::WARPS_N;
        lane_m = (lane & 1) | (lane >> 2 & 6);
        lane_n = lane >> 1 & 3;
    }
    __device__ __forceinline__ i32 row(i32 i) const {
        return (warp_m * TILE::THREAD_M + i / WIDTH * WIDTH) * LANES_M + lane_m * WIDTH + i % WIDTH;
    }
    __device__ __forceinline__ i32 column(i32 j) const {
        return (warp_n * TILE::THREAD_N + j / WIDTH * WIDTH) * LANES_N + lane_n * WIDTH + j % WIDTH;
    }
    __device__ __forceinline__ i32 slab_row() const { return warp_m * LANES_M + lane_m; }
    __device__ static __forceinline__ i32 row_of_slab(i32 slab_row, i32 i) {
        return (slab_row / LANES_M * TILE::THREAD_M + i / WIDTH * WIDTH) * LANES_M +
               slab_row % LANES_M * WIDTH + i % WIDTH;
    }
};

__device__ __forceinline__ f32 fma_of(f32 a, f32 b, f32 c) { return __fmaf_rn(a, b, c); }
__device__ __forceinline__ f64 fma_of(f64 a, f64 b, f64 c) { return __fma_rn(a, b, c); }

template <typename TILE, typename C>
struct Fragments {
    static constexpr i32 WIDTH = FRAGMENT<C>;
    C a[TILE::THREAD_M];
    C b[TILE::THREAD_N];

    // `line_a` and `line_b` start at this thread's first row and column.
    __device__ __forceinline__ void read(const C* line_a, const C* line_b) {
#pragma unroll
        for (i32 i = 0; i < TILE::THREAD_M; i += WIDTH) {
            const auto piece = load<WIDTH>(line_a + i * LANES_M);
#pragma unroll
            for (i32 lane = 0; lane < WIDTH; ++lane) a[i + lane] = piece.lanes[lane];
        }
#pragma unroll
        for (i32 j = 0; j < TILE::THREAD_N; j += WIDTH) {
            const auto piece = load<WIDTH>(line_b + j * LANES_N);
#pragma unroll
            for (i32 lane = 0; lane < WIDTH; ++lane) b[j + lane] = piece.lanes[lane];
        }
    }
    __device__ __forceinline__ void add_to(C (&sums)[TILE::THREAD_M][TILE::THREAD_N]) const {
#pragma unroll
        for (i32 i = 0; i < TILE::THREAD_M; ++i) {
#pragma unroll
            for (i32 j = 0; j < TILE::THREAD_N; ++j) {
                sums[i][j] = fma_of(a[i], b[j], sums[i][j]);
            }
        }
    }
};
