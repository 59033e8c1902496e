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

template <typename STATE, typename PROLOGUE, typename EPILOGUE, i32 WIDTH, i32 LOADS, i32 GROUP,
          i32 RANK, typename... OPERANDS>
__global__ void __launch_bounds__(THREADS, (blocks_each<STATE, PROLOGUE, WIDTH>))
    reduce_rows(typename EPILOGUE::Result* __restrict__ out, STATE* __restrict__ parts,
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
    const bool even = reading.is_even();
    const i64 vectors = ceil_divide<i64>(space.inner + (even ? 0 : WIDTH - 1), WIDTH);
    const i64 all_chunks = (vectors + team - 1) >> space.team_log;
    const Range chunks = space.shared(SPLIT_CHUNKS, all_chunks);
    const Range beside = space.shared(SPLIT_BESIDE, space.beside);
    const Range rest = space.shared(SPLIT_REST, space.rest);
    // A strip runs along the longer one of two loops.
    const bool by_chunk = all_chunks >= LOADS || all_chunks >= space.beside;
    const Range slow = by_chunk ? beside : chunks;
    const i64 chunk_elements = static_cast<i64>(team) * WIDTH;

    // shared memory
    __shared__ STATE slots[THREADS / WARP];

    const i64 stride = static_cast<i64>(gridDim.x) * teams;
#pragma unroll 1
    for (i64 base = static_cast<i64>(blockIdx.x) * teams; base < space.outputs; base += stride) {
        const i64 row = base + (threadIdx.x >> space.team_log);
        STATE state = STATE::empty();
        // load and compute
        const i64 runs = row < space.outputs ? rest.end : rest.begin;
#pragma unroll 1
        for (i64 r = rest.begin; r < runs; ++r) {
            const auto start = space.with_rest(space.kept_sources(row), r);
#pragma unroll 1
            for (i64 s = slow.begin; s < slow.end; ++s) {
                const auto run = start.moved(by_chunk ? s : beside.begin, reading.beside_strides());
                const i32 shift = even ? 0 : reading.shift(run);
                typename Rows::Strip strip;
                strip.has_vectors = shift >= 0 && (by_chunk || space.is_beside_even);
                strip.element = (by_chunk ? chunks.begin : s) * chunk_elements + lane * WIDTH -
                                (strip.has_vectors ? shift : 0);
                strip.element_step = by_chunk ? chunk_elements : 0;
                strip.count = by_chunk ? chunks.end - chunks.begin : beside.end - beside.begin;
                strip.begin = run.moved(strip.element, reading.inner_strides());
                strip.step = typename Rows::Offsets{}.moved(
                    by_chunk ? chunk_elements : 1,
                    by_chunk ? reading.inner_strides() : reading.beside_strides());
                reading.template take_strip<LOADS, GROUP>(state, strip);
            }
        }
        merge_team(state, team, slots);

        // store
        if (lane != 0 || row >= space.outputs) continue;
        if (gridDim.y > 1) {
            parts[blockIdx.y * space.results + row] = state;
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
__global__ void __launch_bounds__(THREADS, (blocks_each<STATE, PROLOGUE, WIDTH>))
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
    const i64 element = lane * WIDTH;
    const bool even = reading.is_even();
    const i64 tile = static_cast<i64>(teams) * ROWS;

#pragma unroll 1
    for (i64 base = blockIdx.x * tile; base < space.outputs; base += gridDim.x * tile) {
        const i64 row = base + (threadIdx.x >> space.team_log);
        STATE states[ROWS];
        const bool fast = even && base + tile <= space.outputs;
        if (fast) {
            // load
            typename Rows::Held held[ROWS];
            typename Rows::Offsets offsets[ROWS];
            const bool whole = element < space.inner;
#pragma unroll
            for (i32 k = 0; k < ROWS; ++k) {
                offsets[k] = space.kept_sources(row + k * teams)
                                 .moved(element, reading.inner_strides());
                if (whole) reading.load(held[k], offsets[k]);
            }
            // compute
#pragma unroll
            for (i32 k = 0; k < ROWS; ++k) {
                states[k] = STATE::empty();
                reading.template take<1>(states[k], held + k, &whole, offsets + k);
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
                if (output < space.outputs && element < space.inner) {
                    const auto offsets = space.kept_sources(output).moved(
                        element, reading.inner_strides());
                    reading.take_elements(state, offsets, element);
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

// WIDTH columns of rows begin, begin + stride, ... of `beside`, LOADS of them in flight.
template <i32 LOADS, typename STATE, i32 WIDTH, typename READING, typename OFFSETS>
__device__ __forceinline__ void take_vectors(STATE (&states)[WIDTH], const READING& reading,
                                             const OFFSETS& start, const Range& rows, i32 stride) {
    using Value = typename STATE::Value;
#pragma unroll 1
    for (i64 row = rows.begin; row < rows.end; row += stride * LOADS) {
        typename READING::Held held[LOADS];
        OFFSETS offsets[LOADS];
        bool valid[LOADS];
#pragma unroll
        for (i32 u = 0; u < LOADS; ++u) {
            valid[u] = row + u * stride < rows.end;
            offsets[u] = start.moved(row + u * stride, reading.beside_strides());
            if (valid[u]) reading.load(held[u], offsets[u]);
        }
#pragma unroll
        for (i32 lane = 0; lane < WIDTH; ++lane) {
            Value x[LOADS];
#pragma unroll
            for (i32 u = 0; u < LOADS; ++u) x[u] = reading.value(held[u], lane, valid[u]);
            states[lane].take(x, [&](i32 u) { return valid[u]; },
                              [&](i32 u) { return reading.place(offsets[u], 0); },
                              reading.space.options);
        }
    }
}

// The same, element by element.
template <typename STATE, i32 WIDTH, typename READING, typename OFFSETS>
__device__ __forceinline__ void take_scalars(STATE (&states)[WIDTH], const READING& reading,
                                             const OFFSETS& start, const Columns& columns,
                                             const Range& rows, i32 stride) {
    using Value = typename STATE::Value;
#pragma unroll 1
    for (i64 row = rows.begin; row < rows.end; row += stride) {
        typename READING::Held held = {};
        const OFFSETS offsets = start.moved(row, reading.beside_strides());
#pragma unroll
        for (i32 lane = 0; lane < WIDTH; ++lane) {
            if (columns.has(lane)) reading.load_element(held, offsets, lane, lane * columns.step);
        }
#pragma unroll
        for (i32 lane = 0; lane < WIDTH; ++lane) {
            const Value x[1] = {reading.value(held, lane, columns.has(lane))};
            states[lane].take(x, [](i32) { return true; },
                              [&](i32) { return reading.place(offsets, 0); },
                              reading.space.options);
        }
    }
}

template <typename STATE, typename PROLOGUE, typename EPILOGUE, i32 WIDTH, i32 LOADS, i32 RANK,
          typename... OPERANDS>
__global__ void __launch_bounds__(THREADS, (blocks_each<STATE, PROLOGUE, WIDTH>))
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
    const Range beside = space.shared(SPLIT_BESIDE, space.beside);
    const Range rest = space.shared(SPLIT_REST, space.rest);
    const Range rows = {beside.begin + y, beside.end};

    // shared memory
    __shared__ STATE slots[THREADS];

#pragma unroll 1
    for (i64 tile = blockIdx.x; tile < space.outputs; tile += gridDim.x) {
        const i64 group = space.extents[0].quotient(tile);
        const i64 begin = space.extents[0].remainder(tile, group) * (across * WIDTH);
        const Columns columns = {even ? x * WIDTH : x, even ? 1 : across, space.inner - begin};

        // load and compute
        STATE states[WIDTH];
#pragma unroll
        for (i32 lane = 0; lane < WIDTH; ++lane) states[lane] = STATE::empty();
#pragma unroll 1
        for (i64 r = rest.begin; r < rest.end; ++r) {
            const auto start = space.with_rest(space.kept_sources(tile), r)
                                   .moved(columns.first, reading.inner_strides());
            if (even && columns.has(WIDTH - 1)) {
                take_vectors<LOADS>(states, reading, start, rows, down);
            } else if (columns.has(0)) {
                take_scalars(states, reading, start, columns, rows, down);
            }
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
            } else {
                const auto place = space.kept_results(tile).moved(column, space.inner_strides);
                put<EPILOGUE, PROLOGUE::COUNT>(out, state, space.options, place, status, pointers);
            }
        }
    }
}

// ---- parts --------------------------------------------------------------------------------------

// The operands are those of the epilogue; `space.inner` is the number of parts.
template <typename STATE, typename EPILOGUE, i32 RANK, typename... OPERANDS>
__global__ void __launch_bounds__(THREADS, 2)
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
#pragma unroll 1
    for (i64 base = static_cast<i64>(blockIdx.x) * teams; base < space.outputs; base += stride) {
        const i64 output = base + (threadIdx.x >> space.team_log);
        STATE state = STATE::empty();
        if (output < space.outputs) {
#pragma unroll 1
            for (i64 part = lane; part < space.inner; part += team) {
                state.merge(parts[part * space.results + output]);
            }
        }
        merge_team(state, team, slots);
        if (lane == 0 && output < space.outputs) {
            put<EPILOGUE, 0>(out, state, space.options, space.kept_results(output), status,
                             pointers);
        }
    }
}
