// Complex numbers: two parts, their conversions and comparison.
//
//   complex64     parts of f32, complex128 of f64; stored side by side, the real part first
//   as_complex    any dtype to a complex one, each part rounded once
//   convert       a complex number to bool: whether a part is not 0
//
// Limits: an address is a multiple of the size of a part. Source: none.
#pragma once

#include "common.cuh"

template <typename T>
struct Complex {
    T re;
    T im;

    __device__ __forceinline__ bool operator==(const Complex& other) const {
        return re == other.re && im == other.im;
    }
    __device__ __forceinline__ bool operator!=(const Complex& other) const {
        return re != other.re || im != other.im;
    }
};

using complex64 = Complex<f32>;
using complex128 = Complex<f64>;

template <typename T>
constexpr bool is_complex = is_same<T, complex64> || is_same<T, complex128>;

template <typename DST, typename SRC>
__device__ __forceinline__ DST as_complex(SRC value) {
    static_assert(is_complex<DST>, "as_complex makes complex numbers");
    using Part = decltype(DST::re);
    if constexpr (is_complex<SRC>) {
        return {convert<Part>(value.re), convert<Part>(value.im)};
    } else {
        return {convert<Part>(value), Part(0)};
    }
}

template <typename DST, typename T>
__device__ __forceinline__ DST convert(Complex<T> value) {
    static_assert(is_same<DST, bool>, "complex numbers become no reals");
    return value.re != T(0) || value.im != T(0);
}
