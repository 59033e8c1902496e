// The operands of an elementwise loop: how each lies, and readers that hold what was loaded.
//
//   Dense<T>     lies as the dense result does: element i at i
//   Single<T>    one value for the whole loop
//   Row<T>       stride 1 along the innermost axis, strides of its own along the others
//   Level<T>     stride 0 along the innermost axis, strides of its own along the others
//   Strided<T>   any strides; read lane by lane
//   Kept<T>      lies as the result does and is written: a value inside the chain
//
// A Reader holds UNROLL vectors of WIDTH elements of one operand; all of them are loaded before
// the first is used. Readers are held together by Tuple, one a number. ValueReader hands a value
// and those of a Tuple to a chain.
#pragma once

#include "common.cuh"

enum class Lies { DENSE, SINGLE, ROW, LEVEL, STRIDED, KEPT };

template <typename T>
struct Dense {
    using type = T;
    using pointer = const T*;
    static constexpr Lies LIES = Lies::DENSE;
};

template <typename T>
struct Single {
    using type = T;
    using pointer = const T*;
    static constexpr Lies LIES = Lies::SINGLE;
};

template <typename T>
struct Row {
    using type = T;
    using pointer = const T*;
    static constexpr Lies LIES = Lies::ROW;
};

template <typename T>
struct Level {
    using type = T;
    using pointer = const T*;
    static constexpr Lies LIES = Lies::LEVEL;
};

template <typename T>
struct Strided {
    using type = T;
    using pointer = const T*;
    static constexpr Lies LIES = Lies::STRIDED;
};

template <typename T>
struct Kept {
    using type = T;
    using pointer = T*;
    static constexpr Lies LIES = Lies::KEPT;
};

template <typename OPERAND>
constexpr bool has_strides = OPERAND::LIES == Lies::ROW || OPERAND::LIES == Lies::LEVEL ||
                             OPERAND::LIES == Lies::STRIDED;
template <typename OPERAND>
constexpr bool is_dense = OPERAND::LIES == Lies::DENSE || OPERAND::LIES == Lies::KEPT;
template <typename OPERAND>
constexpr bool has_vectors = is_dense<OPERAND> || OPERAND::LIES == Lies::ROW;

// Whether vectors of WIDTH elements may be moved at an address.
template <i32 WIDTH, typename T>
__device__ __forceinline__ bool is_aligned(const T* address) {
    return reinterpret_cast<u64>(address) % (sizeof(T) * WIDTH) == 0;
}

// The same for an operand; those that are read one element at a time are aligned always.
template <typename OPERAND, i32 WIDTH>
__device__ __forceinline__ bool is_vector(const typename OPERAND::type* address) {
    return !has_vectors<OPERAND> || is_aligned<WIDTH>(address);
}

// ---- vectors ------------------------------------------------------------------------------------

template <i32 WIDTH, typename T>
__device__ __forceinline__ Vector<T, WIDTH> fetched(const T* address) {
    const auto* const from = reinterpret_cast<const raw_t<sizeof(T) * WIDTH>*>(address);
    return bit_cast<Words<T, WIDTH>>(*from).parted();
}

template <typename T, i32 WIDTH>
__device__ __forceinline__ void stored(T* address, const Vector<T, WIDTH>& vector) {
    using Raw = raw_t<sizeof(T) * WIDTH>;
    *reinterpret_cast<Raw*>(address) = bit_cast<Raw>(Words<T, WIDTH>::joined(vector));
}

// The first `lanes` elements of a vector, by one access where `is_whole`.
template <typename T, i32 WIDTH>
__device__ __forceinline__ void put_lanes(T* address, const Vector<T, WIDTH>& vector, i32 lanes,
                                          bool is_whole) {
    if ((WIDTH == 1 && !is_parted<T>) || is_whole) {
        stored(address, vector);
    } else {
#pragma unroll
        for (i32 lane = 0; lane < WIDTH; ++lane) {
            if (lane < lanes) address[lane] = vector.lanes[lane];
        }
    }
}

// ---- readers ------------------------------------------------------------------------------------

