// Fused chains of elementwise ops over operands of any layout, to a dense result.
//
//   out[i] = Chain(in0[i], in1[i], ...)       Chain is generated: chain.cuh, over ops.cuh
//
//   elementwise_dense     operands Dense, Single or Kept: vectors of WIDTH, no division
//   elementwise_in_place  the same, where a Dense operand may be `out` or a Kept one
//   elementwise_strided   any operands, RANK fused axes; the dense ones and the results by vectors
//                         of WIDTH, Row ones too, Level by one value a vector, Strided by lanes
//   dtypes: all, mixed at will; every architecture
//
// Launch: THREADS threads a block, a tile of THREADS * WIDTH * UNROLL elements, grid-stride.
// Every thread loads UNROLL vectors of each operand before it uses the first.
// Shared memory: none.
// Limits: any count and any alignment: where an address is not a multiple of its vector, lanes
// are moved one by one, the same for all threads. Where WRAPS, the innermost axis has at least
// WIDTH elements. `status` may be null; see `report` of report.cuh. But for elementwise_in_place
// `out` overlaps no operand.
#include "chain.cuh"
#include "operands.cuh"
#include "strided.cuh"

// ---- dense --------------------------------------------------------------------------------------

template <typename CHAIN, i32 THREADS, typename NUMBERS, typename... OPERANDS>
struct DenseLoop;

template <typename CHAIN, i32 THREADS, i32... K, typename... OPERANDS>
struct DenseLoop<CHAIN, THREADS, Numbers<K...>, OPERANDS...> {
    using Result = typename CHAIN::Result;

    // UNROLL vectors a thread; where IS_WHOLE is false, nothing at `limit` or beyond is touched.
    template <i32 WIDTH, i32 UNROLL, bool IS_WHOLE>
    static __device__ __forceinline__ void vectors(Result* out, i32 limit, i64* status,
                                                   typename OPERANDS::pointer... in) {
        // load
        Tuple<Reader<OPERANDS, WIDTH, UNROLL>...> readers;
        (get<K>(readers).begin(in), ...);
        i32 place[UNROLL];
#pragma unroll
        for (i32 u = 0; u < UNROLL; ++u) {
            place[u] = (u * THREADS + static_cast<i32>(threadIdx.x)) * WIDTH;
            const i32 from = IS_WHOLE || place[u] < limit ? place[u] : 0;
            (get<K>(readers).template fetch<IS_WHOLE>(u, in + from), ...);
        }
        // compute and store
#pragma unroll
        for (i32 u = 0; u < UNROLL; ++u) {
            Vector<Result, WIDTH> made;
#pragma unroll
            for (i32 lane = 0; lane < WIDTH; ++lane) {
                made.lanes[lane] = CHAIN::apply(get<K>(readers).at(u, lane)..., status);
            }
            if (IS_WHOLE || place[u] < limit) {
                put_lanes(out + place[u], made, WIDTH, IS_WHOLE);
                (get<K>(readers).keep(in + place[u], WIDTH, IS_WHOLE), ...);
            }
        }
    }

