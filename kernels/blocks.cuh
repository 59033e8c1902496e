// Small blocks of lanes that a thread moves: read as rows, written as columns.
//
//   Block          ROWS vectors of COLUMNS lanes in registers; column(c) is a vector of ROWS lanes
//   Staged         ITEMS blocks of a thread on their way through shared memory
//   copy_pieces    the tiles of a block in pieces, for pointers that vectors do not fit
//
// Shared memory: Staged takes ROWS planes of 256 * ITEMS vectors of its caller's.
// Limits: vectors of 1, 2, 4, 8 or 16 bytes.
// Source: none.
#pragma once

#include "tiling.cuh"

template <i32 BYTES, typename T>
__device__ __forceinline__ bool is_aligned_to(const T* address) {
    return reinterpret_cast<u64>(address) % BYTES == 0;
}

// ---- blocks ------------------------------------------------------------------------------------

// Lanes of at least 4 bytes: transposing renames registers.
template <typename T, i32 ROWS, i32 COLUMNS, bool IS_SMALL = (sizeof(T) < 4)>
struct Block {
    Vector<T, COLUMNS> rows[ROWS];

    __device__ __forceinline__ void set_row(i32 row, const raw_t<COLUMNS * sizeof(T)>& raw) {
        rows[row] = bit_cast<Vector<T, COLUMNS>>(raw);
    }
    __device__ __forceinline__ raw_t<ROWS * sizeof(T)> column(i32 column) const {
        Vector<T, ROWS> made;
#pragma unroll
        for (i32 r = 0; r < ROWS; ++r) made.lanes[r] = rows[r].lanes[column];
        return bit_cast<raw_t<ROWS * sizeof(T)>>(made);
    }
};

// Lanes of 1 or 2 bytes: the bytes of words are put together by byte_perm.
template <typename T, i32 ROWS, i32 COLUMNS>
struct Block<T, ROWS, COLUMNS, true> {
    static constexpr i32 LANES = 4 / sizeof(T);  // of a word
    static constexpr i32 READ = COLUMNS * sizeof(T);
    static constexpr i32 WRITTEN = ROWS * sizeof(T);
    u32 rows[ROWS][READ < 4 ? 1 : READ / 4];

    __device__ __forceinline__ void set_row(i32 row, const raw_t<READ>& raw) {
        if constexpr (READ <= 4) {
            rows[row][0] = raw;
        } else {
            memcpy(rows[row], &raw, READ);
        }
    }
    // Lane `column` of row `row` in the lowest bytes, what is above it undefined.
    __device__ __forceinline__ u32 low(i32 row, i32 column) const {
        return rows[row][column / LANES] >> (column % LANES * 8 * sizeof(T));
    }
    // Lanes `column` of rows `row` and `row` + 1 side by side in the lowest bytes.
    __device__ __forceinline__ u32 pair(i32 row, i32 column) const {
        const u32 a = rows[row][column / LANES], b = rows[row + 1][column / LANES];
        const i32 at = column % LANES;
        if constexpr (sizeof(T) == 2) return __byte_perm(a, b, at == 0 ? 0x5410 : 0x7632);
        // Two columns at once: the compiler makes this word once for both of them.
        const u32 both = __byte_perm(a, b, at < 2 ? 0x5140 : 0x7362);
        return at % 2 == 0 ? both : both >> 16;
    }
    __device__ __forceinline__ u32 word(i32 row, i32 column) const {
        if constexpr (sizeof(T) == 2) return pair(row, column);
        const i32 even = column / 2 * 2;
        return __byte_perm(pair(row, even), pair(row + 2, even),
                           column % 2 == 0 ? 0x5410 : 0x7632);
    }
    __device__ __forceinline__ raw_t<WRITTEN> column(i32 column) const {
        if constexpr (ROWS == 1) {
            return static_cast<raw_t<WRITTEN>>(low(0, column));
        } else if constexpr (WRITTEN < 4) {
            return static_cast<raw_t<WRITTEN>>(pair(0, column));
        } else {
            u32 words[WRITTEN / 4];
#pragma unroll
            for (i32 w = 0; w < WRITTEN / 4; ++w) words[w] = word(w * LANES, column);
            raw_t<WRITTEN> made;
            memcpy(&made, words, WRITTEN);
            return made;
        }
    }
};

