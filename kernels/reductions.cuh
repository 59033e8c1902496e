// What a reduction keeps of elements seen so far: one struct a reduction, of the same shape.
//
//   struct State {
//       using Value = ...;                          what an element is converted to
//       static constexpr bool PLACED;               take also needs the elements' places
//       static State empty();                       of no element
//       void take(x[N], valid, place, options);     N elements; valid(i), place(i) of number i,
//                                                   which rises with i
//       void merge(other);                          a state that follows this one
//       State moved(move);                          every field through move, such as a shuffle
//       auto finish(options);                       the result, not rounded
//   };
//
//   Sum<T>         sum, mean                                T: bool i64 f32 f64
//   Product<T>     prod                                     T: i64 f64 complex128
//   Extreme<T>     min, max, any, all                       T: bool i32 i64 f32 f64
//   Argument<T>    argmin, argmax                           T: bool i32 i64 f32 f64
//   Moments<T>     var, std                                 T: f32 f64; see moments.cuh for these
//   LogSumExp<T>   logsumexp                                T: f32 f64
//   Norm<T>        norm of order 0, 1, 2                    T: f32 f64
//   Powers<f64>    norm of any other order
//
// Accumulation: f32 in trees of N elements, whose sums meet in f64; where a tree overflows it is
// done again in f64. f64 in trees whose sums are compensated. Integers in i64.
// min is the max of turned values (`flip`), all the min of bools, any their max.
// Source: Chan, Golub and LeVeque, Algorithms for Computing the Sample Variance (1983); Knuth,
// The Art of Computer Programming 2, 4.2.2 (the exact error of a sum).
#pragma once

#include "ops.cuh"

// The host packs it: see softcuda/backends/cuda/reductions.py.
struct Options {
    f64 divisor;  // of mean and var
    f64 order;    // of Powers
    i64 flip;     // bits that turn a value: of min, argmin, all
    i32 flags;
    i32 unused;
};

// Options::flags: what is done with elements, then with the result.
constexpr i32 SQUARED = 2;
constexpr i32 NONZERO = 4;
constexpr i32 DIVIDED = 8;
constexpr i32 ROOT = 16;

// `valid` where all elements are.
struct Every {
    __device__ __forceinline__ constexpr bool operator()(i32) const { return true; }
};

// Where some are not.
struct Cut {};

// Pairs, then pairs of pairs: N - 1 calls, log2(N) deep. N is a power of two.
template <i32 N, typename T, typename F>
__device__ __forceinline__ T tree(const T (&x)[N], F f) {
    static_assert((N & (N - 1)) == 0, "trees are of a power of two of elements");
    if constexpr (N == 1) {
        return x[0];
    } else {
        T half[N / 2];
#pragma unroll
        for (i32 i = 0; i < N / 2; ++i) half[i] = f(x[2 * i], x[2 * i + 1]);
        return tree(half, f);
    }
}

template <i32 N, typename T>
__device__ __forceinline__ T tree_sum(const T (&x)[N]) {
    return tree(x, [](T a, T b) { return add(a, b); });
}

// ---- sum ----------------------------------------------------------------------------------------

// f64: total + rest, rest being what rounding took from total.
template <typename T>
struct Sum {
    static_assert(is_same<T, f64>, "f32 and integers have a Sum of their own");
    using Value = f64;
    static constexpr bool PLACED = false;
    f64 total;
    f64 rest;

    static __device__ __forceinline__ Sum empty() { return {0.0, 0.0}; }

    template <i32 N, typename VALID, typename PLACE>
    __device__ __forceinline__ void take(const f64 (&x)[N], VALID valid, PLACE, const Options&) {
        f64 y[N];
#pragma unroll
        for (i32 i = 0; i < N; ++i) y[i] = valid(i) ? x[i] : 0.0;
        merge({tree_sum(y), 0.0});
    }

