// Tiles of a product of matrices: indices of several axes, a block's tile, a thread's part of it.
//
//   MultiIndex    up to MAX_AXES axes that count as one index, innermost first; with Strides it
//                 gives the offset of an index in one operand
//   Tile          extents of a block's tile and of a thread's part, and what follows from them
//   Place         which rows and columns of the tile a thread sums
//   Layered       how the k of an operand's tile lie in shared memory
//   as_factor     an element as it is multiplied
//   Fragments     a thread's factors of one k, read from shared memory; add_to multiplies them
//
// A thread sums groups of WIDTH rows and columns that lie a warp's width apart, so that its factors
// come by 16-byte reads. Serpentine order keeps one factor of a product for the next one: the other
// factor and the sum then are the only registers read, and Slab of gemm.cuh sees to it that they
// lie in different banks of the register file. Even rows come before odd ones, so that a bank
// changes its part half as often.
// Source: Volkov and Demmel, Benchmarking GPUs to Tune Dense Linear Algebra (2008); Scott Gray,
// maxas SGEMM (2014), for the order of lanes and products; Boehm, How to Optimize a CUDA Matmul
// Kernel (2022); Huerta et al., Analyzing Modern NVIDIA GPU Cores (2025), for register banks.
#pragma once

#include "made.cuh"

constexpr i32 MAX_AXES = 8;

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

// ---- tiles --------------------------------------------------------------------------------------

template <i32 N>
struct Constant {
    static constexpr i32 value = N;
};

template <typename C>
constexpr i32 FRAGMENT = 16 / static_cast<i32>(sizeof(C));  // elements of a shared-memory access

// DEPTHS tiles of BLOCK_K are in shared memory at once; WIDE_M threads of a warp lie along m. The
// copies of a step start before its k FETCH. WAYS groups of warps sum all of the tile, each a slice
// of the k of a step.
template <i32 M, i32 N, i32 K, i32 PART_M, i32 PART_N, i32 DEPTHS, i32 WIDE_M, i32 FETCH, i32 WAYS>
struct Tile {
    static constexpr i32 BLOCK_M = M;
    static constexpr i32 BLOCK_N = N;
    static constexpr i32 BLOCK_K = K;
    static constexpr i32 THREAD_M = PART_M;
    static constexpr i32 THREAD_N = PART_N;
    static constexpr i32 STAGES = DEPTHS;
    static constexpr i32 LANES_M = WIDE_M;
    static constexpr i32 FETCH_K = FETCH;
    static constexpr i32 LANES_N = WARP / WIDE_M;
    static constexpr i32 SLICES = WAYS;
    static constexpr i32 SLICE_K = K / WAYS;
    static constexpr i32 SLICE_WARPS = (M / PART_M) * (N / PART_N) / WARP;
    static constexpr i32 THREADS = SLICE_WARPS * WARP * WAYS;
    static constexpr i32 WARPS_N = N / (LANES_N * PART_N);

    static_assert(M % (LANES_M * PART_M) == 0, "warps tile the block along m");
    static_assert(N % (LANES_N * PART_N) == 0, "warps tile the block along n");
    static_assert(SLICE_K * WAYS == K, "slices are alike");
    static_assert(SLICE_K % (WAYS == 1 ? 2 : 4) == 0, "two sets of fragments take turns");
    static_assert(THREADS % M == 0 && THREADS % N == 0, "threads read whole lines of rows");
    static_assert(THREADS % K == 0, "threads read whole lines of the depth");
    static_assert(2 * K <= THREADS, "a thread finds the offset of one k of A or B");
    static_assert(STAGES >= 2, "one stage is filled while another is read");
    static_assert(FETCH_K >= 0 && FETCH_K + 1 < SLICE_K, "copies start before the step's barrier");
};

// A thread's place in the tile: warps row-major, LANES_M x LANES_N threads a warp. Lanes that
// differ in bit 0 share B (LANES_M = 8), in bit 1 share A: a vector load of a half-warp then is
// one access of shared memory.
template <typename TILE, typename C>
struct Place {
    static constexpr i32 WIDTH = FRAGMENT<C>;
    static constexpr i32 LANES_M = TILE::LANES_M, LANES_N = TILE::LANES_N;
    static_assert(LANES_M == 8 || LANES_M == 4, "the warp's lanes are 8 x 4 or 4 x 8");
    i32 slice, warp_m, warp_n, lane_m, lane_n;

