// What every kernel shares: dtypes and their conversions, minimum and maximum, indices, fast
// division, vector access, shuffles within a warp.
//
//   dtypes      bool i32 i64 f16 bf16 f32 f64, named as on the host; f16 and bf16 are storage only
//   compute_t   the type a dtype is computed in: f32 for f16 and bf16, else itself
//   sum_t       the type sums run in: i64 for bool and i32, f32 for f16 and bf16, else itself
//   convert     any dtype to any other, rounded once to nearest even; float to integer truncates
//               and saturates, NaN gives 0; integers wrap; to bool is != 0
//   Vector      WIDTH neighbours of one dtype, aligned to their size, at most 16 bytes
//
// Limits: a Vector's address is a multiple of its size. FastDivisor takes numbers below 2^31.
// Source: Boldo and Melquiond, When double rounding is odd (2005), for the rounding of f64 and
// integers to 16 bits; Granlund and Montgomery (1994) for FastDivisor.
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

// The unsigned integer of the size of a type.
template <typename T>
using bits_t = select_t<sizeof(T) == 8, u64,
                        select_t<sizeof(T) == 4, u32, select_t<sizeof(T) == 2, u16, u8>>>;

// The bits of a value as another type of the same size.
template <typename TO, typename FROM>
__device__ __forceinline__ TO bit_cast(const FROM& value) {
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

// ---- indices ----------------------------------------------------------------------------------

constexpr i32 WARP = 32;
constexpr u32 WHOLE_WARP = 0xffffffffu;

// Number of this thread in the grid's first axis, and threads of that axis.
__device__ __forceinline__ i64 grid_thread() {
    return static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ __forceinline__ i64 grid_threads() { return static_cast<i64>(gridDim.x) * blockDim.x; }

__device__ __forceinline__ i32 lane_index() { return threadIdx.x % WARP; }
__device__ __forceinline__ i32 warp_index() { return threadIdx.x / WARP; }

template <typename INDEX>
__host__ __device__ constexpr INDEX ceil_divide(INDEX n, INDEX divisor) {
    return (n + divisor - 1) / divisor;
}

// Division by a number that is known at launch: the host fills the three fields.
struct FastDivisor {
    u32 divisor;
    u32 multiplier;
    u32 shift;

    __device__ __forceinline__ u32 quotient(u32 n) const {
        return (__umulhi(n, multiplier) + n) >> shift;
    }
    __device__ __forceinline__ u32 remainder(u32 n, u32 quotient_of_n) const {
        return n - quotient_of_n * divisor;
    }
};

// ---- vector access ----------------------------------------------------------------------------

template <typename T, i32 WIDTH>
struct alignas(sizeof(T) * WIDTH) Vector {
    static_assert(sizeof(T) * WIDTH <= 16, "one access moves at most 16 bytes");
    static_assert((WIDTH & (WIDTH - 1)) == 0, "WIDTH is a power of two");
    T lanes[WIDTH];
};

// The machine's type of so many bytes: one load or store instruction each.
template <i32 BYTES>
using raw_t =
    select_t<BYTES == 16, uint4,
             select_t<BYTES == 8, uint2,
                      select_t<BYTES == 4, u32, select_t<BYTES == 2, u16, u8>>>>;

template <i32 WIDTH, typename T>
__device__ __forceinline__ Vector<T, WIDTH> load(const T* address) {
    using Raw = raw_t<sizeof(T) * WIDTH>;
    return bit_cast<Vector<T, WIDTH>>(*reinterpret_cast<const Raw*>(address));
}

// For data that is read once: it leaves the caches first.
template <i32 WIDTH, typename T>
__device__ __forceinline__ Vector<T, WIDTH> load_streaming(const T* address) {
    using Raw = raw_t<sizeof(T) * WIDTH>;
    return bit_cast<Vector<T, WIDTH>>(__ldcs(reinterpret_cast<const Raw*>(address)));
}

template <typename T, i32 WIDTH>
__device__ __forceinline__ void store(T* address, const Vector<T, WIDTH>& vector) {
    using Raw = raw_t<sizeof(T) * WIDTH>;
    *reinterpret_cast<Raw*>(address) = bit_cast<Raw>(vector);
}

template <typename T, i32 WIDTH>
__device__ __forceinline__ void store_streaming(T* address, const Vector<T, WIDTH>& vector) {
    using Raw = raw_t<sizeof(T) * WIDTH>;
    __stcs(reinterpret_cast<Raw*>(address), bit_cast<Raw>(vector));
}

// ---- shuffles: every thread of the warp takes part --------------------------------------------

// Calls SHUFFLE(bits) on a value of any size as an unsigned number of 4 or 8 bytes.
template <typename T, typename SHUFFLE>
__device__ __forceinline__ T shuffled(T value, SHUFFLE shuffle) {
    using Moved = select_t<sizeof(T) == 8, u64, u32>;
    const Moved bits = bit_cast<bits_t<T>>(value);
    return bit_cast<T>(static_cast<bits_t<T>>(shuffle(bits)));
}

template <typename T>
__device__ __forceinline__ T shuffle_xor(T value, i32 lane_mask) {
    return shuffled(value, [=](auto bits) { return __shfl_xor_sync(WHOLE_WARP, bits, lane_mask); });
}

template <typename T>
__device__ __forceinline__ T shuffle_down(T value, i32 distance) {
    return shuffled(value, [=](auto bits) { return __shfl_down_sync(WHOLE_WARP, bits, distance); });
}

template <typename T>
__device__ __forceinline__ T shuffle_up(T value, i32 distance) {
    return shuffled(value, [=](auto bits) { return __shfl_up_sync(WHOLE_WARP, bits, distance); });
}

template <typename T>
__device__ __forceinline__ T shuffle_from(T value, i32 lane) {
    return shuffled(value, [=](auto bits) { return __shfl_sync(WHOLE_WARP, bits, lane); });
}