    __device__ __forceinline__ void merge(const Sum& other) {
        const f64 sum = total + other.total;
        const f64 part = sum - total;
        rest += other.rest + ((total - (sum - part)) + (other.total - part));
        total = sum;
    }

    template <typename MOVE>
    __device__ __forceinline__ Sum moved(MOVE move) const {
        return {move(total), move(rest)};
    }

    __device__ __forceinline__ f64 finish(const Options& options) const {
        const f64 result = total - total == 0.0 ? total + rest : total;
        return options.flags & DIVIDED ? result / options.divisor : result;
    }
};

template <>
struct Sum<f32> {
    using Value = f32;
    static constexpr bool PLACED = false;
    f64 total;

    static __device__ __forceinline__ Sum empty() { return {0.0}; }

    template <i32 N, typename VALID, typename PLACE>
    __device__ __forceinline__ void take(const f32 (&x)[N], VALID valid, PLACE, const Options&) {
        f32 y[N];
#pragma unroll
        for (i32 i = 0; i < N; ++i) y[i] = valid(i) ? x[i] : 0.0f;
        const f32 sum = tree_sum(y);
        if (sum - sum == 0.0f) {
            total += static_cast<f64>(sum);
            return;
        }
#pragma unroll
        for (i32 i = 0; i < N; ++i) total += valid(i) ? static_cast<f64>(x[i]) : 0.0;
    }

    __device__ __forceinline__ void merge(const Sum& other) { total += other.total; }

    template <typename MOVE>
    __device__ __forceinline__ Sum moved(MOVE move) const {
        return {move(total)};
    }

    __device__ __forceinline__ f64 finish(const Options& options) const {
        return options.flags & DIVIDED ? total / options.divisor : total;
    }
};

template <typename VALUE>
struct IntegerSum {
    using Value = VALUE;
    static constexpr bool PLACED = false;
    i64 total;

    static __device__ __forceinline__ IntegerSum empty() { return {0}; }

    template <i32 N, typename VALID, typename PLACE>
    __device__ __forceinline__ void take(const VALUE (&x)[N], VALID valid, PLACE, const Options&) {
        VALUE y[N];
#pragma unroll
        for (i32 i = 0; i < N; ++i) y[i] = valid(i) ? x[i] : 0;
        total = add(total, static_cast<i64>(tree_sum(y)));
    }

    __device__ __forceinline__ void merge(const IntegerSum& other) {
        total = add(total, other.total);
    }

    template <typename MOVE>
    __device__ __forceinline__ IntegerSum moved(MOVE move) const {
        return {move(total)};
    }

    __device__ __forceinline__ i64 finish(const Options&) const { return total; }
};

template <>
struct Sum<bool> : IntegerSum<i32> {
    static __device__ __forceinline__ Sum empty() { return {{0}}; }
    template <typename MOVE>
    __device__ __forceinline__ Sum moved(MOVE move) const {
        return {{move(total)}};
    }
};
template <>
struct Sum<i64> : IntegerSum<i64> {
    static __device__ __forceinline__ Sum empty() { return {{0}}; }
    template <typename MOVE>
    __device__ __forceinline__ Sum moved(MOVE move) const {
        return {{move(total)}};
    }
};

// ---- product ------------------------------------------------------------------------------------

template <typename T>
struct Product {
    using Value = T;
    static constexpr bool PLACED = false;
    T total;

    static __device__ __forceinline__ Product empty() { return {T{1}}; }

    template <i32 N, typename VALID, typename PLACE>
    __device__ __forceinline__ void take(const T (&x)[N], VALID valid, PLACE, const Options&) {
        T y[N];
#pragma unroll
        for (i32 i = 0; i < N; ++i) y[i] = valid(i) ? x[i] : T{1};
        total = multiply(total, tree(y, [](T a, T b) { return multiply(a, b); }));
    }

    __device__ __forceinline__ void merge(const Product& other) {
        total = multiply(total, other.total);
    }

    template <typename MOVE>
    __device__ __forceinline__ Product moved(MOVE move) const {
        return {move(total)};
    }

