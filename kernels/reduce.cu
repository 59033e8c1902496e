// Reductions over any axes of operands of any layout, with the elementwise ops around them.
//
//   out[k] = Epilogue(finish(over r: Prologue(in0[k, r], in1[k, r], ...)), e0[k], ...)
//
//   reduce_rows        the innermost axis is reduced: a team of 2^n threads an output
//   reduce_columns     the innermost axis is kept: a thread WIDTH columns, rows of threads a block
//   reduce_parts       joins what the blocks along y found, in a fixed order
//   dtypes: all, mixed at will; every architecture. STATE: see reductions.cuh and moments.cuh
//
// Launch: 256 threads a block. x counts teams, in a grid-stride loop, or, with z, tiles of columns;
// y parts of the reduced axes, of reduce_columns batches of these. Where there is more than one
// part, states go to `parts`, one an output and part, and reduce_parts makes the result.
// A thread loads LOADS vectors of every operand before it uses the first.
// Shared memory: a state a warp (rows), WIDTH a thread (columns), one a thread (parts).
// Limits: any extents and strides. Vectors are loaded where all operands that vary along the
// innermost axis are dense along it and equally far from a vector boundary; elements one by one at
// both ends of such a run, and everywhere else. `out` overlaps no operand.
#include "chain.cuh"
#include "moments.cuh"
#include "reduce_batches.cuh"

// ---- rows ---------------------------------------------------------------------------------------

template <typename STATE, typename PROLOGUE, typename EPILOGUE, i32 WIDTH, i32 LOADS, i32 GROUP,
          i32 BLOCKS, i32 RANK, typename... OPERANDS>
__global__ void __launch_bounds__(THREADS, (blocks_held<THREADS, BLOCKS>))
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
    const Share chunks = space.shared(SPLIT_CHUNKS, all_chunks);
    const Share beside = space.shared(SPLIT_BESIDE, space.beside);
    const Share rest = space.shared(SPLIT_REST, space.rest);
    // A strip runs along the longer one of two loops.
    const bool by_chunk = all_chunks >= LOADS || all_chunks >= space.beside;
    const Share slow = by_chunk ? beside : chunks;
    const Share quick = by_chunk ? chunks : beside;
    const i64 chunk_elements = static_cast<i64>(team) * WIDTH;

    // shared memory
    __shared__ STATE slots[THREADS / WARP];

    const i64 stride = static_cast<i64>(gridDim.x) * teams;
