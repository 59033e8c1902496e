// Reductions over any axes of operands of any layout, with the elementwise ops around them.
//
//   out[k] = Epilogue(finish(over r: Prologue(in0[k, r], in1[k, r], ...)), e0[k], ...)
//
//   reduce_rows        the innermost axis is reduced: a team of 2^n threads an output
//   reduce_short_rows  rows that a team reads at once: ROWS of them in flight a team
//   reduce_columns     the innermost axis is kept: a thread WIDTH columns, rows of threads a block
//   reduce_parts       joins what the blocks along y found, in a fixed order
//   dtypes: all, mixed at will; every architecture. STATE: see reductions.cuh and moments.cuh
//
// Launch: 256 threads a block. x counts teams or tiles of columns, in a grid-stride loop; y parts
// of the reduced axes. Where there is more than one part, states go to `parts`, one an output and
// part, and reduce_parts makes the result.
// A thread loads LOADS vectors of every operand before it uses the first.
// Shared memory: a state a warp (rows), a state a thread (columns).
// Limits: any extents and strides. Vectors are loaded where all operands that vary along the
// innermost axis are dense along it and equally far from a vector boundary; elements one by one at
// both ends of such a run, and everywhere else. `out` overlaps no operand.
#include "chain.cuh"
#include "moments.cuh"
#include "reduce_space.cuh"

// ---- rows ---------------------------------------------------------------------------------------

template <typename STATE, typename PROLOGUE, typename EPILOGUE, i32 WIDTH, i32 LOADS, i32 RANK,
          typename... OPERANDS>
__global__ void __launch_bounds__(THREADS)
    reduce_rows(typename EPILOGUE::Result* __restrict__ out, STATE* __restrict__ parts,
                const __grid_constant__ space_of<STATE, PROLOGUE, EPILOGUE, RANK> space,
                i64* __restrict__ status, const OPERANDS* __restrict__... operands) {
    static_assert(sizeof...(OPERANDS) == PROLOGUE::COUNT + EPILOGUE::COUNT - 1,
                  "the operands of the prologue, then those of the epilogue");
    const void* const pointers[] = {operands...};
    const Reading<STATE, PROLOGUE, EPILOGUE, WIDTH, RANK, OPERANDS...> reading = {space, pointers,
                                                                                 status};

    // indices
    const i32 team = 1 << space.team_log;
    const i32 teams = THREADS >> space.team_log;
    const i32 lane = threadIdx.x & (team - 1);
    const bool even = reading.is_even();
    const i64 vectors = ceil_divide<i64>(space.inner + (even ? 0 : WIDTH - 1), WIDTH);
    const i64 chunks = (vectors + team - 1) >> space.team_log;
    const Part part = part_of(space, chunks);
    const bool by_chunk = chunks >= LOADS || space.outer == 1;
    const Range slow = by_chunk ? part.outer : part.chunks;
    const Range fast = by_chunk ? part.chunks : part.outer;

    // shared memory
    __shared__ STATE slots[THREADS / WARP];

    const i64 stride = static_cast<i64>(gridDim.x) * teams;
    for (i64 base = static_cast<i64>(blockIdx.x) * teams; base < space.outputs; base += stride) {
        const i64 row = base + (threadIdx.x >> space.team_log);
        STATE state = STATE::empty();
        if (row < space.outputs) {
            // load and compute
            const auto start = space.kept_sources(row);
            for (i64 s = slow.begin; s < slow.end; ++s) {
                reading.template along<LOADS>(state, fast, [&](i64 f) {
                    auto begin = start;
                    space.add_reduced(begin, by_chunk ? s : f);
                    return reading.at(begin, even, ((by_chunk ? f : s) << space.team_log) + lane);
                });
            }
        }
        merge_team(state, team, slots);

        // store
        if (lane != 0 || row >= space.outputs) continue;
        if (gridDim.y > 1) {
            parts[blockIdx.y * space.outputs + row] = state;
        } else {
            put<EPILOGUE, PROLOGUE::COUNT>(out, state, space.options, space.kept_results(row),
                                           status, pointers);
        }
    }
}

// State K of COUNT states in registers, K known at run time alone.
template <i32 COUNT, typename STATE>
__device__ __forceinline__ STATE picked(const STATE (&states)[COUNT], i32 k) {
    STATE state = states[0];
#pragma unroll
    for (i32 i = 1; i < COUNT; ++i) {
        if (i == k) state = states[i];
    }
    return state;
}

template <typename STATE, typename PROLOGUE, typename EPILOGUE, i32 WIDTH, i32 ROWS, i32 RANK,
          typename... OPERANDS>