    __device__ __forceinline__ T finish(const Options&) const { return total; }
};

// ---- min, max, any, all ------------------------------------------------------------------------

// A value with the bits of `flip` turned over: its order is then that of the negative value.
template <typename T>
__device__ __forceinline__ T turned(T x, i64 flip) {
    if constexpr (is_same<T, bool>) {
        return x != (flip != 0);
    } else {
        return bit_cast<T>(bit_cast<bits_t<T>>(x) ^ static_cast<bits_t<T>>(flip));
    }
}

// What is above nothing but itself and NaN.
template <typename T>
__device__ __forceinline__ T lowest() {
    if constexpr (is_same<T, f32>) {
        return bit_cast<f32>(0xff800000u);  // the quotient -1 / 0 would be computed
    } else if constexpr (is_same<T, f64>) {
        return bit_cast<f64>(0xfff0000000000000ull);
    } else if constexpr (is_same<T, bool>) {
        return false;
    } else {
        return static_cast<T>(bits_t<T>(1) << (8 * sizeof(T) - 1));
    }
}

template <typename T>
struct Extreme {
    using Value = T;
    static constexpr bool PLACED = false;
    T best;

    static __device__ __forceinline__ Extreme empty() { return {lowest<T>()}; }

    template <i32 N, typename VALID, typename PLACE>
    __device__ __forceinline__ void take(const T (&x)[N], VALID valid, PLACE,
                                         const Options& options) {
        T y[N];
#pragma unroll
        for (i32 i = 0; i < N; ++i) {
            y[i] = valid(i) ? turned(x[i], options.flip) : lowest<T>();
        }
        best = maximum(best, tree(y, [](T a, T b) { return maximum(a, b); }));
    }

    __device__ __forceinline__ void merge(const Extreme& other) {
        best = maximum(best, other.best);
    }

    template <typename MOVE>
    __device__ __forceinline__ Extreme moved(MOVE move) const {
        return {move(best)};
    }

    __device__ __forceinline__ T finish(const Options& options) const {
        return turned(best, options.flip);
    }
};

// ---- argmin, argmax -----------------------------------------------------------------------------

constexpr i64 NOWHERE = 0x7fffffffffffffff;

template <typename T>
struct Argument {
    using Value = T;
    static constexpr bool PLACED = true;
    T best;
    i64 place;

    static __device__ __forceinline__ Argument empty() { return {lowest<T>(), NOWHERE}; }

    // Most often the greatest of N is below the best so far, and no place is looked at.
    template <i32 N, typename VALID, typename PLACE>
    __device__ __forceinline__ void take(const T (&x)[N], VALID valid, PLACE place_of,
                                         const Options& options) {
        T y[N];
#pragma unroll
        for (i32 i = 0; i < N; ++i) {
            y[i] = valid(i) ? turned(x[i], options.flip) : lowest<T>();
        }
        const T found = tree(y, [](T a, T b) { return maximum(a, b); });
        if (found < best || (found == best && place < place_of(0))) return;
        i32 first = N;
        if (found == found) {
#pragma unroll
            for (i32 i = N - 1; i >= 0; --i) first = valid(i) && y[i] == found ? i : first;
        } else {
#pragma unroll
            for (i32 i = N - 1; i >= 0; --i) first = y[i] != y[i] ? i : first;
        }
        if (first < N) merge({found, place_of(first)});
    }

    // NaN before all, then the greatest, then the first.
    __device__ __forceinline__ void merge(const Argument& other) {
        const bool is_nan = best != best;
        const bool other_nan = other.best != other.best;
        const bool above = other.best > best || (other_nan && !is_nan);
        const bool equal = other.best == best || (other_nan && is_nan);
        if (above || (equal && other.place < place)) *this = other;
    }

    template <typename MOVE>
    __device__ __forceinline__ Argument moved(MOVE move) const {
        return {move(best), move(place)};
    }

    __device__ __forceinline__ i64 finish(const Options&) const { return place; }
};
