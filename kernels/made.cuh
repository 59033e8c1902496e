// Operands of a product whose elements a chain of elementwise ops makes as they are loaded.
//
//   Made<S, CHAIN, NUMBER...>   an element that is stored as S: its value is CHAIN of that,
//                               argument 0, and of numbers, the other arguments
//   Making<S>                   begin: reads the numbers, one each for the whole operand; made: the
//                               value of an element, itself where S is a dtype
//
// Made takes the place of S as the type of an operand: arrays of both lie alike. CHAIN is ChainA or
// ChainB of the generated chain.cuh; every value in it is rounded to its own dtype. A thread holds
// the numbers in registers.
// Limits: as those of the loads. Source: none.
#pragma once

#include "operands.cuh"

template <typename S, typename CHAIN, typename... NUMBER>
struct Made {
    S stored;
};

template <typename S>
struct Making {
    __device__ static constexpr __forceinline__ bool has_chain() { return false; }
    __device__ static constexpr __forceinline__ i32 numbers() { return 0; }

    __device__ __forceinline__ void begin(const void* const*) {}
    __device__ __forceinline__ S made(S value) const { return value; }
};

template <typename S, typename CHAIN, typename... NUMBER>
struct Making<Made<S, CHAIN, NUMBER...>> {
    using Values = Tuple<NUMBER...>;
    static_assert(sizeof...(NUMBER) + 1 == CHAIN::COUNT, "the element, then the numbers");

    Values values;

    __device__ static constexpr __forceinline__ bool has_chain() { return true; }
    __device__ static constexpr __forceinline__ i32 numbers() { return sizeof...(NUMBER); }

    // From the addresses of the numbers.
    __device__ __forceinline__ void begin(const void* const* addresses) {
        begin_each(count_to<sizeof...(NUMBER)>{}, addresses);
    }
    template <i32... K>
    __device__ __forceinline__ void begin_each(Numbers<K...>, const void* const* addresses) {
        ((get<K>(values) = *static_cast<const NUMBER*>(addresses[K])), ...);
    }
    __device__ __forceinline__ auto made(Made<S, CHAIN, NUMBER...> element) const {
        Values own = values;
        return CHAIN::of(ValueReader<S, Values>{element.stored, own});
    }
};
