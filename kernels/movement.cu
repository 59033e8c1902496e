// concat, stack, pad, tril and triu, one thread an output, a few outputs in flight a thread.
//
//   join        out[.., start[q] + c, ..] = in_q[.., c, ..]     for up to 16 operands q a launch
//   join_mixed  the same, each operand converted from its own dtype to DST
//   pad         out[i] = in[i - before] where that lies inside, else value
//   triangle    out[.., r, c] = in[.., r, c] where c <= r + k (lower) or c >= r + k, else 0
//
// Dtypes: by size (u8 u16 u32 u64 u128) where nothing is converted; join_mixed makes i32 i64 f16
// bf16 f32 f64. Layouts: inputs of any strides, 0 and negative included; outputs dense. Every
// architecture.
// Launch: 256 threads a block, 4 outputs (1 with i64) a thread and step, any number of blocks.
// Shared memory: join 128 bytes (its pointers); the others none.
// Limits: 64 axes; join takes operands * rank <= 256. INDEX is i64 where an offset passes 2^31.
// Source: none.
#include "converting.cuh"
#include "walk.cuh"

constexpr i32 GROUP = 16;          // operands of one launch of join
constexpr i32 JOIN_STRIDES = 256;  // operands * rank

// ---- join -------------------------------------------------------------------------------------

template <typename INDEX>
struct Join {
    divisor_t<INDEX> extents[MAX_RANK];  // of the outputs of this launch, innermost first
    divisor_t<INDEX> inner;              // outputs below the joined axis
    INDEX out_strides[MAX_RANK];
    INDEX starts[GROUP + 1];  // along the joined axis; operand q has starts[q] to starts[q + 1]
    INDEX strides[JOIN_STRIDES];  // of operand q and axis a at [q * rank + a]
    i32 dtypes[GROUP];            // of join_mixed: as convert_from numbers them
    i32 rank;
    i32 axis;
    i32 operands;
};

template <typename INDEX>
struct Place {
    INDEX in;
    INDEX out;
    i32 operand;
};

// Which operand output N of a launch comes from, and where both lie.
template <typename INDEX>
__device__ __forceinline__ Place<INDEX> place_of(const Join<INDEX>& join, i64 n) {
    const auto number = static_cast<count_t<INDEX>>(n);
    const auto above = join.inner.quotient(number);
    const auto extent = join.extents[join.axis];
    const auto along = static_cast<INDEX>(extent.remainder(above, extent.quotient(above)));
    i32 operand = 0;
    while (operand + 1 < join.operands && along >= join.starts[operand + 1]) ++operand;
    const INDEX* strides = join.strides + operand * join.rank;
    Place<INDEX> place{-join.starts[operand] * strides[join.axis], 0, operand};
    visit_axes<INDEX>(join.extents, join.rank, n, [&](i32 axis, INDEX coordinate) {
        place.in += coordinate * strides[axis];
        place.out += coordinate * join.out_strides[axis];
    });
    return place;
}

template <typename T, typename INDEX, typename FETCH>
__device__ __forceinline__ void join_outputs(T* __restrict__ out, i64 count,
                                             const Join<INDEX>& join, FETCH fetch) {
    constexpr i32 EACH = UNROLL<INDEX>;
    const i64 step = static_cast<i64>(gridDim.x) * (THREADS * EACH);
    const i64 begin = static_cast<i64>(blockIdx.x) * (THREADS * EACH) + threadIdx.x;
    for (i64 first = begin; first < count; first += step) {
        T made[EACH];
        INDEX offsets[EACH];
#pragma unroll
        for (i32 k = 0; k < EACH; ++k) {
            if (first + k * THREADS < count) {
                const Place<INDEX> place = place_of(join, first + k * THREADS);
                made[k] = fetch(place.operand, place.in);
                offsets[k] = place.out;
            }
        }
#pragma unroll
        for (i32 k = 0; k < EACH; ++k) {
            if (first + k * THREADS < count) out[offsets[k]] = made[k];
        }
    }
}

