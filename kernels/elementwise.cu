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

// UNROLL vectors a thread from `first` on; elements at `limit` and beyond are neither read nor
// written where IS_WHOLE is false.
template <typename CHAIN, i32 WIDTH, i32 UNROLL, bool IS_WHOLE, i32... K, typename... OPERANDS>
__device__ __forceinline__ void dense_vectors(Numbers<K...>,
                                              Tuple<Reader<OPERANDS, WIDTH, UNROLL>...>& readers,
                                              typename CHAIN::Result* out, i32 limit, i64* status,
                                              const typename OPERANDS::type*... in) {
    // load
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
        Vector<typename CHAIN::Result, WIDTH> made;
#pragma unroll
        for (i32 lane = 0; lane < WIDTH; ++lane) {
            made.lanes[lane] = CHAIN::apply(get<K>(readers).at(u, lane)..., status);
        }
        if (IS_WHOLE || place[u] < limit) store(out + place[u], made);
    }
}
