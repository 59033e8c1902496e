// softmax and log_softmax of rows that fill the registers of teams of threads.
//
//   out[r, i] = exp(x[r, i] - m[r]) / sum_i exp(x[r, i] - m[r]),  m[r] = max_i x[r, i]
//   out[r, i] = x[r, i] - m[r] - log(sum_i exp(x[r, i] - m[r]))              where is_log is set
//
//   softmax_full   TEAM threads a row of TEAM * VECTORS vectors of 16 bytes, read and written once
//   T: f16 bf16 f32 f64; computed in f32 (f64)
//
// Launch: BLOCK threads a block; x counts teams; with AHEAD as many blocks as the device holds go
// over all rows.
// Shared memory: AHEAD * VECTORS vectors a thread, two pairs of numbers a warp.
// Limits: those of full_row.cuh. NaN anywhere in a row, +inf, or -inf everywhere gives NaN.
// Source: Milakov and Gimelshein, Online normalizer calculation for softmax (2018).
#include "full_row.cuh"
#include "softmax_row.cuh"

// Compilers for architectures below sm_90 take more registers for 16-bit rows than six blocks have.
template <typename T, i32 BLOCK, i32 BLOCKS>
constexpr i32 softmax_blocks = __CUDA_ARCH__ < 900 && is_16_bit<T> && BLOCKS > 5
                                   ? blocks_held<BLOCK, 5>
                                   : blocks_held<BLOCK, BLOCKS>;

// Rows of one axis that fill the vectors of their teams, `step` elements apart.
template <typename T, i32 VECTORS, i32 TEAM, i32 BLOCK, i32 BLOCKS, i32 AHEAD, bool IS_FIRST>
__global__ void __launch_bounds__(BLOCK, (softmax_blocks<T, BLOCK, BLOCKS>))
    softmax_full(T* __restrict__ out, const T* __restrict__ source, i32 is_log, i64 rows,
                 i64 step) {
    static_assert(is_float<T>, "the result is of floats");
    using Value = compute_t<T>;
    // shared memory: of a row and of the next, which some warps begin while others read
    __shared__ Found<Value> slots[1 + (AHEAD > 0)][BLOCK / WARP];

    const auto write = [&](auto aligned) {
        constexpr bool ALIGNED = is_same<decltype(aligned), Every>;
        using Row = FullRow<T, VECTORS, TEAM, BLOCK, AHEAD, IS_FIRST, ALIGNED>;
        Row row(rows);
        i32 turn = 0;
        row.for_each(source, step, [&] {
            // compute
            const auto finish = finish_of<T>(row, is_log, FixedTeam<TEAM>{}, TEAM, slots[turn]);
            if constexpr (AHEAD > 0) turn ^= 1;
            // store
#pragma unroll
            for (i32 k = 0; k < VECTORS; ++k) {
                Value y[Row::WIDTH];
#pragma unroll
                for (i32 i = 0; i < Row::WIDTH; ++i) {
                    const Value x = row.x[k * Row::WIDTH + i];
                    y[i] = is_log ? (x - finish.from) + finish.scale : x * finish.scale;
                }
                row.store(out, k, y);
            }
        });
    };
    if (is_vector_address(out) && is_vector_address(source)) {
        write(Every{});
    } else {
        write(Cut{});
    }
}
