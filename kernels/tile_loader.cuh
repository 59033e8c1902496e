// Tiles of an operand of a product: from any strides in global memory to shared memory.
//
//   OperandLayout   where an operand's elements lie
//   LineLoader      a tile whose depth is one axis, by one way to read
//   AnyLoader       any depth, by a way that the launch chooses
//   TileLoader      the one of these that a path names
//
// Both loaders have: fetch, a tile's elements on their way; stash, what came through registers into
// shared memory, [BLOCK_K][STRIDE], rows beside each other, in the compute type; place, from the
// first element of a tile in shared memory to what fetch and stash are given.
//
// An operand has rows (m of A, n of B) and a depth (k). Neighbouring threads read neighbours along
// the rows or along the depth, whichever lies closer in memory, single elements or vectors of RUN:
//
//   ROWS_SINGLE     DEPTH_SINGLE   the depth is one axis
//   ROWS_VECTOR     DEPTH_VECTOR   the same, vectors; element by element where the address of the
//                                  operand is no multiple of a vector
//   ANY             any of these, chosen by the layout, and depths of several axes
//
// Elements that need no conversion and are not Made (made.cuh) go past registers (cp.async, from
// sm_80 on), except vectors along the depth, which are transposed on their way.
// Edges: rows beyond the last are read as rows inside, and never stored by the caller; what lies
// beyond the depth is not read, and stale in shared memory: the caller does not multiply it.
// Shared memory: STRIDE is ROWS and one vector more, and long steps have a gap behind each GROUP
// of k, so that transposed stores spread over the banks. Limits: every extent below 2^31; offsets
// of batches are 64-bit, and of AnyLoader all; the rows and one step of k of LineLoader lie within
// 2^31 elements.
// Source: Matthews, High-Performance Tensor Contraction without Transposition (2018), for operands
// of several axes.
#pragma once

#include "tile.cuh"

struct OperandLayout {
    Strides batches;
    Strides rows;
    Strides depth;
    i32 is_along_depth;  // neighbouring threads read neighbours of k
    i32 has_vectors;     // RUN neighbours are contiguous and never cut by an extent
};

constexpr i32 ROWS_SINGLE = 0, DEPTH_SINGLE = 1, ROWS_VECTOR = 2, DEPTH_VECTOR = 3, ANY = 4;

// WIDTH neighbours in one instruction, of data that no kernel running now writes.
template <i32 WIDTH, typename S>
__device__ __forceinline__ Vector<S, WIDTH> load_constant(const S* address) {
    using Raw = raw_t<sizeof(S) * WIDTH>;
    return bit_cast<Words<S, WIDTH>>(__ldg(reinterpret_cast<const Raw*>(address))).parted();
}

// A row that exists: those beyond the last begin again with the first. They are not all the last
// one, as lanes of a cp.async that share an address go one after the other.
__device__ __forceinline__ i32 row_inside(u32 row, u32 count) {
    return row < count ? row : row % count;
}

// ---- pieces -------------------------------------------------------------------------------------

// The pieces of WIDTH neighbours that a thread moves, along the rows or along the depth.
template <typename S, typename T, i32 ROWS, i32 BLOCK_K, i32 THREADS, i32 WIDTH, bool ALONG_DEPTH>
struct Pieces {
    using C = compute_t<T>;
    using Lines = Layered<C, ROWS, BLOCK_K>;
    static constexpr i32 LINE = (ALONG_DEPTH ? BLOCK_K : ROWS) / WIDTH;  // threads of a line
    static constexpr i32 LINES = THREADS / LINE;                         // read at once
    static constexpr i32 COUNT = ROWS * BLOCK_K / THREADS / WIDTH;
    // Whether elements go to shared memory without passing registers.
    static constexpr bool IS_DIRECT =
        is_same<S, C> && __CUDA_ARCH__ >= 800 && (WIDTH == 1 || !ALONG_DEPTH);
    static_assert(COUNT > 0, "every thread moves a piece");
    static_assert(LINES % Lines::GROUP == 0 || Lines::GROUP % LINES == 0, "see Layered::line");

