// The dtypes of softcuda in device code: types, conversions, minimum and maximum.
//
//   dtypes      bool i32 i64 f16 bf16 f32 f64, named as on the host; f16 and bf16 are storage only
//   compute_t   the type a dtype is computed in: f32 for f16 and bf16, else itself
//   sum_t       the type sums run in: i64 for bool and i32, f32 for f16 and bf16, else itself
//   convert     any dtype to any other, rounded once to nearest even; float to integer truncates
//               and saturates, NaN gives 0; integers wrap; to bool is != 0
//   minimum     and maximum: NaN propagates, +0 is above -0
//
// Source: Boldo and Melquiond, When double rounding is odd (2005), for the rounding of f64 and
// integers to 16 bits.
#pragma once

#include "ptx.cuh"

// ---- types ------------------------------------------------------------------------------------

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i32 = int;
using i64 = long long;
using f32 = float;
using f64 = double;

struct f16 {
    u16 bits;
};

struct bf16 {
    u16 bits;
};

template <typename A, typename B>
constexpr bool is_same = false;
template <typename A>
constexpr bool is_same<A, A> = true;

template <typename T>
constexpr bool is_16_bit = is_same<T, f16> || is_same<T, bf16>;
template <typename T>
constexpr bool is_float = is_16_bit<T> || is_same<T, f32> || is_same<T, f64>;
template <typename T>
constexpr bool is_integer = is_same<T, i32> || is_same<T, i64>;

template <bool CONDITION, typename A, typename B>
struct Select {
    using type = A;
};
template <typename A, typename B>
struct Select<false, A, B> {
    using type = B;
};
template <bool CONDITION, typename A, typename B>
using select_t = typename Select<CONDITION, A, B>::type;

template <typename T>
using compute_t = select_t<is_16_bit<T>, f32, T>;
template <typename T>
using sum_t = select_t<is_float<T>, compute_t<T>, i64>;

// 16 bytes that lie like complex128: at multiples of 8.
struct u128 {
    u64 low;
    u64 high;
};

// The unsigned integer of the size of a type; the machine's vector for 16 bytes.
template <typename T>
using bits_t = select_t<
    sizeof(T) == 16, uint4,
    select_t<sizeof(T) == 8, u64,
             select_t<sizeof(T) == 4, u32, select_t<sizeof(T) == 2, u16, u8>>>>;

// Whether a type may lie where one access cannot move it: complex numbers lie as their parts do.
template <typename T>
constexpr bool is_parted = alignof(T) < sizeof(T);

// The bits of a value as another type of the same size. The value comes as a copy: behind a
// reference the compiler forgets how an address in memory is aligned, and moves byte by byte.
template <typename TO, typename FROM>
__device__ __forceinline__ TO bit_cast(FROM value) {
    static_assert(sizeof(TO) == sizeof(FROM), "bit_cast keeps the size");
    TO result;
    memcpy(&result, &value, sizeof(TO));
    return result;
}

// ---- conversions ------------------------------------------------------------------------------

__device__ __forceinline__ f32 widen(f16 value) { return ptx::widen_f16(value.bits); }

__device__ __forceinline__ f32 widen(bf16 value) {
    return bit_cast<f32>(static_cast<u32>(value.bits) << 16);
}

// f32 to 16 bits, to nearest even.
template <typename T>
__device__ __forceinline__ T narrow(f32 value) {
    static_assert(is_16_bit<T>, "narrow makes f16 or bf16");
    if constexpr (is_same<T, f16>) {
        return T{ptx::round_f16(value)};
    } else if constexpr (__CUDA_ARCH__ >= 800) {
        return T{ptx::round_bf16(value)};
    } else {
        const u32 bits = bit_cast<u32>(value);
        const u32 rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
        return T{static_cast<u16>(value != value ? 0x7fffu : rounded)};
    }
}

// To f32, towards zero, with the last bit set where that is inexact: a second rounding to 16 bits
// then gives what one rounding gives.
template <typename T>
__device__ __forceinline__ f32 round_to_odd(T value) {
    if constexpr (is_same<T, f64>) {
        const f32 near = __double2float_rz(value);
        const bool is_inexact = static_cast<f64>(near) != value;
        return bit_cast<f32>(bit_cast<u32>(near) | static_cast<u32>(is_inexact));
    } else if constexpr (is_integer<T>) {
        const f32 near = __ll2float_rz(static_cast<i64>(value));
        const bool is_inexact = __float2ll_rz(near) != static_cast<i64>(value);
        return bit_cast<f32>(bit_cast<u32>(near) | static_cast<u32>(is_inexact));
    } else {
        return static_cast<f32>(value);
    }
}

// f32 or f64 to an integer: truncated, saturated, NaN gives 0.
template <typename DST, typename SRC>
__device__ __forceinline__ DST saturate(SRC value) {
    if constexpr (is_same<DST, i32> && is_same<SRC, f32>) {
        return __float2int_rz(value);
    } else if constexpr (is_same<DST, i32>) {
        return value != value ? 0 : __double2int_rz(value);
    } else if constexpr (is_same<SRC, f32>) {
        return value != value ? 0 : __float2ll_rz(value);
    } else {
        return value != value ? 0 : __double2ll_rz(value);
    }
}

template <typename DST, typename SRC>
__device__ __forceinline__ DST convert(SRC value) {
    if constexpr (is_same<DST, SRC>) {
        return value;
    } else if constexpr (is_16_bit<SRC>) {
        return convert<DST>(widen(value));
    } else if constexpr (is_16_bit<DST>) {
        return narrow<DST>(round_to_odd(value));
    } else if constexpr (is_same<DST, bool>) {
        return value != SRC(0);
    } else if constexpr (is_integer<DST> && is_float<SRC>) {
        return saturate<DST>(value);
    } else {
        return static_cast<DST>(value);
    }
}

// ---- minimum and maximum: NaN propagates, +0 is above -0 --------------------------------------

template <typename T>
__device__ __forceinline__ T maximum(T a, T b) {
    static_assert(!is_16_bit<T>, "16-bit floats are compared as f32");
    if constexpr (is_same<T, f32> && __CUDA_ARCH__ >= 800) {
        return ptx::maximum_f32(a, b);
    } else if constexpr (is_float<T>) {
        const T equal = bit_cast<T>(bit_cast<bits_t<T>>(a) & bit_cast<bits_t<T>>(b));
        return a == b ? equal : (a > b || a != a) ? a : b;
    } else {
        return a > b ? a : b;
    }
}

template <typename T>
__device__ __forceinline__ T minimum(T a, T b) {
    static_assert(!is_16_bit<T>, "16-bit floats are compared as f32");
    if constexpr (is_same<T, f32> && __CUDA_ARCH__ >= 800) {
        return ptx::minimum_f32(a, b);
    } else if constexpr (is_float<T>) {
        const T equal = bit_cast<T>(bit_cast<bits_t<T>>(a) | bit_cast<bits_t<T>>(b));
        return a == b ? equal : (a < b || a != a) ? a : b;
    } else {
        return a < b ? a : b;
    }
}
