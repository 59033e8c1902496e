// What layer_norm.cu and layer_norm_full.cu share.
//
//   inverse_deviation   1 / sqrt(variance + eps)
//   unrelated           a vector whose lanes are converted where they are used
//   scaled              x * weight + bias
//   norm_blocks         blocks that a multiprocessor holds
//   standardise         a row in registers brought to mean 0 and deviation 1
//
// Source: Ba, Kiros and Hinton, Layer normalization (2016).
#pragma once

#include "block_reduce.cuh"
#include "moments.cuh"
#include "packed.cuh"

template <typename VALUE>
__device__ __forceinline__ VALUE inverse_deviation(VALUE variance, f64 eps) {
    return divide(VALUE(1), square_root(add(variance, static_cast<VALUE>(eps))));
}

// 16-bit lanes, to be converted where they are used: as numbers that stay they would take twice the
// registers.
template <typename T, i32 WIDTH>
__device__ __forceinline__ Packed<T, WIDTH> unrelated(Packed<T, WIDTH> vector) {
    if constexpr (is_16_bit<T>) {
#pragma unroll
        for (u32& word : vector.raw.words) word = ptx::unrelated(word);
    }
    return vector;
}

// x * weight + bias; what is rounded to 16 bits is not rounded before.
template <typename T>
__device__ __forceinline__ compute_t<T> scaled(compute_t<T> x, compute_t<T> weight,
                                               compute_t<T> bias) {
    if constexpr (is_16_bit<T>) {
        return __fmaf_rn(x, weight, bias);
    } else {
        return x * weight + bias;
    }
}

// Compilers for architectures below sm_90 take more registers for 16-bit rows than four blocks
// have.
template <typename T, i32 VECTORS, i32 BLOCK, i32 BLOCKS>
constexpr i32 norm_blocks = __CUDA_ARCH__ < 900 && is_16_bit<T> && VECTORS > 2 && BLOCKS > 3
                                ? blocks_held<BLOCK, 3>
                                : blocks_held<BLOCK, BLOCKS>;

// The sum of a number of every thread of a team.
template <typename VALUE>
__device__ __forceinline__ VALUE team_sum(VALUE value, i32 team, VALUE* slots) {
    const auto sum = [](VALUE a, VALUE b) { return add(a, b); };
    value = lanes_total(value, team < WARP ? team : WARP, sum);
    if (team <= WARP) return value;
    return lanes_total(warps_value(value, team / WARP, slots), team / WARP, sum);
}

// Two passes over the row: its mean, then the squares of what is left. `share` is 1 / length. What
// is rounded to 16 bits needs neither a division nor a root to the last bit.
template <typename T, typename ROW, i32 WARPS>
__device__ __forceinline__ void standardise(ROW& row, compute_t<T> eps, compute_t<T> share,
                                            i32 team, compute_t<T> (&slots)[2][WARPS]) {
    using Value = compute_t<T>;
    const auto sum = [](Value a, Value b) { return add(a, b); };
    const Value count = static_cast<Value>(row.length);
    const Value some = team_sum(row.joined([&](i32 i) { return row.x[i]; }, sum), team, slots[0]);
    Value mean;
    if constexpr (is_16_bit<T>) {
        const Value near = some * share;
        mean = __fmaf_rn(__fmaf_rn(-near, count, some), share, near);
    } else {
        mean = divide(some, count);
    }
    const auto squared = [&](i32 i) { return row.x[i] * row.x[i]; };
    Value squares;
    if (row.is_full()) {
        squares = row.joined(
            [&](i32 i) {
                row.x[i] -= mean;
                return squared(i);
            },
            sum);
    } else {
        squares = row.joined(
            [&](i32 i) {
                row.x[i] = row.has(i) ? row.x[i] - mean : Value(0);
                return squared(i);
            },
            sum);
    }
    const Value total = team_sum(squares, team, slots[1]);
    Value factor;
    if constexpr (is_16_bit<T>) {
        factor = rsqrtf(__fmaf_rn(total, share, eps));
    } else {
        factor = inverse_deviation(divide(total, count), eps);
    }
#pragma unroll
    for (i32 i = 0; i < ROW::ELEMENTS; ++i) row.x[i] *= factor;
}
