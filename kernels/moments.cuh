// States of reductions.cuh that measure: moments, exponentials, powers.
//
//   Moments     count n, mean m, M2 = sum (x - m)^2; two meet as
//               m = m1 + (m2 - m1) n2 / n,  M2 = M2_1 + M2_2 + (m2 - m1)^2 n1 n2 / n
//   LogSumExp   top t = max x, total = sum exp(x - t); log(total) + t
//   Norm        total = sum |x|, x^2 or (x != 0), compensated; its root where x is squared
//   Powers      total = sum |x|^order; total^(1 / order)
//
// N elements are measured around a value near their mean, and corrected by their distance from
// it, so that nothing cancels; counts, means and totals are f64.
// Source: Chan, Golub and LeVeque (1983), formulas 2.1; Milakov and Gimelshein, Online normalizer
// calculation for softmax (2018).
#pragma once

#include "reductions.cuh"

// What f32 squares may add up to, so that f64 would be no better: nothing overflowed, and what
// underflowed is too small to count.
constexpr f32 LARGE = 1.3292280e36f;   // 2^120
constexpr f32 SMALL = 8.0779357e-28f;  // 2^-90

template <typename T>
struct Moments {
    using Value = T;
    static constexpr bool PLACED = false;
    f64 count;
    f64 mean;
    f64 squares;

    static __device__ __forceinline__ Moments empty() { return {0.0, 0.0, 0.0}; }

    // Of `n` valid elements, in the arithmetic of W.
    template <typename W, i32 N, typename VALID>
    static __device__ __forceinline__ Moments measured(const T (&x)[N], VALID valid, i32 n) {
        const f64 share = n == N ? 1.0 / N : 1.0 / n;
        W y[N];
#pragma unroll
        for (i32 i = 0; i < N; ++i) y[i] = valid(i) ? static_cast<W>(x[i]) : W(0);
        const W near = tree_sum(y) * static_cast<W>(share);
#pragma unroll
        for (i32 i = 0; i < N; ++i) y[i] = valid(i) ? static_cast<W>(x[i]) - near : W(0);
        const f64 off = static_cast<f64>(tree_sum(y)) * share;
#pragma unroll
        for (i32 i = 0; i < N; ++i) y[i] = y[i] * y[i];
        const f64 squares = static_cast<f64>(tree_sum(y)) - off * off * n;
        return {static_cast<f64>(n), static_cast<f64>(near) + off, squares < 0.0 ? 0.0 : squares};
    }

    template <i32 N, typename VALID, typename PLACE>
    __device__ __forceinline__ void take(const T (&x)[N], VALID valid, PLACE, const Options&) {
        i32 n = 0;
#pragma unroll
        for (i32 i = 0; i < N; ++i) n += valid(i) ? 1 : 0;
        if (n == 0) return;
        Moments found = measured<T>(x, valid, n);
        if constexpr (is_same<T, f32>) {
            if (!(found.squares < LARGE && found.squares >= SMALL)) {
                found = measured<f64>(x, valid, n);
            }
        }
        merge(found);
    }

    __device__ __forceinline__ void merge(const Moments& other) {
        if (other.count == 0.0) return;
        if (count == 0.0) {
            *this = other;
            return;
        }
        const f64 total = count + other.count;
        const f64 apart = other.mean - mean;
        const f64 share = count == other.count ? 0.5 : other.count / total;
        mean += apart * share;
        squares += other.squares + apart * apart * (count * share);
        count = total;
    }

    template <typename MOVE>
    __device__ __forceinline__ Moments moved(MOVE move) const {
        return {move(count), move(mean), move(squares)};
    }

    __device__ __forceinline__ f64 finish(const Options& options) const {
        const f64 result = squares / options.divisor;
        return options.flags & ROOT ? sqrt(result) : result;
    }
};

template <typename T>
struct LogSumExp {
    using Value = T;
    static constexpr bool PLACED = false;
    T top;
    f64 total;

    static __device__ __forceinline__ LogSumExp empty() { return {lowest<T>(), 0.0}; }

