// The elementwise ops: one struct an op, one function each, on values of the compute dtype.
//
//   template <typename T> struct Op { static T apply(T a, ...); }     T: bool i32 i64 f32 f64
//
// The struct of an op of the table is its token in camel case: multiply_add is MultiplyAdd. cast
// has none, it is `convert` of common.cuh; nor have conj and real, which are the value itself. A
// chain (chain.cuh, generated) calls them in order: operands converted to the dtype that the op
// takes, then to its compute dtype (f32 for f16 and bf16), the result rounded to the dtype of its
// line.
//
// Meaning: that of NumPy, but for what DESIGN section 6 says: integers wrap and divided by zero
// give 0, relu(-0) is +0, maximum and minimum order the zeros and propagate NaN. + - * / sqrt and
// rsqrt round as IEEE says and never become an FMA, whatever the options of the unit; the
// functions are CUDA's accurate ones.
//
// Limits: a negative integer power gives 0 and reports, where a status word is given.
// Source: NumPy, npy_math (divmod of floats); CUDA math documentation for the errors in ulp.
#pragma once

#include "common.cuh"
#include "report.cuh"

// ---- the arithmetic that is exact to the last bit -----------------------------------------------

template <typename T>
__device__ __forceinline__ T add(T a, T b) {
    if constexpr (is_same<T, f32>) {
        return __fadd_rn(a, b);
    } else if constexpr (is_same<T, f64>) {
        return __dadd_rn(a, b);
    } else {
        return static_cast<T>(static_cast<bits_t<T>>(a) + static_cast<bits_t<T>>(b));
    }
}

template <typename T>
__device__ __forceinline__ T subtract(T a, T b) {
    if constexpr (is_same<T, f32>) {
        return __fsub_rn(a, b);
    } else if constexpr (is_same<T, f64>) {
        return __dsub_rn(a, b);
    } else {
        return static_cast<T>(static_cast<bits_t<T>>(a) - static_cast<bits_t<T>>(b));
    }
}

template <typename T>
__device__ __forceinline__ T multiply(T a, T b) {
    if constexpr (is_same<T, f32>) {
        return __fmul_rn(a, b);
    } else if constexpr (is_same<T, f64>) {
        return __dmul_rn(a, b);
    } else {
        return static_cast<T>(static_cast<bits_t<T>>(a) * static_cast<bits_t<T>>(b));
    }
}

template <typename T>
__device__ __forceinline__ T divide(T a, T b) {
    static_assert(is_float<T>, "integers are divided by FloorDivide");
    if constexpr (is_same<T, f32>) {
        return __fdiv_rn(a, b);
    } else {
        return __ddiv_rn(a, b);
    }
}

template <typename T>
__device__ __forceinline__ T square_root(T x) {
    if constexpr (is_same<T, f32>) {
        return __fsqrt_rn(x);
    } else {
        return __dsqrt_rn(x);
    }
}

template <typename T>
__device__ __forceinline__ T exponential(T x) {
    if constexpr (is_same<T, f32>) {
        return expf(x);
    } else {
        return exp(x);
    }
}

// ---- one operand --------------------------------------------------------------------------------

template <typename T>
struct Copy {
    static __device__ __forceinline__ T apply(T x) { return x; }
};

template <typename T>
struct Imag {
    static __device__ __forceinline__ T apply(T x) { return T(0); }
};

template <typename T>
struct Neg {
    static __device__ __forceinline__ T apply(T x) {
        if constexpr (is_float<T>) {
            return -x;
        } else {
            return subtract(T(0), x);
        }
    }
};

template <typename T>
struct Abs {
    static __device__ __forceinline__ T apply(T x) {
        if constexpr (is_same<T, f32>) {
            return fabsf(x);
        } else if constexpr (is_same<T, f64>) {
            return fabs(x);
        } else if constexpr (is_same<T, bool>) {
            return x;
        } else {
            return x < 0 ? subtract(T(0), x) : x;
        }
    }
};

template <typename T>
struct Sign {
    static __device__ __forceinline__ T apply(T x) {
        if constexpr (is_same<T, bool>) {
            return x;
        } else {
            return x > T(0) ? T(1) : x < T(0) ? T(-1) : x == T(0) ? T(0) : x;
        }
    }
};

template <typename T>
struct Square {
    static __device__ __forceinline__ T apply(T x) { return multiply(x, x); }
};

template <typename T>
struct Relu {
    static __device__ __forceinline__ T apply(T x) {
        if constexpr (is_same<T, bool>) {
            return x;
        } else {
            return x <= T(0) ? T(0) : x;
        }
    }
};

template <typename T>
struct Floor {
    static __device__ __forceinline__ T apply(T x) {
        if constexpr (is_same<T, f32>) {
            return floorf(x);
        } else if constexpr (is_same<T, f64>) {
            return floor(x);
        } else {
            return x;
        }
    }
};

