// uniform and normal numbers, one thread a Philox block: 4 elements, or 2 of f64.
//
//   uniform   out[e] = low + u * span, rounded once, at most `limit`    u = word * 2^-24 or 2^-53
//             low * (1 - u) + high * u where the span, high - low, overflows
//   normal    out[2p], out[2p + 1] = mean + deviation * r (cos, sin)(2 pi u2),  r = sqrt(-2 ln u1)
//
// Dtypes: T is f16, bf16, f32 or f64; uniform computes in compute_t<T>, normal in f64. `state` is
// the generator's variable, (seed, counter) in i64, any stride; the block of element e has number
// counter + offset + e / 4 (f64: e / 2). Layouts: outputs dense. Every architecture.
// Launch: 256 threads a block, one Philox block a thread and step, any number of blocks.
// Shared memory: none.
// Limits: vectors are stored where `out` is aligned to them, else single elements.
// Source: Salmon et al. 2011 (philox.cuh); Box, Muller, "A Note on the Generation of Random Normal
// Deviates", 1958.
#include "philox.cuh"

constexpr i32 THREADS = 256;

template <typename T>
constexpr i32 PER_BLOCK = is_same<T, f64> ? 2 : 4;

// Calls MAKE(block) for the elements of every Philox block and stores those below COUNT.
template <typename T, typename MAKE>
__device__ __forceinline__ void draw(T* __restrict__ out, const i64* __restrict__ state,
                                     i64 state_stride, i64 offset, i64 count, MAKE make) {
    constexpr i32 EACH = PER_BLOCK<T>;
    const u64 seed = static_cast<u64>(state[0]);
    const u64 start = static_cast<u64>(state[state_stride]) + static_cast<u64>(offset);
    const bool is_aligned = reinterpret_cast<u64>(out) % (EACH * sizeof(T)) == 0;
    const i64 blocks = ceil_divide<i64>(count, EACH);
    for (i64 n = grid_thread(); n < blocks; n += grid_threads()) {
        const Vector<T, EACH> made = make(philox_block(start + static_cast<u64>(n), seed));
        const i64 first = n * EACH;
        if (is_aligned && first + EACH <= count) {
            store(out + first, made);
            continue;
        }
#pragma unroll
        for (i32 k = 0; k < EACH; ++k) {
            if (first + k < count) out[first + k] = made.lanes[k];
        }
    }
}

template <typename T>
__global__ void __launch_bounds__(THREADS)
    uniform(T* __restrict__ out, const i64* __restrict__ state, i64 state_stride, i64 offset,
            i64 count, compute_t<T> low, compute_t<T> high, compute_t<T> span,
            compute_t<T> limit) {
    static_assert(is_float<T>, "random numbers are floating-point");
    using Compute = compute_t<T>;
    draw(out, state, state_stride, offset, count, [&](PhiloxBlock block) {
        Vector<T, PER_BLOCK<T>> made;
#pragma unroll
        for (i32 k = 0; k < PER_BLOCK<T>; ++k) {
            Compute drawn;
            if constexpr (is_same<T, f64>) {
                drawn = philox_fraction53(block.words[2 * k], block.words[2 * k + 1]) * 0x1p-53;
            } else {
                drawn = static_cast<f32>(block.words[k] >> 8) * 0x1p-24f;
            }
            const Compute mixed = span - span == 0 ? drawn * span + low
                                                   : low * (1 - drawn) + high * drawn;
            const T value = convert<T>(mixed);
            made.lanes[k] = convert<Compute>(value) > limit ? convert<T>(limit) : value;
        }
        return made;
    });
}

template <typename T>
__global__ void __launch_bounds__(THREADS)
    normal(T* __restrict__ out, const i64* __restrict__ state, i64 state_stride, i64 offset,
           i64 count, f64 mean, f64 deviation) {
    static_assert(is_float<T>, "random numbers are floating-point");
    constexpr f64 TWO_PI = 6.283185307179586;
    draw(out, state, state_stride, offset, count, [&](PhiloxBlock block) {
        const u32* words = block.words;
        Vector<T, PER_BLOCK<T>> made;
#pragma unroll
        for (i32 pair = 0; pair < PER_BLOCK<T> / 2; ++pair) {
            f64 first, second;
            if constexpr (is_same<T, f64>) {
                first = (philox_fraction53(words[0], words[1]) + 1.0) * 0x1p-53;
                second = philox_fraction53(words[2], words[3]) * 0x1p-53;
            } else {
                first = (static_cast<f64>(words[2 * pair]) + 1.0) * 0x1p-32;
                second = static_cast<f64>(words[2 * pair + 1]) * 0x1p-32;
            }
            const f64 radius = sqrt(-2.0 * log(first));
            f64 sine, cosine;
            sincos(second * TWO_PI, &sine, &cosine);
            made.lanes[2 * pair] = convert<T>(radius * cosine * deviation + mean);
            made.lanes[2 * pair + 1] = convert<T>(radius * sine * deviation + mean);
        }
        return made;
    });
}