__global__ void __launch_bounds__(THREADS)
    reduce_short_rows(typename EPILOGUE::Result* __restrict__ out,
                      const __grid_constant__ space_of<STATE, PROLOGUE, EPILOGUE, RANK> space,
                      i64* __restrict__ status, const OPERANDS* __restrict__... operands) {
    static_assert(sizeof...(OPERANDS) == PROLOGUE::COUNT + EPILOGUE::COUNT - 1,
                  "the operands of the prologue, then those of the epilogue");
    using Rows = Reading<STATE, PROLOGUE, EPILOGUE, WIDTH, RANK, OPERANDS...>;
    const void* const pointers[] = {operands...};
    const Rows reading = {space, pointers, status};

    // indices
    const i32 team = 1 << space.team_log;
    const i32 teams = THREADS >> space.team_log;
    const i32 lane = threadIdx.x & (team - 1);
    const i32 self = threadIdx.x >> space.team_log;
    const bool even = reading.is_even();
    const i64 vectors = ceil_divide<i64>(space.inner + (even ? 0 : WIDTH - 1), WIDTH);
    const Range chunks = {0, (vectors + team - 1) >> space.team_log};

    const i64 stride = static_cast<i64>(gridDim.x) * (teams * ROWS);
    const i64 begin = static_cast<i64>(blockIdx.x) * (teams * ROWS);
    for (i64 base = begin; base < space.outputs; base += stride) {
        const i64 row = base + self;
        STATE states[ROWS];
        const bool fast = even && base + teams * ROWS <= space.outputs;
        if (fast) {
            // load
            typename Rows::Held held[ROWS];
            typename Rows::Window windows[ROWS];
#pragma unroll
            for (i32 k = 0; k < ROWS; ++k) {
                windows[k] = reading.at(space.kept_sources(row + k * teams), true, lane);
                if (windows[k].is_whole) reading.load(held[k], windows[k]);
            }
            // compute
#pragma unroll
            for (i32 k = 0; k < ROWS; ++k) {
                states[k] = STATE::empty();
                reading.template take<1>(states[k], held + k, windows + k);
            }
#pragma unroll 1
            for (i32 step = 1; step < team; step *= 2) {
#pragma unroll
                for (i32 k = 0; k < ROWS; ++k) {
                    states[k].merge(
                        states[k].moved([=](auto field) { return shuffle_down(field, step); }));
                }
            }
        }
        // store; and rows that are not even, one by one
#pragma unroll 1
        for (i32 k = 0; k < ROWS; ++k) {
            const i64 output = row + k * teams;
            STATE state = fast ? picked(states, k) : STATE::empty();
            if (!fast) {
                if (output < space.outputs) {
                    const auto start = space.kept_sources(output);
                    reading.template along<1>(state, chunks, [&](i64 chunk) {
                        return reading.at(start, even, (chunk << space.team_log) + lane);
                    });
                }
                merge_lanes(state, team);
            }
            if (lane == 0 && output < space.outputs) {
                put<EPILOGUE, PROLOGUE::COUNT>(out, state, space.options,
                                               space.kept_results(output), status, pointers);
            }
        }
    }
}

// ---- columns ------------------------------------------------------------------------------------

// The columns of a thread: `first`, and others at a distance of `step`.
struct Columns {
    i32 first;
    i32 step;
    i64 count;  // columns from the tile's first on

    __device__ __forceinline__ bool has(i32 lane) const { return first + lane * step < count; }
};

// WIDTH columns of rows begin, begin + stride, ..., LOADS of them in flight.
template <i32 LOADS, typename STATE, i32 WIDTH, typename READING, typename START>
__device__ __forceinline__ void take_vectors(STATE (&states)[WIDTH], const READING& reading,
                                             const START& start, const Columns& columns,
                                             const Range& rows, i32 stride) {
    using Value = typename STATE::Value;
    for (i64 row = rows.begin; row < rows.end; row += stride * LOADS) {
        typename READING::Held held[LOADS];
        typename READING::Window windows[LOADS];
#pragma unroll
        for (i32 u = 0; u < LOADS; ++u) {
            windows[u] = {start, columns.first, row + u * stride < rows.end, true};
            if (!windows[u].is_whole) continue;
            reading.space.add_reduced(windows[u].start, row + u * stride);
            reading.load(held[u], windows[u]);
        }
#pragma unroll
        for (i32 lane = 0; lane < WIDTH; ++lane) {
            Value x[LOADS];
#pragma unroll
            for (i32 u = 0; u < LOADS; ++u) {
                x[u] = reading.value(held[u], lane, windows[u].is_whole);
            }
            states[lane].take(x, [&](i32 u) { return windows[u].is_whole; },
                              [&](i32 u) { return reading.place(windows[u], 0); },
                              reading.space.options);
        }
    }
}

// The same, element by element.
template <typename STATE, i32 WIDTH, typename READING, typename START>
__device__ __forceinline__ void take_scalars(STATE (&states)[WIDTH], const READING& reading,
                                             const START& start, const Columns& columns,
                                             const Range& rows, i32 stride) {
    using Value = typename STATE::Value;
#pragma unroll 1
    for (i64 row = rows.begin; row < rows.end; row += stride) {
        typename READING::Held held = {};
        typename READING::Window window = {start, 0, true, true};
        reading.space.add_reduced(window.start, row);
#pragma unroll
        for (i32 lane = 0; lane < WIDTH; ++lane) {
            if (!columns.has(lane)) continue;
            reading.load_element(held, window.start, lane, columns.first + lane * columns.step);
        }
#pragma unroll
        for (i32 lane = 0; lane < WIDTH; ++lane) {
            const Value x[1] = {reading.value(held, lane, columns.has(lane))};
            states[lane].take(x, [](i32) { return true; },
                              [&](i32) { return reading.place(window, 0); },
                              reading.space.options);
        }
    }
}