template <typename T>
struct Ceil {
    static __device__ __forceinline__ T apply(T x) {
        if constexpr (is_same<T, f32>) {
            return ceilf(x);
        } else if constexpr (is_same<T, f64>) {
            return ceil(x);
        } else {
            return x;
        }
    }
};

// To the nearest integer, halves to the even one.
template <typename T>
struct Round {
    static __device__ __forceinline__ T apply(T x) {
        if constexpr (is_same<T, f32>) {
            return rintf(x);
        } else if constexpr (is_same<T, f64>) {
            return rint(x);
        } else {
            return x;
        }
    }
};

template <typename T>
struct Sqrt {
    static __device__ __forceinline__ T apply(T x) { return square_root(x); }
};

template <typename T>
struct Rsqrt {
    static __device__ __forceinline__ T apply(T x) { return divide(T(1), square_root(x)); }
};

template <typename T>
struct Reciprocal {
    static __device__ __forceinline__ T apply(T x) { return divide(T(1), x); }
};

template <typename T>
struct Exp {
    static __device__ __forceinline__ T apply(T x) { return exponential(x); }
};

template <typename T>
struct Exp2 {
    static __device__ __forceinline__ T apply(T x) {
        if constexpr (is_same<T, f32>) {
            return exp2f(x);
        } else {
            return exp2(x);
        }
    }
};

template <typename T>
struct Expm1 {
    static __device__ __forceinline__ T apply(T x) {
        if constexpr (is_same<T, f32>) {
            return expm1f(x);
        } else {
            return expm1(x);
        }
    }
};

template <typename T>
struct Log {
    static __device__ __forceinline__ T apply(T x) {
        if constexpr (is_same<T, f32>) {
            return logf(x);
        } else {
            return log(x);
        }
    }
};

template <typename T>
struct Log2 {
    static __device__ __forceinline__ T apply(T x) {
        if constexpr (is_same<T, f32>) {
            return log2f(x);
        } else {
            return log2(x);
        }
    }
};

template <typename T>
struct Log1p {
    static __device__ __forceinline__ T apply(T x) {
        if constexpr (is_same<T, f32>) {
            return log1pf(x);
        } else {
            return log1p(x);
        }
    }
};

template <typename T>
struct Sin {
    static __device__ __forceinline__ T apply(T x) {
        if constexpr (is_same<T, f32>) {
            return sinf(x);
        } else {
            return sin(x);
        }
    }
};

template <typename T>
struct Cos {
    static __device__ __forceinline__ T apply(T x) {
        if constexpr (is_same<T, f32>) {
            return cosf(x);
        } else {
            return cos(x);
        }
    }
};

template <typename T>
struct Tan {
    static __device__ __forceinline__ T apply(T x) {
        if constexpr (is_same<T, f32>) {
            return tanf(x);
        } else {
            return tan(x);
        }
    }
};

template <typename T>
struct Asin {
    static __device__ __forceinline__ T apply(T x) {
        if constexpr (is_same<T, f32>) {
            return asinf(x);
        } else {
            return asin(x);
        }
    }
};

template <typename T>
struct Acos {
    static __device__ __forceinline__ T apply(T x) {
        if constexpr (is_same<T, f32>) {
            return acosf(x);
        } else {
            return acos(x);
        }
    }
};

template <typename T>
struct Atan {
    static __device__ __forceinline__ T apply(T x) {
        if constexpr (is_same<T, f32>) {
            return atanf(x);
        } else {
            return atan(x);
        }
    }
};

template <typename T>
struct Sinh {
    static __device__ __forceinline__ T apply(T x) {
        if constexpr (is_same<T, f32>) {
            return sinhf(x);
        } else {
            return sinh(x);
        }
    }
};

template <typename T>
struct Cosh {
    static __device__ __forceinline__ T apply(T x) {
        if constexpr (is_same<T, f32>) {
            return coshf(x);
        } else {
            return cosh(x);
        }
    }
};

template <typename T>
struct Tanh {
    static __device__ __forceinline__ T apply(T x) {
        if constexpr (is_same<T, f32>) {
            return tanhf(x);
        } else {
            return tanh(x);
        }
    }
};

template <typename T>
struct Asinh {
    static __device__ __forceinline__ T apply(T x) {
        if constexpr (is_same<T, f32>) {
            return asinhf(x);
        } else {
            return asinh(x);
        }
    }
};

template <typename T>
struct Acosh {
    static __device__ __forceinline__ T apply(T x) {
        if constexpr (is_same<T, f32>) {
            return acoshf(x);
        } else {
            return acosh(x);
        }
    }
};

template <typename T>
struct Atanh {
    static __device__ __forceinline__ T apply(T x) {
        if constexpr (is_same<T, f32>) {
            return atanhf(x);
        } else {
            return atanh(x);
        }
    }
};

