// Fused chains of elementwise ops that read operands in another order than the result lies in.
//
//   out[i] = Chain(in0[i], in1[i], ...)       Chain is generated: chain.cuh, over ops.cuh
//
//   elementwise_turned   tiles of the index space: operands Turned are read along the axis that is
//                        their fastest, and go through shared memory; the others and the result are
//                        moved along the axis that is the result's fastest
//
// A thread reads ROWS vectors of COLUMNS elements of every Turned operand, and makes COLUMNS
// vectors of ROWS elements of the result, as permute_tile of permute.cu does. All Turned operands
// have the strides of side IN, the result, Dense and Kept ones those of side OUT, Beside ones those
// of a side of their own; Single ones are one value.
// Dtypes: all, mixed at will; every architecture.
// Launch: 256 threads a block; block b takes tiles b, b + blocks, ...; any number of blocks.
// Shared memory: 256 * ITEMS * ROWS * COLUMNS elements of every Turned operand, dynamic.
// Limits: 32 axes, 2^32 tiles. Where an address is no multiple of its vector, elements are moved
// one by one. `status` may be null; see `report` of report.cuh. `out` overlaps no operand.
// Source: as permute.cu.
#include "blocks.cuh"
#include "chain.cuh"
#include "operands.cuh"

template <typename T>
struct Turned {
    using type = T;
    using pointer = const T*;
    static constexpr Lies LIES = Lies::STRIDED;
};

template <typename T, i32 SIDE>
struct Beside {
    using type = T;
    using pointer = const T*;
    static constexpr Lies LIES = Lies::STRIDED;
};

template <typename OPERAND>
constexpr i32 side_of = is_dense<OPERAND> ? OUT : IN;
template <typename T, i32 SIDE>
constexpr i32 side_of<Beside<T, SIDE>> = SIDE;
template <typename OPERAND>
constexpr bool is_turned = is_same<OPERAND, Turned<typename OPERAND::type>>;

// ---- what a thread holds of an operand ----------------------------------------------------------

template <typename OPERAND, i32 ROWS, i32 COLUMNS, i32 ITEMS>
struct Part {
    using T = typename OPERAND::type;
    static constexpr bool IS_SINGLE = OPERAND::LIES == Lies::SINGLE;
    static constexpr i32 SIDE = side_of<OPERAND>;
    static constexpr i32 BYTES = 0;  // of shared memory
    T values[IS_SINGLE ? 1 : COLUMNS][IS_SINGLE ? 1 : ROWS];

    __device__ __forceinline__ void begin(const T* in) {
        if constexpr (IS_SINGLE) values[0][0] = *in;
    }
    template <typename... ARGUMENTS>
    __device__ __forceinline__ void fetch(const ARGUMENTS&...) {}
    template <typename... ARGUMENTS>
    __device__ __forceinline__ void hold(const ARGUMENTS&...) const {}

    // The values of item k of a tile.
    template <typename TILING, typename TILE, typename SLOTS>
    __device__ __forceinline__ void take(const unsigned char*, const T* in, const TILING& tiling,
                                         const TILE& tile, const SLOTS& written, i32 k) {
        if constexpr (!IS_SINGLE) {
            const T* const from = in + tile.at[SIDE] + written.at[SIDE][k];
#pragma unroll
            for (i32 c = 0; c < COLUMNS; ++c) {
                const T* const column = from + c * tiling.column_strides[SIDE];
                if constexpr (OPERAND::LIES == Lies::DENSE) {
                    const auto vector = fetched<ROWS>(column);
#pragma unroll
                    for (i32 r = 0; r < ROWS; ++r) values[c][r] = vector.lanes[r];
                } else {
#pragma unroll
                    for (i32 r = 0; r < ROWS; ++r) {
                        values[c][r] = column[r * tiling.row_strides[SIDE]];
                    }
                }
            }
        }
    }
    __device__ __forceinline__ T at(i32 column, i32 row) const {
        return values[IS_SINGLE ? 0 : column][IS_SINGLE ? 0 : row];
    }
    __device__ __forceinline__ void keep(const T*) const {}
};

// The vector that is computed; the chain writes its elements.
template <typename T, i32 ROWS, i32 COLUMNS, i32 ITEMS>
struct Part<Kept<T>, ROWS, COLUMNS, ITEMS> {
    static constexpr i32 BYTES = 0;
    Vector<T, ROWS> made;

