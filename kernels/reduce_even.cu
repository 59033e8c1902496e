// Reductions along dense rows that are read in vectors: little work beside the loads.
//
//   out[k] = Epilogue(finish(over r: Prologue(in0[k, r], in1[k, r], ...)), e0[k], ...)
//
//   reduce_even_rows   a team of 2^n threads an output, or a part of one: LOADS vectors in flight a
//                      thread, along the row or along the reduced axis beside it
//   reduce_short_rows  rows that a team reads at once: ROWS of them in flight a team
//   dtypes: all, mixed at will; every architecture. STATE: see reductions.cuh and moments.cuh
//
// Launch: 256 threads a block. x counts teams, of reduce_short_rows teams of ROWS rows; y parts of
// the loop whose vectors are in flight, which is dealt in batches of LOADS iterations. Blocks are
// short, and many: the device's scheduler gives them to the multiprocessors that are done first.
// Where there is more than one part, states go to `parts`, one an output and part, and reduce_parts
// of reduce.cu makes the result.
// Shared memory: a state a warp (not reduce_short_rows).
// Limits: operands are dense along the row, or constant. Extents along the row and the strides of
// all other axes are multiples of WIDTH; elements are loaded one by one where a pointer is no
// multiple of a vector. Of reduce_short_rows: one axis numbers the outputs. `out` overlaps no
// operand.
// Source: none.
#include "chain.cuh"
#include "moments.cuh"
#include "reduce_reading.cuh"

template <typename STATE, typename PROLOGUE, typename EPILOGUE, i32 WIDTH, i32 LOADS, i32 GROUP,
          i32 BLOCKS, i32 RANK, typename... OPERANDS>
__global__ void __launch_bounds__(THREADS, (blocks_held<THREADS, BLOCKS>))
    reduce_even_rows(typename EPILOGUE::Result* __restrict__ out, STATE* __restrict__ parts,
                     const __grid_constant__ space_of<STATE, PROLOGUE, EPILOGUE, RANK> space,
                     i64* __restrict__ status, const OPERANDS* __restrict__... operands) {
    static_assert(sizeof...(OPERANDS) == PROLOGUE::COUNT + EPILOGUE::COUNT - 1,
                  "the operands of the prologue, then those of the epilogue");
    using Rows = Reading<STATE, PROLOGUE, EPILOGUE, WIDTH, RANK, OPERANDS...>;
    using Offsets = typename Rows::Offsets;
    const void* const pointers[] = {operands...};
    const Rows reading = {space, pointers, status};

    // indices
    const i32 team = 1 << space.team_log;
    const i32 lane = threadIdx.x & (team - 1);
    const i32 last = lane | ((team < WARP ? team : WARP) - 1);  // lane of its warp and team
    const i64 row = static_cast<i64>(blockIdx.x) * (THREADS >> space.team_log) +
                    (threadIdx.x >> space.team_log);
    const bool even = reading.is_even();
    const i64 vectors = space.inner / WIDTH;
    const Share batches = space.dealt(SPLIT_BESIDE, ceil_divide<i64>(space.beside, LOADS));
    const i64 begin = batches.begin * LOADS;
    const i64 jump = batches.step * LOADS;
    i64 own = (lane < vectors ? space.beside : 0) - begin;
    bool is_ahead = false;  // of a lane of the warp that has an iteration less
    if (space.by_chunk) {
        const i32 ragged = static_cast<i32>(vectors) & (team - 1);
        own = (vectors >> space.team_log) + (lane < ragged) - begin;
        is_ahead = lane < ragged && last >= ragged;
    }
    const i64 end = own - batches.count * jump;
    const Offsets step = Offsets{}.moved(1, reading.beside_strides());

    // shared memory
    __shared__ STATE slots[THREADS / WARP];

    // load and compute
    STATE state = STATE::empty();
    if (row < space.outputs) {
        const Offsets first = space.kept_sources(row)
                                  .moved(lane * WIDTH, reading.inner_strides())
                                  .moved(begin, step.at);
#pragma unroll 1
        for (i64 r = 0; r < space.rest; ++r) {
            Offsets from = space.with_rest(first, r);
#pragma unroll 1
            for (i64 left = own; left > end; left -= jump) {
                if (!even) {
#pragma unroll 1
                    for (i32 u = 0; u < LOADS && u < left; ++u) {
                        reading.take_elements(state, from.moved(u, step.at), 0);
                    }
                } else if (left - is_ahead >= LOADS) {
                    reading.template take_batch<LOADS, GROUP>(state, from, step, Every{});
                } else {
                    reading.template take_batch<LOADS, GROUP>(state, from, step,
                                                              [=](i32 u) { return u < left; });
                }
                from = from.moved(jump, step.at);
            }
        }
    }
    merge_team(state, team, slots);

    // store
    if (lane != 0 || row >= space.outputs) return;
    if (gridDim.y > 1) {
        parts[blockIdx.y * space.results + row] = state;
    } else {
        put<EPILOGUE, PROLOGUE::COUNT>(out, state, space.options, space.kept_results(row), status,
                                       pointers);
    }
}

