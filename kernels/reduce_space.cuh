// The index space of a reduction, and how its elements are read: what the kernels of reduce.cu
// share.
//
//   Space      outer kept axes, outer reduced axes, one innermost axis; strides of every operand.
//              The host packs it: softcuda/backends/cuda/spaces.py
//   Reading    the prologue's operands along the innermost axis, by vectors and by elements
//   put        a result, through the epilogue
//
// Indices and offsets have 64 bits; nothing is divided where a loop has one axis.
#pragma once

#include "block_reduce.cuh"
#include "operands.cuh"
#include "reductions.cuh"

constexpr i32 THREADS = 256;

template <i32 COUNT>
struct At {
    i64 at[COUNT];
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
    i64 outer;         // numbers of the outer reduced axes
    i64 part;          // of these, how many a block along y takes; 0: it takes some chunks of all
    i32 kept_rank;     // axes 0 to kept_rank - 1, innermost first
    i32 reduced_rank;  // axes behind them
    i32 team_log;      // log2 of a team, or of a block's columns
    i32 is_even;       // vectors everywhere, if the pointers are aligned
    Divisor64 extents[RANK];
    i64 strides[RESULTS + SOURCES][RANK];
    i64 inner_strides[RESULTS + SOURCES];

    // Adds the offsets of number `n` of some axes, for the operands from FIRST on.
    template <i32 FIRST, i32 COUNT>
    __device__ __forceinline__ void advance(At<COUNT>& place, i64 n, i32 begin, i32 rank) const {
        i64 rest = n;
#pragma unroll 1
        for (i32 axis = begin; axis < begin + rank; ++axis) {
            const bool is_last = axis + 1 == begin + rank;
            const i64 above = is_last ? 0 : extents[axis].quotient(rest);
            const i64 coordinate = is_last ? rest : extents[axis].remainder(rest, above);
#pragma unroll
            for (i32 k = 0; k < COUNT; ++k) {
                place.at[k] += coordinate * strides[FIRST + k][axis];
            }
            rest = above;
        }
    }

    __device__ __forceinline__ At<SOURCES> kept_sources(i64 output) const {
        At<SOURCES> place = {};
        advance<RESULTS>(place, output, 0, kept_rank);
        return place;
    }

    __device__ __forceinline__ At<RESULTS> kept_results(i64 output) const {
        At<RESULTS> place = {};
        advance<0>(place, output, 0, kept_rank);
        return place;
    }

    __device__ __forceinline__ void add_reduced(At<SOURCES>& place, i64 number) const {
        advance<RESULTS>(place, number, kept_rank, reduced_rank);
    }
};

template <typename STATE, typename PROLOGUE, typename EPILOGUE, i32 RANK>
using space_of = Space<RANK, EPILOGUE::COUNT, PROLOGUE::COUNT + (STATE::PLACED ? 1 : 0)>;

struct Range {
    i64 begin;
    i64 end;
};

// What a block takes of the outer reduced axes and of the chunks of the innermost one.
struct Part {
    Range outer;
    Range chunks;
};

template <typename SPACE>
__device__ __forceinline__ Part part_of(const SPACE& space, i64 chunks) {
    Part part = {{0, space.outer}, {0, chunks}};
    Range& range = space.part > 0 ? part.outer : part.chunks;
    const i64 each = space.part > 0 ? space.part : ceil_divide<i64>(chunks, gridDim.y);
    const i64 end = range.end;
    range.begin = each * blockIdx.y < end ? each * blockIdx.y : end;
    range.end = range.begin + each < end ? range.begin + each : end;
    return part;
}

// ---- reading ------------------------------------------------------------------------------------

// OPERANDS: the dtypes of all pointers, of which the first PROLOGUE::COUNT are read here.
template <typename STATE, typename PROLOGUE, typename EPILOGUE, i32 WIDTH, i32 RANK,
          typename... OPERANDS>
struct Reading {
    using Spaces = space_of<STATE, PROLOGUE, EPILOGUE, RANK>;
    using Value = typename STATE::Value;
    using Held = Tuple<Vector<OPERANDS, WIDTH>...>;
    static constexpr i32 RESULTS = EPILOGUE::COUNT;
    static constexpr i32 PLACE = PROLOGUE::COUNT;
    static constexpr i32 SOURCES = PROLOGUE::COUNT + (STATE::PLACED ? 1 : 0);

    // A vector of the innermost axis: where its run begins, its first element, whether all of its
    // elements, and whether any, belong to the run and can be read as a vector.
    struct Window {
        At<SOURCES> start;
        i64 element;
        bool is_whole;
        bool is_some;
    };

    const Spaces& space;
    const void* const (&pointers)[sizeof...(OPERANDS)];
    i64* status;

    // Calls VISIT(T{}, number, stride) for every operand of the prologue.
    template <typename VISIT>
    __device__ __forceinline__ void each(VISIT visit) const {
        PROLOGUE::of([&](auto slot) {
            using T = typename decltype(slot)::type;
            visit(slot, space.inner_strides[RESULTS + decltype(slot)::NUMBER]);
            return T{};
        });
    }

    template <typename SLOT>
    __device__ __forceinline__ auto address(SLOT, const At<SOURCES>& start) const {
        using T = typename SLOT::type;
        return static_cast<const T*>(pointers[SLOT::NUMBER]) + start.at[SLOT::NUMBER];
    }

