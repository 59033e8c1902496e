// Walks over an index space of any rank, its rank known at launch: one cubin serves every rank.
//
//   n -> coordinates, innermost axis first -> sum of coordinate * stride, for COUNT operands
//
//   Walk          extents as divisors, and the strides [elements] of COUNT operands
//   make_outputs  a grid-stride loop that keeps a few outputs of a thread in flight
//   carried_t     the type of a parameter that holds an element of a size: u64, or u128
//
// INDEX is i32 where every number and offset lies below 2^31 (fast division), else i64.
// Shared memory: none. Limits: 64 axes.
// Source: Granlund and Montgomery (1994) for the division; see common.cuh.
#pragma once

#include "common.cuh"

constexpr i32 MAX_RANK = 64;
constexpr i32 THREADS = 256;

template <typename T>
using carried_t = select_t<sizeof(T) == 16, u128, u64>;

// Outputs of a thread in flight; long divisions alone keep it busy.
template <typename INDEX>
constexpr i32 UNROLL = is_same<INDEX, i32> ? 4 : 1;

// Division by an extent beyond 2^31; numbers below it take the short division.
struct WideDivisor {
    i64 divisor;

    __device__ __forceinline__ u64 quotient(u64 n) const {
        const u64 by = static_cast<u64>(divisor);
        if (((n | by) >> 32) == 0) return static_cast<u32>(n) / static_cast<u32>(by);
        return n / by;
    }
    __device__ __forceinline__ u64 remainder(u64 n, u64 quotient_of_n) const {
        return n - quotient_of_n * static_cast<u64>(divisor);
    }
};

template <typename INDEX>
using divisor_t = select_t<is_same<INDEX, i32>, FastDivisor, WideDivisor>;
template <typename INDEX>
using count_t = select_t<is_same<INDEX, i32>, u32, u64>;

// The host packs it: see softcuda/backends/cuda/walks.py.
template <typename INDEX, i32 COUNT>
struct Walk {
    static_assert(is_integer<INDEX>, "INDEX is i32 or i64");
    divisor_t<INDEX> extents[MAX_RANK];
    INDEX strides[COUNT][MAX_RANK];
    i32 rank;
};

// Calls VISIT(axis, coordinate) for every axis of number N, innermost first.
template <typename INDEX, typename VISIT>
__device__ __forceinline__ void visit_axes(const divisor_t<INDEX>* extents, i32 rank, i64 n,
                                           VISIT visit) {
    auto rest = static_cast<count_t<INDEX>>(n);
    for (i32 axis = 0; axis + 1 < rank; ++axis) {
        const auto above = extents[axis].quotient(rest);
        visit(axis, static_cast<INDEX>(extents[axis].remainder(rest, above)));
        rest = above;
    }
    if (rank > 0) visit(rank - 1, static_cast<INDEX>(rest));
}

// Offset [elements] of number N in the walk's operand WHICH.
template <i32 WHICH, typename INDEX, i32 COUNT>
__device__ __forceinline__ INDEX offset_of(const Walk<INDEX, COUNT>& walk, i64 n) {
    static_assert(WHICH < COUNT, "the walk has that operand");
    INDEX offset = 0;
    visit_axes<INDEX>(walk.extents, walk.rank, n, [&](i32 axis, INDEX coordinate) {
        offset += coordinate * walk.strides[WHICH][axis];
    });
    return offset;
}

// out[n] = MAKE(n) for every n below COUNT.
template <typename INDEX, typename T, typename MAKE>
__device__ __forceinline__ void make_outputs(T* out, i64 count, MAKE make) {
    constexpr i32 EACH = UNROLL<INDEX>;
    const i64 step = static_cast<i64>(gridDim.x) * (THREADS * EACH);
    const i64 begin = static_cast<i64>(blockIdx.x) * (THREADS * EACH) + threadIdx.x;
    for (i64 first = begin; first < count; first += step) {
        T made[EACH];
#pragma unroll
        for (i32 k = 0; k < EACH; ++k) {
            if (first + k * THREADS < count) made[k] = make(first + k * THREADS);
        }
#pragma unroll
        for (i32 k = 0; k < EACH; ++k) {
            if (first + k * THREADS < count) out[first + k * THREADS] = made[k];
        }
    }
}
