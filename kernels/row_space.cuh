// Rows of a tensor that are computed whole: what softmax.cu, layer_norm.cu and scan.cu share.
//
//   RowSpace   outer axes number the rows, inner axes the elements of a row; SETS sets of strides.
//              The host packs it: softcuda/backends/cuda/row_spaces.py
//
// `steps` lie beside what all blocks read, in one line of the parameters: another line that is in
// no cache costs a block as much as its first load.
// Indices and offsets have 64 bits.
#pragma once

#include "block_reduce.cuh"
#include "converting.cuh"
#include "reductions.cuh"

constexpr i32 THREADS = 256;
constexpr i32 MAX_RANK = 64;

template <i32 SETS, i32 RANK = MAX_RANK>
struct RowSpace {
    i64 rows;
    i64 length;
    i32 outer_rank;  // axes 0 to outer_rank - 1, innermost first, then the inner ones
    i32 inner_rank;
    i32 team_log;  // log2 of a team, or of a block's columns
    i32 is_even;   // vectors everywhere, if the pointers are aligned
    i64 steps[SETS];  // strides of the innermost outer axis
    Divisor64 extents[RANK];
    i64 strides[SETS][RANK];

    // Offset of number `n` of the axes from `axis` up to `end`; nothing is divided for the last.
    __device__ __forceinline__ i64 offset(i32 set, i64 n, i32 axis, i32 end) const {
        if (axis == end) return 0;
        i64 result = 0;
        i64 left = n;
#pragma unroll 1
        for (; axis + 1 < end && left != 0; ++axis) {
            const i64 above = extents[axis].quotient(left);
            result += extents[axis].remainder(left, above) * strides[set][axis];
            left = above;
        }
        return result + left * strides[set][axis];
    }

    __device__ __forceinline__ i64 row(i32 set, i64 n) const {
        return offset(set, n, 0, outer_rank);
    }

    // The same; where one axis numbers the rows, of what all blocks read.
    __device__ __forceinline__ i64 near_row(i32 set, i64 n) const {
        return outer_rank <= 1 ? n * steps[set] : row(set, n);
    }

    // Elements from one element of a row to the next, where one axis runs along it.
    __device__ __forceinline__ i64 row_step(i32 set) const { return strides[set][outer_rank]; }

    __device__ __forceinline__ i64 element(i32 set, i64 n) const {
        return offset(set, n, outer_rank, outer_rank + inner_rank);
    }
};

// Whether vectors of 16 bytes may be moved at an address.
__device__ __forceinline__ bool is_vector_address(const void* address) {
    return reinterpret_cast<u64>(address) % 16 == 0;
}
