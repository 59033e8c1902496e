// Rows in registers with the elementwise ops around them: softmax, log_softmax, layer norm.
//
//   out[r, i] = Epilogue(Row(over i: Prologue(in0[r, i], in1[r, i], ...))[i], e0[r, i], ...)
//
//   softmax_chain      Row(x)[i] = exp(x[i] - m) / sum_i exp(x[i] - m), m = max_i x[i]; where
//                      is_log is set x[i] - m - log(sum_i exp(x[i] - m))
//   layer_norm_chain   Row(x)[i] = (x[i] - mean) / sqrt(var + eps); weight and bias are operands of
//                      the epilogue
//   dtypes: of operands and result all, mixed at will; T: f16 bf16 f32 f64, which the prologue's
//   values become; computed in f32 (f64). Every architecture
//
// Launch: BLOCK threads a block; x counts teams of 2^n threads, one row each.
// A thread holds VECTORS vectors of WIDTH elements, each at a distance of the team.
// Shared memory: two numbers a warp.
// Limits: a row has at most WIDTH * VECTORS * BLOCK elements, whose results are neighbours.
// Operands are Row (neighbours along the row), Single (one value a row) or Strided. Vectors are
// moved where rows are vectors from end to end, elements one by one everywhere else. `out` overlaps
// no operand of the prologue.
// Source: as of softmax.cu and layer_norm.cu.
#include "chain.cuh"
#include "held_row.cuh"
#include "layer_norm_row.cuh"
#include "operands.cuh"
#include "softmax_row.cuh"

// Compilers from sm_100 on take more registers than so many blocks have.
template <i32 BLOCK, i32 BLOCKS>
constexpr i32 chain_blocks =
    __CUDA_ARCH__ >= 1000 ? (BLOCKS > 3 ? 2 : 1) : blocks_held<BLOCK, BLOCKS>;

// The numbers of a row that a thread holds.
template <typename T, i32 WIDTH, i32 VECTORS>
struct RowPart {
    using Value = compute_t<T>;
    static constexpr i32 ELEMENTS = WIDTH * VECTORS;

    Value x[ELEMENTS];
    i32 first;   // element of x[0]
    i32 stride;  // elements from one vector to the next
    i32 length;  // elements of the row; none of a row that is not there

    // From element 0 of the thread to element i.
    __device__ __forceinline__ i32 away(i32 i) const { return i / WIDTH * stride + i % WIDTH; }
    // Elements of the row from that one on.
    __device__ __forceinline__ i32 left(i32 i) const { return length - first - away(i); }
    __device__ __forceinline__ bool has(i32 i) const { return left(i) > 0; }
    __device__ __forceinline__ bool is_full() const { return length == VECTORS * stride; }

    // MADE(i) of all elements of the thread, joined.
    template <typename MADE, typename JOIN>
    __device__ __forceinline__ Value joined(MADE made, JOIN join) const {
        return joined_elements<Value, ELEMENTS>(made, join);
    }
};

// The operands of the prologue, then those of the epilogue, as one thread reads them.
template <typename NUMBERS, i32 WIDTH, typename... OPERANDS>
struct RowReaders;

template <i32... K, i32 WIDTH, typename... OPERANDS>
struct RowReaders<Numbers<K...>, WIDTH, OPERANDS...> {
    Tuple<Reader<OPERANDS, WIDTH, 1>...> readers;
    Tuple<typename OPERANDS::pointer...> at;  // the thread's first element of the row

    // Finds element `first` of row `row` in operands BEGIN to END - 1.
    template <i32 BEGIN, i32 END, i32 SETS, i32 RANK>
    __device__ __forceinline__ void begin(const RowSpace<SETS, RANK>& space, i64 row, i32 first,
                                          typename OPERANDS::pointer... in) {
        (begin_one<BEGIN <= K && K < END, K, OPERANDS>(space, row, first, in), ...);
    }

    template <bool IS_MEANT, i32 NUMBER, typename OPERAND, typename SPACE>
    __device__ __forceinline__ void begin_one(const SPACE& space, i64 row, i32 first,
                                              typename OPERAND::pointer in) {
        if constexpr (IS_MEANT) {
            const auto* const begin = in + space.near_row(1 + NUMBER, row);
            if constexpr (OPERAND::LIES == Lies::SINGLE) {
                get<NUMBER>(readers).begin(begin);
            } else {
                get<NUMBER>(at) = begin + first * step<NUMBER, OPERAND>(space);
            }
        }
    }

