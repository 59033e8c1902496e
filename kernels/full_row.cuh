// Rows that fill the registers of teams of threads: what softmax_full.cu and layer_norm_full.cu
// share.
//
//   FullRow   the row of a team of TEAM threads: VECTORS of 16 bytes a thread, each at a distance
//             of the team, so that nothing is tested for any of them. AHEAD: so many of the team's
//             next rows are on their way meanwhile, in shared memory, in slots of its threads' own
//
// With AHEAD as many blocks as the device holds at once go over the rows; without, a team has one,
// which leaves L2 first where IS_FIRST is set.
// Shared memory: AHEAD * VECTORS * 16 bytes a thread.
// Limits: a row has TEAM * VECTORS vectors; results are dense, rows of the operand `step` apart,
// a multiple of a vector. Elements are moved one by one where a pointer is no multiple of a vector.
// Source: none.
#pragma once

#include "held_row.cuh"

// ALIGNED: vectors may be moved at once.
template <typename T, i32 VECTORS, i32 TEAM, i32 BLOCK, i32 AHEAD, bool IS_FIRST, bool ALIGNED>
struct FullRow {
    static_assert(BLOCK % TEAM == 0 && (TEAM & (TEAM - 1)) == 0, "whole teams of 2^n threads");
    using Value = compute_t<T>;
    using Packed = ::Packed<T, 16 / sizeof(T)>;
    static constexpr i32 WIDTH = 16 / sizeof(T);
    static constexpr i32 ELEMENTS = WIDTH * VECTORS;
    static constexpr i32 STRIDE = WIDTH * TEAM;  // elements from one vector to the next
    static constexpr i32 LENGTH = ELEMENTS * TEAM;
    static constexpr i32 TEAMS = BLOCK / TEAM;

    Value x[ELEMENTS];
    i64 number;  // of the row; there is none from `rows` on
    i64 rows;
    i32 first;   // element of x[0]

    __device__ __forceinline__ explicit FullRow(i64 count)
        : number(static_cast<i64>(blockIdx.x) * TEAMS + threadIdx.x / TEAM),
          rows(count),
          first(threadIdx.x % TEAM * WIDTH) {}

    // Vector k of what lies as a row does. IS_ONCE: no other team reads it.
    template <bool IS_ONCE>
    __device__ __forceinline__ void load(Packed& vector, const T* begin, i32 k) const {
        const T* const from = begin + first + k * STRIDE;
        if constexpr (!ALIGNED) {
            vector = {};
#pragma unroll
            for (i32 i = 0; i < WIDTH; ++i) vector.set(i, from[i]);
        } else if constexpr (IS_ONCE && IS_FIRST) {
            vector.load_once(from);
        } else if constexpr (IS_ONCE) {
            vector.load_past(from);
        } else {
            vector.load(from);
        }
    }

    // Where row n begins, of those beyond the last one that of the last one.
    __device__ __forceinline__ const T* row(const T* source, i64 step, i64 n) const {
        return source + (n < rows ? n : rows - 1) * step;
    }

    __device__ __forceinline__ void convert_from(const Packed (&vectors)[VECTORS]) {
#pragma unroll
        for (i32 i = 0; i < ELEMENTS; ++i) {
            x[i] = convert<Value>(vectors[i / WIDTH].lane(i % WIDTH));
        }
    }

    // Sends for row n to slots of the thread.
    __device__ __forceinline__ void post(uint4* slots, const T* source, i64 step, i64 n) const {
        const T* const from = row(source, step, n) + first;
#pragma unroll
        for (i32 k = 0; k < VECTORS; ++k) ptx::copy_once(slots + k * BLOCK, from + k * STRIDE);
    }

    // Calls COMPUTE() for each row of the team, all threads of the block as often.
    template <typename COMPUTE>
    __device__ __forceinline__ void for_each(const T* source, i64 step, COMPUTE compute) {
        const i64 each = static_cast<i64>(gridDim.x) * TEAMS;
        i64 base = static_cast<i64>(blockIdx.x) * TEAMS;
        if constexpr (AHEAD > 0 && ALIGNED) {
            ring(source, step, base, each, compute);
        } else {
#pragma unroll 1
            do {
                Packed came[VECTORS];
                const T* const begin = row(source, step, number);
#pragma unroll
                for (i32 k = 0; k < VECTORS; ++k) load<true>(came[k], begin, k);
                convert_from(came);
                compute();
                number += each;
                base += each;
            } while (AHEAD > 0 && base < rows);
        }
    }

    template <typename COMPUTE>
    __device__ __forceinline__ void ring(const T* source, i64 step, i64 base, i64 each,
                                         COMPUTE compute) {
        constexpr i32 STAGE = VECTORS * BLOCK;
        extern __shared__ uint4 slots[];
        uint4* const own = slots + threadIdx.x;
#pragma unroll
        for (i32 k = 0; k < AHEAD; ++k) {
            if (base + k * each < rows) post(own + k * STAGE, source, step, number + k * each);
            ptx::commit_async();
        }
        i32 turn = 0;
#pragma unroll 1
        do {
            ptx::wait_async<AHEAD - 1>();
            Packed came[VECTORS];
#pragma unroll
            for (i32 k = 0; k < VECTORS; ++k) {
                came[k].raw = bit_cast<typename Packed::Raw>(own[turn * STAGE + k * BLOCK]);
            }
            convert_from(came);
            if (base + AHEAD * each < rows) {
                post(own + turn * STAGE, source, step, number + AHEAD * each);
            }
            ptx::commit_async();
            turn = turn + 1 == AHEAD ? 0 : turn + 1;
            compute();
            number += each;
            base += each;
        } while (base < rows);
    }

    // MADE(i) of all elements of the thread, joined.
    template <typename MADE, typename JOIN>
    __device__ __forceinline__ Value joined(MADE made, JOIN join) const {
        return joined_elements<Value, ELEMENTS>(made, join);
    }

    // Stores lanes y of vector k of the row.
    __device__ __forceinline__ void store(T* out, i32 k, const Value (&y)[WIDTH]) const {
        const Packed vector = rounded<T, WIDTH>(y);
        T* const to = out + number * LENGTH + first + k * STRIDE;
        if (number >= rows) return;
        if constexpr (ALIGNED) {
            vector.store_streaming(to);
        } else {
#pragma unroll
            for (i32 i = 0; i < WIDTH; ++i) to[i] = vector.lane(i);
        }
    }
};
