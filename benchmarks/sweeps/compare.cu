// Counts the elements in which two arrays differ.
//
//   count[0] += number of i with a[i] != b[i], i below words
//
//   count_differences   words of type T
//
// Launch: 256 threads a block, any number of blocks, grid-stride.
// Shared memory: none. Limits: none. Source: none.
#include "common.cuh"

template <typename T>
__global__ void __launch_bounds__(256)
    count_differences(u32* __restrict__ count, const T* __restrict__ a, const T* __restrict__ b,
                      i64 words) {
    u32 found = 0;
    for (i64 at = grid_thread(); at < words; at += grid_threads()) {
        found += static_cast<u32>(a[at] != b[at]);
    }
    if (found != 0) atomicAdd(count, found);
}
