// The index space of a reduction, and how its elements are read: what the kernels of reduce.cu
// share.
//
//   Space      kept axes and reduced axes; the innermost axis of all, and one reduced axis beside
//              it, have places of their own. The host packs it: softcuda/backends/cuda/spaces.py
//   Reading    the prologue's operands in strips of vectors, or element by element
//   put        a result, through the epilogue
//
// Indices and offsets have 64 bits; nothing is divided where a loop has one axis.
#pragma once

#include "block_reduce.cuh"
#include "operands.cuh"
#include "reductions.cuh"

constexpr i32 THREADS = 256;

// Which loop the blocks along y share.
constexpr i32 SPLIT_REST = 0;
constexpr i32 SPLIT_BESIDE = 1;
constexpr i32 SPLIT_CHUNKS = 2;

// Blocks that a multiprocessor holds at once; with them come the registers of a thread.
template <typename STATE, typename PROLOGUE, i32 WIDTH>
constexpr i32 blocks_each = STATE::IS_LIGHT && PROLOGUE::COUNT == 1 && WIDTH == 4 ? 3 : 2;

template <i32 COUNT>
struct At {
    i64 at[COUNT];

    __device__ __forceinline__ At moved(i64 steps, const i64* strides) const {
        At result;
#pragma unroll
        for (i32 k = 0; k < COUNT; ++k) result.at[k] = at[k] + steps * strides[k];
        return result;
    }
};

struct Range {
    i64 begin;
    i64 end;
};

// RESULTS: the result, then the operands of the epilogue. SOURCES: the operands of the prologue,
// then the places of elements, where the reduction counts them.
template <i32 RANK, i32 RESULTS, i32 SOURCES>
struct Space {
    static_assert(RANK >= 1 && RANK <= 64, "tensors have at most 64 axes");

    Options options;
    i64 outputs;       // numbers of the kept axes; of reduce_columns: with tiles of columns
    i64 results;       // elements of the result
    i64 inner;         // extent of the innermost axis
    i64 beside;        // extent of the reduced axis beside it
    i64 rest;          // numbers of the other reduced axes
    i32 kept_rank;     // axes 0 to kept_rank - 1, innermost first; then the other reduced axes
    i32 team_log;      // log2 of a team, or of a block's columns
    i32 is_even;       // vectors everywhere, if the pointers are aligned
    i32 is_beside_even;  // a step along `beside` keeps the distance to a vector boundary
    i32 split;
    Divisor64 extents[RANK];
    i64 strides[RESULTS + SOURCES][RANK];
    i64 inner_strides[RESULTS + SOURCES];
    i64 beside_strides[RESULTS + SOURCES];

    // Adds the offsets of number `n` of the axes from `axis` on, for the operands from FIRST on.
    // The loop ends where nothing is left of n: a loop over the rank would be unrolled.
    template <i32 FIRST, i32 COUNT>
    __device__ __forceinline__ void advance(At<COUNT>& place, i64 n, i32 axis) const {
#pragma unroll 1
        for (i64 left = n; left != 0; ++axis) {
            const i64 above = extents[axis].quotient(left);
            const i64 coordinate = extents[axis].remainder(left, above);
#pragma unroll
            for (i32 k = 0; k < COUNT; ++k) {
                place.at[k] += coordinate * strides[FIRST + k][axis];
            }
            left = above;
        }
    }

    __device__ __forceinline__ At<SOURCES> kept_sources(i64 output) const {
        At<SOURCES> place = {};
        advance<RESULTS>(place, output, 0);
        return place;
    }

    __device__ __forceinline__ At<RESULTS> kept_results(i64 output) const {
        At<RESULTS> place = {};
        advance<0>(place, output, 0);
        return place;
    }

    __device__ __forceinline__ At<SOURCES> with_rest(At<SOURCES> place, i64 number) const {
        advance<RESULTS>(place, number, kept_rank);
        return place;
    }

    // What this block takes of a loop of `count` iterations.
    __device__ __forceinline__ Range shared(i32 loop, i64 count) const {
        if (loop != split || gridDim.y == 1) return {0, count};
        const i64 each = ceil_divide<i64>(count, gridDim.y);
        const i64 begin = each * blockIdx.y;
        const i64 end = begin + each;
        return {begin < count ? begin : count, end < count ? end : count};
    }
};

