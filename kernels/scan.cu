// Running sums along one axis.
//
//   out[r, i] = sum over j <= i of x[r, j]
//
//   scan_rows      a block a row, or a tile of one; VECTORS vectors of a thread at a time
//   scan_columns   neighbouring rows lie beside each other: a thread a row, or a tile of one
//   scan_carries   totals of the tiles of a row -> what comes before each of them
//   T: any dtype, that of x; the result is of T, for bool and integers of i64
//
// Launch: 256 threads a block. x and z count rows, or x tiles of 256 columns in a grid-stride loop;
// y tiles along the axis. Rows that are few and long take three launches: totals of the tiles,
// where `out` is null; scan_carries; then the sums, each tile from its carry. One launch has one
// tile and no carries. All sums meet in a fixed order.
// Shared memory: VECTORS sums a warp.
// Limits: any extents and strides; vectors where rows are vectors from end to end. Sums are kept in
// f64 (i64) and rounded once each.
// Source: Blelloch, Prefix sums and their applications (1990).
#include "ops.cuh"
#include "packed.cuh"
#include "row_space.cuh"

[[maybe_unused]] constexpr i32 EACH = 4;  // elements of a thread of scan_columns at a time
[[maybe_unused]] constexpr i32 VECTORS = 4;
constexpr i32 WARPS = THREADS / WARP;

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

// What a block scans at a time: vector k of thread t has elements (k * THREADS + t) * WIDTH and on.
template <typename T>
struct Stretch {
    using Sum = total_t<T>;
    using Out = scanned_t<T>;
    static constexpr i32 WIDTH = sizeof(T) == 8 ? 2 : 4;
    static constexpr i32 ELEMENTS = THREADS * WIDTH * VECTORS;

    Packed<T, WIDTH> held[VECTORS];
    Sum before[VECTORS];  // what comes before each vector

    static_assert(VECTORS * WARPS == WARP, "a warp scans what the warps have found");

    static __device__ __forceinline__ i32 place(i32 k) {
        return (k * THREADS + static_cast<i32>(threadIdx.x)) * WIDTH;
    }

    // `left` elements from `from` on; what lies beyond is 0.
    __device__ __forceinline__ void load(const T* from, i64 step, i32 left, bool even) {
#pragma unroll
        for (i32 k = 0; k < VECTORS; ++k) held[k] = {};
        if (even) {
#pragma unroll
            for (i32 k = 0; k < VECTORS; ++k) {
                if (place(k) < left) held[k].load_streaming(from + place(k));
            }
        } else {
#pragma unroll
            for (i32 k = 0; k < VECTORS; ++k) {
#pragma unroll
                for (i32 j = 0; j < WIDTH; ++j) {
                    if (place(k) + j < left) held[k].set(j, from[(place(k) + j) * step]);
                }
            }
        }
    }

    // The sum of a number of this lane and all lanes before it.
    static __device__ __forceinline__ Sum scan_warp(Sum sum) {
#pragma unroll
        for (i32 step = 1; step < WARP; step *= 2) {
            const Sum earlier = shuffle_up(sum, step);
            if (lane_index() >= step) sum = add(earlier, sum);
        }
        return sum;
    }

    // Sums of a warp's vectors, then of the warps': one barrier. Returns `carry` with all of them.
    __device__ __forceinline__ Sum scan(Sum carry, Sum (&slots)[VECTORS][WARPS]) {
#pragma unroll
        for (i32 k = 0; k < VECTORS; ++k) {
            Sum own = convert<Sum>(held[k].lane(0));
#pragma unroll
            for (i32 j = 1; j < WIDTH; ++j) own = add(own, convert<Sum>(held[k].lane(j)));
            const Sum sum = scan_warp(own);
            if (lane_index() == WARP - 1) slots[k][warp_index()] = sum;
            const Sum previous = shuffle_up(sum, 1);
            before[k] = lane_index() == 0 ? Sum(0) : previous;
        }
        __syncthreads();
        const Sum all = scan_warp(slots[lane_index() / WARPS][lane_index() % WARPS]);
        const Sum earlier = shuffle_up(all, 1);
        const Sum outside = add(carry, lane_index() == 0 ? Sum(0) : earlier);
#pragma unroll
        for (i32 k = 0; k < VECTORS; ++k) {
            before[k] = add(shuffle_from(outside, k * WARPS + warp_index()), before[k]);
        }
        return add(carry, shuffle_from(all, WARP - 1));
    }

    __device__ __forceinline__ void store(Out* to, i64 step, i32 left, bool even) const {
        constexpr i32 PIECE = sizeof(Out) * WIDTH > 16 ? 16 / sizeof(Out) : WIDTH;
#pragma unroll
        for (i32 k = 0; k < VECTORS; ++k) {
            Sum sum = before[k];
#pragma unroll
            for (i32 first = 0; first < WIDTH; first += PIECE) {
                Vector<Out, PIECE> piece;
#pragma unroll
                for (i32 j = 0; j < PIECE; ++j) {
                    sum = add(sum, convert<Sum>(held[k].lane(first + j)));
                    piece.lanes[j] = convert<Out>(sum);
                    const i32 at = place(k) + first + j;
                    if (!even && at < left) to[at * step] = piece.lanes[j];
                }
                if (even && place(k) < left) store_streaming(to + place(k) + first, piece);
            }
        }
    }
};

template <typename T>
__global__ void __launch_bounds__(THREADS)
    scan_rows(scanned_t<T>* __restrict__ out, const T* __restrict__ source,
              total_t<T>* __restrict__ carries, i64 tile_length,
              const __grid_constant__ RowSpace<2> space) {
    using Sum = total_t<T>;
    using Part = Stretch<T>;

    // indices
    const i64 row = blockIdx.x + static_cast<i64>(blockIdx.z) * gridDim.x;
    if (row >= space.rows) return;
    const Tiles<Sum> tiles = {carries, tile_length, gridDim.y};
    const i64 end = tiles.end(space.length);
    const i64 step = space.strides[1][space.outer_rank];
    const i64 out_step = space.strides[0][space.outer_rank];
    const bool even = space.is_even && is_vector_address(source) && is_vector_address(out);

    // shared memory
    __shared__ Sum slots[2][VECTORS][WARPS];

    const T* const from = source + space.row(1, row);
    scanned_t<T>* const to = out == nullptr ? nullptr : out + space.row(0, row);
    Sum carry = out != nullptr && carries != nullptr ? tiles.carry(row) : Sum(0);
    i32 turn = 0;
#pragma unroll 1
    for (i64 base = tiles.begin(); base < end; base += Part::ELEMENTS) {
        const i32 left =
            static_cast<i32>(end - base < Part::ELEMENTS ? end - base : Part::ELEMENTS);
        // load
        Part part;
        part.load(from + base * step, step, left, even);
        // compute
        carry = part.scan(carry, slots[turn]);
        turn ^= 1;
        // store
        if (out != nullptr) part.store(to + base * out_step, out_step, left, even);
    }
    if (out == nullptr && threadIdx.x == 0) tiles.carry(row) = carry;
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
