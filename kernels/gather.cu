// take, gather and one_hot, one thread an output, a few outputs in flight a thread.
//
//   gather          out[n] = data[place(n) + index[n] * axis_stride]         take and gather
//   one_hot         out[.., d] = index[..] == d ? one : 0
//   check_indices   reports an index out of range: what take does where it has no output
//
// take reads data at the output's axes before and behind the indices', gather at all but one; to
// the kernel these are strides, 0 along the axes that an operand does not have.
// Dtypes: data by size (u8 u16 u32 u64 u128), indices i32 or i64 as `is_long` says.
// Layouts: inputs of any strides; outputs dense. Every architecture.
// Launch: 256 threads a block, 4 outputs (1 with i64) a thread and step, any number of blocks.
// Shared memory: none.
// Limits: 64 axes. INDEX is i64 where an offset passes 2^31. Of several indices out of range any
// one is reported.
// Source: none.
#include "indices.cuh"
#include "walk.cuh"

template <typename T, typename INDEX>
__global__ void __launch_bounds__(THREADS)
    gather(T* __restrict__ out, const T* __restrict__ data, const void* __restrict__ indices,
           i64* __restrict__ status, i64 count, Walk<INDEX, 2> walk, Indexed indexed,
           i64 axis_stride) {
    static_assert(sizeof(walk) <= 3800, "the parameters fit 4 KiB");
    make_outputs<INDEX>(out, count, [&](i64 n) {
        INDEX place = 0, from = 0;
        visit_axes<INDEX>(walk.extents, walk.rank, n, [&](i32 axis, INDEX at) {
            place += at * walk.strides[0][axis];
            from += at * walk.strides[1][axis];
        });
        return data[place + indexed.at(indices, from, status) * axis_stride];
    });
}

// Axis 0 of the walk counts the depth, where the indices have stride 0.
template <typename T, typename INDEX>
__global__ void __launch_bounds__(THREADS)
    one_hot(T* __restrict__ out, const void* __restrict__ indices, i64 count, Walk<INDEX, 1> walk,
            carried_t<T> one, i32 is_long) {
    static_assert(sizeof(walk) <= 3800, "the parameters fit 4 KiB");
    make_outputs<INDEX>(out, count, [&](i64 n) {
        INDEX depth = 0, from = 0;
        visit_axes<INDEX>(walk.extents, walk.rank, n, [&](i32 axis, INDEX at) {
            if (axis == 0) depth = at;
            from += at * walk.strides[0][axis];
        });
        return index_at(indices, from, is_long) == depth ? static_cast<T>(one) : T{};
    });
}

template <typename INDEX>
__global__ void __launch_bounds__(THREADS)
    check_indices(const void* __restrict__ indices, i64* __restrict__ status, i64 count,
                  Walk<INDEX, 1> walk, Indexed indexed) {
    static_assert(sizeof(walk) <= 3800, "the parameters fit 4 KiB");
    for (i64 n = grid_thread(); n < count; n += grid_threads()) {
        indexed.at(indices, offset_of<0>(walk, n), status);
    }
}