template <typename STATE, typename PROLOGUE, typename EPILOGUE, i32 WIDTH, i32 LOADS, i32 RANK,
          typename... OPERANDS>
__global__ void __launch_bounds__(THREADS)
    reduce_columns(typename EPILOGUE::Result* __restrict__ out, STATE* __restrict__ parts,
                   const __grid_constant__ space_of<STATE, PROLOGUE, EPILOGUE, RANK> space,
                   i64* __restrict__ status, const OPERANDS* __restrict__... operands) {
    static_assert(sizeof...(OPERANDS) == PROLOGUE::COUNT + EPILOGUE::COUNT - 1,
                  "the operands of the prologue, then those of the epilogue");
    const void* const pointers[] = {operands...};
    const Reading<STATE, PROLOGUE, EPILOGUE, WIDTH, RANK, OPERANDS...> reading = {space, pointers,
                                                                                 status};

    // indices
    const i32 across = 1 << space.team_log;
    const i32 down = THREADS >> space.team_log;
    const i32 x = threadIdx.x & (across - 1);
    const i32 y = threadIdx.x >> space.team_log;
    const bool even = reading.is_even();
    const Range outer = part_of(space, 1).outer;
    const Range rows = {outer.begin + y, outer.end};

    // shared memory
    __shared__ STATE slots[THREADS];

    for (i64 tile = blockIdx.x; tile < space.outputs; tile += gridDim.x) {
        const i64 group = space.extents[0].quotient(tile);
        const i64 begin = space.extents[0].remainder(tile, group) * (across * WIDTH);
        const Columns columns = {even ? x * WIDTH : x, even ? 1 : across, space.inner - begin};

        // load and compute
        STATE states[WIDTH];
#pragma unroll
        for (i32 lane = 0; lane < WIDTH; ++lane) states[lane] = STATE::empty();
        const auto start = space.kept_sources(tile);
        if (even && columns.has(WIDTH - 1)) {
            take_vectors<LOADS>(states, reading, start, columns, rows, down);
        } else if (columns.has(0)) {
            take_scalars(states, reading, start, columns, rows, down);
        }

        // store
#pragma unroll 1
        for (i32 lane = 0; lane < WIDTH; ++lane) {
            STATE state = picked(states, lane);
            merge_columns(state, across, THREADS, slots);
            if (y != 0 || !columns.has(lane)) continue;
            const i64 column = columns.first + lane * columns.step;
            if (gridDim.y > 1) {
                const i64 output = group * space.inner + begin + column;
                parts[blockIdx.y * space.results + output] = state;
                continue;
            }
            auto place = space.kept_results(tile);
#pragma unroll
            for (i32 k = 0; k < EPILOGUE::COUNT; ++k) {
                place.at[k] += column * space.inner_strides[k];
            }
            put<EPILOGUE, PROLOGUE::COUNT>(out, state, space.options, place, status, pointers);
        }
    }
}

// ---- parts --------------------------------------------------------------------------------------

// Prologue::COUNT is 0 here: the operands are those of the epilogue. `space.part` states an output.
template <typename STATE, typename EPILOGUE, i32 RANK, typename... OPERANDS>
__global__ void __launch_bounds__(THREADS)
    reduce_parts(typename EPILOGUE::Result* __restrict__ out, const STATE* __restrict__ parts,
                 const __grid_constant__ Space<RANK, EPILOGUE::COUNT, 0> space,
                 i64* __restrict__ status, const OPERANDS* __restrict__... operands) {
    static_assert(sizeof...(OPERANDS) == EPILOGUE::COUNT - 1, "the operands of the epilogue");
    const void* const pointers[sizeof...(OPERANDS) + 1] = {operands..., nullptr};

    // indices
    const i32 team = 1 << space.team_log;
    const i32 teams = THREADS >> space.team_log;
    const i32 lane = threadIdx.x & (team - 1);

    // shared memory
    __shared__ STATE slots[THREADS / WARP];

    const i64 stride = static_cast<i64>(gridDim.x) * teams;
    for (i64 base = static_cast<i64>(blockIdx.x) * teams; base < space.outputs; base += stride) {
        const i64 output = base + (threadIdx.x >> space.team_log);
        STATE state = STATE::empty();
        if (output < space.outputs) {
            for (i64 part = lane; part < space.part; part += team) {
                state.merge(parts[part * space.outputs + output]);
            }
        }
        merge_team(state, team, slots);
        if (lane == 0 && output < space.outputs) {
            put<EPILOGUE, 0>(out, state, space.options, space.kept_results(output), status,
                             pointers);
        }
    }
}
