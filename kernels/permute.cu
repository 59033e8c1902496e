// Copies of a permuted or strided view into a permuted or dense one, a tile at a time.
//
//   out[first + sum_a c_a * out_stride_a] = in[sum_a c_a * in_stride_a]
//
//   permute_tile   through shared memory: the stride-1 axes of both sides span the tile, which is
//                  read in the order of the input and written in the order of the output
//   permute_runs   straight from registers, where both sides have the same stride-1 axis
//   permute_cast   permute_tile of single elements, each converted to DST when it is read
//
// A tile is a box over up to 16 axes. W neighbours that stay neighbours move as one access; V > 1
// reads V rows of V neighbours, transposes them in registers and writes vectors. Shared memory
// holds a tile in the order in which it is read, V planes of it, one access of padding after every
// 2^pad. Offsets inside the tile are the same for all tiles and computed once a block.
// Dtypes: by size (u8 u16 u32 u64), any in permute_cast. Layouts: any strides, 0 and negative
// included, where W and V are 1; else the host checks strides and extents. Every architecture.
// Launch: 256 threads a block; block b takes tiles b, b + blocks, ...; any number of blocks.
// Shared memory: permute_tile 9/8 of its tile, at most 36 KiB, static.
// Limits: 64 axes, 2^31 tiles. Pointers that are not aligned to the vectors are read and written
// element by element. OFFSET is i64 where an offset inside a tile passes 2^31.
// Source: Springer, Su, Bientinesi, HPTT: A High-Performance Tensor Transposition C++ Library
// (2017), for tiles over the stride-1 axes of both sides; Ruetsch and Micikevicius, Optimizing
// Matrix Transpose in CUDA (2009), for the padded tile.
#include "converting.cuh"

constexpr i32 THREADS = 256;
constexpr i32 BLOCKS = 2;  // of a multiprocessor at least: 128 registers a thread
constexpr i32 TILE_AXES = 16;
constexpr i32 GRID_AXES = 64;

// ---- what the host decides: see softcuda/backends/cuda/tile_orders.py --------------------------

// An axis of a tile, or a part of one: how a step along it moves the offsets [elements] and the
// number of the access in the order in which the tile is read.
template <typename OFFSET>
struct Digit {
    FastDivisor extent;
    i32 place;
    OFFSET in;
    OFFSET out;
};

// The order in which threads visit a tile. Digits `p` and `q` (or -1) count the two axes of which
// a tile may be a part; in the last tile along them fewer values exist.
template <typename OFFSET>
struct Order {
    Digit<OFFSET> digits[TILE_AXES];
    i32 rank;
    i32 count;
    i32 p;
    i32 q;
    i32 edge_p;
    i32 edge_q;
};

template <typename OFFSET>
struct Tiling {
    Order<OFFSET> in;   // how the tile is read; not used by permute_runs
    Order<OFFSET> out;  // how it is written
    i64 step_in[GRID_AXES];
    i64 step_out[GRID_AXES];
    i64 row_stride;  // in the input, between the rows that one thread transposes
    FastDivisor tiles[GRID_AXES];
    i32 grid_rank;
    i32 grid_p;
    i32 grid_q;
    i32 count;
    i32 pad;  // 0 to 31
};

// ---- tiles and the places of a thread in them --------------------------------------------------

struct Tile {
    i64 in;
    i64 out;
    bool is_edge_p;
    bool is_edge_q;
};

template <typename OFFSET>
__device__ __forceinline__ Tile tile_at(const Tiling<OFFSET>& tiling, i32 number) {
    Tile tile{0, 0, false, false};
    u32 rest = static_cast<u32>(number);
#pragma unroll 1
    for (i32 axis = 0; axis < tiling.grid_rank; ++axis) {
        const FastDivisor tiles = tiling.tiles[axis];
        const u32 above = tiles.quotient(rest);
        const u32 at = tiles.remainder(rest, above);
        rest = above;
        tile.in += at * tiling.step_in[axis];
        tile.out += at * tiling.step_out[axis];
        const bool is_last = at + 1 == tiles.divisor;
        tile.is_edge_p |= is_last && axis == tiling.grid_p;
        tile.is_edge_q |= is_last && axis == tiling.grid_q;
    }
    return tile;
}

// What a thread reads or writes of every tile: one slot an access.
template <i32 COUNT, typename OFFSET>
struct Slots {
    static_assert(COUNT <= 32, "one bit a slot");
    OFFSET in[COUNT];
    OFFSET out[COUNT];
    i32 places[COUNT];
    u32 is_there;  // one bit a slot
    u32 is_below_p;
    u32 is_below_q;

    __device__ __forceinline__ u32 mask(bool is_edge_p, bool is_edge_q) const {
        return is_there & (is_edge_p ? is_below_p : ~0u) & (is_edge_q ? is_below_q : ~0u);
    }
};

