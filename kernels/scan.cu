// Running sums along one axis.
//
//   out[r, i] = sum over j <= i of x[r, j]
//
//   scan_rows      a block a row, or a tile of one; EACH elements a thread at a time
//   scan_columns   neighbouring rows lie beside each other: a thread a row, or a tile of one
//   scan_carries   totals of the tiles of a row -> what comes before each of them
//   T: any dtype, that of x; the result is of T, for bool and integers of i64
//
// Launch: 256 threads a block. x counts rows (tiles of 256 columns) in a grid-stride loop, y tiles
// along the axis. Rows that are few and long take three launches: totals of the tiles, where `out`
// is null; scan_carries; then the sums, each tile from its carry. One launch has one tile and no
// carries. All sums meet in a fixed order.
// Shared memory: a sum a warp.
// Limits: any extents and strides. Sums are kept in f64 (i64) and rounded once each.
// Source: Blelloch, Prefix sums and their applications (1990).
#include "ops.cuh"
#include "row_space.cuh"

[[maybe_unused]] constexpr i32 EACH = 4;  // elements of a thread at a time

template <typename T>
using total_t = select_t<is_float<T>, f64, i64>;
template <typename T>
using scanned_t = select_t<is_float<T>, T, i64>;

// What a block or thread scans of each row, and where totals and carries lie.
template <typename SUM>
struct Tiles {
    SUM* carries;  // [rows, tiles]; null for one tile
    i64 length;    // of a tile
    i64 count;     // tiles of a row

    __device__ __forceinline__ i64 begin() const { return blockIdx.y * length; }
    __device__ __forceinline__ i64 end(i64 row_length) const {
        return begin() + length < row_length ? begin() + length : row_length;
    }
    __device__ __forceinline__ SUM& carry(i64 row) const {
        return carries[row * count + blockIdx.y];
    }
};

// The sum of the threads before this one; `total` becomes that of all threads of the block.
template <typename SUM>
__device__ __forceinline__ SUM sum_before(SUM value, SUM& total, SUM* slots) {
    SUM sum = value;
#pragma unroll
    for (i32 step = 1; step < WARP; step *= 2) {
        const SUM before = shuffle_up(sum, step);
        if (lane_index() >= step) sum = add(sum, before);
    }
    if (lane_index() == WARP - 1) slots[warp_index()] = sum;
    __syncthreads();
    SUM before = 0;
    total = 0;
#pragma unroll
    for (i32 warp = 0; warp < THREADS / WARP; ++warp) {
        if (warp == warp_index()) before = total;
        total = add(total, slots[warp]);
    }
    __syncthreads();
    const SUM previous = shuffle_up(sum, 1);
    return lane_index() == 0 ? before : add(before, previous);
}

template <typename T>
__global__ void __launch_bounds__(THREADS, 2)
    scan_rows(scanned_t<T>* __restrict__ out, const T* __restrict__ source,
              total_t<T>* __restrict__ carries, i64 tile_length,
              const __grid_constant__ RowSpace<2> space) {
    using Sum = total_t<T>;

    // indices
    const Tiles<Sum> tiles = {carries, tile_length, gridDim.y};
    const i64 end = tiles.end(space.length);
    const i64 step = space.strides[1][space.outer_rank];
    const i64 out_step = space.strides[0][space.outer_rank];

    // shared memory
    __shared__ Sum slots[THREADS / WARP];

#pragma unroll 1
    for (i64 row = blockIdx.x; row < space.rows; row += gridDim.x) {
        const T* const from = source + space.row(1, row);
        scanned_t<T>* const to = out == nullptr ? nullptr : out + space.row(0, row);
        Sum carry = out != nullptr && carries != nullptr ? tiles.carry(row) : Sum(0);
#pragma unroll 1
        for (i64 base = tiles.begin(); base < end; base += THREADS * EACH) {
            const i64 first = base + threadIdx.x * EACH;
            // load
            Sum sums[EACH];
#pragma unroll
            for (i32 k = 0; k < EACH; ++k) {
                sums[k] = first + k < end ? convert<Sum>(from[(first + k) * step]) : Sum(0);
            }
            // compute
#pragma unroll
            for (i32 k = 1; k < EACH; ++k) sums[k] = add(sums[k - 1], sums[k]);
            Sum total;
            const Sum before = add(carry, sum_before(sums[EACH - 1], total, slots));
            carry = add(carry, total);
            if (out == nullptr) continue;
            // store
#pragma unroll
            for (i32 k = 0; k < EACH; ++k) {
                if (first + k >= end) continue;
                to[(first + k) * out_step] = convert<scanned_t<T>>(add(before, sums[k]));
            }
        }
        if (out == nullptr && threadIdx.x == 0) tiles.carry(row) = carry;
    }
}

template <typename T>
__global__ void __launch_bounds__(THREADS, 2)
    scan_columns(scanned_t<T>* __restrict__ out, const T* __restrict__ source,
                 total_t<T>* __restrict__ carries, i64 tile_length,
                 const __grid_constant__ RowSpace<2> space) {
    using Sum = total_t<T>;

    // indices
    const Tiles<Sum> tiles = {carries, tile_length, gridDim.y};
    const i64 end = tiles.end(space.length);
    const i64 step = space.strides[1][space.outer_rank];
    const i64 out_step = space.strides[0][space.outer_rank];

#pragma unroll 1
    for (i64 row = grid_thread(); row < space.rows; row += grid_threads()) {
        const T* const from = source + space.row(1, row);
        const i64 to = space.row(0, row);
        Sum sum = out != nullptr && carries != nullptr ? tiles.carry(row) : Sum(0);
#pragma unroll 1
        for (i64 first = tiles.begin(); first < end; first += EACH) {
            T x[EACH];
#pragma unroll
            for (i32 k = 0; k < EACH; ++k) {
                if (first + k < end) x[k] = from[(first + k) * step];
            }
#pragma unroll
            for (i32 k = 0; k < EACH; ++k) {
                if (first + k >= end) continue;
                sum = add(sum, convert<Sum>(x[k]));
                if (out != nullptr) out[to + (first + k) * out_step] = convert<scanned_t<T>>(sum);
            }
        }
        if (out == nullptr) tiles.carry(row) = sum;
    }
}

// A thread a row: every total becomes the sum of those before it.
template <typename SUM>
__global__ void __launch_bounds__(THREADS, 2)
    scan_carries(SUM* __restrict__ carries, i64 rows, i64 tiles) {
#pragma unroll 1
    for (i64 row = grid_thread(); row < rows; row += grid_threads()) {
        SUM sum = 0;
#pragma unroll 1
        for (i64 tile = 0; tile < tiles; ++tile) {
            const SUM total = carries[row * tiles + tile];
            carries[row * tiles + tile] = sum;
            sum = add(sum, total);
        }
    }
}
