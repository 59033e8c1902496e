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
#include "tile.cuh"
#include "chain.cuh"

constexpr i32 BAND = 8;

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

template <typename T, typename EPILOGUE, typename C, typename... EXTRA>
__device__ __forceinline__ typename EPILOGUE::Result finish(C sum,
                                                            const Offsets<sizeof...(EXTRA)>& at,
                                                            const EXTRA*... extra) {
    i32 number = 0;
    const Offsets<sizeof...(EXTRA)> numbered = at;
    // Braces, unlike a call's parentheses, are evaluated from left to right.
    struct Call {
        typename EPILOGUE::Result result;
        __device__ __forceinline__ Call(T product, EXTRA... values)
            : result(EPILOGUE::apply(product, values...)) {}
    };
    return Call{convert<T>(sum), extra[numbered.of[number++]]...}.result;
}

// ---- fragments ----------------------------------------------------------------------------------

// A thread's place in the tile. Lanes that differ in bit 0 share B, in bit 1 share A: a vector load
// of a half-warp then is one access of shared memory.
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

__device__ __forceinline__ f32 multiply_add(f32 a, f32 b, f32 c) { return __fmaf_rn(a, b, c); }
__device__ __forceinline__ f64 multiply_add(f64 a, f64 b, f64 c) { return __fma_rn(a, b, c); }

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
                sums[i][j] = multiply_add(a[i], b[j], sums[i][j]);
            }
        }
    }
};