template <typename OPERAND, i32 WIDTH, i32 UNROLL>
struct Reader {
    using T = typename OPERAND::type;
    static constexpr bool IS_ONE = OPERAND::LIES == Lies::SINGLE || OPERAND::LIES == Lies::LEVEL;
    static constexpr i32 LANES = IS_ONE ? 1 : WIDTH;  // of a vector
    static constexpr bool IS_RAW = !is_parted<T> || has_vectors<OPERAND>;  // by one access
    static constexpr i32 VECTORS = OPERAND::LIES == Lies::SINGLE ? 1 : UNROLL;

    Vector<T, LANES> held[VECTORS];

    // Before the loop.
    __device__ __forceinline__ void begin(const T* address) {
        if constexpr (OPERAND::LIES == Lies::SINGLE) held[0].lanes[0] = *address;
    }

    // Vector `number`, by one access or, where the address allows none, lane by lane.
    template <bool IS_ALIGNED>
    __device__ __forceinline__ void fetch(i32 number, const T* address) {
        if constexpr (OPERAND::LIES == Lies::SINGLE) {
        } else if constexpr (IS_RAW && (IS_ALIGNED || (LANES == 1 && !is_parted<T>))) {
            held[number] = fetched<LANES>(address);
        } else {
#pragma unroll
            for (i32 lane = 0; lane < LANES; ++lane) held[number].lanes[lane] = address[lane];
        }
    }

    // Vector `number` lane by lane, each from the address ADDRESS(lane).
    template <typename ADDRESS>
    __device__ __forceinline__ void fetch_lanes(i32 number, ADDRESS address) {
        if constexpr (OPERAND::LIES != Lies::SINGLE) {
#pragma unroll
            for (i32 lane = 0; lane < LANES; ++lane) held[number].lanes[lane] = *address(lane);
        }
    }

    __device__ __forceinline__ T at(i32 number, i32 lane) const {
        return held[VECTORS == 1 ? 0 : number].lanes[LANES == 1 ? 0 : lane];
    }
    __device__ __forceinline__ void keep(const T*, i32, bool) const {}
};

// The vector that is computed; the chain writes its lanes.
template <typename T, i32 WIDTH, i32 UNROLL>
struct Reader<Kept<T>, WIDTH, UNROLL> {
    Vector<T, WIDTH> held;

    __device__ __forceinline__ void begin(const T*) {}
    template <bool IS_ALIGNED>
    __device__ __forceinline__ void fetch(i32, const T*) {}
    template <typename ADDRESS>
    __device__ __forceinline__ void fetch_lanes(i32, ADDRESS) {}

    __device__ __forceinline__ T& at(i32, i32 lane) {
        return held.lanes[lane];
    }
    // Writes the first `lanes` of them, by one access where `is_whole`.
    __device__ __forceinline__ void keep(T* address, i32 lanes, bool is_whole) const {
        put_lanes(address, held, lanes, is_whole);
    }
};

// ---- tuples -------------------------------------------------------------------------------------

template <i32... K>
struct Numbers {};

template <i32 COUNT, i32... K>
struct CountTo : CountTo<COUNT - 1, COUNT - 1, K...> {};
template <i32... K>
struct CountTo<0, K...> {
    using type = Numbers<K...>;
};
// Numbers<0, 1, ..., COUNT - 1>
template <i32 COUNT>
using count_to = typename CountTo<COUNT>::type;

template <i32 K, typename VALUE>
struct Member {
    VALUE value;
};

template <typename NUMBERS, typename... VALUES>
struct Members;
template <i32... K, typename... VALUES>
struct Members<Numbers<K...>, VALUES...> : Member<K, VALUES>... {};

template <typename... VALUES>
using Tuple = Members<count_to<sizeof...(VALUES)>, VALUES...>;

template <i32 K, typename VALUE>
__device__ __forceinline__ VALUE& get(Member<K, VALUE>& member) {
    return member.value;
}

// What a chain reads: argument 0 is a value of its own, the others are held by a tuple.
template <typename T, typename VALUES>
struct ValueReader {
    T first;
    VALUES& values;

    template <typename SLOT>
    __device__ __forceinline__ auto operator()(SLOT) const {
        if constexpr (SLOT::NUMBER == 0) {
            return first;
        } else {
            return get<SLOT::NUMBER - 1>(values);
        }
    }
};
