// The elementwise ops of complex numbers: the structs of ops.cuh for Complex<T>.
//
// + and - round once a part, * three times, never as an FMA; / scales by the larger part; functions
// but abs and sign are computed in f64 and rounded to the parts.
//
// Meaning: that of NumPy: the branch cuts of C99's annex G, integer powers by squaring.
// Limits: none. Source: Smith, Algorithm 116: Complex division (1962); Kahan, Branch Cuts for
// Complex Elementary Functions (1987), for sqrt, log and tanh; NumPy, npy_math_complex, for pow.
#pragma once

#include "complex.cuh"
#include "ops.cuh"

// ---- arithmetic: overloads that the structs of ops.cuh call -------------------------------------

template <typename T>
__device__ __forceinline__ Complex<T> add(Complex<T> a, Complex<T> b) {
    return {add(a.re, b.re), add(a.im, b.im)};
}

template <typename T>
__device__ __forceinline__ Complex<T> subtract(Complex<T> a, Complex<T> b) {
    return {subtract(a.re, b.re), subtract(a.im, b.im)};
}

template <typename T>
__device__ __forceinline__ Complex<T> multiply(Complex<T> a, Complex<T> b) {
    return {subtract(multiply(a.re, b.re), multiply(a.im, b.im)),
            add(multiply(a.re, b.im), multiply(a.im, b.re))};
}

template <typename T>
__device__ __forceinline__ Complex<T> divide(Complex<T> a, Complex<T> b) {
    const T re = Abs<T>::apply(b.re), im = Abs<T>::apply(b.im);
    if (re == T(0) && im == T(0)) return {divide(a.re, re), divide(a.im, re)};
    if (re >= im) {
        const T ratio = divide(b.im, b.re);
        const T scale = divide(T(1), add(b.re, multiply(b.im, ratio)));
        return {multiply(add(a.re, multiply(a.im, ratio)), scale),
                multiply(subtract(a.im, multiply(a.re, ratio)), scale)};
    }
    const T ratio = divide(b.re, b.im);
    const T scale = divide(T(1), add(b.im, multiply(b.re, ratio)));
    return {multiply(add(multiply(a.re, ratio), a.im), scale),
            multiply(subtract(multiply(a.im, ratio), a.re), scale)};
}

// ---- functions of f64 ---------------------------------------------------------------------------

// x * y, where a zero y stays one though x is infinite.
__device__ __forceinline__ f64 kept_zero(f64 x, f64 y) {
    return y == 0.0 ? copysign(1.0, x) * y : x * y;
}

__device__ __forceinline__ complex128 exponential_of(complex128 z) {
    if (z.im == 0.0) return {exp(z.re), z.im};
    const f64 half = exp(0.5 * z.re);  // its square may overflow where a part does not
    return {cos(z.im) * half * half, sin(z.im) * half * half};
}

// log |z| without cancellation near 1.
__device__ __forceinline__ complex128 logarithm_of(complex128 z) {
    const f64 large = fmax(fabs(z.re), fabs(z.im)), small = fmin(fabs(z.re), fabs(z.im));
    const f64 angle = atan2(z.im, z.re);
    if (large > 0.5 && large < 2.0) {
        return {0.5 * log1p(fma(large - 1.0, large + 1.0, small * small)), angle};
    }
    return {log(hypot(z.re, z.im)), angle};
}

__device__ __forceinline__ complex128 root_of(complex128 z) {
    if (z.re == 0.0 && z.im == 0.0) return {0.0, z.im};
    if (isinf(z.im)) return {fabs(z.im), z.im};
    if (isinf(z.re)) {
        const f64 rest = z.im != z.im ? z.im : 0.0;
        if (z.re > 0.0) return {z.re, copysign(rest, z.im)};
        return {rest, copysign(z.re, z.im)};
    }
    const f64 size = 0.25 * fabs(z.re) + hypot(0.25 * z.re, 0.25 * z.im);  // of z / 4: finite
    const f64 large = sqrt(0.5 * size) * 2.0;
    const f64 small = fabs(z.im) / (2.0 * large);
    if (z.re >= 0.0) return {large, copysign(small, z.im)};
    return {small, copysign(large, z.im)};
}

__device__ __forceinline__ complex128 hyperbolic_sine(complex128 z) {
    return {kept_zero(cos(z.im), sinh(z.re)), kept_zero(cosh(z.re), sin(z.im))};
}

__device__ __forceinline__ complex128 hyperbolic_cosine(complex128 z) {
    return {cosh(z.re) * cos(z.im), kept_zero(sinh(z.re), sin(z.im))};
}

__device__ __forceinline__ complex128 hyperbolic_tangent(complex128 z) {
    if (fabs(z.re) > 22.0) {  // 1 within half a unit
        const f64 rest = 4.0 * sin(z.im) * cos(z.im) * exp(-2.0 * fabs(z.re));
        return {copysign(1.0, z.re), isinf(z.re) ? copysign(0.0, z.im) : rest};
    }
    const f64 t = tan(z.im), s = sinh(z.re);
    const f64 beta = 1.0 + t * t, rho = sqrt(1.0 + s * s);
    const f64 scale = 1.0 + beta * s * s;
    return {beta * rho * s / scale, t / scale};
}

// -i f(i z): sin of sinh, tan of tanh.
__device__ __forceinline__ complex128 turned(complex128 z) { return {-z.im, z.re}; }
__device__ __forceinline__ complex128 turned_back(complex128 z) { return {z.im, -z.re}; }

constexpr i32 LONGEST_POWER = 100;  // beyond it exp and log are as exact

