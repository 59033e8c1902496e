// A product of tiles in registers, unrolled: code whose compile time others are measured in.
//
//   out[i, j] = sum over k of a[k, i] * b[k, j], 8 x 8 results a thread
//
//   yardstick    f32; every architecture
//
// Launch: one block of 256 threads. Shared memory: 8 KiB. Limits: whole tiles of 128 x 128 x 8.
#include "common.cuh"

__global__ void __launch_bounds__(256)
    yardstick(f32* __restrict__ out, const f32* __restrict__ a, const f32* __restrict__ b,
              i32 steps) {
    constexpr i32 SIDE = 128, DEPTH = 8, OWN = 8;
    static_assert(SIDE * DEPTH % 256 == 0, "every thread brings as many elements");
    __shared__ f32 left[DEPTH][SIDE], right[DEPTH][SIDE];
    const i32 thread = static_cast<i32>(threadIdx.x);
    const i32 row = thread / (SIDE / OWN) * OWN, column = thread % (SIDE / OWN) * OWN;
    f32 sums[OWN][OWN] = {};
    for (i32 step = 0; step < steps; ++step) {
#pragma unroll
        for (i32 part = 0; part < SIDE * DEPTH / 256; ++part) {
            const i32 at = part * 256 + thread;
            left[at / SIDE][at % SIDE] = a[step * SIDE * DEPTH + at];
            right[at / SIDE][at % SIDE] = b[step * SIDE * DEPTH + at];
        }
        __syncthreads();
#pragma unroll
        for (i32 k = 0; k < DEPTH; ++k) {
#pragma unroll
            for (i32 i = 0; i < OWN; ++i) {
#pragma unroll
                for (i32 j = 0; j < OWN; ++j) {
                    sums[i][j] += left[k][row + i] * right[k][column + j];
                }
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (i32 i = 0; i < OWN; ++i) {
#pragma unroll
        for (i32 j = 0; j < OWN; ++j) {
            out[(row + i) * SIDE + column + j] = sums[i][j];
        }
    }
}
