// Rows in the registers of teams of threads: what softmax.cu and layer_norm.cu share.
//
//   HeldRow   the row of a team, VECTORS of 16 bytes a thread, each at a distance of the team.
//             IS_AHEAD: the team's next row is on its way meanwhile, not converted yet
//   joined_elements   the numbers of a thread, joined
//   rounded   numbers of the compute dtype as a vector of T
//
// A block that loads, computes, stores and ends has bytes in flight for a part of its time only,
// and what it does before its first load is done for every row. With IS_AHEAD as many blocks as the
// device holds at once go over the rows, and a row of each team is in flight all the time.
// Limits: the elements of a row are neighbours; indices within a row have 32 bits.
// Source: none.
#pragma once

#include "packed.cuh"
#include "row_space.cuh"

// MADE(i) of ELEMENTS numbers of a thread, joined in trees of a few at a time, for the sake of
// registers.
template <typename VALUE, i32 ELEMENTS, typename MADE, typename JOIN>
__device__ __forceinline__ VALUE joined_elements(MADE made, JOIN join) {
    constexpr i32 GROUP = ELEMENTS < 8 ? ELEMENTS : 8;
    VALUE parts[ELEMENTS / GROUP];
#pragma unroll
    for (i32 k = 0; k < ELEMENTS / GROUP; ++k) {
        VALUE some[GROUP];
#pragma unroll
        for (i32 i = 0; i < GROUP; ++i) some[i] = made(k * GROUP + i);
        parts[k] = tree(some, join);
    }
    return tree(parts, join);
}

// Two lanes at a time where the machine can.
template <typename T, i32 WIDTH>
__device__ __forceinline__ Packed<T, WIDTH> rounded(const compute_t<T> (&x)[WIDTH]) {
    Packed<T, WIDTH> result = {};
    if constexpr (is_16_bit<T> && __CUDA_ARCH__ >= 800) {
#pragma unroll
        for (i32 i = 0; i < WIDTH; i += 2) {
            result.raw.words[i / 2] = is_same<T, f16> ? ptx::round_f16_pair(x[i], x[i + 1])
                                                      : ptx::round_bf16_pair(x[i], x[i + 1]);
        }
    } else {
#pragma unroll
        for (i32 i = 0; i < WIDTH; ++i) result.set(i, convert<T>(x[i]));
    }
    return result;
}

template <typename T, i32 VECTORS, bool IS_AHEAD>
struct HeldRow {
    using Value = compute_t<T>;
    static constexpr i32 WIDTH = 16 / sizeof(T);
    static constexpr i32 ELEMENTS = WIDTH * VECTORS;
    using Packed = ::Packed<T, WIDTH>;

    Value x[ELEMENTS];
    Packed ahead[VECTORS];
    i64 number;       // of the row; there is none from `rows` on
    i64 rows;
    i32 teams;        // of a block
    i32 first;        // element of x[0]
    i32 stride;       // elements from one vector to the next
    i32 length;       // elements of a row
    bool is_aligned;  // rows are vectors from end to end

    template <i32 SETS>
    __device__ __forceinline__ HeldRow(const RowSpace<SETS>& space, i32 threads, bool aligned)
        : rows(space.rows),
          teams(threads >> space.team_log),
          stride(WIDTH << space.team_log),
          length(static_cast<i32>(space.length)),
          is_aligned(aligned) {
        first = (threadIdx.x & ((1 << space.team_log) - 1)) * WIDTH;
        number = static_cast<i64>(blockIdx.x) * teams + (threadIdx.x >> space.team_log);
    }

    // Elements of the row from the first of a vector on.
    __device__ __forceinline__ i32 left(i32 vector) const {
        return length - first - vector * stride;
    }
    __device__ __forceinline__ bool has(i32 i) const { return i % WIDTH < left(i / WIDTH); }
    __device__ __forceinline__ bool is_full() const { return length == VECTORS * stride; }

    // Fills vectors k, k + 1 and so on of what lies as a row does; of none and beyond with `fill`.
    // IS_ONCE: it is read once.
    template <bool IS_ONCE, i32 COUNT>
    __device__ __forceinline__ void load(Packed (&vectors)[COUNT], const T* begin, i32 k,
                                         bool is_there, T fill) const {
        const T* const from = begin + first;
        if (is_aligned) {
#pragma unroll
            for (i32 j = 0; j < COUNT; ++j) {
                vectors[j].fill(fill);
                const T* const at = from + (k + j) * stride;
                if (!(is_there & (left(k + j) > 0))) continue;
                if constexpr (IS_ONCE) {
                    vectors[j].load_streaming(at);
                } else {
                    vectors[j].load(at);
                }
            }
        } else {
#pragma unroll
            for (i32 j = 0; j < COUNT; ++j) {
                vectors[j] = {};
#pragma unroll
                for (i32 lane = 0; lane < WIDTH; ++lane) {
                    T value = fill;
                    if (is_there & (lane < left(k + j))) value = from[(k + j) * stride + lane];
                    vectors[j].set(lane, value);
                }
            }
        }
    }

    // Sends for row n; what lies beyond becomes `fill`.
    template <i32 SETS>
    __device__ __forceinline__ void send(const T* source, const RowSpace<SETS>& space, i32 set,
                                         i64 n, T fill) {
        const bool is_row = n < rows;
        load<true>(ahead, source + (is_row ? space.near_row(set, n) : 0), 0, is_row, fill);
    }

    // Calls COMPUTE() for each row of the team, all threads of the block as often, after `send` of
    // the first.
    template <i32 SETS, typename COMPUTE>
    __device__ __forceinline__ void for_each(const T* source, const RowSpace<SETS>& space, i32 set,
                                             T fill, COMPUTE compute) {
        i64 base = static_cast<i64>(blockIdx.x) * teams;
        const i64 each = static_cast<i64>(gridDim.x) * teams;
#pragma unroll 1
        do {
#pragma unroll
            for (i32 i = 0; i < ELEMENTS; ++i) {
                x[i] = convert<Value>(ahead[i / WIDTH].lane(i % WIDTH));
            }
            if constexpr (IS_AHEAD) send(source, space, set, number + each, fill);
            compute();
            number += each;
            base += each;
        } while (IS_AHEAD && base < rows);
    }

    // MADE(i) of all elements of the thread, joined.
    template <typename MADE, typename JOIN>
    __device__ __forceinline__ Value joined(MADE made, JOIN join) const {
        return joined_elements<Value, ELEMENTS>(made, join);
    }

    // Stores lanes y of vector k of the row that begins there.
    __device__ __forceinline__ void store(T* begin, i32 k, const Value (&y)[WIDTH]) const {
        const Packed vector = rounded<T, WIDTH>(y);
        T* const to = begin + first + k * stride;
        const bool is_row = number < rows;
        if (is_aligned) {
            if (is_row & (left(k) > 0)) vector.store_streaming(to);
        } else {
#pragma unroll
            for (i32 lane = 0; lane < WIDTH; ++lane) {
                if (is_row & (lane < left(k))) to[lane] = vector.lane(lane);
            }
        }
    }
};
