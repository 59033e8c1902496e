// Every chain of a generated header, one after the other: what the compile tests compile.
//
//   out[k][i] = CHAINS[k](in[0][i], in[1][i], ...)
//
//   chains    all dtypes; every architecture
//
// Launch: 256 threads a block, grid-stride. Shared memory: none. Limits: none.
#include "chain.cuh"

template <typename CHAIN>
__device__ __forceinline__ void each(void* out, const void* const* in, i64 count, i64* status) {
    for (i64 index = grid_thread(); index < count; index += grid_threads()) {
        static_cast<typename CHAIN::Result*>(out)[index] = CHAIN::of(
            [&](auto slot) {
                using T = typename decltype(slot)::type;
                return static_cast<const T*>(in[decltype(slot)::NUMBER])[index];
            },
            status);
    }
}

template <typename... CHAINS>
__global__ void __launch_bounds__(256)
    chains(void* const* out, const void* const* in, i64 count, i64* status) {
    static_assert(sizeof...(CHAINS) > 0, "there is something to compile");
    i32 k = 0;
    (each<CHAINS>(out[k++], in, count, status), ...);
}
