// Uses all of common.cuh, for every pair of dtypes: what the compile tests compile.
//
//   out[i] = DST(maximum(minimum(a, b), minimum(c, d))), a to d of other threads of the warp
//
//   probe         that, moved by vectors of WIDTH; in SRC, out DST
//   convert_all   out[i] = DST(in[i])
//   extremes      maximum and minimum of two operands of one dtype
//   divisions     FastDivisor, another divisor an element; INDEX is u32
//
// All dtypes, every architecture. Launch: 256 threads a block, a vector or element a thread.
// Shared memory: none.
// Limits: `in` and `out` are aligned to their vectors.
#include "common.cuh"

template <typename DST, typename SRC, i32 WIDTH>
__global__ void __launch_bounds__(256)
    probe(DST* __restrict__ out, const SRC* __restrict__ in, i64 count, FastDivisor row) {
    static_assert(WIDTH >= 1, "a thread makes at least one element");
    const i64 first = grid_thread() * WIDTH;
    const i64 guarded = first + WIDTH <= count ? first : 0;
    const u32 quotient = row.quotient(static_cast<u32>(guarded));
    const i64 start = (row.remainder(static_cast<u32>(guarded), quotient) / WIDTH) * WIDTH;
    const auto read = load<WIDTH>(in + start);
    const auto streamed = load_streaming<WIDTH>(in + guarded);
    Vector<DST, WIDTH> made;
    for (i32 lane = 0; lane < WIDTH; ++lane) {
        using Compute = compute_t<SRC>;
        const auto a = convert<Compute>(shuffle_xor(read.lanes[lane], 1));
        const auto b = convert<Compute>(shuffle_down(streamed.lanes[lane], 2));
        const auto c = convert<Compute>(shuffle_up(read.lanes[lane], 1));
        const auto d = convert<Compute>(shuffle_from(read.lanes[lane], lane_index() ^ 3));
        const auto sum = convert<sum_t<SRC>>(maximum(minimum(a, b), minimum(c, d)));
        made.lanes[lane] = convert<DST>(sum);
    }
    if (first + WIDTH <= count) {
        store_streaming(out + first, made);
        if (warp_index() == 0) store(out + first, made);
    }
}

template <typename DST, typename SRC>
__global__ void __launch_bounds__(256)
    convert_all(DST* __restrict__ out, const SRC* __restrict__ in, i64 count) {
    for (i64 at = grid_thread(); at < count; at += grid_threads()) out[at] = convert<DST>(in[at]);
}

// out[0, i] = maximum(a[i], b[i]); out[1, i] = minimum(a[i], b[i])
template <typename T>
__global__ void __launch_bounds__(256)
    extremes(T* __restrict__ out, const T* __restrict__ a, const T* __restrict__ b, i64 count) {
    for (i64 at = grid_thread(); at < count; at += grid_threads()) {
        const auto left = convert<compute_t<T>>(a[at]), right = convert<compute_t<T>>(b[at]);
        out[at] = convert<T>(maximum(left, right));
        out[count + at] = convert<T>(minimum(left, right));
    }
}

// out[0, i] = n[i] / divisors[i]; out[1, i] = n[i] % divisors[i]
template <typename INDEX>
__global__ void __launch_bounds__(256)
    divisions(INDEX* __restrict__ out, const INDEX* __restrict__ n,
              const FastDivisor* __restrict__ divisors, i64 count) {
    for (i64 at = grid_thread(); at < count; at += grid_threads()) {
        const INDEX quotient = divisors[at].quotient(n[at]);
        out[at] = quotient;
        out[count + at] = divisors[at].remainder(n[at], quotient);
    }
}