    __device__ __forceinline__ void begin(const T*) {}
    template <typename... ARGUMENTS>
    __device__ __forceinline__ void fetch(const ARGUMENTS&...) {}
    template <typename... ARGUMENTS>
    __device__ __forceinline__ void hold(const ARGUMENTS&...) const {}
    template <typename... ARGUMENTS>
    __device__ __forceinline__ void take(const ARGUMENTS&...) {}
    __device__ __forceinline__ T& at(i32, i32 row) {
        return made.lanes[row];
    }
    __device__ __forceinline__ void keep(T* address) const {
        stored(address, made);
    }
};

template <typename T, i32 ROWS, i32 COLUMNS, i32 ITEMS>
struct Part<Turned<T>, ROWS, COLUMNS, ITEMS> {
    using Stage = Staged<bits_t<T>, ROWS, COLUMNS, ITEMS>;
    using Unit = typename Stage::Unit;
    static constexpr i32 BYTES = Stage::BYTES;
    Stage stage;
    Vector<T, ROWS> values[COLUMNS];

    __device__ __forceinline__ void begin(const T*) {}
    template <typename TILE, typename SLOTS, typename OFFSET>
    __device__ __forceinline__ void fetch(const T* in, const TILE& tile, const SLOTS& read,
                                          OFFSET row_stride) {
        const auto* const bits = reinterpret_cast<const bits_t<T>*>(in);
        stage.fetch(bits + tile.at[IN], read.at[IN], row_stride, read.mask(tile));
    }
    __device__ __forceinline__ void hold(unsigned char* memory, i32 swizzle, u32 mask) const {
        stage.hold(reinterpret_cast<Unit*>(memory), swizzle, mask);
    }
    template <typename TILING, typename TILE, typename SLOTS>
    __device__ __forceinline__ void take(const unsigned char* memory, const T*,
                                         const TILING& tiling, const TILE&, const SLOTS& written,
                                         i32 k) {
        const i32 place = swizzled<Stage::READ>(written.places[k], tiling.swizzle);
        const auto block = Stage::block(reinterpret_cast<const Unit*>(memory), place);
#pragma unroll
        for (i32 c = 0; c < COLUMNS; ++c) {
            values[c] = bit_cast<Words<T, ROWS>>(block.column(c)).parted();
        }
    }
    __device__ __forceinline__ T at(i32 column, i32 row) const {
        return values[column].lanes[row];
    }
    __device__ __forceinline__ void keep(const T*) const {}
};

// ---- the loop over tiles ------------------------------------------------------------------------

template <typename CHAIN, i32 ROWS, i32 COLUMNS, i32 ITEMS, typename NUMBERS, typename... OPERANDS>
struct TurnedLoop;

template <typename CHAIN, i32 ROWS, i32 COLUMNS, i32 ITEMS, i32... K, typename... OPERANDS>
struct TurnedLoop<CHAIN, ROWS, COLUMNS, ITEMS, Numbers<K...>, OPERANDS...> {
    using Result = typename CHAIN::Result;

    // Where in shared memory operand NUMBER begins.
    static constexpr i32 start(i32 number) {
        const i32 bytes[] = {Part<OPERANDS, ROWS, COLUMNS, ITEMS>::BYTES...};
        i32 before = 0;
        for (i32 k = 0; k < number; ++k) before += bytes[k];
        return before;
    }

    template <typename OPERAND>
    static __device__ __forceinline__ bool is_fit(const typename OPERAND::type* in) {
        if constexpr (is_turned<OPERAND>) return is_aligned<COLUMNS>(in);
        return !is_dense<OPERAND> || is_aligned<ROWS>(in);
    }