// Slot k is access number first + k * THREADS of the order. What of it is not used is not made.
template <i32 COUNT, typename OFFSET>
__device__ __forceinline__ Slots<COUNT, OFFSET> find_slots(const Order<OFFSET>& order, i32 first) {
    Slots<COUNT, OFFSET> slots;
    u32 rest[COUNT];
    slots.is_there = 0;
    slots.is_below_p = slots.is_below_q = ~0u;
#pragma unroll
    for (i32 k = 0; k < COUNT; ++k) {
        rest[k] = first + k * THREADS;
        slots.is_there |= static_cast<u32>(first + k * THREADS < order.count) << k;
        slots.in[k] = slots.out[k] = 0;
        slots.places[k] = 0;
    }
#pragma unroll 1
    for (i32 axis = 0; axis < order.rank; ++axis) {
        const Digit<OFFSET> digit = order.digits[axis];
        const u32 edge = axis == order.p ? order.edge_p : axis == order.q ? order.edge_q : ~0u;
        u32 beyond = 0;
#pragma unroll
        for (i32 k = 0; k < COUNT; ++k) {
            const u32 above = digit.extent.quotient(rest[k]);
            const u32 at = digit.extent.remainder(rest[k], above);
            rest[k] = above;
            slots.in[k] += static_cast<OFFSET>(at) * digit.in;
            slots.out[k] += static_cast<OFFSET>(at) * digit.out;
            slots.places[k] += static_cast<i32>(at) * digit.place;
            beyond |= static_cast<u32>(at >= edge) << k;
        }
        if (axis == order.p) slots.is_below_p = ~beyond;
        if (axis == order.q) slots.is_below_q = ~beyond;
    }
    return slots;
}

// The tiles of this block, element by element: for pointers that vectors do not fit.
template <i32 W, i32 V, typename T, typename OFFSET>
__device__ __forceinline__ void copy_elements(T* __restrict__ out, const T* __restrict__ in,
                                              const Tiling<OFFSET>& tiling) {
#pragma unroll 1
    for (i32 number = blockIdx.x; number < tiling.count; number += gridDim.x) {
        const Tile tile = tile_at(tiling, number);
#pragma unroll 1
        for (i32 at = threadIdx.x; at < tiling.out.count; at += THREADS) {
            const Slots<1, OFFSET> slot = find_slots<1>(tiling.out, at);
            if (slot.mask(tile.is_edge_p, tile.is_edge_q) == 0) continue;
#pragma unroll 1
            for (i32 k = 0; k < W * V; ++k) {
                const i64 from = V > 1 ? k * tiling.row_stride : k;
                out[tile.out + slot.out[0] + k] = in[tile.in + slot.in[0] + from];
            }
        }
    }
}

template <i32 BYTES, typename T>
__device__ __forceinline__ bool is_aligned_to(const T* address) {
    return BYTES == sizeof(T) || reinterpret_cast<u64>(address) % BYTES == 0;
}

// Column COLUMN of the V x V block whose rows are given.
template <typename T, i32 V, typename RAW>
__device__ __forceinline__ RAW column_of(const RAW (&rows)[V], i32 column) {
    Vector<T, V> made;
#pragma unroll
    for (i32 k = 0; k < V; ++k) made.lanes[k] = bit_cast<Vector<T, V>>(rows[k]).lanes[column];
    return bit_cast<RAW>(made);
}

// ---- permute_tile ------------------------------------------------------------------------------

template <typename T, i32 W, i32 V, i32 ITEMS, typename OFFSET>
__global__ void __launch_bounds__(THREADS, BLOCKS)
    permute_tile(T* __restrict__ out, const T* __restrict__ in, i64 first, Tiling<OFFSET> tiling) {
    static_assert(W == 1 || V == 1, "neighbours either stay together or are transposed");
    static_assert(sizeof(tiling) <= 3900, "the parameters fit 4 KiB");
    constexpr i32 BYTES = W * V * sizeof(T);
    constexpr i32 PLANE = THREADS * ITEMS;
    using Raw = raw_t<BYTES>;

    // shared memory
    __shared__ Raw memory[PLANE * V + PLANE * V / 8];
    static_assert(sizeof(memory) <= 40960, "the tile fits static shared memory");

    // indices
    out += first;
    if (!is_aligned_to<BYTES>(in) || !is_aligned_to<BYTES>(out)) {
        copy_elements<W, V>(out, in, tiling);
        return;
    }
    const auto read = find_slots<ITEMS>(tiling.in, threadIdx.x);
    auto written = find_slots<ITEMS * V>(tiling.out, threadIdx.x);
    const i32 pad = tiling.pad;
#pragma unroll
    for (i32 k = 0; k < ITEMS * V; ++k) written.places[k] += written.places[k] >> pad;
    Raw* const own = memory + threadIdx.x + (threadIdx.x >> pad);

    // load
    Raw held[ITEMS][V];
    const auto load_tile = [&](const Tile& tile) {
        const u32 mask = read.mask(tile.is_edge_p, tile.is_edge_q);
        const T* const source = in + tile.in;
#pragma unroll
        for (i32 k = 0; k < ITEMS; ++k) {
#pragma unroll
            for (i32 r = 0; r < V; ++r) {
                const T* const address = source + read.in[k] + r * tiling.row_stride;
                if (mask >> k & 1u) held[k][r] = *reinterpret_cast<const Raw*>(address);
            }
        }
    };
    i32 number = blockIdx.x;
    if (number >= tiling.count) return;
    Tile tile = tile_at(tiling, number);
    load_tile(tile);
    while (true) {
        // registers to shared memory
#pragma unroll
        for (i32 k = 0; k < ITEMS; ++k) {
#pragma unroll
            for (i32 r = 0; r < V; ++r) {
                const i32 place = k * THREADS + r * PLANE;
                if constexpr (V == 1) own[place + (place >> pad)] = held[k][r];
                if constexpr (V > 1) own[place + (place >> pad)] = column_of<T>(held[k], r);
            }
        }
        __syncthreads();

        // load of the next tile, while this one is stored
        const Tile stored = tile;
        number += gridDim.x;
        if (number < tiling.count) {
            tile = tile_at(tiling, number);
            load_tile(tile);
        }

        // store
        const u32 mask = written.mask(stored.is_edge_p, stored.is_edge_q);
        T* const target = out + stored.out;
#pragma unroll
        for (i32 k = 0; k < ITEMS * V; ++k) {
            Raw* const address = reinterpret_cast<Raw*>(target + written.out[k]);
            if (mask >> k & 1u) *address = memory[written.places[k]];
        }
        if (number >= tiling.count) return;
        __syncthreads();
    }
}

