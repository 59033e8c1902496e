// full, arange, linspace and eye, one thread an output or one vector.
//
//   full            out[n] = value
//   arange          out[n] = start + n * step, in i64 (wraps) or in f64, converted once
//   linspace        out[n] = start + n * step, or start * (1 - n / m) + stop * (n / m), in f64
//   eye             out[r, c] = c - r == k ? one : 0
//
// Dtypes: full and eye by size (u8 u16 u32 u64 u128); arange and linspace any real one.
// Layouts: outputs dense. Every architecture.
// Launch: 256 threads a block, 4 outputs (full: vectors of 16 bytes) a thread and step, any number
// of blocks.
// Shared memory: none.
// Limits: full writes single elements where `out` is not aligned to 16 bytes.
// Source: none.
#include "walk.cuh"

template <typename T>
__global__ void __launch_bounds__(THREADS)
    full(T* __restrict__ out, i64 count, carried_t<T> value) {
    static_assert(sizeof(T) <= 16, "an element has at most 16 bytes");
    constexpr i32 WIDTH = 16 / sizeof(T);
    const T element = static_cast<T>(value);
    const bool is_aligned = reinterpret_cast<u64>(out) % 16 == 0;
    const i64 vectors = is_aligned ? count / WIDTH : 0;
    Vector<T, WIDTH> lanes;
#pragma unroll
    for (i32 k = 0; k < WIDTH; ++k) lanes.lanes[k] = element;
    for (i64 n = grid_thread(); n < vectors; n += grid_threads()) store(out + n * WIDTH, lanes);
    for (i64 n = vectors * WIDTH + grid_thread(); n < count; n += grid_threads()) out[n] = element;
}

// NUMBER is i64 for whole numbers of an integer or bool result, else f64.
template <typename DST, typename NUMBER>
__global__ void __launch_bounds__(THREADS)
    arange(DST* __restrict__ out, i64 count, NUMBER start, NUMBER step) {
    static_assert(sizeof(NUMBER) == 8, "NUMBER is i64 or f64");
    make_outputs<i32>(out, count, [&](i64 n) {
        if constexpr (is_same<NUMBER, i64>) {
            const u64 sum = static_cast<u64>(n) * static_cast<u64>(step) + static_cast<u64>(start);
            return convert<DST>(static_cast<i64>(sum));
        } else {
            return convert<DST>(static_cast<f64>(n) * step + start);
        }
    });
}

// The last element is `stop` where that is a point; `step` is 0 or not finite where the ends are
// to be weighed.
template <typename DST>
__global__ void __launch_bounds__(THREADS)
    linspace(DST* __restrict__ out, i64 count, f64 start, f64 stop, f64 step, f64 intervals,
             i32 is_weighed, i32 has_stop) {
    static_assert(sizeof(DST) <= 8, "an element has at most 8 bytes");
    make_outputs<i32>(out, count, [&](i64 n) {
        const f64 part = static_cast<f64>(n);
        f64 point = part * step + start;
        if (is_weighed != 0) {
            const f64 share = part / intervals;
            point = start * (1.0 - share) + stop * share;
        }
        return convert<DST>(has_stop != 0 && n == count - 1 ? stop : point);
    });
}

template <typename T, typename INDEX>
__global__ void __launch_bounds__(THREADS)
    eye(T* __restrict__ out, i64 count, divisor_t<INDEX> columns, i64 k, carried_t<T> one) {
    static_assert(sizeof(T) <= 16, "an element has at most 16 bytes");
    make_outputs<INDEX>(out, count, [&](i64 n) {
        const auto number = static_cast<count_t<INDEX>>(n);
        const auto row = columns.quotient(number);
        const i64 column = static_cast<i64>(columns.remainder(number, row));
        return column - static_cast<i64>(row) == k ? static_cast<T>(one) : T{};
    });
}
