// Fused chains of elementwise ops over operands of any layout, to a dense result.
//
//   out[i] = Chain(in0[i], in1[i], ...)       Chain is generated: chain.cuh, over ops.cuh
//
//   elementwise_dense     operands Dense or Single: vectors of WIDTH, no division
//   elementwise_strided   any operands, RANK fused axes, counted in vectors of WIDTH along the
//                         innermost; Row operands by vectors, Level by one value a vector
//   dtypes: all, mixed at will; every architecture
//
// Launch: 256 threads a block, a tile of 256 * WIDTH * UNROLL elements a block, grid-stride.
// Every thread loads UNROLL vectors of each operand before it uses the first.
// Shared memory: none.
// Limits: any count and any alignment: where an address is not a multiple of its vector, lanes
// are moved one by one, the same for all threads. Operands of type Strided need WIDTH 1. `status`
// may be null; see `report` of ops.cuh. `out` overlaps no operand.
#include "chain.cuh"
#include "operands.cuh"
#include "strided.cuh"

constexpr i32 THREADS = 256;

// ---- dense --------------------------------------------------------------------------------------

template <typename CHAIN, typename NUMBERS, typename... OPERANDS>
struct DenseLoop;

template <typename CHAIN, i32... K, typename... OPERANDS>
struct DenseLoop<CHAIN, Numbers<K...>, OPERANDS...> {
    using Result = typename CHAIN::Result;

    // UNROLL vectors a thread; where IS_WHOLE is false, nothing at `limit` or beyond is touched.
    template <i32 WIDTH, i32 UNROLL, bool IS_WHOLE>
    static __device__ __forceinline__ void vectors(Result* out, i32 limit, i64* status,
                                                   const typename OPERANDS::type*... in) {
        // load
        Tuple<Reader<OPERANDS, WIDTH, UNROLL>...> readers;
        (get<K>(readers).begin(in), ...);
        i32 place[UNROLL];
#pragma unroll
        for (i32 u = 0; u < UNROLL; ++u) {
            place[u] = (u * THREADS + static_cast<i32>(threadIdx.x)) * WIDTH;
            const i32 from = IS_WHOLE || place[u] < limit ? place[u] : 0;
            (get<K>(readers).template fetch<true>(u, in + from), ...);
        }
        // compute and store
#pragma unroll
        for (i32 u = 0; u < UNROLL; ++u) {
            Vector<Result, WIDTH> made;
#pragma unroll
            for (i32 lane = 0; lane < WIDTH; ++lane) {
                made.lanes[lane] = CHAIN::apply(get<K>(readers).at(u, lane)..., status);
            }
            if (IS_WHOLE || place[u] < limit) store(out + place[u], made);
        }
    }

    // Elements below `limit` one by one: a tile that is not whole, or lies at odd addresses.
    template <i32 UNROLL>
    static __device__ __forceinline__ void elements(Result* out, i32 limit, i64* status,
                                                    const typename OPERANDS::type*... in) {
#pragma unroll 1
        for (i32 start = 0; start < limit; start += THREADS * UNROLL) {
            vectors<1, UNROLL, false>(out + start, limit - start, status,
                                      in + moved<OPERANDS>(start)...);
        }
    }

    template <typename OPERAND>
    static __device__ __forceinline__ i64 moved(i64 start) {
        return OPERAND::LIES == Lies::SINGLE ? 0 : start;
    }

    template <i32 WIDTH, i32 UNROLL>
    static __device__ __forceinline__ void run(Result* out, i64 count, i64* status,
                                               const typename OPERANDS::type*... in) {
        constexpr i32 TILE = THREADS * WIDTH * UNROLL;
        const bool aligned = is_aligned<WIDTH>(out) && (... && is_vector<OPERANDS, WIDTH>(in));
        const i64 stride = static_cast<i64>(gridDim.x) * TILE;
        for (i64 start = static_cast<i64>(blockIdx.x) * TILE; start < count; start += stride) {
            const i32 limit = static_cast<i32>(count - start < TILE ? count - start : TILE);
            if (aligned && limit == TILE) {
                vectors<WIDTH, UNROLL, true>(out + start, TILE, status,
                                             in + moved<OPERANDS>(start)...);
            } else {
                elements<UNROLL>(out + start, limit, status, in + moved<OPERANDS>(start)...);
            }
        }
    }
};

template <typename CHAIN, i32 WIDTH, i32 UNROLL, typename... OPERANDS>
__global__ void __launch_bounds__(THREADS)
    elementwise_dense(typename CHAIN::Result* __restrict__ out, i64 count, i64* __restrict__ status,
                      const typename OPERANDS::type* __restrict__... in) {
    static_assert(sizeof...(OPERANDS) == CHAIN::COUNT, "one layout an operand of the chain");
    static_assert((... && !has_strides<OPERANDS>), "operands are Dense or Single");
    using Loop = DenseLoop<CHAIN, count_to<CHAIN::COUNT>, OPERANDS...>;
    Loop::template run<WIDTH, UNROLL>(out, count, status, in...);
}

// ---- strided ------------------------------------------------------------------------------------