    static constexpr i32 HELD = IS_DIRECT ? 1 : COUNT * WIDTH;
    __device__ static __forceinline__ S* held(S* staged, i32 piece) {
        return staged + (IS_DIRECT ? 0 : piece * WIDTH);
    }

    // Along the line, and across: k and row, or row and k.
    __device__ static __forceinline__ i32 near() { return threadIdx.x % LINE * WIDTH; }
    __device__ static __forceinline__ i32 far() { return threadIdx.x / LINE; }
    __device__ static __forceinline__ i32 first_row() { return ALONG_DEPTH ? far() : near(); }
    __device__ static __forceinline__ i32 first_k() { return ALONG_DEPTH ? near() : far(); }
    __device__ static __forceinline__ i32 place() { return Lines::line(first_k()) + first_row(); }
    // From a thread's first piece to another one in shared memory.
    __device__ static constexpr __forceinline__ i32 step(i32 piece) {
        return ALONG_DEPTH ? piece * LINES : Lines::line(piece * LINES);
    }

    // WIDTH neighbours into shared memory, or into registers.
    template <i32 COUNT_AT_ONCE>
    __device__ static __forceinline__ void move(const S* from, C* to, S* held) {
        constexpr i32 BYTES = COUNT_AT_ONCE * sizeof(S);
        if constexpr (!IS_DIRECT) {
            const auto read = load_constant<COUNT_AT_ONCE>(from);
#pragma unroll
            for (i32 i = 0; i < COUNT_AT_ONCE; ++i) held[i] = read.lanes[i];
        } else if constexpr (BYTES == 16) {
            ptx::copy_async_16(to, from);
        } else {
            ptx::copy_async<BYTES>(to, from);
        }
    }
    __device__ static __forceinline__ void move_each(const S* from, C* to, S* held) {
#pragma unroll
        for (i32 i = 0; i < WIDTH; ++i) move<1>(from + i, to + i, held + (IS_DIRECT ? 0 : i));
    }
    __device__ static __forceinline__ void move_rest(const S* from, C* to, S* held,
                                                     bool is_aligned) {
        if (WIDTH > 1 && is_aligned) {
            move<WIDTH>(from, to, held);
        } else {
            move_each(from, to, held);
        }
    }
    // What a piece held, in the compute type.
    template <typename E>
    __device__ static __forceinline__ void store_piece(const E* held, C* to,
                                                       const Making<E>& making) {
        Vector<C, WIDTH> written;
#pragma unroll
        for (i32 i = 0; i < WIDTH; ++i) written.lanes[i] = as_factor<T>(held[i], making);
        if constexpr (ALONG_DEPTH) {
#pragma unroll
            for (i32 i = 0; i < WIDTH; ++i) to[i * Lines::STRIDE] = written.lanes[i];
        } else {
            store(to, written);
        }
    }
    // What was held into shared memory, `own` being this thread's first place.
    template <typename E>
    __device__ static __forceinline__ void stash(const E* staged, C* own, const Making<E>& making) {
        if constexpr (!IS_DIRECT) {
#pragma unroll
            for (i32 piece = 0; piece < COUNT; ++piece) {
                store_piece(staged + piece * WIDTH, own + step(piece), making);
            }
        }
    }
};

// ---- one axis -----------------------------------------------------------------------------------

template <typename S, typename T, i32 ROWS, i32 BLOCK_K, i32 THREADS, i32 PATH>
struct LineLoader {
    using C = compute_t<T>;
    static constexpr i32 RUN = FRAGMENT<C>;
    static constexpr i32 WIDTH = PATH == ROWS_VECTOR || PATH == DEPTH_VECTOR ? RUN : 1;
    static constexpr bool ALONG_DEPTH = PATH == DEPTH_SINGLE || PATH == DEPTH_VECTOR;
    using Own = Pieces<S, T, ROWS, BLOCK_K, THREADS, WIDTH, ALONG_DEPTH>;
    using Lines = typename Own::Lines;
    static constexpr i32 ROW_COUNT = ALONG_DEPTH ? Own::COUNT : 1;
    static_assert(sizeof(S) * WIDTH <= 16, "a vector of the operand is one access");

