// take, gather and one_hot, one thread an output, a few outputs in flight a thread.
//
//   gather    out[n] = data[place(n) + wrapped(index[n]) * axis_stride]      take and gather
//   one_hot   out[.., d] = index[..] == d ? one : 0
//
// take reads data at the output's axes before and behind the indices', gather at all but one; to
// the kernel these are strides, 0 along the axes that an operand does not have.
// Dtypes: data by size (u8 u16 u32 u64), indices i32 or i64 as `is_long` says. Layouts: inputs of
// any strides; outputs dense. Every architecture.
// Launch: 256 threads a block, 4 outputs (1 with i64) a thread and step, any number of blocks.
// Shared memory: none.
// Limits: 64 axes. INDEX is i64 where an offset passes 2^31. An index outside -extent to
// extent - 1 sets `status` (code 1, index, extent) and reads element 0; any of several may stay.
// Source: none.
#include "walk.cuh"

constexpr i64 INDEX_OUT_OF_RANGE = 1;  // as softcuda/backends/launches.py numbers it

// An index that counts from the end where it is negative; 0 and a report where it lies outside.
__device__ __forceinline__ i64 wrapped_index(i64 index, i64 extent, i64* __restrict__ status) {
    const i64 from_start = index < 0 ? index + extent : index;
    if (from_start >= 0 && from_start < extent) return from_start;
    status[1] = index;
    status[2] = extent;
    status[0] = INDEX_OUT_OF_RANGE;
    return 0;
}

// Element OFFSET of an array of i64, or of i32.
__device__ __forceinline__ i64 index_at(const void* __restrict__ indices, i64 offset, i32 is_long) {
    return is_long != 0 ? static_cast<const i64*>(indices)[offset]
                        : static_cast<const i32*>(indices)[offset];
}

template <typename T, typename INDEX>
__global__ void __launch_bounds__(THREADS)
    gather(T* __restrict__ out, const T* __restrict__ data, const void* __restrict__ indices,
           i64* __restrict__ status, i64 count, Walk<INDEX, 2> walk, i64 extent, i64 axis_stride,
           i32 is_long) {
    static_assert(sizeof(walk) <= 3800, "the parameters fit 4 KiB");
    make_outputs<INDEX>(out, count, [&](i64 n) {
        INDEX place = 0, from = 0;
        visit_axes<INDEX>(walk.extents, walk.rank, n, [&](i32 axis, INDEX at) {
            place += at * walk.strides[0][axis];
            from += at * walk.strides[1][axis];
        });
        const i64 index = wrapped_index(index_at(indices, from, is_long), extent, status);
        return data[place + index * axis_stride];
    });
}

// Axis 0 of the walk counts the depth, where the indices have stride 0.
template <typename T, typename INDEX>
__global__ void __launch_bounds__(THREADS)
    one_hot(T* __restrict__ out, const void* __restrict__ indices, i64 count, Walk<INDEX, 1> walk,
            u64 one, i32 is_long) {
    static_assert(sizeof(walk) <= 3800, "the parameters fit 4 KiB");
    make_outputs<INDEX>(out, count, [&](i64 n) {
        INDEX depth = 0, from = 0;
        visit_axes<INDEX>(walk.extents, walk.rank, n, [&](i32 axis, INDEX at) {
            if (axis == 0) depth = at;
            from += at * walk.strides[0][axis];
        });
        return index_at(indices, from, is_long) == depth ? static_cast<T>(one) : T(0);
    });
}