    // Elements by which a run begins behind a vector boundary; -1 where it has no vectors.
    __device__ __forceinline__ i32 shift(const At<SOURCES>& start) const {
        i32 found = -1;
        each([&](auto slot, i64 stride) {
            using T = typename decltype(slot)::type;
            const u64 elements = reinterpret_cast<u64>(address(slot, start)) / sizeof(T);
            const i32 behind = stride == 1 ? static_cast<i32>(elements % WIDTH) : -2;
            if (stride != 0) found = found == -1 || found == behind ? behind : -2;
        });
        return found < 0 ? -1 : found;
    }

    __device__ __forceinline__ bool is_even() const {
        return space.is_even && shift(At<SOURCES>{}) == 0;
    }

    __device__ __forceinline__ Window at(At<SOURCES> start, bool even, i64 vector) const {
        const i32 behind = even ? 0 : shift(start);
        const i64 element = vector * WIDTH - (behind > 0 ? behind : 0);
        const bool inside = element >= 0 && element + WIDTH <= space.inner;
        return {start, element, behind >= 0 && inside,
                element + WIDTH > 0 && element < space.inner};
    }

    // The vector of a window that is whole.
    __device__ __forceinline__ void load(Held& held, const Window& window) const {
        each([&](auto slot, i64 stride) {
            using T = typename decltype(slot)::type;
            auto& vector = get<decltype(slot)::NUMBER>(held);
            const T* from = address(slot, window.start);
            if (PROLOGUE::COUNT == 1 || stride != 0) {
                vector = load_streaming<WIDTH>(from + window.element);
                return;
            }
            const T same = *from;
#pragma unroll
            for (i32 lane = 0; lane < WIDTH; ++lane) vector.lanes[lane] = same;
        });
    }

    // Element LANE * step of a window, one by one.
    __device__ __forceinline__ void load_element(Held& held, const At<SOURCES>& start, i32 lane,
                                                 i64 element) const {
        each([&](auto slot, i64 stride) {
            get<decltype(slot)::NUMBER>(held).lanes[lane] =
                address(slot, start)[element * stride];
        });
    }

    __device__ __forceinline__ Value value(Held& held, i32 lane, bool is_valid) const {
        return convert<Value>(PROLOGUE::of(
            [&](auto slot) { return get<decltype(slot)::NUMBER>(held).lanes[lane]; },
            PROLOGUE::REPORTS && is_valid ? status : nullptr));
    }

    __device__ __forceinline__ i64 place(const Window& window, i32 lane) const {
        if constexpr (STATE::PLACED) {
            const i64 step = space.inner_strides[RESULTS + PLACE];
            return window.start.at[PLACE] + (window.element + lane) * step;
        } else {
            return 0;
        }
    }

    // COUNT vectors that were loaded; those of windows that are not whole do not count.
    template <i32 COUNT>
    __device__ __forceinline__ void take(STATE& state, Held* held, const Window* windows) const {
        Value x[COUNT * WIDTH];
#pragma unroll
        for (i32 i = 0; i < COUNT * WIDTH; ++i) {
            x[i] = value(held[i / WIDTH], i % WIDTH, windows[i / WIDTH].is_whole);
        }
        state.take(x, [&](i32 i) { return windows[i / WIDTH].is_whole; },
                   [&](i32 i) { return place(windows[i / WIDTH], i % WIDTH); }, space.options);
    }

    // The elements of a window that is not whole.
    __device__ __forceinline__ void take_elements(STATE& state, const Window& window) const {
        Held held = {};
        const auto valid = [&](i32 lane) {
            return window.element + lane >= 0 && window.element + lane < space.inner;
        };
#pragma unroll
        for (i32 lane = 0; lane < WIDTH; ++lane) {
            if (valid(lane)) load_element(held, window.start, lane, window.element + lane);
        }
        Value x[WIDTH];
#pragma unroll
        for (i32 lane = 0; lane < WIDTH; ++lane) x[lane] = value(held, lane, valid(lane));
        state.take(x, valid, [&](i32 lane) { return place(window, lane); }, space.options);
    }

    // The windows LOCATE(i), i in a range, LOADS of them in flight.
    template <i32 LOADS, typename LOCATE>
    __device__ __forceinline__ void along(STATE& state, const Range& range, LOCATE locate) const {
        constexpr i32 GROUP = WIDTH * LOADS > 16 ? (WIDTH > 16 ? 1 : 16 / WIDTH) : LOADS;
        for (i64 first = range.begin; first < range.end; first += LOADS) {
            Held held[LOADS];
            Window windows[LOADS];
            bool is_rest = false;
#pragma unroll
            for (i32 u = 0; u < LOADS; ++u) {
                windows[u] = locate(first + u < range.end ? first + u : first);
                if (first + u >= range.end) windows[u].is_whole = windows[u].is_some = false;
                is_rest = is_rest || (windows[u].is_some && !windows[u].is_whole);
                if (windows[u].is_whole) load(held[u], windows[u]);
            }
#pragma unroll
            for (i32 u = 0; u < LOADS; u += GROUP) take<GROUP>(state, held + u, windows + u);
            if (!is_rest) continue;
#pragma unroll 1
            for (i64 i = first; i < first + LOADS && i < range.end; ++i) {
                const Window window = locate(i);
                if (window.is_some && !window.is_whole) take_elements(state, window);
            }
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
