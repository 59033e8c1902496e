// One elementwise op, one thread an output: the reference that fast kernels are compared with.
//
//   out[i] = Chain(in0[i], in1[i], ...)       Chain is one op, generated: chain.cuh, over ops.cuh
//
//   naive_elementwise     operands of any strides, RANK axes; all dtypes; every architecture
//
// Launch: 256 threads a block, grid-stride. Shared memory: none.
// Limits: none on extents and alignment; offsets are 64-bit. `status` may be null.
#include "chain.cuh"
#include "strided.cuh"

template <typename CHAIN, i32 RANK, typename... X>
__global__ void __launch_bounds__(256)
    naive_elementwise(typename CHAIN::Result* __restrict__ out, i64 count,
                      const __grid_constant__ Axes<RANK, CHAIN::COUNT, i64> axes,
                      i64* __restrict__ status, const X* __restrict__... in) {
    static_assert(sizeof...(X) == CHAIN::COUNT, "one type an operand of the chain");
    for (i64 index = grid_thread(); index < count; index += grid_threads()) {
        const auto offsets = axes.offsets(index);
        i32 k = 0;
        const void* const addresses[] = {in + offsets.at[k++]...};
        out[index] = CHAIN::of(
            [&](auto slot) {
                using T = typename decltype(slot)::type;
                return *static_cast<const T*>(addresses[decltype(slot)::NUMBER]);
            },
            status);
    }
}