    __device__ __forceinline__ Place() {
        const i32 lane = lane_index();
        const i32 of_eight = (lane & 1) | (lane >> 2 & 6), of_four = lane >> 1 & 3;
        const i32 warp = warp_index() % TILE::SLICE_WARPS;
        slice = warp_index() / TILE::SLICE_WARPS;
        warp_m = warp / TILE::WARPS_N;
        warp_n = warp % TILE::WARPS_N;
        lane_m = LANES_M == 8 ? of_eight : of_four;
        lane_n = LANES_M == 8 ? of_four : of_eight;
    }
    __device__ __forceinline__ i32 row(i32 i) const {
        return (warp_m * TILE::THREAD_M + i / WIDTH * WIDTH) * LANES_M + lane_m * WIDTH + i % WIDTH;
    }
    __device__ __forceinline__ i32 column(i32 j) const {
        return (warp_n * TILE::THREAD_N + j / WIDTH * WIDTH) * LANES_N + lane_n * WIDTH + j % WIDTH;
    }
};

// ---- shared memory ------------------------------------------------------------------------------

// Lanes of a warp store the same place of several GROUPs of k in 32 / (BLOCK_K / GROUP) rows: with
// the gap these lie in different banks, up to a BLOCK_K of 32.
template <typename C, i32 ROWS, i32 BLOCK_K>
struct Layered {
    static constexpr i32 STRIDE = ROWS + FRAGMENT<C>;
    static constexpr i32 GROUP = 4;  // k without a gap
    static constexpr i32 GAP = sizeof(C) != 4 || BLOCK_K < 16 ? 0 : BLOCK_K == 16 ? 8 : 4;
    static constexpr i32 SIZE = BLOCK_K * STRIDE + BLOCK_K / GROUP * GAP;
    static_assert(GAP % FRAGMENT<C> == 0 && BLOCK_K % GROUP == 0, "lines of k stay aligned");

    // Where k begins. Of k and a multiple of GROUP, or of parts of one GROUP, it is a sum.
    __device__ static constexpr __forceinline__ i32 line(i32 k) {
        return k * STRIDE + k / GROUP * GAP;
    }
};

// ---- factors ------------------------------------------------------------------------------------

// An element of an operand in the type that it is multiplied in. A sum over private labels comes
// in that type already and is not rounded in between.
template <typename T, typename S>
__device__ __forceinline__ compute_t<T> as_factor(S value) {
    if constexpr (is_same<S, compute_t<T>>) {
        return value;
    } else if constexpr (is_float<S>) {
        return convert<compute_t<T>>(value);
    } else {
        return convert<compute_t<T>>(convert<T>(value));
    }
}
// The same of an element that may have to be made first.
template <typename T, typename S>
__device__ __forceinline__ compute_t<T> as_factor(S element, const Making<S>& making) {
    return as_factor<T>(making.made(element));
}

// ---- fragments ----------------------------------------------------------------------------------

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
            const auto piece = load<WIDTH>(line_a + i * TILE::LANES_M);
#pragma unroll
            for (i32 lane = 0; lane < WIDTH; ++lane) a[i + lane] = piece.lanes[lane];
        }
#pragma unroll
        for (i32 j = 0; j < TILE::THREAD_N; j += WIDTH) {
            const auto piece = load<WIDTH>(line_b + j * TILE::LANES_N);
#pragma unroll
            for (i32 lane = 0; lane < WIDTH; ++lane) b[j + lane] = piece.lanes[lane];
        }
    }
    __device__ __forceinline__ void add_to(C (&sums)[TILE::THREAD_M][TILE::THREAD_N]) const {
#pragma unroll
        for (i32 j = 0; j < TILE::THREAD_N; ++j) {
#pragma unroll
            for (i32 turn = 0; turn < TILE::THREAD_M; ++turn) {
                const i32 walk = j % 2 == 0 ? turn : TILE::THREAD_M - 1 - turn;
                const i32 i = walk * 2 < TILE::THREAD_M ? walk * 2 : walk * 2 - TILE::THREAD_M + 1;
                sums[i][j] = fma_of(a[i], b[j], sums[i][j]);
            }
        }
    }
};