// How many of the first COUNT operands have strides: the row of the next one in Axes.
template <typename... OPERANDS>
constexpr i32 strided_before(i32 count) {
    const bool strided[] = {has_strides<OPERANDS>...};
    i32 result = 0;
    for (i32 k = 0; k < count; ++k) result += strided[k] ? 1 : 0;
    return result;
}

template <i32 RANK, typename INDEX, typename... OPERANDS>
using axes_of = Axes<RANK, strided_before<OPERANDS...>(sizeof...(OPERANDS)), INDEX>;

template <typename CHAIN, typename NUMBERS, typename... OPERANDS>
struct StridedLoop;

template <typename CHAIN, i32... K, typename... OPERANDS>
struct StridedLoop<CHAIN, Numbers<K...>, OPERANDS...> {
    using Result = typename CHAIN::Result;
    static constexpr i32 STRIDED = strided_before<OPERANDS...>(sizeof...(OPERANDS));

    // The offset of vector `index` in operand number NUMBER.
    template <typename OPERAND, i32 NUMBER, i32 WIDTH, typename INDEX>
    static __device__ __forceinline__ i64 offset(INDEX index,
                                                 const Offsets<STRIDED, INDEX>& offsets) {
        if constexpr (has_strides<OPERAND>) {
            return offsets.at[strided_before<OPERANDS...>(NUMBER)];
        } else {
            return OPERAND::LIES == Lies::SINGLE ? 0 : static_cast<i64>(index) * WIDTH;
        }
    }

    template <i32 RANK, i32 WIDTH, i32 UNROLL, bool IS_ALIGNED, typename INDEX, typename READERS>
    static __device__ __forceinline__ void fetch(READERS& readers, INDEX first, INDEX count,
                                                 const Axes<RANK, STRIDED, INDEX>& axes,
                                                 const typename OPERANDS::type*... in) {
#pragma unroll
        for (i32 u = 0; u < UNROLL; ++u) {
            const INDEX index = first + u * THREADS < count ? first + u * THREADS : 0;
            const auto offsets = axes.offsets(index);
            (get<K>(readers).template fetch<IS_ALIGNED>(
                 u, in + offset<OPERANDS, K, WIDTH>(index, offsets)),
             ...);
        }
    }

    template <i32 RANK, i32 WIDTH, i32 UNROLL, typename INDEX>
    static __device__ __forceinline__ void run(Result* out, INDEX count,
                                               const Axes<RANK, STRIDED, INDEX>& axes, i64* status,
                                               const typename OPERANDS::type*... in) {
        constexpr i32 TILE = THREADS * UNROLL;
        const bool aligned = is_aligned<WIDTH>(out) && (... && is_vector<OPERANDS, WIDTH>(in));
        Tuple<Reader<OPERANDS, WIDTH, UNROLL>...> readers;
        (get<K>(readers).begin(in), ...);
        const i64 stride = static_cast<i64>(gridDim.x) * TILE;
        for (i64 start = static_cast<i64>(blockIdx.x) * TILE; start < count; start += stride) {
            // load
            const INDEX first = static_cast<INDEX>(start + threadIdx.x);
            if (aligned) {
                fetch<RANK, WIDTH, UNROLL, true>(readers, first, count, axes, in...);
            } else {
                fetch<RANK, WIDTH, UNROLL, false>(readers, first, count, axes, in...);
            }
            // compute and store
#pragma unroll
            for (i32 u = 0; u < UNROLL; ++u) {
                const INDEX index = first + u * THREADS;
                Vector<Result, WIDTH> made;
#pragma unroll
                for (i32 lane = 0; lane < WIDTH; ++lane) {
                    made.lanes[lane] = CHAIN::apply(get<K>(readers).at(u, lane)..., status);
                }
                if (index < count) put(out + static_cast<i64>(index) * WIDTH, made, aligned);
            }
        }
    }

    template <i32 WIDTH>
    static __device__ __forceinline__ void put(Result* out, const Vector<Result, WIDTH>& made,
                                               bool aligned) {
        if constexpr (WIDTH == 1) {
            store(out, made);
        } else if (aligned) {
            store(out, made);
        } else {
#pragma unroll
            for (i32 lane = 0; lane < WIDTH; ++lane) out[lane] = made.lanes[lane];
        }
    }
};

template <typename CHAIN, i32 RANK, i32 WIDTH, i32 UNROLL, typename INDEX, typename... OPERANDS>
__global__ void __launch_bounds__(THREADS)
    elementwise_strided(typename CHAIN::Result* __restrict__ out, INDEX count,
                        const __grid_constant__ axes_of<RANK, INDEX, OPERANDS...> axes,
                        i64* __restrict__ status,
                        const typename OPERANDS::type* __restrict__... in) {
    static_assert(sizeof...(OPERANDS) == CHAIN::COUNT, "one layout an operand of the chain");
    static_assert(WIDTH == 1 || (... && (OPERANDS::LIES != Lies::STRIDED)),
                  "an operand that is Strided is read one element a vector");
    using Loop = StridedLoop<CHAIN, count_to<CHAIN::COUNT>, OPERANDS...>;
    Loop::template run<RANK, WIDTH, UNROLL>(out, count, axes, status, in...);
}
