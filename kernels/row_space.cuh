// Rows of a tensor that are computed whole: what softmax.cu, layer_norm.cu and scan.cu share.
//
//   RowSpace   outer axes number the rows, inner axes the elements of a row; SETS sets of strides.
//              The host packs it: softcuda/backends/cuda/row_spaces.py
//   Row        the elements of a row in the registers of a team of threads, read and written by
//              vectors: as many as fit, each at a distance of the team
//
// Indices and offsets have 64 bits.
#pragma once

#include "block_reduce.cuh"
#include "converting.cuh"

constexpr i32 THREADS = 256;
constexpr i32 MAX_RANK = 64;

template <i32 SETS>
struct RowSpace {
    i64 rows;
    i64 length;
    i32 outer_rank;  // axes 0 to outer_rank - 1, innermost first, then the inner ones
    i32 inner_rank;
    i32 team_log;  // log2 of a team, or of a block's columns
    i32 is_even;   // vectors everywhere, if the pointers are aligned
    Divisor64 extents[MAX_RANK];
    i64 strides[SETS][MAX_RANK];

    // Offset of number `n` of the axes from `axis` on.
    __device__ __forceinline__ i64 offset(i32 set, i64 n, i32 axis) const {
        i64 result = 0;
#pragma unroll 1
        for (i64 left = n; left != 0; ++axis) {
            const i64 above = extents[axis].quotient(left);
            result += extents[axis].remainder(left, above) * strides[set][axis];
            left = above;
        }
        return result;
    }

    __device__ __forceinline__ i64 row(i32 set, i64 n) const { return offset(set, n, 0); }

    __device__ __forceinline__ i64 element(i32 set, i64 n) const {
        if (inner_rank <= 1) return n * strides[set][outer_rank];
        return offset(set, n, outer_rank);
    }
};

// Whether vectors of 16 bytes may be moved at an address.
__device__ __forceinline__ bool is_vector_address(const void* address) {
    return reinterpret_cast<u64>(address) % 16 == 0;
}

template <typename T>
struct Row {
    using Value = compute_t<T>;
    static constexpr i32 WIDTH = 16 / sizeof(T);
    static constexpr i32 VECTORS = 32 / (WIDTH > 4 ? WIDTH : 4);  // 64 or 128 bytes a thread
    static constexpr i32 ELEMENTS = WIDTH * VECTORS;

    Value x[ELEMENTS];
    i64 first;   // element of x[0]
    i64 stride;  // elements from one vector to the next
    i64 length;

    static __device__ __forceinline__ bool fits(i64 length, i32 team) {
        return length <= static_cast<i64>(team) * ELEMENTS;
    }

    __device__ __forceinline__ bool has(i32 vector) const {
        return first + vector * stride < length;
    }

    // What lies beyond the row becomes `fill`.
    __device__ __forceinline__ void load_row(const T* row, i32 lane, i32 team, i64 elements,
                                             Value fill) {
        first = lane * WIDTH;
        stride = team * WIDTH;
        length = elements;
        Vector<T, WIDTH> held[VECTORS];
#pragma unroll
        for (i32 k = 0; k < VECTORS; ++k) {
            if (has(k)) held[k] = load_streaming<WIDTH>(row + first + k * stride);
        }
#pragma unroll
        for (i32 i = 0; i < ELEMENTS; ++i) {
            x[i] = has(i / WIDTH) ? convert<Value>(held[i / WIDTH].lanes[i % WIDTH]) : fill;
        }
    }

    __device__ __forceinline__ void store_row(T* row) const {
#pragma unroll
        for (i32 k = 0; k < VECTORS; ++k) {
            Vector<T, WIDTH> vector;
#pragma unroll
            for (i32 lane = 0; lane < WIDTH; ++lane) {
                vector.lanes[lane] = convert<T>(x[k * WIDTH + lane]);
            }
            if (has(k)) store_streaming(row + first + k * stride, vector);
        }
    }
};
