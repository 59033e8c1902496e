// How the elements of a reduction are read, and how its results are written.
//
//   Reading    the prologue's operands in strips of vectors, or element by element
//   put        a result, through the epilogue
//
// Limits: those of reduce.cu.
// Source: none.
#pragma once

#include "operands.cuh"
#include "packed.cuh"
#include "reduce_space.cuh"

struct Nothing {};

// A vector of each of the first COUNT of some types, nothing of the others.
template <i32 COUNT, i32 WIDTH, typename NUMBERS, typename... TYPES>
struct HeldOf;
template <i32 COUNT, i32 WIDTH, i32... K, typename... TYPES>
struct HeldOf<COUNT, WIDTH, Numbers<K...>, TYPES...> {
    using type = Tuple<select_t<(K < COUNT), Packed<TYPES, WIDTH>, Nothing>...>;
};

// OPERANDS: the dtypes of all pointers, of which the first PROLOGUE::COUNT are read here.
template <typename STATE, typename PROLOGUE, typename EPILOGUE, i32 WIDTH, i32 RANK,
          typename... OPERANDS>
struct Reading {
    using Value = typename STATE::Value;
    using Held = typename HeldOf<PROLOGUE::COUNT, WIDTH, count_to<sizeof...(OPERANDS)>,
                                 OPERANDS...>::type;
    static constexpr i32 RESULTS = EPILOGUE::COUNT;
    static constexpr i32 PLACE = PROLOGUE::COUNT;
    static constexpr i32 SOURCES = PROLOGUE::COUNT + (STATE::PLACED ? 1 : 0);
    using Offsets = At<SOURCES>;

    // Vectors at a constant distance: vector i begins at begin + i * step, with element number
    // element + i * element_step of the innermost axis.
    struct Strip {
        Offsets begin;
        Offsets step;
        i64 element;
        i64 element_step;
        i64 count;
        bool has_vectors;
    };

    const space_of<STATE, PROLOGUE, EPILOGUE, RANK>& space;
    const void* const (&pointers)[sizeof...(OPERANDS)];
    i64* status;

    __device__ __forceinline__ const i64* inner_strides() const {
        return space.inner_strides + RESULTS;
    }
    __device__ __forceinline__ const i64* beside_strides() const {
        return space.beside_strides + RESULTS;
    }

    // Calls VISIT(slot, stride along the innermost axis) for every operand of the prologue.
    template <typename VISIT>
    __device__ __forceinline__ void each(VISIT visit) const {
        PROLOGUE::of([&](auto slot) {
            visit(slot, inner_strides()[decltype(slot)::NUMBER]);
            return typename decltype(slot)::type{};
        });
    }

    template <typename SLOT>
    __device__ __forceinline__ auto address(SLOT, i64 offset) const {
        return static_cast<const typename SLOT::type*>(pointers[SLOT::NUMBER]) + offset;
    }

    // Elements by which a run begins behind a vector boundary; -1 where it has no vectors.
    __device__ __forceinline__ i32 shift(const Offsets& run) const {
        i32 found = -1;
        each([&](auto slot, i64 stride) {
            const auto* first = address(slot, run.at[decltype(slot)::NUMBER]);
            const u64 elements = reinterpret_cast<u64>(first) / sizeof(*first);
            const i32 behind = stride == 1 ? static_cast<i32>(elements % WIDTH) : -2;
            if (stride != 0) found = found == -1 || found == behind ? behind : -2;
        });
        return found < 0 ? -1 : found;
    }

    __device__ __forceinline__ bool is_even() const {
        return space.is_even && shift(Offsets{}) == 0;
    }

    // A vector that can be loaded at once.
    __device__ __forceinline__ void load(Held& held, const Offsets& offsets) const {
        each([&](auto slot, i64 stride) {
            constexpr i32 NUMBER = decltype(slot)::NUMBER;
            auto& vector = get<NUMBER>(held);
            const auto* from = address(slot, offsets.at[NUMBER]);
            if (PROLOGUE::COUNT == 1 || stride != 0) {
                vector.load_once(from);
            } else {
                const auto same = *from;
                vector = {};
#pragma unroll
                for (i32 lane = 0; lane < WIDTH; ++lane) vector.set(lane, same);
            }
        });
    }

    // A whole vector, element by element where it cannot be loaded at once.
    __device__ __forceinline__ void load(Held& held, const Offsets& offsets, bool even) const {
        if (even) {
            load(held, offsets);
        } else {
            held = {};
#pragma unroll
            for (i32 lane = 0; lane < WIDTH; ++lane) load_element(held, offsets, lane, lane);
        }
    }

    // One element, `distance` elements of the innermost axis behind the offsets, into a lane that
    // is 0 so far.
    __device__ __forceinline__ void load_element(Held& held, const Offsets& offsets, i32 lane,
                                                 i64 distance) const {
        each([&](auto slot, i64 stride) {
            constexpr i32 NUMBER = decltype(slot)::NUMBER;
            get<NUMBER>(held).set(lane, *address(slot, offsets.at[NUMBER] + distance * stride));
        });
    }