    // Element by element: for addresses that vectors do not fit.
    template <typename TILING>
    static __device__ __forceinline__ void elements(Result* out, const TILING& tiling, i64* status,
                                                    typename OPERANDS::pointer... in) {
#pragma unroll 1
        for (u32 number = blockIdx.x; number < tiling.count; number += gridDim.x) {
            const auto tile = tile_at(tiling, number);
#pragma unroll 1
            for (i32 at = threadIdx.x; at < tiling.out.count; at += THREADS) {
                const auto slot = find_slots<1>(tiling.out, at);
                if (slot.mask(tile) == 0) continue;
#pragma unroll 1
                for (i32 k = 0; k < ROWS * COLUMNS; ++k) {
                    const auto place = [&](i32 side) {
                        return tile.at[side] + slot.at[side][0] +
                               k % ROWS * tiling.row_strides[side] +
                               k / ROWS * tiling.column_strides[side];
                    };
                    out[place(OUT)] = CHAIN::apply(
                        in[OPERANDS::LIES == Lies::SINGLE ? 0 : place(side_of<OPERANDS>)]...,
                        status);
                }
            }
        }
    }

    template <typename OFFSET, i32 SIDES>
    static __device__ __forceinline__ void run(Result* out, const Tiling<OFFSET, SIDES>& tiling,
                                               unsigned char* memory, i64* status,
                                               typename OPERANDS::pointer... in) {
        // indices
        if (!is_aligned<ROWS>(out) || !(... && is_fit<OPERANDS>(in))) {
            elements(out, tiling, status, in...);
            return;
        }
        u32 number = blockIdx.x;
        if (number >= tiling.count) return;
        const auto read = find_slots<ITEMS>(tiling.in, threadIdx.x);
        const auto written = find_slots<ITEMS>(tiling.out, threadIdx.x);
        const auto row_stride = static_cast<OFFSET>(tiling.row_strides[IN]);

        // load
        Tuple<Part<OPERANDS, ROWS, COLUMNS, ITEMS>...> parts;
        (get<K>(parts).begin(in), ...);
        auto tile = tile_at(tiling, number);
        (get<K>(parts).fetch(in, tile, read, row_stride), ...);
        while (true) {
            // registers to shared memory
            (get<K>(parts).hold(memory + start(K), tiling.swizzle, read.mask(tile)), ...);
            __syncthreads();
            // load of the next tile, while this one is computed
            const auto held = tile;
            number += gridDim.x;
            const bool is_last = number >= tiling.count;
            if (!is_last) {
                tile = tile_at(tiling, number);
                (get<K>(parts).fetch(in, tile, read, row_stride), ...);
            }
            // compute and store
            const u32 mask = written.mask(held);
#pragma unroll
            for (i32 k = 0; k < ITEMS; ++k) {
                if ((mask >> k & 1u) == 0) continue;
                (get<K>(parts).take(memory + start(K), in, tiling, held, written, k), ...);
                const i64 target = held.at[OUT] + written.at[OUT][k];
#pragma unroll
                for (i32 c = 0; c < COLUMNS; ++c) {
                    Vector<Result, ROWS> made;
#pragma unroll
                    for (i32 r = 0; r < ROWS; ++r) {
                        made.lanes[r] = CHAIN::apply(get<K>(parts).at(c, r)..., status);
                    }
                    const i64 place = target + c * tiling.column_strides[OUT];
                    stored(out + place, made);
                    (get<K>(parts).keep(in + place), ...);
                }
            }
            if (is_last) return;
            __syncthreads();
        }
    }
};

template <typename CHAIN, i32 ROWS, i32 COLUMNS, i32 ITEMS, i32 BLOCKS, typename OFFSET, i32 SIDES,
          typename... OPERANDS>
__global__ void __launch_bounds__(THREADS, BLOCKS)
    elementwise_turned(typename CHAIN::Result* __restrict__ out,
                       const __grid_constant__ Tiling<OFFSET, SIDES> tiling, i64 first,
                       i64* __restrict__ status,
                       typename OPERANDS::pointer __restrict__... in) {
    static_assert(sizeof...(OPERANDS) == CHAIN::COUNT, "one layout an operand of the chain");
    static_assert(sizeof(tiling) + 8 * sizeof...(OPERANDS) <= 4070, "the parameters fit 4 KiB");
    static_assert((... || is_turned<OPERANDS>), "a Turned operand leads the tiles");

    // shared memory
    extern __shared__ __align__(16) unsigned char memory[];

    using Loop = TurnedLoop<CHAIN, ROWS, COLUMNS, ITEMS, count_to<CHAIN::COUNT>, OPERANDS...>;
    Loop::run(out + first, tiling, memory, status, in...);
}