template <typename T>
struct Erf {
    static __device__ __forceinline__ T apply(T x) {
        if constexpr (is_same<T, f32>) {
            return erff(x);
        } else {
            return erf(x);
        }
    }
};

// 1 / (1 + exp(-x)), by exp(-|x|), which cannot overflow.
template <typename T>
struct Sigmoid {
    static __device__ __forceinline__ T apply(T x) {
        const T e = exponential(-Abs<T>::apply(x));
        return divide(x < T(0) ? e : T(1), add(T(1), e));
    }
};

// The larger of x and -4096: what exp(x / 2)^2 and the normal distribution function multiply, which
// are 0 there. -inf times 0 would be NaN.
template <typename T>
__device__ __forceinline__ T not_below_tail(T x) {
    return x < T(-4096) ? T(-4096) : x;
}

// x / (1 + exp(-x)); where exp(-x) overflows it is x * exp(x / 2)^2 to the last bits.
template <typename T>
struct Silu {
    static __device__ __forceinline__ T apply(T x) {
        constexpr T LIMIT = is_same<T, f32> ? T(88) : T(709);
        const bool is_far = x < -LIMIT;
        const T low = not_below_tail(x);
        const T e = exponential(is_far ? multiply(low, T(0.5)) : -x);
        return is_far ? multiply(multiply(e, low), e) : divide(x, add(T(1), e));
    }
};

// x * tanh(log(1 + e)), e = exp(x): the tanh is e (e + 2) / (e (e + 2) + 2), 1 to the last bit from
// exp(40) on; where exp(x) is subnormal it is exp(x / 2)^2 to the last bits.
template <typename T>
struct Mish {
    static __device__ __forceinline__ T apply(T x) {
        constexpr T LIMIT = is_same<T, f32> ? T(88) : T(709);
        const bool is_far = x < -LIMIT;
        const T low = not_below_tail(x);
        const T e = exponential(is_far ? multiply(low, T(0.5)) : x > T(40) ? T(40) : x);
        const T n = multiply(e, add(e, T(2)));
        return is_far ? multiply(multiply(e, low), e) : multiply(x, divide(n, add(n, T(2))));
    }
};

template <typename T>
struct Softsign {
    static __device__ __forceinline__ T apply(T x) {
        // From 1e30 on the quotient is 1 or -1 to the last bit, and of inf no quotient at all.
        const T size = Abs<T>::apply(x);
        const T one = x < T(0) ? T(-1) : T(1);
        return size > T(1e30) ? one : divide(x, add(T(1), size));
    }
};

// x * Phi(x), Phi the normal distribution function.
template <typename T>
struct Gelu {
    static __device__ __forceinline__ T apply(T x) {
        if constexpr (is_same<T, f32>) {
            return multiply(not_below_tail(x), normcdff(x));
        } else {
            return multiply(not_below_tail(x), normcdf(x));
        }
    }
};

// log(1 + exp(x)) = max(x, 0) + log1p(exp(-|x|)).
template <typename T>
struct Softplus {
    static __device__ __forceinline__ T apply(T x) {
        const T rest = Log1p<T>::apply(exponential(-Abs<T>::apply(x)));
        return add(Relu<T>::apply(x), rest);
    }
};

template <typename T>
struct Isnan {
    static __device__ __forceinline__ bool apply(T x) { return x != x; }
};

template <typename T>
struct Isinf {
    static __device__ __forceinline__ bool apply(T x) {
        if constexpr (is_float<T>) {
            return x == x && subtract(x, x) != T(0);
        } else {
            return false;
        }
    }
};

template <typename T>
struct Isfinite {
    static __device__ __forceinline__ bool apply(T x) {
        if constexpr (is_float<T>) {
            return subtract(x, x) == T(0);
        } else {
            return true;
        }
    }
};

template <typename T>
struct LogicalNot {
    static __device__ __forceinline__ bool apply(T x) { return !x; }
};

// ---- two operands -------------------------------------------------------------------------------

template <typename T>
struct Add {
    static __device__ __forceinline__ T apply(T a, T b) { return add(a, b); }
};

template <typename T>
struct Sub {
    static __device__ __forceinline__ T apply(T a, T b) { return subtract(a, b); }
};

template <typename T>
struct Mul {
    static __device__ __forceinline__ T apply(T a, T b) { return multiply(a, b); }
};

template <typename T>
struct Div {
    static __device__ __forceinline__ T apply(T a, T b) { return divide(a, b); }
};

// Remainder with the sign of the divisor and the quotient that belongs to it, of floats.
template <typename T>
struct FloatDivision {
    T quotient;
    T remainder;