    const S* at;          // this thread's k of the next tile, and its row where it has one
    i32 rows[ROW_COUNT];  // from there to its rows
    i64 next_line;        // from a line of k to the next one of the same piece
    i64 next_tile;
    bool is_aligned;
    S staged[Own::HELD];
    Making<S> making;

    // Rows from `first` on, of `count`.
    __device__ __forceinline__ void open(const S* batch, const OperandLayout& layout,
                                         const MultiIndex& axes, i32 first, i32 count, i64*) {
        const i64 stride = layout.depth.along[0];
        is_aligned = WIDTH == 1 || reinterpret_cast<u64>(batch) % (sizeof(S) * WIDTH) == 0;
        next_line = stride * Own::LINES;
        next_tile = stride * BLOCK_K;
        at = batch + stride * Own::first_k();
        if constexpr (ALONG_DEPTH) {
#pragma unroll
            for (i32 piece = 0; piece < ROW_COUNT; ++piece) {
                const i32 row = min(first + Own::first_row() + piece * Own::LINES, count - 1);
                rows[piece] = static_cast<i32>(axes.offset(layout.rows, row));
            }
        } else {
            at += axes.offset(layout.rows, row_inside(first + Own::first_row(), count));
        }
    }
    __device__ static __forceinline__ i32 place() { return Own::place(); }
    // Passes over so many k.
    __device__ __forceinline__ void skip(i32 count, const OperandLayout& layout) {
        at += layout.depth.along[0] * count;
    }
    __device__ __forceinline__ void advance(bool has_more) { at += has_more ? next_tile : 0; }

    // Starts the way of a tile, of an operand that is aligned.
    __device__ __forceinline__ void fetch(C* own) {
        const S* line = at;
#pragma unroll
        for (i32 piece = 0; piece < Own::COUNT; ++piece) {
            const S* const from = ALONG_DEPTH ? at + rows[piece] : line;
            C* const to = own + Own::step(piece);
            Own::template move<WIDTH>(from, to, Own::held(staged, piece));
            line += next_line;
        }
    }
    // The same of a tile that has `left` k, of any operand.
    __device__ __forceinline__ void fetch_rest(i32 left, C* own) {
        const S* line = at;
#pragma unroll
        for (i32 piece = 0; piece < Own::COUNT; ++piece) {
            const i32 k = Own::first_k() + (ALONG_DEPTH ? 0 : piece * Own::LINES);
            const S* const from = ALONG_DEPTH ? at + rows[piece] : line;
            C* const to = own + Own::step(piece);
            S* const held = Own::held(staged, piece);
            if (k < left) Own::move_rest(from, to, held, is_aligned);
            line += next_line;
        }
    }
    // Ends the way of what came through registers.
    __device__ __forceinline__ void stash(C* own) const { Own::stash(staged, own, making); }
};

// ---- any number of axes -------------------------------------------------------------------------

template <typename S, typename T, i32 ROWS, i32 BLOCK_K, i32 THREADS>
struct AnyLoader {
    using C = compute_t<T>;
    static constexpr i32 RUN = FRAGMENT<C>;
    using Lines = Layered<C, ROWS, BLOCK_K>;
    static constexpr bool CAN_BE_VECTORS = sizeof(S) * RUN <= 16;
    template <i32 WIDTH, bool ALONG_DEPTH>
    using Of = Pieces<S, T, ROWS, BLOCK_K, THREADS, WIDTH, ALONG_DEPTH>;

    const i64* rows;     // shared: addresses of the tile's rows
    const i64* offsets;  // shared: of the tile's k [bytes]
    i32 path;
    static constexpr bool is_aligned = true;  // or read element by element
    S staged[ROWS * BLOCK_K / THREADS];
    Making<S> making;

