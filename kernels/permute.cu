// Copies of a permuted or strided view into a permuted or dense one, a tile at a time.
//
//   out[first + sum_a c_a * out_stride_a] = in[sum_a c_a * in_stride_a]
//
//   permute_tile   through shared memory: the stride-1 axes of both sides span the tile, which is
//                  read in the order of the input and written in the order of the output
//   permute_runs   straight from registers, where both sides have the same stride-1 axis
//   permute_cast   permute_tile, each element converted from its own dtype to DST
//
// A tile is a box over up to 16 axes. Its elements form a matrix: the axes that make reads long
// count its columns, those that make writes long its rows. W neighbours that stay neighbours move
// as one; V > 1 reads V rows of V neighbours, transposes them in registers and writes vectors.
// Offsets inside the tile are the same for all tiles and computed once a block.
// Dtypes: by size (u8 u16 u32 u64). Layouts: any strides, 0 and negative included, where W and V
// are 1; else the host checks strides and extents. Every architecture.
// Launch: 256 threads a block; block b takes tiles b, b + blocks, ...; any number of blocks.
// Shared memory: permute_tile 9/8 of its tile, at most 36 KiB, static.
// Limits: 64 axes, 2^31 tiles. Pointers that are not aligned to the vectors are read and written
// element by element. OFFSET is i64 where an offset inside a tile passes 2^31.
// Source: Springer, Su, Bientinesi, HPTT: A High-Performance Tensor Transposition C++ Library
// (2017), for tiles over the stride-1 axes of both sides; Ruetsch and Micikevicius, Optimizing
// Matrix Transpose in CUDA (2009), for the padded tile.
#include "common.cuh"

constexpr i32 THREADS = 256;
constexpr i32 TILE_AXES = 16;
constexpr i32 GRID_AXES = 64;

// ---- what the host decides: see softcuda/backends/cuda/permute.py ------------------------------

// One axis of a tile: how a step along it moves the offset and the place in the matrix.
template <typename OFFSET>
struct Digit {
    FastDivisor extent;
    i32 column;
    i32 row;
    OFFSET stride;
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
    Order<OFFSET> in;
    Order<OFFSET> out;
    i64 step_in[GRID_AXES];
    i64 step_out[GRID_AXES];
    i64 row_stride;  // in the input, between the rows that one thread transposes
    FastDivisor tiles[GRID_AXES];
    i32 grid_rank;
    i32 grid_p;
    i32 grid_q;
    i32 count;
    i32 pitch;
};

// ---- places of a thread ------------------------------------------------------------------------

template <i32 COUNT, typename OFFSET>
struct Slots {
    static_assert(COUNT <= 32, "one bit a slot");
    OFFSET offsets[COUNT];
    i32 places[COUNT];  // in shared memory
    u32 is_there;       // one bit a slot
    u32 is_below_p;
    u32 is_below_q;

    __device__ __forceinline__ u32 mask(bool is_edge_p, bool is_edge_q) const {
        return is_there & (is_edge_p ? is_below_p : ~0u) & (is_edge_q ? is_below_q : ~0u);
    }
};

