// Copies of a permuted or strided view into a permuted or dense one, a tile at a time.
//
//   out[first + sum_a c_a * out_stride_a] = in[sum_a c_a * in_stride_a]
//
//   permute_tile   through shared memory: the stride-1 axes of both sides span the tile, which is
//                  read in the order of the input and written in the order of the output
//   permute_runs   straight from registers, where both sides have the same stride-1 axis
//
// What moves are lanes of type T: elements, or neighbours that are neighbours on both sides. A
// thread reads ROWS vectors of COLUMNS lanes, which lie along the stride-1 axis of the input, and
// writes COLUMNS vectors of ROWS lanes, along that of the output. Shared memory holds ROWS planes,
// each in the order in which a tile is read, its banks swizzled; registers hold the next tile while
// one is written. Offsets inside the tile are the same for all tiles and computed once a block.
// Dtypes: by size (u8 u16 u32 u64 uint4). Layouts: any strides, 0 and negative included, where ROWS
// and COLUMNS are 1; else the host checks strides and extents. Every architecture.
// Launch: 256 threads a block; block b takes tiles b, b + blocks, ...; any number of blocks.
// Shared memory: permute_tile 256 * ITEMS * ROWS * COLUMNS lanes, dynamic.
// Limits: 64 axes, 2^31 tiles. Pointers that are not aligned to the vectors are read and written in
// pieces that they are aligned to.
// Source: Springer, Su, Bientinesi, HPTT: A High-Performance Tensor Transposition C++ Library
// (2017), for tiles over the stride-1 axes of both sides; Ruetsch and Micikevicius, Optimizing
// Matrix Transpose in CUDA (2009), for the tile in shared memory.
#include "blocks.cuh"

// ---- permute_tile ------------------------------------------------------------------------------

template <typename T, i32 ROWS, i32 COLUMNS, i32 ITEMS, i32 BLOCKS, typename OFFSET>
__global__ void __launch_bounds__(THREADS, BLOCKS)
    permute_tile(T* __restrict__ out, const T* __restrict__ in, i64 first,
                 const __grid_constant__ Tiling<OFFSET> tiling) {
    static_assert(sizeof(tiling) <= 3900, "the parameters fit 4 KiB");
    using Stage = Staged<T, ROWS, COLUMNS, ITEMS>;
    using Written = raw_t<ROWS * sizeof(T)>;

    // shared memory
    extern __shared__ __align__(16) unsigned char memory[];
    auto* const planes = reinterpret_cast<typename Stage::Unit*>(memory);

    // indices
    out += first;
    if (!is_aligned_to<Stage::READ>(in) || !is_aligned_to<sizeof(Written)>(out)) {
        copy_pieces<ROWS, COLUMNS>(out, in, tiling);
        return;
    }
    u32 number = blockIdx.x;
    if (number >= tiling.count) return;
    const auto read = find_slots<ITEMS>(tiling.in, threadIdx.x);
    auto written = find_slots<ITEMS>(tiling.out, threadIdx.x);
    const i32 swizzle = tiling.swizzle;
#pragma unroll
    for (i32 k = 0; k < ITEMS; ++k) {
        written.places[k] = swizzled<Stage::READ>(written.places[k], swizzle);
    }
    const auto row_stride = static_cast<OFFSET>(tiling.row_strides[IN]);
    const auto column_stride = static_cast<OFFSET>(tiling.column_strides[OUT]);

    // load
    Stage stage;
    auto tile = tile_at(tiling, number);
    u32 there = read.mask(tile);
    stage.fetch(in + tile.at[IN], read.at[IN], row_stride, there);
    while (true) {
        // registers to shared memory
        stage.hold(planes, swizzle, there);
        __syncthreads();
        // load of the next tile, while this one is stored
        const u32 mask = written.mask(tile);
        T* const target = out + tile.at[OUT];
        number += gridDim.x;
        const bool is_last = number >= tiling.count;
        if (!is_last) {
            tile = tile_at(tiling, number);
            there = read.mask(tile);
            stage.fetch(in + tile.at[IN], read.at[IN], row_stride, there);
        }
        // store
#pragma unroll
        for (i32 k = 0; k < ITEMS; ++k) {
            if ((mask >> k & 1u) == 0) continue;
            const auto block = Stage::block(planes, written.places[k]);
#pragma unroll
            for (i32 c = 0; c < COLUMNS; ++c) {
                T* const address = target + written.at[OUT][k] + c * column_stride;
                *reinterpret_cast<Written*>(address) = block.column(c);
            }
        }
        if (is_last) return;
        __syncthreads();
    }
}

// ---- permute_runs ------------------------------------------------------------------------------

template <typename T, i32 ITEMS, i32 BLOCKS, typename OFFSET>
__global__ void __launch_bounds__(THREADS, BLOCKS)
    permute_runs(T* __restrict__ out, const T* __restrict__ in, i64 first,
                 const __grid_constant__ Tiling<OFFSET> tiling) {
    static_assert(sizeof(tiling) <= 3900, "the parameters fit 4 KiB");
    using Unit = raw_t<sizeof(T)>;

    // indices
    out += first;
    if (!is_aligned_to<sizeof(T)>(in) || !is_aligned_to<sizeof(T)>(out)) {
        copy_pieces<1, 1>(out, in, tiling);
        return;
    }
    const auto slots = find_slots<ITEMS>(tiling.out, threadIdx.x);

#pragma unroll 1
    for (u32 number = blockIdx.x; number < tiling.count; number += gridDim.x) {
        const auto tile = tile_at(tiling, number);
        const u32 mask = slots.mask(tile);

        // load
        Unit held[ITEMS];
        const T* const source = in + tile.at[IN];
#pragma unroll
        for (i32 k = 0; k < ITEMS; ++k) {
            if (mask >> k & 1u) held[k] = *reinterpret_cast<const Unit*>(source + slots.at[IN][k]);
        }

        // store
        T* const target = out + tile.at[OUT];
#pragma unroll
        for (i32 k = 0; k < ITEMS; ++k) {
            if (mask >> k & 1u) *reinterpret_cast<Unit*>(target + slots.at[OUT][k]) = held[k];
        }
    }
}