    template <i32 NUMBER, typename OPERAND, typename SPACE>
    static __device__ __forceinline__ i64 step(const SPACE& space) {
        return OPERAND::LIES == Lies::ROW ? 1 : space.row_step(1 + NUMBER);
    }

    // Loads the vector `away` elements on of operands BEGIN to END - 1, 0 where there is none.
    template <i32 BEGIN, i32 END, typename SPACE>
    __device__ __forceinline__ void fetch(const SPACE& space, i32 away, i32 lanes) {
        (fetch_one<BEGIN <= K && K < END, K, OPERANDS>(space, away, lanes), ...);
    }

    template <bool IS_MEANT, i32 NUMBER, typename OPERAND, typename SPACE>
    __device__ __forceinline__ void fetch_one(const SPACE& space, i32 away, i32 lanes) {
        if constexpr (IS_MEANT && OPERAND::LIES != Lies::SINGLE) {
            auto& reader = get<NUMBER>(readers);
            reader.held[0] = {};
            if constexpr (OPERAND::LIES == Lies::ROW) {
                if (lanes > 0) reader.template fetch<true>(0, get<NUMBER>(at) + away);
            } else {
                const i64 along = step<NUMBER, OPERAND>(space);
#pragma unroll
                for (i32 lane = 0; lane < WIDTH; ++lane) {
                    if (lane < lanes) {
                        reader.held[0].lanes[lane] = get<NUMBER>(at)[(away + lane) * along];
                    }
                }
            }
        }
    }
};

// Calls MEASURE(part) for the row of the team, then writes OF(number of part) through the epilogue.
template <typename T, typename PROLOGUE, typename EPILOGUE, i32 WIDTH, i32 VECTORS, bool IS_ALIGNED,
          typename... OPERANDS, i32 SETS, i32 RANK, typename MEASURE>
__device__ __forceinline__ void chained_row(typename EPILOGUE::Result* out,
                                            const RowSpace<SETS, RANK>& space, i64* status,
                                            compute_t<T> fill, MEASURE measure,
                                            typename OPERANDS::pointer... in) {
    using Value = compute_t<T>;
    constexpr i32 BEFORE = PROLOGUE::COUNT;
    constexpr i32 ALL = sizeof...(OPERANDS);
    constexpr i32 LANES = IS_ALIGNED ? WIDTH : 1;  // elements that are moved at once
    constexpr i32 IN_FLIGHT = 4;  // single elements on their way: more would take more registers

    // indices: teams beyond the last row read that one
    const i32 team = 1 << space.team_log;
    const i32 teams = blockDim.x >> space.team_log;
    const i64 number = static_cast<i64>(blockIdx.x) * teams + (threadIdx.x >> space.team_log);
    const i64 row = number < space.rows ? number : space.rows - 1;
    RowPart<T, WIDTH, VECTORS> part;
    part.first = (threadIdx.x & (team - 1)) * WIDTH;
    part.stride = WIDTH << space.team_log;
    part.length = static_cast<i32>(space.length);

    // load
    RowReaders<count_to<ALL>, LANES, OPERANDS...> readers;
    readers.template begin<0, BEFORE>(space, row, part.first, in...);
#pragma unroll
    for (i32 i = 0; i < WIDTH * VECTORS; i += LANES) {
        if (!IS_ALIGNED && i % IN_FLIGHT == 0) __syncwarp();
        const bool is_there = part.has(i);  // as are all lanes of a vector
        readers.template fetch<0, BEFORE>(space, part.away(i), part.left(i));
#pragma unroll
        for (i32 lane = 0; lane < LANES; ++lane) {
            const auto made = PROLOGUE::of(
                [&](auto slot) {
                    return get<decltype(slot)::NUMBER>(readers.readers).at(0, lane);
                },
                PROLOGUE::REPORTS && is_there ? status : nullptr);
            part.x[i + lane] = is_there ? convert<Value>(convert<T>(made)) : fill;
        }
    }

    // compute
    const auto of = measure(part, team);

    // store
    if (number >= space.rows) return;
    readers.template begin<BEFORE, ALL>(space, row, part.first, in...);
    auto* const to = out + space.near_row(0, row) + part.first;
#pragma unroll
    for (i32 i = 0; i < WIDTH * VECTORS; i += LANES) {
        if (!IS_ALIGNED && i % IN_FLIGHT == 0) __syncwarp();
        readers.template fetch<BEFORE, ALL>(space, part.away(i), part.left(i));
        Vector<typename EPILOGUE::Result, LANES> made;
#pragma unroll
        for (i32 lane = 0; lane < LANES; ++lane) {
            made.lanes[lane] = EPILOGUE::of(
                [&](auto slot) {
                    using Asked = typename decltype(slot)::type;
                    constexpr i32 NUMBER = decltype(slot)::NUMBER;
                    if constexpr (NUMBER == 0) {
                        return convert<Asked>(of(part.x[i + lane]));
                    } else {
                        return get<BEFORE + NUMBER - 1>(readers.readers).at(0, lane);
                    }
                },
                EPILOGUE::REPORTS && part.has(i) ? status : nullptr);
        }
        if (part.has(i)) put_lanes(to + part.away(i), made, LANES, true);
    }
}