template <typename STATE, typename PROLOGUE, typename EPILOGUE, i32 WIDTH, i32 ROWS, i32 BLOCKS,
          i32 RANK, typename... OPERANDS>
__global__ void __launch_bounds__(THREADS, (blocks_held<THREADS, BLOCKS>))
    reduce_short_rows(typename EPILOGUE::Result* __restrict__ out,
                      const __grid_constant__ space_of<STATE, PROLOGUE, EPILOGUE, RANK> space,
                      i64* __restrict__ status, const OPERANDS* __restrict__... operands) {
    static_assert(sizeof...(OPERANDS) == PROLOGUE::COUNT + EPILOGUE::COUNT - 1,
                  "the operands of the prologue, then those of the epilogue");
    static_assert((ROWS & (ROWS - 1)) == 0, "rows are halved");
    using Rows = Reading<STATE, PROLOGUE, EPILOGUE, WIDTH, RANK, OPERANDS...>;
    using Offsets = typename Rows::Offsets;
    const void* const pointers[] = {operands...};
    const Rows reading = {space, pointers, status};

    // indices: rows of a warp lie one beside the other
    const i32 log = space.team_log;
    const i32 team = 1 << log;
    const i32 teams = WARP >> log;
    const i32 lane = threadIdx.x & (team - 1);
    const i64 base =
        (static_cast<i64>(blockIdx.x) * (THREADS / WARP) + warp_index()) * (teams * ROWS);
    if (base >= space.outputs) return;
    const i64 row = base + (lane_index() >> log);
    const bool is_inside = lane * WIDTH < space.inner;
    const i64 left = (space.outputs - row + teams - 1) >> (WARP_LOG - log);
    const i32 rows = left < ROWS ? static_cast<i32>(left) : ROWS;  // of this team
    const bool even = reading.is_even();

    // load: what lies outside is the last row, or the first vector, again
    typename Rows::Held held[ROWS];
    Offsets offsets[ROWS];
    Offsets next;
#pragma unroll
    for (i32 k = 0; k < Rows::SOURCES; ++k) {
        const i64 stride = space.strides[Rows::RESULTS + k][0];
        next.at[k] = teams * stride;
        offsets[0].at[k] = (rows > 0 ? row : space.outputs - 1) * stride +
                           (is_inside ? lane * WIDTH : 0) * reading.inner_strides()[k];
    }
#pragma unroll
    for (i32 k = 1; k < ROWS; ++k) {
        offsets[k] = k < rows ? offsets[k - 1].moved_by(next) : offsets[k - 1];
    }
    if (even) {
#pragma unroll
        for (i32 k = 0; k < ROWS; ++k) reading.load(held[k], offsets[k]);
    } else {
#pragma unroll
        for (i32 k = 0; k < ROWS; ++k) reading.load(held[k], offsets[k], false);
    }

    // compute
    STATE states[ROWS];
#pragma unroll
    for (i32 k = 0; k < ROWS; ++k) {
        states[k] = STATE::empty();
        reading.template take<1>(states[k], held + k, Every{}, offsets[k], next);
        if (!is_inside) states[k] = STATE::empty();
    }
    i32 first = 0;
    const i32 kept = merge_transposed<ROWS>(states, team, first);

    // store
    const i32 sharers = team * kept / ROWS;  // lanes with the same output
    if ((lane & (sharers - 1)) != 0) return;
#pragma unroll
    for (i32 k = 0; k < ROWS; ++k) {
        if (k < kept && first + k < rows) {
            At<EPILOGUE::COUNT> place;
#pragma unroll
            for (i32 j = 0; j < EPILOGUE::COUNT; ++j) {
                place.at[j] = (row + (first + k) * teams) * space.strides[j][0];
            }
            put<EPILOGUE, PROLOGUE::COUNT>(out, states[k], space.options, place, status, pointers);
        }
    }
}