// PLACE(column, row) says where an access lies in shared memory.
template <i32 COUNT, typename OFFSET, typename PLACE>
__device__ __forceinline__ Slots<COUNT, OFFSET> find_slots(const Order<OFFSET>& order,
                                                           PLACE place) {
    Slots<COUNT, OFFSET> slots;
    slots.is_there = slots.is_below_p = slots.is_below_q = 0;
#pragma unroll
    for (i32 k = 0; k < COUNT; ++k) {
        const u32 number = threadIdx.x + k * THREADS;
        u32 rest = number;
        i32 column = 0, row = 0, at_p = 0, at_q = 0;
        OFFSET offset = 0;
        for (i32 axis = 0; axis < order.rank; ++axis) {
            const Digit<OFFSET>& digit = order.digits[axis];
            const u32 above = digit.extent.quotient(rest);
            const i32 at = static_cast<i32>(digit.extent.remainder(rest, above));
            rest = above;
            column += at * digit.column;
            row += at * digit.row;
            offset += at * digit.stride;
            at_p = axis == order.p ? at : at_p;
            at_q = axis == order.q ? at : at_q;
        }
        slots.offsets[k] = offset;
        slots.places[k] = place(column, row);
        slots.is_there |= static_cast<u32>(number < static_cast<u32>(order.count)) << k;
        slots.is_below_p |= static_cast<u32>(at_p < order.edge_p) << k;
        slots.is_below_q |= static_cast<u32>(at_q < order.edge_q) << k;
    }
    return slots;
}

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
    for (i32 axis = 0; axis < tiling.grid_rank; ++axis) {
        const FastDivisor& tiles = tiling.tiles[axis];
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

// ---- access ------------------------------------------------------------------------------------

template <i32 WIDTH, typename T>
__device__ __forceinline__ Vector<T, WIDTH> fetch(const T* address, bool is_aligned) {
    if (is_aligned) return load<WIDTH>(address);
    Vector<T, WIDTH> vector;
#pragma unroll
    for (i32 k = 0; k < WIDTH; ++k) vector.lanes[k] = address[k];
    return vector;
}

template <typename T, i32 WIDTH>
__device__ __forceinline__ void put(T* address, const Vector<T, WIDTH>& vector, bool is_aligned) {
    if (is_aligned) {
        store(address, vector);
        return;
    }
#pragma unroll
    for (i32 k = 0; k < WIDTH; ++k) address[k] = vector.lanes[k];
}

template <i32 BYTES, typename T>
__device__ __forceinline__ bool is_aligned_to(const T* address) {
    return BYTES == sizeof(T) || reinterpret_cast<u64>(address) % BYTES == 0;
}

// Rows of a thread's V x V block become its columns.
template <typename T, i32 V>
__device__ __forceinline__ Vector<T, V> column_of(const Vector<T, V> (&rows)[V], i32 column) {
    Vector<T, V> made;
#pragma unroll
    for (i32 k = 0; k < V; ++k) made.lanes[k] = rows[k].lanes[column];
    return made;
}

// ---- permute_tile ------------------------------------------------------------------------------

template <typename T, i32 W, i32 V, i32 ITEMS, typename OFFSET>
__global__ void __launch_bounds__(THREADS)
    permute_tile(T* __restrict__ out, const T* __restrict__ in, i64 first, Tiling<OFFSET> tiling) {
    static_assert(W == 1 || V == 1, "neighbours either stay together or are transposed");
    static_assert(sizeof(tiling) <= 3900, "the parameters fit 4 KiB");
    constexpr i32 WIDTH = W * V;
    constexpr i32 ACCESSES = THREADS * ITEMS * V;
    // Vectors that one pass of a warp over the banks holds.
    constexpr i32 PASS = 128 / (WIDTH * sizeof(T));
    using Access = Vector<T, WIDTH>;

    // shared memory
    __shared__ Access tile_memory[ACCESSES + ACCESSES / 8];
    static_assert(sizeof(tile_memory) <= 40960, "the tile fits static shared memory");

    // indices
    out += first;
    const bool reads_vectors = is_aligned_to<WIDTH * sizeof(T)>(in);
    const bool writes_vectors = is_aligned_to<WIDTH * sizeof(T)>(out);
    const i32 pitch = tiling.pitch;
    const auto swizzle = [](i32 column) { return (column / PASS) & (V - 1); };
    const auto read = find_slots<ITEMS>(tiling.in, [&](i32 column, i32 row) {
        return row * pitch + (column ^ swizzle(column));
    });
    const auto written = find_slots<ITEMS * V>(tiling.out, [&](i32 column, i32 row) {
        return row * pitch + (column ^ swizzle(column));
    });

    Access held[ITEMS][V];
    const auto load_tile = [&](const Tile& tile) {
        const u32 mask = read.mask(tile.is_edge_p, tile.is_edge_q);
#pragma unroll
        for (i32 k = 0; k < ITEMS; ++k) {
            const T* address = in + tile.in + read.offsets[k];
            if ((mask >> k & 1u) == 0) continue;
#pragma unroll
            for (i32 r = 0; r < V; ++r) {
                held[k][r] = fetch<WIDTH>(address + r * tiling.row_stride, reads_vectors);
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
            if ((read.is_there >> k & 1u) == 0) continue;
            if constexpr (V == 1) {
                tile_memory[read.places[k]] = held[k][0];
            } else {
#pragma unroll
                for (i32 r = 0; r < V; ++r) {
                    tile_memory[read.places[k] ^ r] = column_of(held[k], r);
                }
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
#pragma unroll
        for (i32 k = 0; k < ITEMS * V; ++k) {
            if ((mask >> k & 1u) == 0) continue;
            put(out + stored.out + written.offsets[k], tile_memory[written.places[k]],
                writes_vectors);
        }
        if (number >= tiling.count) return;
        __syncthreads();
    }
}

// ---- permute_runs ------------------------------------------------------------------------------

// Both orders visit the tile alike.
template <typename T, i32 W, i32 ITEMS, typename OFFSET>
__global__ void __launch_bounds__(THREADS)
    permute_runs(T* __restrict__ out, const T* __restrict__ in, i64 first, Tiling<OFFSET> tiling) {
    static_assert(sizeof(tiling) <= 3900, "the parameters fit 4 KiB");
    static_assert(W * sizeof(T) <= 16, "one access moves at most 16 bytes");

    // indices
    out += first;
    const bool is_aligned =
        is_aligned_to<W * sizeof(T)>(in) && is_aligned_to<W * sizeof(T)>(out);
    const auto read = find_slots<ITEMS>(tiling.in, [](i32, i32) { return 0; });
    const auto written = find_slots<ITEMS>(tiling.out, [](i32, i32) { return 0; });

    for (i32 number = blockIdx.x; number < tiling.count; number += gridDim.x) {
        const Tile tile = tile_at(tiling, number);
        const u32 mask = read.mask(tile.is_edge_p, tile.is_edge_q);

        // load
        Vector<T, W> held[ITEMS];
#pragma unroll
        for (i32 k = 0; k < ITEMS; ++k) {
            if (mask >> k & 1u) held[k] = fetch<W>(in + tile.in + read.offsets[k], is_aligned);
        }

        // store
#pragma unroll
        for (i32 k = 0; k < ITEMS; ++k) {
            if (mask >> k & 1u) put(out + tile.out + written.offsets[k], held[k], is_aligned);
        }
    }
}
