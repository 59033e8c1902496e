// What every kernel shares: the dtypes of dtypes.cuh, indices, fast division, vector access,
// shuffles within a warp.
//
//   grid_thread       number of this thread in the grid, 64 bits; grid_threads: how many there are
//   FastDivisor       quotient and remainder by a number that is known at launch
//   Vector            WIDTH neighbours of one dtype, at most 16 bytes; load, store and their
//                     _streaming forms move it in one instruction
//   shuffle_xor       _down, _up, _from: a value of another thread of the warp, of any dtype
//
// Limits: a vector's address is a multiple of its size. FastDivisor takes numbers below 2^31.
// Source: Granlund and Montgomery, Division by Invariant Integers using Multiplication (1994).
#pragma once

#include "dtypes.cuh"

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

// A vector as machine words, joined and parted by shifts: a copy byte by byte would be compiled to
// loads and stores of single bytes.
template <typename T, i32 WIDTH>
struct alignas(sizeof(T) * WIDTH) Words {
    static constexpr i32 BYTES = sizeof(T) * WIDTH;
    using Word = select_t<sizeof(T) >= 8, bits_t<T>,
                          select_t<BYTES >= 4, u32, select_t<BYTES == 2, u16, u8>>>;
    static constexpr i32 LANES = sizeof(Word) / sizeof(T);
    static constexpr i32 BITS = 8 * sizeof(T);
    Word words[WIDTH / LANES];

    __device__ __forceinline__ Vector<T, WIDTH> parted() const {
        Vector<T, WIDTH> vector;
#pragma unroll
        for (i32 lane = 0; lane < WIDTH; ++lane) {
            if constexpr (sizeof(T) == sizeof(Word)) {
                vector.lanes[lane] = bit_cast<T>(words[lane]);
            } else {
                const Word bits = words[lane / LANES] >> (lane % LANES * BITS);
                vector.lanes[lane] = bit_cast<T>(static_cast<bits_t<T>>(bits));
            }
        }
        return vector;
    }

    __device__ __forceinline__ static Words joined(const Vector<T, WIDTH>& vector) {
        Words result;
#pragma unroll
        for (i32 lane = 0; lane < WIDTH; ++lane) {
            if constexpr (sizeof(T) == sizeof(Word)) {
                result.words[lane] = bit_cast<Word>(vector.lanes[lane]);
            } else {
                const Word bits = static_cast<Word>(bit_cast<bits_t<T>>(vector.lanes[lane]))
                                  << (lane % LANES * BITS);
                Word& word = result.words[lane / LANES];
                word = lane % LANES == 0 ? bits : static_cast<Word>(word | bits);
            }
        }
        return result;
    }
};

// The machine's type of so many bytes: one load or store instruction each.
template <i32 BYTES>
using raw_t =
    select_t<BYTES == 16, uint4,
             select_t<BYTES == 8, uint2,
                      select_t<BYTES == 4, u32, select_t<BYTES == 2, u16, u8>>>>;

template <i32 WIDTH, typename T>
__device__ __forceinline__ Vector<T, WIDTH> load(const T* address) {
    const auto words = *reinterpret_cast<const Words<T, WIDTH>*>(address);
    return words.parted();
}

// For data that is read once: it leaves the caches first.
template <i32 WIDTH, typename T>
__device__ __forceinline__ Vector<T, WIDTH> load_streaming(const T* address) {
    using Raw = raw_t<sizeof(T) * WIDTH>;
    return bit_cast<Words<T, WIDTH>>(__ldcs(reinterpret_cast<const Raw*>(address))).parted();
}

template <typename T, i32 WIDTH>
__device__ __forceinline__ void store(T* address, const Vector<T, WIDTH>& vector) {
    *reinterpret_cast<Words<T, WIDTH>*>(address) = Words<T, WIDTH>::joined(vector);
}

template <typename T, i32 WIDTH>
__device__ __forceinline__ void store_streaming(T* address, const Vector<T, WIDTH>& vector) {
    using Raw = raw_t<sizeof(T) * WIDTH>;
    __stcs(reinterpret_cast<Raw*>(address), bit_cast<Raw>(Words<T, WIDTH>::joined(vector)));
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
