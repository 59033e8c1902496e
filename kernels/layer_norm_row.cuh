// What layer_norm.cu and layer_norm_full.cu share.
//
//   inverse_deviation   1 / sqrt(variance + eps)
//   unrelated           a vector whose lanes are converted where they are used
//   scaled              x * weight + bias
//   norm_blocks         blocks that a multiprocessor holds
//
// Source: Ba, Kiros and Hinton, Layer normalization (2016).
#pragma once

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