    __device__ __forceinline__ Value value(Held& held, i32 lane, bool is_valid) const {
        return convert<Value>(PROLOGUE::of(
            [&](auto slot) { return get<decltype(slot)::NUMBER>(held).lane(lane); },
            PROLOGUE::REPORTS && is_valid ? status : nullptr));
    }

    __device__ __forceinline__ i64 place(const Offsets& offsets, i64 distance) const {
        if constexpr (STATE::PLACED) {
            return offsets.at[PLACE] + distance * inner_strides()[PLACE];
        } else {
            return 0;
        }
    }

    // COUNT vectors from, from + step, ...; those that are not valid were not loaded.
    template <i32 COUNT, typename VALID>
    __device__ __forceinline__ void take(STATE& state, Held* held, VALID valid,
                                         const Offsets& from, const Offsets& step) const {
        Value x[COUNT * WIDTH];
#pragma unroll
        for (i32 i = 0; i < COUNT * WIDTH; ++i) {
            x[i] = value(held[i / WIDTH], i % WIDTH, valid(i / WIDTH));
        }
        state.take(x, [=](i32 i) { return valid(i / WIDTH); },
                   [&](i32 i) { return place(from.moved(i / WIDTH, step.at), i % WIDTH); },
                   space.options);
    }

    // The elements of a vector that belong to the innermost axis, one by one.
    __device__ __forceinline__ void take_elements(STATE& state, const Offsets& offsets,
                                                  i64 element) const {
        Held held = {};
        const auto valid = [&](i32 lane) {
            return element + lane >= 0 && element + lane < space.inner;
        };
#pragma unroll
        for (i32 lane = 0; lane < WIDTH; ++lane) {
            if (valid(lane)) load_element(held, offsets, lane, lane);
        }
        Value x[WIDTH];
#pragma unroll
        for (i32 lane = 0; lane < WIDTH; ++lane) x[lane] = value(held, lane, valid(lane));
        state.take(x, valid, [&](i32 lane) { return place(offsets, lane); }, space.options);
    }

    // Vectors from, from + step, ...: all LOADS are loaded, then GROUP at a time are measured.
    template <i32 LOADS, i32 GROUP, typename VALID>
    __device__ __forceinline__ void take_batch(STATE& state, const Offsets& from,
                                               const Offsets& step, VALID valid) const {
        static_assert(LOADS % GROUP == 0, "whole groups are in flight");
        Held held[LOADS];
#pragma unroll
        for (i32 u = 0; u < LOADS; ++u) {
            if (valid(u)) load(held[u], from.moved(u, step.at));
        }
#pragma unroll
        for (i32 u = 0; u < LOADS; u += GROUP) {
            take<GROUP>(state, held + u, [=](i32 k) { return valid(u + k); },
                        from.moved(u, step.at), step);
        }
    }

    // All vectors of a strip.
    template <i32 LOADS, i32 GROUP>
    __device__ __forceinline__ void take_strip(STATE& state, const Strip& strip) const {
        const bool is_first = strip.has_vectors && is_whole(strip, 0);
        const i64 begin = is_first ? 0 : 1;
        const bool any = strip.has_vectors && (is_first || strip.element_step != 0);
        i64 end = any && strip.count > begin ? strip.count : begin;
#pragma unroll 1
        while (end > begin && !is_whole(strip, end - 1)) --end;
        Offsets from = strip.begin.moved(begin, strip.step.at);
#pragma unroll 1
        for (i64 left = end - begin; left > 0; left -= LOADS) {
            if (left >= LOADS) {
                take_batch<LOADS, GROUP>(state, from, strip.step, Every{});
            } else {
                take_batch<LOADS, GROUP>(state, from, strip.step,
                                         [=](i32 u) { return u < left; });
            }
            from = from.moved(LOADS, strip.step.at);
        }
#pragma unroll 1
        for (i64 i = is_first ? end : 0; i < strip.count; i = i + 1 == begin ? end : i + 1) {
            take_elements(state, strip.begin.moved(i, strip.step.at),
                          strip.element + i * strip.element_step);
        }
    }

    // Along the innermost axis all are but for the first one and the last two.
    __device__ __forceinline__ bool is_whole(const Strip& strip, i64 i) const {
        const i64 element = strip.element + i * strip.element_step;
        return element >= 0 && element + WIDTH <= space.inner;
    }
};

// ---- results ------------------------------------------------------------------------------------

// The result of a state through the epilogue, whose operands are pointers[SHIFT] and on.
template <typename EPILOGUE, i32 SHIFT, typename STATE, i32 POINTERS>
__device__ __forceinline__ void put(typename EPILOGUE::Result* out, const STATE& state,
                                    const Options& options, const At<EPILOGUE::COUNT>& place,
                                    i64* status, const void* const (&pointers)[POINTERS]) {
    out[place.at[0]] = EPILOGUE::of(
        [&](auto slot) {
            using T = typename decltype(slot)::type;
            constexpr i32 NUMBER = decltype(slot)::NUMBER;
            if constexpr (NUMBER == 0) {
                return convert<T>(state.finish(options));
            } else {
                return static_cast<const T*>(pointers[SHIFT + NUMBER - 1])[place.at[NUMBER]];
            }
        },
        status);
}