    // Elements below `limit` one by one: a tile that is not whole, or lies at odd addresses.
    template <i32 UNROLL>
    static __device__ __forceinline__ void elements(Result* out, i32 limit, i64* status,
                                                    typename OPERANDS::pointer... in) {
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
                                               typename OPERANDS::pointer... in) {
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

template <typename CHAIN, i32 WIDTH, i32 UNROLL, i32 THREADS, typename... OPERANDS>
__global__ void __launch_bounds__(THREADS)
    elementwise_dense(typename CHAIN::Result* __restrict__ out, i64 count, i64* __restrict__ status,
                      typename OPERANDS::pointer __restrict__... in) {
    static_assert(sizeof...(OPERANDS) == CHAIN::COUNT, "one layout an operand of the chain");
    static_assert((... && !has_strides<OPERANDS>), "operands are Dense, Single or Kept");
    using Loop = DenseLoop<CHAIN, THREADS, count_to<CHAIN::COUNT>, OPERANDS...>;
    Loop::template run<WIDTH, UNROLL>(out, count, status, in...);
}

// A thread reads its elements before it writes them, and nobody else reads them for use. Without
// __restrict__ no load is taken from a cache that stores bypass, or moved behind a store.
template <typename CHAIN, i32 WIDTH, i32 UNROLL, i32 THREADS, typename... OPERANDS>
__global__ void __launch_bounds__(THREADS)
    elementwise_in_place(typename CHAIN::Result* out, i64 count, i64* __restrict__ status,
                         typename OPERANDS::pointer... in) {
    static_assert(sizeof...(OPERANDS) == CHAIN::COUNT, "one layout an operand of the chain");
    static_assert((... && !has_strides<OPERANDS>), "operands are Dense, Single or Kept");
    using Loop = DenseLoop<CHAIN, THREADS, count_to<CHAIN::COUNT>, OPERANDS...>;
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

// A vector of the loop: its first element, how many of its lanes there are, where operands with
// strides lie for it; lanes from `left` on are those of the next row of the innermost axis.
template <i32 COUNT, typename INDEX>
struct Spot {
    INDEX start;
    i32 lanes;
    i32 left;
    Offsets<COUNT, INDEX> here;
    Offsets<COUNT, INDEX> next;
};

template <typename CHAIN, i32 THREADS, typename NUMBERS, typename... OPERANDS>
struct StridedLoop;

template <typename CHAIN, i32 THREADS, i32... K, typename... OPERANDS>
struct StridedLoop<CHAIN, THREADS, Numbers<K...>, OPERANDS...> {
    using Result = typename CHAIN::Result;
    static constexpr i32 STRIDED = strided_before<OPERANDS...>(sizeof...(OPERANDS));

    // The vector that begins at element `start`.
    template <i32 WIDTH, bool WRAPS, i32 RANK, typename INDEX>
    static __device__ __forceinline__ Spot<STRIDED, INDEX> spot_at(
        INDEX start, INDEX count, const Axes<RANK, STRIDED, INDEX>& axes) {
        Spot<STRIDED, INDEX> spot{start, WIDTH, WIDTH, axes.offsets(start), {}};
        if constexpr (WRAPS) {
            const INDEX left = static_cast<INDEX>(axes.extents[0].divisor) - spot.here.inner;
            if (left < WIDTH) {
                spot.left = static_cast<i32>(left);
                spot.next = axes.offsets(start + left);
            }
            if (count - start < WIDTH) spot.lanes = static_cast<i32>(count - start);
        }
        return spot;
    }

    // Lanes that are not there are those of the loop's first element.
    template <typename OPERAND, i32 NUMBER, i32 WIDTH, i32 UNROLL, bool WRAPS, i32 RANK,
              typename INDEX>
    static __device__ __forceinline__ void fetch(Reader<OPERAND, WIDTH, UNROLL>& reader, i32 u,
                                                 typename OPERAND::pointer in,
                                                 const Spot<STRIDED, INDEX>& spot, bool aligned,
                                                 const Axes<RANK, STRIDED, INDEX>& axes) {
        constexpr i32 SIDE = has_strides<OPERAND> ? strided_before<OPERANDS...>(NUMBER) : 0;
        if constexpr (OPERAND::LIES == Lies::DENSE) {
            const auto* const from = in + spot.start;
            if (aligned && spot.lanes == WIDTH) {
                reader.template fetch<true>(u, from);
            } else {
                reader.fetch_lanes(
                    u, [&](i32 lane) { return lane < spot.lanes ? from + lane : in; });
            }
        } else if constexpr (OPERAND::LIES == Lies::ROW || OPERAND::LIES == Lies::LEVEL) {
            const auto* const from = in + spot.here.at[SIDE];
            if (aligned) {
                reader.template fetch<true>(u, from);
            } else {
                reader.template fetch<false>(u, from);
            }
        } else if constexpr (OPERAND::LIES == Lies::STRIDED) {
            const INDEX step = axes.strides[SIDE][0];
            reader.fetch_lanes(u, [&](i32 lane) {
                if (!WRAPS) return in + (spot.here.at[SIDE] + lane * step);
                if (lane >= spot.lanes) return in;
                if (lane < spot.left) return in + (spot.here.at[SIDE] + lane * step);
                return in + (spot.next.at[SIDE] + (lane - spot.left) * step);
            });
        }
    }

    template <i32 RANK, i32 WIDTH, i32 UNROLL, bool WRAPS, typename INDEX>
    static __device__ __forceinline__ void run(Result* out, INDEX count,
                                               const Axes<RANK, STRIDED, INDEX>& axes, i64* status,
                                               typename OPERANDS::pointer... in) {
        constexpr i32 TILE = THREADS * UNROLL;
        const bool aligned = is_aligned<WIDTH>(out) && (... && is_vector<OPERANDS, WIDTH>(in));
        Tuple<Reader<OPERANDS, WIDTH, UNROLL>...> readers;
        (get<K>(readers).begin(in), ...);
        const INDEX vectors = (count + (WIDTH - 1)) / WIDTH;
        const i64 stride = static_cast<i64>(gridDim.x) * TILE;
        for (i64 first = static_cast<i64>(blockIdx.x) * TILE; first < vectors; first += stride) {
            // load
            const INDEX mine = static_cast<INDEX>(first + threadIdx.x);
#pragma unroll
            for (i32 u = 0; u < UNROLL; ++u) {
                const INDEX number = mine + u * THREADS < vectors ? mine + u * THREADS : 0;
                const auto spot = spot_at<WIDTH, WRAPS>(number * WIDTH, count, axes);
                (fetch<OPERANDS, K, WIDTH, UNROLL, WRAPS>(get<K>(readers), u, in, spot, aligned,
                                                          axes),
                 ...);
            }
            // compute and store
#pragma unroll
            for (i32 u = 0; u < UNROLL; ++u) {
                const INDEX number = mine + u * THREADS;
                Vector<Result, WIDTH> made;
#pragma unroll
                for (i32 lane = 0; lane < WIDTH; ++lane) {
                    made.lanes[lane] = CHAIN::apply(get<K>(readers).at(u, lane)..., status);
                }
                if (number < vectors) {
                    const i64 start = static_cast<i64>(number) * WIDTH;
                    const i32 lanes =
                        WRAPS && count - start < WIDTH ? static_cast<i32>(count - start) : WIDTH;
                    const bool is_whole = aligned && lanes == WIDTH;
                    put_lanes(out + start, made, lanes, is_whole);
                    (get<K>(readers).keep(in + start, lanes, is_whole), ...);
                }
            }
        }
    }
};

// WRAPS: the innermost axis is no multiple of WIDTH, so that vectors go on in its next row.
template <typename CHAIN, i32 RANK, i32 WIDTH, i32 UNROLL, i32 THREADS, bool WRAPS, typename INDEX,
          typename... OPERANDS>
__global__ void __launch_bounds__(THREADS)
    elementwise_strided(typename CHAIN::Result* __restrict__ out, INDEX count,
                        const __grid_constant__ axes_of<RANK, INDEX, OPERANDS...> axes,
                        i64* __restrict__ status,
                        typename OPERANDS::pointer __restrict__... in) {
    static_assert(sizeof...(OPERANDS) == CHAIN::COUNT, "one layout an operand of the chain");
    static_assert(!WRAPS || (... && (!has_strides<OPERANDS> || OPERANDS::LIES == Lies::STRIDED)),
                  "operands whose rows vectors leave are read lane by lane");
    using Loop = StridedLoop<CHAIN, THREADS, count_to<CHAIN::COUNT>, OPERANDS...>;
    Loop::template run<RANK, WIDTH, UNROLL, WRAPS>(out, count, axes, status, in...);
}
