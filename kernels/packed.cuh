// Vectors as they were loaded: lanes are cut out of machine words where they are used, so that
// vectors in flight take no more registers than bytes.
//
//   Packed<T, WIDTH>   WIDTH neighbours of any dtype, at most 16 bytes
//
// Limits: a vector's address is a multiple of its size.
// Source: none.
#pragma once

#include "common.cuh"

template <typename T, i32 WIDTH>
struct Packed {
    using Raw = Words<T, WIDTH>;
    Raw raw;

    __device__ __forceinline__ void load(const T* from) {
        raw = *reinterpret_cast<const Raw*>(from);
    }
    // For data that is read once.
    __device__ __forceinline__ void load_streaming(const T* from) {
        raw = bit_cast<Raw>(__ldcs(reinterpret_cast<const raw_t<sizeof(T) * WIDTH>*>(from)));
    }
    // The same, of memory that no thread writes while the kernel runs.
    __device__ __forceinline__ void load_once(const T* from) {
        if constexpr (sizeof(Raw) == 16 && __CUDA_ARCH__ >= 800) {
            raw = bit_cast<Raw>(ptx::load_once(from));
        } else {
            load_streaming(from);
        }
    }
    // The same; L2 keeps it as long as anything else.
    __device__ __forceinline__ void load_past(const T* from) {
        static_assert(sizeof(Raw) == 16, "a vector");
        raw = bit_cast<Raw>(ptx::load_past(from));
    }
    __device__ __forceinline__ void store_streaming(T* to) const {
        using Moved = raw_t<sizeof(T) * WIDTH>;
        __stcs(reinterpret_cast<Moved*>(to), bit_cast<Moved>(raw));
    }
    __device__ __forceinline__ T lane(i32 i) const {
        const auto bits = raw.words[i / Raw::LANES] >> (i % Raw::LANES * Raw::BITS);
        return bit_cast<T>(static_cast<bits_t<T>>(bits));
    }
    // All lanes become one value.
    __device__ __forceinline__ void fill(T value) {
        raw = {};
#pragma unroll
        for (i32 i = 0; i < WIDTH; ++i) set(i, value);
    }
    // Lane i of a vector whose lane i is 0 so far.
    __device__ __forceinline__ void set(i32 i, T value) {
        const auto bits = static_cast<typename Raw::Word>(bit_cast<bits_t<T>>(value));
        raw.words[i / Raw::LANES] |= bits << (i % Raw::LANES * Raw::BITS);
    }
};
