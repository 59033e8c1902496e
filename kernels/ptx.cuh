// Instructions that C++ cannot name: one asm statement a function, types of C++ alone.
//
//   round_f16         f32 -> bits of f16, nearest even        cvt.rn.f16.f32
//   round_bf16        f32 -> bits of bf16, nearest even       cvt.rn.bf16.f32 (sm_80)
//   widen_f16         bits of f16 -> f32, exact               cvt.f32.f16
//   maximum_f32       NaN if either is, +0 above -0           max.NaN.f32 (sm_80)
//   minimum_f32       NaN if either is, -0 below +0           min.NaN.f32 (sm_80)
//
// Limits: functions marked sm_80 are called behind `if constexpr (__CUDA_ARCH__ >= 800)`.
// Source: PTX ISA, chapter "Instruction Set".
#pragma once

namespace ptx {

__device__ __forceinline__ unsigned short round_f16(float value) {
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

__device__ __forceinline__ unsigned short round_bf16(float value) {
    unsigned short bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

__device__ __forceinline__ float widen_f16(unsigned short bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

__device__ __forceinline__ float maximum_f32(float a, float b) {
    float larger;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(a), "f"(b));
    return larger;
}

__device__ __forceinline__ float minimum_f32(float a, float b) {
    float smaller;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(smaller) : "f"(a), "f"(b));
    return smaller;
}

}  // namespace ptx