    // What exponents are taken from: 0 where the top is no number.
    static __device__ __forceinline__ T base(T top) { return top - top == T(0) ? top : T(0); }

    template <i32 N, typename VALID, typename PLACE>
    __device__ __forceinline__ void take(const T (&x)[N], VALID valid, PLACE, const Options&) {
        T y[N];
#pragma unroll
        for (i32 i = 0; i < N; ++i) y[i] = valid(i) ? x[i] : lowest<T>();
        raise(tree(y, [](T a, T b) { return maximum(a, b); }));
        const T from = base(top);
#pragma unroll
        for (i32 i = 0; i < N; ++i) y[i] = exponential(y[i] - from);
        total += static_cast<f64>(tree_sum(y));
    }

    // Counts from a top that is at least `value`.
    __device__ __forceinline__ void raise(T value) {
        const T above = maximum(top, value);
        if (above != top) {
            total *= static_cast<f64>(exponential(top - base(above)));
            top = above;
        }
    }

    __device__ __forceinline__ void merge(const LogSumExp& other) {
        raise(other.top);
        total += other.total * static_cast<f64>(exponential(other.top - base(top)));
    }

    template <typename MOVE>
    __device__ __forceinline__ LogSumExp moved(MOVE move) const {
        return {move(top), move(total)};
    }

    __device__ __forceinline__ f64 finish(const Options&) const {
        return log(total) + static_cast<f64>(base(top));
    }
};

// What a norm of order 0, 1 or 2 adds up of an element.
template <typename T>
__device__ __forceinline__ T size_of(T x, i32 flags) {
    if (flags & NONZERO) return x != T(0) ? T(1) : T(0);
    return flags & SQUARED ? x * x : x < T(0) ? -x : x;
}

template <typename T>
struct Norm : Sum<T> {

    static __device__ __forceinline__ Norm empty() { return {Sum<T>::empty()}; }

    template <i32 N, typename VALID, typename PLACE>
    __device__ __forceinline__ void take(const T (&x)[N], VALID valid, PLACE place,
                                         const Options& options) {
        T y[N];
#pragma unroll
        for (i32 i = 0; i < N; ++i) y[i] = valid(i) ? size_of(x[i], options.flags) : T(0);
        if constexpr (is_same<T, f32>) {
            const f32 sum = tree_sum(y);
            const f32 least = options.flags & SQUARED ? SMALL : 0.0f;
            if (sum < LARGE && sum >= least) {
                this->total += static_cast<f64>(sum);
                return;
            }
#pragma unroll
            for (i32 i = 0; i < N; ++i) {
                const f64 wide = static_cast<f64>(x[i]);
                this->total += valid(i) ? size_of(wide, options.flags) : 0.0;
            }
        } else {
            Sum<T>::take(y, Every{}, place, options);
        }
    }

    template <typename MOVE>
    __device__ __forceinline__ Norm moved(MOVE move) const {
        return {Sum<T>::moved(move)};
    }

    __device__ __forceinline__ f64 finish(const Options& options) const {
        const f64 result = Sum<T>::finish(options);
        return options.flags & ROOT ? sqrt(result) : result;
    }
};

template <typename T>
struct Powers {
    static_assert(is_same<T, f64>, "powers are taken in f64");
    using Value = f64;
    static constexpr bool PLACED = false;
    f64 total;

    static __device__ __forceinline__ Powers empty() { return {0.0}; }

    template <i32 N, typename VALID, typename PLACE>
    __device__ __forceinline__ void take(const f64 (&x)[N], VALID valid, PLACE,
                                         const Options& options) {
#pragma unroll
        for (i32 i = 0; i < N; ++i) {
            if (valid(i)) total += pow(fabs(x[i]), options.order);
        }
    }

    __device__ __forceinline__ void merge(const Powers& other) { total += other.total; }

    template <typename MOVE>
    __device__ __forceinline__ Powers moved(MOVE move) const {
        return {move(total)};
    }

    __device__ __forceinline__ f64 finish(const Options& options) const {
        return pow(total, 1.0 / options.order);
    }
};