    __device__ __forceinline__ FloatDivision(T a, T b) {
        if constexpr (is_same<T, f32>) {
            remainder = fmodf(a, b);
        } else {
            remainder = fmod(a, b);
        }
        quotient = divide(a, b);
        if (b == T(0)) return;
        T exact = divide(subtract(a, remainder), b);
        if (remainder == T(0)) {
            remainder = b < T(0) ? -T(0) : T(0);
        } else if ((b < T(0)) != (remainder < T(0))) {
            remainder = add(remainder, b);
            exact = subtract(exact, T(1));
        }
        if (exact == T(0)) {
            constexpr auto SIGN = bits_t<T>(1) << (8 * sizeof(T) - 1);
            quotient = bit_cast<T>(bit_cast<bits_t<T>>(quotient) & SIGN);
            return;
        }
        quotient = Floor<T>::apply(exact);
        if (subtract(exact, quotient) > T(0.5)) quotient = add(quotient, T(1));
    }
};

template <typename T>
struct FloorDivide {
    static __device__ __forceinline__ T apply(T a, T b) {
        if constexpr (is_float<T>) {
            return FloatDivision<T>(a, b).quotient;
        } else {
            if (b == 0) return 0;
            if (b == T(-1)) return subtract(T(0), a);
            const T quotient = a / b;
            const T rest = a - quotient * b;
            return rest != 0 && (rest < 0) != (b < 0) ? quotient - 1 : quotient;
        }
    }
};

template <typename T>
struct Remainder {
    static __device__ __forceinline__ T apply(T a, T b) {
        if constexpr (is_float<T>) {
            return FloatDivision<T>(a, b).remainder;
        } else {
            if (b == 0 || b == T(-1)) return 0;
            const T rest = a % b;
            return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
        }
    }
};

template <typename T>
struct Pow {
    static __device__ __forceinline__ T apply(T a, T b, i64* status = nullptr) {
        if constexpr (is_same<T, f32>) {
            return powf(a, b);
        } else if constexpr (is_same<T, f64>) {
            return pow(a, b);
        } else {
            if (b < 0) report(status, STATUS_POWER, static_cast<i64>(b), 0, 0);
            T result = b < 0 ? 0 : 1;
            T square = a;
            for (T rest = b < 0 ? 0 : b; rest != 0; rest >>= 1) {
                if (rest & 1) result = multiply(result, square);
                square = multiply(square, square);
            }
            return result;
        }
    }
};

template <typename T>
struct Minimum {
    static __device__ __forceinline__ T apply(T a, T b) { return minimum(a, b); }
};

template <typename T>
struct Maximum {
    static __device__ __forceinline__ T apply(T a, T b) { return maximum(a, b); }
};

template <typename T>
struct Atan2 {
    static __device__ __forceinline__ T apply(T a, T b) {
        if constexpr (is_same<T, f32>) {
            return atan2f(a, b);
        } else {
            return atan2(a, b);
        }
    }
};

template <typename T>
struct Eq {
    static __device__ __forceinline__ bool apply(T a, T b) { return a == b; }
};

template <typename T>
struct Ne {
    static __device__ __forceinline__ bool apply(T a, T b) { return a != b; }
};

template <typename T>
struct Lt {
    static __device__ __forceinline__ bool apply(T a, T b) { return a < b; }
};

template <typename T>
struct Le {
    static __device__ __forceinline__ bool apply(T a, T b) { return a <= b; }
};

template <typename T>
struct Gt {
    static __device__ __forceinline__ bool apply(T a, T b) { return a > b; }
};

template <typename T>
struct Ge {
    static __device__ __forceinline__ bool apply(T a, T b) { return a >= b; }
};

template <typename T>
struct LogicalAnd {
    static __device__ __forceinline__ bool apply(T a, T b) { return a && b; }
};

template <typename T>
struct LogicalOr {
    static __device__ __forceinline__ bool apply(T a, T b) { return a || b; }
};

template <typename T>
struct LogicalXor {
    static __device__ __forceinline__ bool apply(T a, T b) { return a != b; }
};

// ---- three operands -----------------------------------------------------------------------------

template <typename T>
struct Where {
    static __device__ __forceinline__ T apply(bool condition, T a, T b) {
        return condition ? a : b;
    }
};

template <typename T>
struct Clip {
    static __device__ __forceinline__ T apply(T x, T low, T high) {
        return minimum(maximum(x, low), high);
    }
};

// Rounded twice, as the product and the sum are.
template <typename T>
struct MultiplyAdd {
    static __device__ __forceinline__ T apply(T a, T b, T c) { return add(multiply(a, b), c); }
};

// ---- reading the operands of a chain ------------------------------------------------------------

// Operand NUMBER of a chain, of dtype T: what `Chain::of` asks its reader for.
template <typename T, i32 NUMBER_OF_OPERAND>
struct Slot {
    using type = T;
    static constexpr i32 NUMBER = NUMBER_OF_OPERAND;
};