// The same by vectors where they may be moved, else by elements.
template <typename T, typename PROLOGUE, typename EPILOGUE, i32 WIDTH, i32 VECTORS,
          typename... OPERANDS, i32 SETS, i32 RANK, typename MEASURE>
__device__ __forceinline__ void chained_rows(typename EPILOGUE::Result* out,
                                             const RowSpace<SETS, RANK>& space, i64* status,
                                             compute_t<T> fill, MEASURE measure,
                                             typename OPERANDS::pointer... in) {
    static_assert(is_float<T>, "rows are of floats");
    static_assert(sizeof...(OPERANDS) == PROLOGUE::COUNT + EPILOGUE::COUNT - 1,
                  "the operands of the prologue, then those of the epilogue");
    if (space.is_even && is_aligned<WIDTH>(out) && (... && is_vector<OPERANDS, WIDTH>(in))) {
        chained_row<T, PROLOGUE, EPILOGUE, WIDTH, VECTORS, true, OPERANDS...>(
            out, space, status, fill, measure, in...);
    } else {
        chained_row<T, PROLOGUE, EPILOGUE, WIDTH, VECTORS, false, OPERANDS...>(
            out, space, status, fill, measure, in...);
    }
}

template <typename T, typename PROLOGUE, typename EPILOGUE, i32 WIDTH, i32 VECTORS, i32 BLOCK,
          i32 BLOCKS, i32 RANK, typename... OPERANDS>
__global__ void __launch_bounds__(BLOCK, (chain_blocks<BLOCK, BLOCKS>))
    softmax_chain(typename EPILOGUE::Result* __restrict__ out, i32 is_log,
                  const __grid_constant__ RowSpace<1 + sizeof...(OPERANDS), RANK> space,
                  i64* __restrict__ status, typename OPERANDS::pointer __restrict__... in) {
    static_assert(BLOCK % WARP == 0, "whole warps");
    using Value = compute_t<T>;

    // shared memory
    __shared__ Found<Value> slots[BLOCK / WARP];

    const auto measure = [&](auto& part, i32 team) {
        const auto finish = finish_of<T>(part, is_log, AnyTeam{team}, team, slots);
        return [=](Value x) {
            return is_log ? (x - finish.from) + finish.scale : x * finish.scale;
        };
    };
    chained_rows<T, PROLOGUE, EPILOGUE, WIDTH, VECTORS, OPERANDS...>(
        out, space, status, lowest<Value>(), measure, in...);
}

template <typename T, typename PROLOGUE, typename EPILOGUE, i32 WIDTH, i32 VECTORS, i32 BLOCK,
          i32 BLOCKS, i32 RANK, typename... OPERANDS>
__global__ void __launch_bounds__(BLOCK, (chain_blocks<BLOCK, BLOCKS>))
    layer_norm_chain(typename EPILOGUE::Result* __restrict__ out, f64 eps,
                     const __grid_constant__ RowSpace<1 + sizeof...(OPERANDS), RANK> space,
                     i64* __restrict__ status, typename OPERANDS::pointer __restrict__... in) {
    static_assert(BLOCK % WARP == 0, "whole warps");
    using Value = compute_t<T>;

    // shared memory
    __shared__ Value slots[2][BLOCK / WARP];

    const auto measure = [&](auto& part, i32 team) {
        const Value share = divide(Value(1), static_cast<Value>(part.length));
        standardise<T>(part, static_cast<Value>(eps), share, team, slots);
        return [](Value x) { return x; };
    };
    chained_rows<T, PROLOGUE, EPILOGUE, WIDTH, VECTORS, OPERANDS...>(
        out, space, status, Value(0), measure, in...);
}