// ---- permute_runs ------------------------------------------------------------------------------

template <typename T, i32 W, i32 ITEMS, typename OFFSET>
__global__ void __launch_bounds__(THREADS, BLOCKS)
    permute_runs(T* __restrict__ out, const T* __restrict__ in, i64 first, Tiling<OFFSET> tiling) {
    static_assert(sizeof(tiling) <= 3900, "the parameters fit 4 KiB");
    static_assert(W * sizeof(T) <= 16, "one access moves at most 16 bytes");
    using Raw = raw_t<W * sizeof(T)>;

    // indices
    out += first;
    if (!is_aligned_to<sizeof(Raw)>(in) || !is_aligned_to<sizeof(Raw)>(out)) {
        copy_elements<W, 1>(out, in, tiling);
        return;
    }
    const auto slots = find_slots<ITEMS>(tiling.out, threadIdx.x);

    for (i32 number = blockIdx.x; number < tiling.count; number += gridDim.x) {
        const Tile tile = tile_at(tiling, number);
        const u32 mask = slots.mask(tile.is_edge_p, tile.is_edge_q);

        // load
        Raw held[ITEMS];
        const T* const source = in + tile.in;
#pragma unroll
        for (i32 k = 0; k < ITEMS; ++k) {
            const T* const address = source + slots.in[k];
            if (mask >> k & 1u) held[k] = *reinterpret_cast<const Raw*>(address);
        }

        // store
        T* const target = out + tile.out;
#pragma unroll
        for (i32 k = 0; k < ITEMS; ++k) {
            Raw* const address = reinterpret_cast<Raw*>(target + slots.out[k]);
            if (mask >> k & 1u) *address = held[k];
        }
    }
}

// ---- permute_cast ------------------------------------------------------------------------------

// DTYPE is that of the input, as convert_from numbers it.
template <typename DST, i32 ITEMS>
__global__ void __launch_bounds__(THREADS, BLOCKS)
    permute_cast(DST* __restrict__ out, const void* __restrict__ in, i64 first, i32 dtype,
                 Tiling<i64> tiling) {
    static_assert(sizeof(tiling) <= 3900, "the parameters fit 4 KiB");
    constexpr i32 PLANE = THREADS * ITEMS;

    // shared memory
    __shared__ bits_t<DST> memory[PLANE + PLANE / 8];
    static_assert(sizeof(memory) <= 40960, "the tile fits static shared memory");

    // indices
    out += first;
    const auto read = find_slots<ITEMS>(tiling.in, threadIdx.x);
    const auto written = find_slots<ITEMS>(tiling.out, threadIdx.x);
    const i32 pad = tiling.pad;

    for (i32 number = blockIdx.x; number < tiling.count; number += gridDim.x) {
        const Tile tile = tile_at(tiling, number);

        // load
        const u32 there = read.mask(tile.is_edge_p, tile.is_edge_q);
#pragma unroll
        for (i32 k = 0; k < ITEMS; ++k) {
            const i32 place = threadIdx.x + k * THREADS;
            if ((there >> k & 1u) == 0) continue;
            const DST value = convert_from<DST>(in, tile.in + read.in[k], dtype);
            memory[place + (place >> pad)] = bit_cast<bits_t<DST>>(value);
        }
        __syncthreads();

        // store
        const u32 mask = written.mask(tile.is_edge_p, tile.is_edge_q);
#pragma unroll
        for (i32 k = 0; k < ITEMS; ++k) {
            const i32 place = written.places[k] + (written.places[k] >> pad);
            DST* const address = out + tile.out + written.out[k];
            if (mask >> k & 1u) *address = bit_cast<DST>(memory[place]);
        }
        __syncthreads();
    }
}