// ---- through shared memory ---------------------------------------------------------------------

// A tile is fetched into registers, held in ROWS planes of shared memory in the order in which it
// is read, and taken from there as blocks. PLACES of the order of writing are swizzled.
template <typename T, i32 ROWS, i32 COLUMNS, i32 ITEMS>
struct Staged {
    static constexpr i32 READ = COLUMNS * sizeof(T);
    static constexpr i32 PLANE = THREADS * ITEMS;
    static constexpr i32 BYTES = ROWS * PLANE * READ;
    using Unit = raw_t<READ>;

    Unit fetched[ITEMS][ROWS];

    template <typename OFFSET>
    __device__ __forceinline__ void fetch(const T* source, const OFFSET (&offsets)[ITEMS],
                                          OFFSET row_stride, u32 mask) {
#pragma unroll
        for (i32 k = 0; k < ITEMS; ++k) {
#pragma unroll
            for (i32 r = 0; r < ROWS; ++r) {
                const T* const address = source + offsets[k] + r * row_stride;
                if (mask >> k & 1u) fetched[k][r] = *reinterpret_cast<const Unit*>(address);
            }
        }
    }
    __device__ __forceinline__ void hold(Unit* planes, i32 swizzle, u32 mask) const {
#pragma unroll
        for (i32 k = 0; k < ITEMS; ++k) {
            Unit* const own = planes + swizzled<READ>(threadIdx.x + k * THREADS, swizzle);
#pragma unroll
            for (i32 r = 0; r < ROWS; ++r) {
                if (mask >> k & 1u) own[r * PLANE] = fetched[k][r];
            }
        }
    }
    static __device__ __forceinline__ Block<T, ROWS, COLUMNS> block(const Unit* planes, i32 place) {
        Block<T, ROWS, COLUMNS> made;
#pragma unroll
        for (i32 r = 0; r < ROWS; ++r) made.set_row(r, planes[place + r * PLANE]);
        return made;
    }
};

// ---- pointers that vectors do not fit ----------------------------------------------------------

template <i32 BYTES, typename T>
__device__ __forceinline__ void copy_lane(T* to, const T* from) {
    constexpr i32 PIECE = BYTES < static_cast<i32>(sizeof(T)) ? BYTES : sizeof(T);
    const auto* const source = reinterpret_cast<const raw_t<PIECE>*>(from);
    auto* const target = reinterpret_cast<raw_t<PIECE>*>(to);
#pragma unroll
    for (i32 k = 0; k < static_cast<i32>(sizeof(T)) / PIECE; ++k) target[k] = source[k];
}

// Lane by lane, in pieces of BYTES where lanes are larger.
template <i32 BYTES, i32 ROWS, i32 COLUMNS, typename T, typename OFFSET>
__device__ __forceinline__ void copy_pieces_of(T* __restrict__ out, const T* __restrict__ in,
                                               const Tiling<OFFSET>& tiling) {
#pragma unroll 1
    for (u32 number = blockIdx.x; number < tiling.count; number += gridDim.x) {
        const auto tile = tile_at(tiling, number);
#pragma unroll 1
        for (i32 at = threadIdx.x; at < tiling.out.count; at += THREADS) {
            const auto slot = find_slots<1>(tiling.out, at);
            if (slot.mask(tile) == 0) continue;
#pragma unroll 1
            for (i32 k = 0; k < ROWS * COLUMNS; ++k) {
                const i32 row = k % ROWS, column = k / ROWS;
                const T* const from = in + tile.at[IN] + slot.at[IN][0] + column;
                T* const to = out + tile.at[OUT] + slot.at[OUT][0] + row;
                copy_lane<BYTES>(to + column * tiling.column_strides[OUT],
                                 from + row * tiling.row_strides[IN]);
            }
        }
    }
}

template <i32 ROWS, i32 COLUMNS, typename T, typename OFFSET>
__device__ __forceinline__ void copy_pieces(T* __restrict__ out, const T* __restrict__ in,
                                            const Tiling<OFFSET>& tiling) {
    if (is_aligned_to<4>(in) && is_aligned_to<4>(out)) {
        copy_pieces_of<4, ROWS, COLUMNS>(out, in, tiling);
    } else {
        copy_pieces_of<1, ROWS, COLUMNS>(out, in, tiling);
    }
}
