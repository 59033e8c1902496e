// Rows of a tensor that are computed whole: what softmax.cu, layer_norm.cu and scan.cu share.
//
//   RowSpace   outer axes number the rows, inner axes the elements of a row; SETS sets of strides.
//              The host packs it: softcuda/backends/cuda/row_spaces.py
//   Row        the elements of a row in the registers of a team of threads, VECTORS of 16 bytes a
//              thread, each at a distance of the team
//
// Indices and offsets have 64 bits.
#pragma once

#include "block_reduce.cuh"
#include "converting.cuh"
#include "packed.cuh"
#include "reductions.cuh"

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

    __device__ __forceinline__ i64 element(i32 set, i64 n) const {
        return offset(set, n, outer_rank, outer_rank + inner_rank);
    }
};

// Whether vectors of 16 bytes may be moved at an address.
__device__ __forceinline__ bool is_vector_address(const void* address) {
    return reinterpret_cast<u64>(address) % 16 == 0;
}

template <typename T, i32 VECTORS>
struct Row {
    using Value = compute_t<T>;
    static constexpr i32 WIDTH = 16 / sizeof(T);
    static constexpr i32 ELEMENTS = WIDTH * VECTORS;

    Value x[ELEMENTS];
    i32 first;   // element of x[0]
    i32 stride;  // elements from one vector to the next
    i32 length;  // elements of the row

    __device__ __forceinline__ Row(i32 lane, i32 team, i32 elements)
        : first(lane * WIDTH), stride(team * WIDTH), length(elements) {}

    // Elements of the row from the first of a vector on.
    __device__ __forceinline__ i32 left(i32 vector) const {
        return length - first - vector * stride;
    }
    __device__ __forceinline__ bool has(i32 i) const { return i % WIDTH < left(i / WIDTH); }
    __device__ __forceinline__ bool is_full() const { return length == VECTORS * stride; }

    // What lies beyond the row becomes `fill`; `aligned`: rows are vectors from end to end.
    __device__ __forceinline__ void load_row(const T* row, bool aligned, Value fill) {
        if (aligned) {
            Packed<T, WIDTH> held[VECTORS];
#pragma unroll
            for (i32 k = 0; k < VECTORS; ++k) {
                held[k].fill(convert<T>(fill));
                if (left(k) > 0) held[k].load_streaming(row + first + k * stride);
            }
#pragma unroll
            for (i32 i = 0; i < ELEMENTS; ++i) {
                x[i] = convert<Value>(held[i / WIDTH].lane(i % WIDTH));
            }
        } else {
#pragma unroll
            for (i32 i = 0; i < ELEMENTS; ++i) {
                const i32 at = first + i / WIDTH * stride + i % WIDTH;
                x[i] = has(i) ? convert<Value>(row[at]) : fill;
            }
        }
    }

    // The sum of MADE(i) for all elements of the thread: trees of a few at a time, for the sake of
    // registers.
    template <typename MADE>
    __device__ __forceinline__ Value sum(MADE made) const {
        constexpr i32 GROUP = ELEMENTS < 8 ? ELEMENTS : 8;
        const auto plus = [](Value a, Value b) { return a + b; };
        Value sums[ELEMENTS / GROUP];
#pragma unroll
        for (i32 k = 0; k < ELEMENTS / GROUP; ++k) {
            Value some[GROUP];
#pragma unroll
            for (i32 i = 0; i < GROUP; ++i) some[i] = made(k * GROUP + i);
            sums[k] = tree(some, plus);
        }
        return tree(sums, plus);
    }

    __device__ __forceinline__ void store_row(T* row, bool aligned) const {
#pragma unroll
        for (i32 k = 0; k < VECTORS; ++k) {
            T* const to = row + first + k * stride;
            Vector<T, WIDTH> vector;
#pragma unroll
            for (i32 lane = 0; lane < WIDTH; ++lane) {
                vector.lanes[lane] = convert<T>(x[k * WIDTH + lane]);
                if (!aligned && has(k * WIDTH + lane)) to[lane] = vector.lanes[lane];
            }
            if (aligned && left(k) > 0) store_streaming(to, vector);
        }
    }
};