    // Fills `table` with the addresses of the tile's rows: from `first` on, of `count`.
    __device__ __forceinline__ void open(const S* batch, const OperandLayout& layout,
                                         const MultiIndex& axes, i32 first, i32 count,
                                         i64* table) {
        const bool has_address = reinterpret_cast<u64>(batch) % (sizeof(S) * RUN) == 0;
        const bool is_vector = CAN_BE_VECTORS && layout.has_vectors != 0 && has_address;
        path = (layout.is_along_depth != 0 ? 1 : 0) + (is_vector ? 2 : 0);
#pragma unroll 1
        for (i32 row = threadIdx.x; row < ROWS; row += THREADS) {
            const i64 offset = axes.offset(layout.rows, row_inside(first + row, count));
            table[row] = reinterpret_cast<i64>(batch + offset);
        }
        rows = table;
    }
    __device__ static __forceinline__ i32 place() { return 0; }

    // Calls ACT(pieces of the path).
    template <typename ACT>
    __device__ __forceinline__ void by_path(ACT act) const {
        if constexpr (CAN_BE_VECTORS) {
            if (path == DEPTH_VECTOR) return act(Of<RUN, true>{});
            if (path == ROWS_VECTOR) return act(Of<RUN, false>{});
        }
        if (path == DEPTH_SINGLE) return act(Of<1, true>{});
        if (path == ROWS_SINGLE) act(Of<1, false>{});
    }
    __device__ __forceinline__ void skip(i32, const OperandLayout&) {}
    __device__ __forceinline__ void advance(bool) {}

    template <i32 WIDTH, bool ALONG_DEPTH>
    __device__ __forceinline__ void fetch_as(Of<WIDTH, ALONG_DEPTH> own, C* tile) {
#pragma unroll
        for (i32 piece = 0; piece < own.COUNT; ++piece) {
            const i32 k = own.first_k() + (ALONG_DEPTH ? 0 : piece * own.LINES);
            const i32 row = own.first_row() + (ALONG_DEPTH ? piece * own.LINES : 0);
            const S* const from = reinterpret_cast<const S*>(rows[row] + offsets[k]);
            C* const to = tile + Lines::line(k) + row;
            own.template move<WIDTH>(from, to, own.held(staged, piece));
        }
    }
    __device__ __forceinline__ void fetch(C* tile) {
        by_path([&](auto own) { fetch_as(own, tile); });
    }
    __device__ __forceinline__ void fetch_rest(i32, C* tile) { fetch(tile); }
    // Elements are made before the ways part, so that the code of chains is there once.
    __device__ __forceinline__ void stash(C* tile) const {
        if constexpr (Making<S>::has_chain()) {
            constexpr i32 HELD = ROWS * BLOCK_K / THREADS;
            C factors[HELD];
#pragma unroll
            for (i32 i = 0; i < HELD; ++i) factors[i] = as_factor<T>(staged[i], making);
            by_path([&](auto own) { own.stash(factors, tile + own.place(), Making<C>{}); });
        } else {
            by_path([&](auto own) { own.stash(staged, tile + own.place(), making); });
        }
    }
};

template <typename S, typename T, i32 ROWS, i32 BLOCK_K, i32 THREADS, i32 PATH>
struct LoaderOf {
    using type = LineLoader<S, T, ROWS, BLOCK_K, THREADS, PATH>;
};
template <typename S, typename T, i32 ROWS, i32 BLOCK_K, i32 THREADS>
struct LoaderOf<S, T, ROWS, BLOCK_K, THREADS, ANY> {
    using type = AnyLoader<S, T, ROWS, BLOCK_K, THREADS>;
};
template <typename S, typename T, i32 ROWS, i32 BLOCK_K, i32 THREADS, i32 PATH>
using TileLoader = typename LoaderOf<S, T, ROWS, BLOCK_K, THREADS, PATH>::type;
