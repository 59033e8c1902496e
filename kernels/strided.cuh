// Offsets of a strided loop: one index to a coordinate an axis, by division, to an offset an
// operand. The axes are fused on the host (softcuda/backends/cuda/axes.py), which packs the struct.
//
//   offset[k] = sum over axes a of coordinate[a] * strides[k][a]
//
// RANK   axes, innermost first; axes beyond those of the loop have extent 1 and stride 0
// COUNT  operands that have strides of their own
// INDEX  i32 where count and offsets are below 2^31 (division by multiplication), else i64
//
// Limits: indices are not negative; strides may be negative or 0.
#pragma once

#include "common.cuh"

// 64-bit division by a number that is known at launch: the machine's own, slow.
struct WideDivisor {
    i64 divisor;

    __device__ __forceinline__ i64 quotient(i64 n) const {
        return static_cast<i64>(static_cast<u64>(n) / static_cast<u64>(divisor));
    }
    __device__ __forceinline__ i64 remainder(i64 n, i64 quotient_of_n) const {
        return n - quotient_of_n * divisor;
    }
};

template <typename INDEX>
using divisor_t = select_t<is_same<INDEX, i32>, FastDivisor, WideDivisor>;

template <i32 COUNT, typename INDEX>
struct Offsets {
    INDEX at[COUNT];
    INDEX inner;  // coordinate along the innermost axis
};

template <i32 RANK, i32 COUNT, typename INDEX>
struct Axes {
    static_assert(RANK >= 1 && RANK <= 64, "tensors have at most 64 axes");
    static_assert(COUNT >= 1, "an operand without strides of its own needs no Axes");
    static_assert(is_integer<INDEX>, "INDEX is i32 or i64");

    divisor_t<INDEX> extents[RANK];
    INDEX strides[COUNT][RANK];

    // Offsets of iteration `index` of the loop, the innermost axis running fastest.
    __device__ __forceinline__ Offsets<COUNT, INDEX> offsets(INDEX index) const {
        constexpr i32 UNROLLED = RANK <= 8 ? RANK : 1;
        Offsets<COUNT, INDEX> result = {};
        INDEX rest = index;
#pragma unroll UNROLLED
        for (i32 axis = 0; axis < RANK - 1; ++axis) {
            const INDEX outer = extents[axis].quotient(rest);
            const INDEX coordinate = extents[axis].remainder(rest, outer);
            if (axis == 0) result.inner = coordinate;
            advance(result, axis, coordinate);
            rest = outer;
        }
        if (RANK == 1) result.inner = rest;
        advance(result, RANK - 1, rest);
        return result;
    }

    __device__ __forceinline__ void advance(Offsets<COUNT, INDEX>& result, i32 axis,
                                            INDEX coordinate) const {
#pragma unroll
        for (i32 k = 0; k < COUNT; ++k) result.at[k] += coordinate * strides[k][axis];
    }
};
