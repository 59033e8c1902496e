// Rows in registers on their way to a softmax: what softmax.cu and softmax_full.cu share.
//
//   finish_of   powers of a row's elements in their place, and what makes results of them
//
// Source: Milakov and Gimelshein, Online normalizer calculation for softmax (2018).
#pragma once

#include "moments.cuh"

// exp(x), x <= 0, times a constant. What is rounded to 16 bits needs no more than 2^-20 of it, as
// the machine's own power of two has it. Powers are 2^16 too large there, so that those that round
// to the smallest numbers of bf16 are not among the tiny ones.
template <typename T>
constexpr compute_t<T> POWER_OF_ZERO = is_16_bit<T> ? 65536 : 1;

template <typename T>
__device__ __forceinline__ compute_t<T> power(compute_t<T> x) {
    if constexpr (is_16_bit<T>) {
        return ptx::power_of_two(__fmaf_rn(x, 1.44269504f, 16.0f));
    } else {
        return exponential(x);
    }
}

// Quotients of what is rounded to 16 bits are of the machine's own reciprocal.
template <typename T>
__device__ __forceinline__ compute_t<T> share(compute_t<T> part, compute_t<T> total) {
    if constexpr (is_16_bit<T>) {
        return __fdividef(part, total);
    } else {
        return divide(part, total);
    }
}

// What a warp found of a row: its top, and the sum of exponents from there.
template <typename VALUE>
struct Found {
    VALUE top;
    VALUE total;
};

// Results are x * scale, of the logarithm (x - from) + scale.
template <typename VALUE>
struct Finish {
    VALUE from;
    VALUE scale;
};

// Exponents are taken from the top of the warp and scaled by what the other warps have found: one
// barrier a row. Powers take the place of elements, but for the logarithm.
template <typename T, typename ROW, typename TEAM>
__device__ __forceinline__ Finish<compute_t<T>> finish_of(ROW& row, bool is_log, const TEAM& team,
                                                          i32 size, Found<compute_t<T>>* slots) {
    using Value = compute_t<T>;
    const auto larger = [](Value a, Value b) { return maximum(a, b); };
    const auto sum = [](Value a, Value b) { return add(a, b); };
    const Value most = row.joined([&](i32 i) { return row.x[i]; }, larger);
    const Value top = team.lanes(most, larger);
    const Value from = LogSumExp<Value>::base(top);
    Value total;
    if (is_16_bit<T> && is_log) {  // an accurate exponential is too long to stand here twice
        total = row.joined([&](i32 i) { return power<T>(row.x[i] - from); }, sum);
    } else {
        total = row.joined(
            [&](i32 i) {
                const Value made = power<T>(row.x[i] - from);
                row.x[i] = !is_16_bit<T> && is_log ? row.x[i] : made;
                return made;
            },
            sum);
    }
    total = team.lanes(total, sum);
    Value highest = top;
    Value below = Value(0);  // the highest top, of this warp's
    Value part = Value(1);   // the exponential of that
    if (size > WARP) {
        const Found<Value> found = warps_value(Found<Value>{top, total}, size / WARP, slots);
        highest = team.warps(found.top, larger);
        const Value base = LogSumExp<Value>::base(highest);
        below = top - base;
        part = exponential(below);
        total = team.warps(found.total * exponential(found.top - base), sum);
    }
    total += highest - highest;  // NaN where exponents from the top are none: infinities
    if (!is_log) return {from, share<T>(part, total)};
    return {from, below - Log<Value>::apply(divide(total, POWER_OF_ZERO<T>))};
}