#pragma unroll 1
    for (i64 base = static_cast<i64>(blockIdx.x) * teams; base < space.outputs; base += stride) {
        const i64 row = base + (threadIdx.x >> space.team_log);
        STATE state = STATE::empty();
        // load and compute
        const i64 runs = row < space.outputs ? rest.count : 0;
#pragma unroll 1
        for (i64 r = 0; r < runs; ++r) {
            const auto start =
                space.with_rest(space.kept_sources(row), rest.begin + r * rest.step);
#pragma unroll 1
            for (i64 s = 0; s < slow.count; ++s) {
                const i64 number = slow.begin + s * slow.step;
                const auto run =
                    start.moved(by_chunk ? number : beside.begin, reading.beside_strides());
                const i32 shift = even ? 0 : reading.shift(run);
                typename Rows::Strip strip;
                strip.has_vectors = shift >= 0 && (by_chunk || space.is_beside_even);
                strip.element = (by_chunk ? chunks.begin : number) * chunk_elements +
                                lane * WIDTH - (strip.has_vectors ? shift : 0);
                strip.element_step = by_chunk ? chunks.step * chunk_elements : 0;
                strip.count = quick.count;
                strip.begin = run.moved(strip.element, reading.inner_strides());
                strip.step = typename Rows::Offsets{}.moved(
                    by_chunk ? strip.element_step : beside.step,
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

// ---- columns ------------------------------------------------------------------------------------

// Compilers for architectures below sm_90, and for many numbers a thread from sm_100 on, take more
// registers than that many blocks have.
template <typename STATE, i32 WIDTH, i32 BLOCKS>
constexpr i32 column_blocks =
    __CUDA_ARCH__ >= 1000 && (sizeof(STATE) > 16 || sizeof(STATE) * WIDTH > 64) ? 1
    : __CUDA_ARCH__ < 900 && BLOCKS > 2                                        ? 2
                                                 : blocks_held<THREADS, BLOCKS>;

template <typename STATE, typename PROLOGUE, typename EPILOGUE, i32 WIDTH, i32 LOADS, i32 BLOCKS,
          i32 RANK, typename... OPERANDS>
__global__ void __launch_bounds__(THREADS, (column_blocks<STATE, WIDTH, BLOCKS>))
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
    const i64 tile = blockIdx.x + static_cast<i64>(blockIdx.z) * gridDim.x;
    if (tile >= space.outputs) return;
    const i64 group = space.extents[0].quotient(tile);
    const i64 begin = space.extents[0].remainder(tile, group) * (across * WIDTH);
    const bool even = reading.is_even();
    const Columns columns = {even ? x * WIDTH : x, even ? 1 : across, space.inner - begin};
    const Share rest = space.shared(SPLIT_REST, space.rest);
    const i64 count = ceil_divide<i64>(space.beside, LOADS) + down - 1;
    const RowBatches rows = {space.dealt(SPLIT_BESIDE, count >> (THREADS_LOG - space.team_log)),
                       space.beside, down, y};

    // shared memory
    __shared__ STATE slots[THREADS * WIDTH];

    // load and compute
    STATE states[WIDTH];
#pragma unroll
    for (i32 lane = 0; lane < WIDTH; ++lane) states[lane] = STATE::empty();
#pragma unroll 1
    for (i64 r = 0; r < rest.count; ++r) {
        const auto start = space.with_rest(space.kept_sources(tile), rest.begin + r * rest.step)
                               .moved(columns.first, reading.inner_strides());
        if (even && columns.has(WIDTH - 1)) {
            take_vectors<LOADS>(states, reading, start, rows);
        } else if (columns.has(0)) {
            take_scalars<LOADS>(states, reading, start, columns, rows);
        }
    }

    // store
    const auto column_of = [&](i32 lane) { return columns.first + lane * columns.step; };
    merge_tile<THREADS>(states, across, column_of, slots, [&](i32 column, const STATE& state) {
        if (column >= columns.count) return;
        if (gridDim.y > 1) {
            const i64 output = group * space.inner + begin + column;
            parts[blockIdx.y * space.results + output] = state;
        } else {
            const auto place = space.kept_results(tile).moved(column, space.inner_strides);
            put<EPILOGUE, PROLOGUE::COUNT>(out, state, space.options, place, status, pointers);
        }
    });
}

// ---- parts --------------------------------------------------------------------------------------

// The operands are those of the epilogue; `space.inner` is the number of parts. A block takes
// 2^team_log outputs, its threads along y the parts of each.
template <typename STATE, typename EPILOGUE, i32 RANK, typename... OPERANDS>
__global__ void __launch_bounds__(THREADS, 2)
    reduce_parts(typename EPILOGUE::Result* __restrict__ out, const STATE* __restrict__ parts,
                 const __grid_constant__ Space<RANK, EPILOGUE::COUNT, 0> space,
                 i64* __restrict__ status, const OPERANDS* __restrict__... operands) {
    static_assert(sizeof...(OPERANDS) == EPILOGUE::COUNT - 1, "the operands of the epilogue");
    constexpr i32 LOADS = sizeof(STATE) <= 8 ? 16 : 4;
    const void* const pointers[sizeof...(OPERANDS) + 1] = {operands..., nullptr};

    // indices
    const i32 across = 1 << space.team_log;
    const i32 down = THREADS >> space.team_log;
    const i32 x = threadIdx.x & (across - 1);
    const i32 y = threadIdx.x >> space.team_log;

    // shared memory
    __shared__ STATE slots[THREADS];

    const i64 stride = static_cast<i64>(gridDim.x) * across;
#pragma unroll 1
    for (i64 base = static_cast<i64>(blockIdx.x) * across; base < space.outputs; base += stride) {
        const i64 output = base + x;
        const i64 count = output < space.outputs ? space.inner : 0;
        // load and compute
        STATE state = STATE::empty();
#pragma unroll 1
        for (i64 part = y; part < count; part += LOADS * down) {
            STATE held[LOADS];
#pragma unroll
            for (i32 u = 0; u < LOADS; ++u) {
                held[u] = STATE::empty();
                const i64 number = part + u * down;
                if (number < count) held[u] = parts[number * space.results + output];
            }
#pragma unroll
            for (i32 u = 0; u < LOADS; ++u) state.merge(held[u]);
        }
        merge_columns<THREADS>(state, across, slots);

        // store
        if (y == 0 && output < space.outputs) {
            put<EPILOGUE, 0>(out, state, space.options, space.kept_results(output), status,
                             pointers);
        }
    }
}
