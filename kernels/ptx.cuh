// Instructions that C++ cannot name: one asm statement a function, types of C++ alone.
//
//   round_f16         f32 -> bits of f16, nearest even        cvt.rn.f16.f32
//   round_bf16        f32 -> bits of bf16, nearest even       cvt.rn.bf16.f32 (sm_80)
//   round_f16_pair    two f32 -> a word, the first its low half  cvt.rn.f16x2.f32 (sm_80)
//   round_bf16_pair   the same of bf16                        cvt.rn.bf16x2.f32 (sm_80)
//   unrelated         a word of which the compiler does not know what was made of it
//   power_of_two      2^x to 2 units in 2^-22; tiny ones are 0  ex2.approx.ftz.f32
//   widen_f16         bits of f16 -> f32, exact               cvt.f32.f16
//   maximum_f32       NaN if either is, +0 above -0           max.NaN.f32 (sm_80)
//   minimum_f32       NaN if either is, -0 below +0           min.NaN.f32 (sm_80)
//   copy_async        4 or 8 bytes, global to shared memory   cp.async.ca (sm_80)
//   copy_async_16     16 bytes, past L1                       cp.async.cg (sm_80)
//   copy_async_line   as both; L2 fetches the line of 128     cp.async.*.L2::128B (sm_80)
//   commit_async      ends a group of these copies            cp.async.commit_group (sm_80)
//   wait_async        until at most so many groups run        cp.async.wait_group (sm_80)
//   load_line         16 bytes, not moved; L2 takes 128       ld.relaxed.cta.global.L2::128B
//   load_once         16 bytes, first to leave L2, past L1    ld.global.nc.L1::no_allocate (sm_80)
//   load_past         16 bytes, past L1                       ld.global.nc.L1::no_allocate
//   copy_once         as load_once, to shared memory          cp.async.cg (sm_80)
//   store_where       2 to 16 bytes behind a predicate        @p st.global
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

__device__ __forceinline__ unsigned round_f16_pair(float low, float high) {
    unsigned bits;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
}

__device__ __forceinline__ unsigned round_bf16_pair(float low, float high) {
    unsigned bits;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
}

__device__ __forceinline__ unsigned unrelated(unsigned word) {
    asm volatile("" : "+r"(word));
    return word;
}

__device__ __forceinline__ float widen_f16(unsigned short bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

__device__ __forceinline__ float power_of_two(float exponent) {
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(exponent));
    return power;
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

// An address of shared memory in 32 bits, to count with; and the pointer again.
__device__ __forceinline__ unsigned shared_address(const void* shared) {
    return static_cast<unsigned>(__cvta_generic_to_shared(shared));
}

template <typename T>
__device__ __forceinline__ T* shared_pointer(unsigned address) {
    return static_cast<T*>(__cvta_shared_to_generic(address));
}

template <int BYTES>
__device__ __forceinline__ void copy_async(void* shared, const void* global) {
    static_assert(BYTES == 4 || BYTES == 8, "16 bytes go past L1: copy_async_16");
    const auto address = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;"
                 :
                 : "r"(address), "l"(global), "n"(BYTES)
                 : "memory");
}

__device__ __forceinline__ void copy_async_16(void* shared, const void* global) {
    const auto address = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                 :
                 : "r"(address), "l"(global)
                 : "memory");
}

// 4 to 16 bytes of a line of 128, whose rest other threads or later steps read.
template <int BYTES>
__device__ __forceinline__ void copy_async_line(void* shared, const void* global) {
    static_assert(BYTES == 4 || BYTES == 8, "16 bytes go past L1: the overload below");
    const auto address = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    asm volatile("cp.async.ca.shared.global.L2::128B [%0], [%1], %2;"
                 :
                 : "r"(address), "l"(global), "n"(BYTES)
                 : "memory");
}

template <>
__device__ __forceinline__ void copy_async_line<16>(void* shared, const void* global) {
    const auto address = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;"
                 :
                 : "r"(address), "l"(global)
                 : "memory");
}

__device__ __forceinline__ void commit_async() {
    asm volatile("cp.async.commit_group;" : : : "memory");
}

template <int GROUPS>
__device__ __forceinline__ void wait_async() {
    asm volatile("cp.async.wait_group %0;" : : "n"(GROUPS) : "memory");
}

// What L2 is asked to do with lines: they leave it before all others.
__device__ __forceinline__ unsigned long long leaves_first() {
    unsigned long long policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

// A relaxed load stays where it stands: a weak one is moved to where its value is needed, a wait of
// hundreds of cycles.
__device__ __forceinline__ uint4 load_line(const void* global) {
    uint4 bits;
    asm volatile("ld.relaxed.cta.global.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(bits.x), "=r"(bits.y), "=r"(bits.z), "=r"(bits.w)
                 : "l"(global));
    return bits;
}

// Of memory that no thread writes while the kernel runs.
__device__ __forceinline__ uint4 load_once(const void* global) {
    uint4 bits;
    asm("ld.global.nc.L1::no_allocate.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
        : "=r"(bits.x), "=r"(bits.y), "=r"(bits.z), "=r"(bits.w)
        : "l"(global), "l"(leaves_first()));
    return bits;
}

__device__ __forceinline__ uint4 load_past(const void* global) {
    uint4 bits;
    asm("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
        : "=r"(bits.x), "=r"(bits.y), "=r"(bits.z), "=r"(bits.w)
        : "l"(global));
    return bits;
}

__device__ __forceinline__ void copy_once(void* shared, const void* global) {
    asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;"
                 :
                 : "r"(shared_address(shared)), "l"(global), "l"(leaves_first())
                 : "memory");
}

__device__ __forceinline__ void store_where(bool is_there, void* global, unsigned short bits) {
    asm volatile("{.reg .pred p; setp.ne.s32 p, %0, 0; @p st.global.u16 [%1], %2;}"
                 :
                 : "r"(static_cast<int>(is_there)), "l"(global), "h"(bits)
                 : "memory");
}

__device__ __forceinline__ void store_where(bool is_there, void* global, unsigned bits) {
    asm volatile("{.reg .pred p; setp.ne.s32 p, %0, 0; @p st.global.u32 [%1], %2;}"
                 :
                 : "r"(static_cast<int>(is_there)), "l"(global), "r"(bits)
                 : "memory");
}

__device__ __forceinline__ void store_where(bool is_there, void* global, uint2 bits) {
    asm volatile("{.reg .pred p; setp.ne.s32 p, %0, 0; @p st.global.v2.u32 [%1], {%2, %3};}"
                 :
                 : "r"(static_cast<int>(is_there)), "l"(global), "r"(bits.x), "r"(bits.y)
                 : "memory");
}

__device__ __forceinline__ void store_where(bool is_there, void* global, uint4 bits) {
    asm volatile("{.reg .pred p; setp.ne.s32 p, %0, 0; @p st.global.v4.u32 [%1], {%2, %3, %4, %5};}"
                 :
                 : "r"(static_cast<int>(is_there)), "l"(global), "r"(bits.x), "r"(bits.y),
                   "r"(bits.z), "r"(bits.w)
                 : "memory");
}

}  // namespace ptx