template <typename T, typename INDEX>
__global__ void __launch_bounds__(THREADS)
    join(T* __restrict__ out, const T* __restrict__ in0, const T* __restrict__ in1,
         const T* __restrict__ in2, const T* __restrict__ in3, const T* __restrict__ in4,
         const T* __restrict__ in5, const T* __restrict__ in6, const T* __restrict__ in7,
         const T* __restrict__ in8, const T* __restrict__ in9, const T* __restrict__ in10,
         const T* __restrict__ in11, const T* __restrict__ in12, const T* __restrict__ in13,
         const T* __restrict__ in14, const T* __restrict__ in15, i64 first, i64 count,
         Join<INDEX> join) {
    static_assert(sizeof(join) <= 3800, "the parameters fit 4 KiB");
    __shared__ const T* inputs[GROUP];
    if (threadIdx.x == 0) {
        const T* given[GROUP] = {in0, in1, in2,  in3,  in4,  in5,  in6,  in7,
                                 in8, in9, in10, in11, in12, in13, in14, in15};
#pragma unroll
        for (i32 k = 0; k < GROUP; ++k) inputs[k] = given[k];
    }
    __syncthreads();
    join_outputs(out + first, count, join,
                 [&](i32 operand, INDEX offset) { return inputs[operand][offset]; });
}

template <typename DST, typename INDEX>
__global__ void __launch_bounds__(THREADS)
    join_mixed(DST* __restrict__ out, const void* in0, const void* in1, const void* in2,
               const void* in3, const void* in4, const void* in5, const void* in6, const void* in7,
               const void* in8, const void* in9, const void* in10, const void* in11,
               const void* in12, const void* in13, const void* in14, const void* in15, i64 first,
               i64 count, Join<INDEX> join) {
    static_assert(sizeof(join) <= 3800, "the parameters fit 4 KiB");
    __shared__ const void* inputs[GROUP];
    if (threadIdx.x == 0) {
        const void* given[GROUP] = {in0, in1, in2,  in3,  in4,  in5,  in6,  in7,
                                    in8, in9, in10, in11, in12, in13, in14, in15};
#pragma unroll
        for (i32 k = 0; k < GROUP; ++k) inputs[k] = given[k];
    }
    __syncthreads();
    join_outputs(out + first, count, join, [&](i32 operand, INDEX offset) {
        return convert_from<DST>(inputs[operand], offset, join.dtypes[operand]);
    });
}

// ---- pad --------------------------------------------------------------------------------------

template <typename INDEX>
struct Padding {
    Walk<INDEX, 1> walk;  // extents of the output, strides of the input
    INDEX before[MAX_RANK];
    INDEX inside[MAX_RANK];  // extents of the input
};

template <typename T, typename INDEX>
__global__ void __launch_bounds__(THREADS)
    pad(T* __restrict__ out, const T* __restrict__ in, i64 count, Padding<INDEX> padding,
        carried_t<T> value) {
    static_assert(sizeof(padding) <= 3800, "the parameters fit 4 KiB");
    make_outputs<INDEX>(out, count, [&](i64 n) {
        bool is_inside = true;
        INDEX offset = 0;
        visit_axes<INDEX>(padding.walk.extents, padding.walk.rank, n, [&](i32 axis, INDEX at) {
            const INDEX from = at - padding.before[axis];
            const bool is_here = from >= 0 && from < padding.inside[axis];
            is_inside &= is_here;
            offset += is_here ? from * padding.walk.strides[0][axis] : 0;
        });
        return is_inside ? in[offset] : static_cast<T>(value);
    });
}

// ---- tril, triu -------------------------------------------------------------------------------

// Axis 0 of the walk counts columns, axis 1 rows.
template <typename T, typename INDEX>
__global__ void __launch_bounds__(THREADS)
    triangle(T* __restrict__ out, const T* __restrict__ in, i64 count, Walk<INDEX, 1> walk, i64 k,
             i32 is_lower) {
    static_assert(sizeof(walk) <= 3800, "the parameters fit 4 KiB");
    make_outputs<INDEX>(out, count, [&](i64 n) {
        INDEX offset = 0, row = 0, column = 0;
        visit_axes<INDEX>(walk.extents, walk.rank, n, [&](i32 axis, INDEX at) {
            if (axis == 0) column = at;
            if (axis == 1) row = at;
            offset += at * walk.strides[0][axis];
        });
        const i64 beyond = static_cast<i64>(column) - row - k;
        const bool is_kept = is_lower != 0 ? beyond <= 0 : beyond >= 0;
        return is_kept ? in[offset] : T{};
    });
}
