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
    using Reading = Reading<STATE, PROLOGUE, WIDTH, OPERANDS...>;
    const void* const pointers[] = {operands...};

    // indices
    const i32 team = 1 << space.team_log;
    const i32 teams = THREADS >> space.team_log;
    const i32 lane = threadIdx.x & (team - 1);
    const bool is_even = space.is_even && Reading::is_aligned(pointers, space);
    const i64 vectors = ceil_divide<i64>(space.inner + (is_even ? 0 : WIDTH - 1), WIDTH);
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
            const auto start = space.kept_sources(row);
            for (i64 s = slow.begin; s < slow.end; ++s) {
                const auto locate = [&](i64 f) {
                    const i64 chunk = by_chunk ? f : s;
                    return Reading::located(pointers, space, start, by_chunk ? s : f,
                                            (chunk << space.team_log) + lane);
                };
                Reading::template along<LOADS>(state, pointers, space, fast, locate, status);
            }
        }
        merge_team(state, team, slots);
        if (lane == 0 && row < space.outputs) {
            put_output<EPILOGUE, PROLOGUE::COUNT>(out, parts, space, row, state, status, pointers);
        }
    }
}

template <typename STATE, typename PROLOGUE, typename EPILOGUE, i32 WIDTH, i32 ROWS, i32 RANK,
          typename... OPERANDS>
__global__ void __launch_bounds__(THREADS)
    reduce_short_rows(typename EPILOGUE::Result* __restrict__ out, STATE* __restrict__ parts,
                      const __grid_constant__ space_of<STATE, PROLOGUE, EPILOGUE, RANK> space,
                      i64* __restrict__ status, const OPERANDS* __restrict__... operands) {
    static_assert(sizeof...(OPERANDS) == PROLOGUE::COUNT + EPILOGUE::COUNT - 1,
                  "the operands of the prologue, then those of the epilogue");
    using Reading = Reading<STATE, PROLOGUE, WIDTH, OPERANDS...>;
    const void* const pointers[] = {operands...};

    // indices
    const i32 team = 1 << space.team_log;
    const i32 teams = THREADS >> space.team_log;
    const i32 lane = threadIdx.x & (team - 1);
    const bool is_even = space.is_even && Reading::is_aligned(pointers, space);
    const i64 stride = static_cast<i64>(gridDim.x) * (teams * ROWS);
    const i64 begin = static_cast<i64>(blockIdx.x) * (teams * ROWS);
    const i32 first = threadIdx.x >> space.team_log;

    for (i64 base = begin; base < space.outputs; base += stride) {
        if (is_even && lane * WIDTH < space.inner && base + teams * ROWS <= space.outputs) {
            // load
            typename Reading::Held held[ROWS];
            typename Reading::Place places[ROWS];
#pragma unroll
            for (i32 k = 0; k < ROWS; ++k) {
                const auto start = space.kept_sources(base + first + k * teams);
                places[k] = Reading::evenly(space, start, lane);
                Reading::load(held[k], pointers, space, places[k]);
            }
            // compute and store
            STATE states[ROWS];
#pragma unroll
            for (i32 k = 0; k < ROWS; ++k) {
                states[k] = STATE::empty();
                Reading::template take<1>(states[k], &held[k], space, &places[k], status);
            }
            merge_rows(states, team);
            if (lane == 0) {
#pragma unroll
                for (i32 k = 0; k < ROWS; ++k) {
                    put_output<EPILOGUE, PROLOGUE::COUNT>(out, parts, space,
                                                          base + first + k * teams, states[k],
                                                          status, pointers);
                }
            }
        }
    }
}