__device__ __forceinline__ complex128 power_of(complex128 a, complex128 b) {
    if (b.re == 0.0 && b.im == 0.0) return {1.0, 0.0};
    if (a.re == 0.0 && a.im == 0.0) {
        if (b.re > 0.0 && b.im == 0.0) return {0.0, 0.0};
        const f64 nan = b.re - b.re + bit_cast<f64>(0x7ff8000000000000ull);
        return {nan, nan};
    }
    if (b.im != 0.0 || b.re != rint(b.re) || fabs(b.re) >= LONGEST_POWER) {
        return exponential_of(multiply(b, logarithm_of(a)));
    }
    complex128 result = {1.0, 0.0};
    complex128 square = a;
    for (i32 rest = static_cast<i32>(fabs(b.re)); rest != 0; rest >>= 1) {
        if (rest & 1) result = multiply(result, square);
        square = multiply(square, square);
    }
    return b.re < 0.0 ? divide(complex128{1.0, 0.0}, result) : result;
}

template <typename T, typename F>
__device__ __forceinline__ Complex<T> in_f64(Complex<T> z, F function) {
    return as_complex<Complex<T>>(function(as_complex<complex128>(z)));
}

template <typename T>
__device__ __forceinline__ Complex<T> exponential(Complex<T> z) {
    return in_f64(z, [](complex128 x) { return exponential_of(x); });
}

template <typename T>
__device__ __forceinline__ Complex<T> square_root(Complex<T> z) {
    return in_f64(z, [](complex128 x) { return root_of(x); });
}

// ---- one operand --------------------------------------------------------------------------------

template <typename T>
struct Conj;
template <typename T>
struct Conj<Complex<T>> {
    static __device__ __forceinline__ Complex<T> apply(Complex<T> z) { return {z.re, -z.im}; }
};

template <typename T>
struct Real;
template <typename T>
struct Real<Complex<T>> {
    static __device__ __forceinline__ T apply(Complex<T> z) { return z.re; }
};

template <typename T>
struct Imag<Complex<T>> {
    static __device__ __forceinline__ T apply(Complex<T> z) { return z.im; }
};

template <typename T>
struct Neg<Complex<T>> {
    static __device__ __forceinline__ Complex<T> apply(Complex<T> z) { return {-z.re, -z.im}; }
};

template <typename T>
struct Abs<Complex<T>> {
    static __device__ __forceinline__ T apply(Complex<T> z) {
        if constexpr (is_same<T, f32>) {
            return hypotf(z.re, z.im);
        } else {
            return hypot(z.re, z.im);
        }
    }
};

template <typename T>
struct Sign<Complex<T>> {
    static __device__ __forceinline__ Complex<T> apply(Complex<T> z) {
        const T size = Abs<Complex<T>>::apply(z);
        if (size == T(0)) return {T(0), T(0)};
        return {divide(z.re, size), divide(z.im, size)};
    }
};

template <typename T>
struct Reciprocal<Complex<T>> {
    static __device__ __forceinline__ Complex<T> apply(Complex<T> z) {
        return divide(Complex<T>{T(1), T(0)}, z);
    }
};

template <typename T>
struct Rsqrt<Complex<T>> {
    static __device__ __forceinline__ Complex<T> apply(Complex<T> z) {
        return divide(Complex<T>{T(1), T(0)}, square_root(z));
    }
};

template <typename T>
struct Log<Complex<T>> {
    static __device__ __forceinline__ Complex<T> apply(Complex<T> z) {
        return in_f64(z, [](complex128 x) { return logarithm_of(x); });
    }
};

template <typename T>
struct Sinh<Complex<T>> {
    static __device__ __forceinline__ Complex<T> apply(Complex<T> z) {
        return in_f64(z, [](complex128 x) { return hyperbolic_sine(x); });
    }
};

template <typename T>
struct Cosh<Complex<T>> {
    static __device__ __forceinline__ Complex<T> apply(Complex<T> z) {
        return in_f64(z, [](complex128 x) { return hyperbolic_cosine(x); });
    }
};

template <typename T>
struct Tanh<Complex<T>> {
    static __device__ __forceinline__ Complex<T> apply(Complex<T> z) {
        return in_f64(z, [](complex128 x) { return hyperbolic_tangent(x); });
    }
};

template <typename T>
struct Sin<Complex<T>> {
    static __device__ __forceinline__ Complex<T> apply(Complex<T> z) {
        return in_f64(z, [](complex128 x) { return turned_back(hyperbolic_sine(turned(x))); });
    }
};

template <typename T>
struct Cos<Complex<T>> {
    static __device__ __forceinline__ Complex<T> apply(Complex<T> z) {
        return in_f64(z, [](complex128 x) { return hyperbolic_cosine(turned(x)); });
    }
};

template <typename T>
struct Tan<Complex<T>> {
    static __device__ __forceinline__ Complex<T> apply(Complex<T> z) {
        return in_f64(z, [](complex128 x) { return turned_back(hyperbolic_tangent(turned(x))); });
    }
};

template <typename T>
struct Isinf<Complex<T>> {
    static __device__ __forceinline__ bool apply(Complex<T> z) {
        return Isinf<T>::apply(z.re) || Isinf<T>::apply(z.im);
    }
};

template <typename T>
struct Isfinite<Complex<T>> {
    static __device__ __forceinline__ bool apply(Complex<T> z) {
        return Isfinite<T>::apply(z.re) && Isfinite<T>::apply(z.im);
    }
};

// ---- two operands -------------------------------------------------------------------------------

template <typename T>
struct Pow<Complex<T>> {
    static __device__ __forceinline__ Complex<T> apply(Complex<T> a, Complex<T> b) {
        return as_complex<Complex<T>>(power_of(as_complex<complex128>(a),
                                               as_complex<complex128>(b)));
    }
};