template <typename STATE, typename PROLOGUE, typename EPILOGUE, i32 RANK>
using space_of = Space<RANK, EPILOGUE::COUNT, PROLOGUE::COUNT + (STATE::PLACED ? 1 : 0)>;

// ---- reading ------------------------------------------------------------------------------------

struct Nothing {};

// A vector of each of the first COUNT of some types, nothing of the others.
template <i32 COUNT, i32 WIDTH, typename NUMBERS, typename... TYPES>
struct HeldOf;
template <i32 COUNT, i32 WIDTH, i32... K, typename... TYPES>
struct HeldOf<COUNT, WIDTH, Numbers<K...>, TYPES...> {
    using type = Tuple<select_t<(K < COUNT), Vector<TYPES, WIDTH>, Nothing>...>;
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
                vector = load_streaming<WIDTH>(from);
            } else {
                const auto same = *from;
#pragma unroll
                for (i32 lane = 0; lane < WIDTH; ++lane) vector.lanes[lane] = same;
            }
        });
    }

    // One element, `distance` elements of the innermost axis behind the offsets.
    __device__ __forceinline__ void load_element(Held& held, const Offsets& offsets, i32 lane,
                                                 i64 distance) const {
        each([&](auto slot, i64 stride) {
            constexpr i32 NUMBER = decltype(slot)::NUMBER;
            get<NUMBER>(held).lanes[lane] =
                *address(slot, offsets.at[NUMBER] + distance * stride);
        });
    }

    __device__ __forceinline__ Value value(Held& held, i32 lane, bool is_valid) const {
        return convert<Value>(PROLOGUE::of(
            [&](auto slot) { return get<decltype(slot)::NUMBER>(held).lanes[lane]; },
            PROLOGUE::REPORTS && is_valid ? status : nullptr));
    }

    __device__ __forceinline__ i64 place(const Offsets& offsets, i64 distance) const {
        if constexpr (STATE::PLACED) {
            return offsets.at[PLACE] + distance * inner_strides()[PLACE];
        } else {
            return 0;
        }
    }

    // COUNT vectors; those that are not valid were not loaded.
    template <i32 COUNT>
    __device__ __forceinline__ void take(STATE& state, Held* held, const bool* valid,
                                         const Offsets* offsets) const {
        Value x[COUNT * WIDTH];
#pragma unroll
        for (i32 i = 0; i < COUNT * WIDTH; ++i) {
            x[i] = value(held[i / WIDTH], i % WIDTH, valid[i / WIDTH]);
        }
        state.take(x, [&](i32 i) { return valid[i / WIDTH]; },
                   [&](i32 i) { return place(offsets[i / WIDTH], i % WIDTH); }, space.options);
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

    // All vectors of a strip, LOADS of them in flight, GROUP of them measured at a time.
    template <i32 LOADS, i32 GROUP>
    __device__ __forceinline__ void take_strip(STATE& state, const Strip& strip) const {
        static_assert(LOADS % GROUP == 0, "whole groups are in flight");
#pragma unroll 1
        for (i64 first = 0; first < strip.count; first += LOADS) {
            Held held[LOADS];
            Offsets offsets[LOADS];
            bool whole[LOADS];
            bool is_rest = false;
#pragma unroll
            for (i32 u = 0; u < LOADS; ++u) {
                const i64 element = strip.element + (first + u) * strip.element_step;
                const bool some = first + u < strip.count && element < space.inner;
                whole[u] = strip.has_vectors && some && element >= 0 &&
                           element + WIDTH <= space.inner;
                is_rest = is_rest || (some && !whole[u]);
                offsets[u] = strip.begin.moved(first + u, strip.step.at);
                if (whole[u]) load(held[u], offsets[u]);
            }
#pragma unroll
            for (i32 u = 0; u < LOADS; u += GROUP) {
                take<GROUP>(state, held + u, whole + u, offsets + u);
            }
            if (is_rest) take_rest<LOADS>(state, strip, first);
        }
    }

    template <i32 LOADS>
    __device__ __forceinline__ void take_rest(STATE& state, const Strip& strip, i64 first) const {
#pragma unroll 1
        for (i64 i = first; i < first + LOADS && i < strip.count; ++i) {
            const i64 element = strip.element + i * strip.element_step;
            const bool whole = strip.has_vectors && element >= 0 && element + WIDTH <= space.inner;
            if (!whole) take_elements(state, strip.begin.moved(i, strip.step.at), element);
        }
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
