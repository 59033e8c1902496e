// Layer normalisation of rows that fill the registers of teams of threads.
//
//   out[r, i] = (x[r, i] - mean[r]) / sqrt(var[r] + eps) * weight[i] + bias[i]
//   mean[r] = sum_i x[r, i] / n,  var[r] = sum_i (x[r, i] - mean[r])^2 / n
//
//   layer_norm_full   TEAM threads a row of TEAM * VECTORS vectors of 16 bytes, which is read and
//                     written once
//   T: f16 bf16 f32 f64, of x, weight, bias and the result; computed in f32 (f64), rounded once;
//   weight and bias may be null
//
// Launch: BLOCK threads a block; x counts teams; with AHEAD as many blocks as the device holds go
// over all rows.
// Shared memory: AHEAD * VECTORS vectors a thread, two pairs of numbers a warp.
// Limits: those of full_row.cuh; weight and bias are dense.
// Source: Ba, Kiros and Hinton, Layer normalization (2016); Chan, Golub and LeVeque (1983).
#include "full_row.cuh"
#include "layer_norm_row.cuh"

// Mean and squares of what lies around it, of equal numbers of elements each.
template <typename VALUE>
struct Spread {
    VALUE mean;
    VALUE squares;
};

// What two lanes found of `count` elements each, for both of them.
template <typename VALUE>
__device__ __forceinline__ Spread<VALUE> joined_spread(const Spread<VALUE>& own, i32 apart,
                                                       i32 count) {
    const VALUE mean = shuffle_xor(own.mean, apart);
    const VALUE squares = shuffle_xor(own.squares, apart);
    const VALUE away = own.mean - mean;
    return {(own.mean + mean) * VALUE(0.5),
            own.squares + squares + away * away * (VALUE(0.5) * static_cast<VALUE>(count))};
}

// Mean and squares of a row: those of each thread in two passes over its registers, then joined, so
// that warps meet once.
template <typename T, i32 TEAM, typename ROW>
__device__ __forceinline__ Spread<compute_t<T>> spread_of(const ROW& row,
                                                          Spread<compute_t<T>>* slots) {
    using Value = compute_t<T>;
    using Team = FixedTeam<TEAM>;
    constexpr i32 ELEMENTS = ROW::ELEMENTS;
    const auto sum = [](Value a, Value b) { return add(a, b); };
    Spread<Value> found;
    found.mean = row.joined([&](i32 i) { return row.x[i]; }, sum) * (Value(1) / ELEMENTS);
    Value parts[4] = {};
#pragma unroll
    for (i32 i = 0; i < ELEMENTS; ++i) {
        const Value away = row.x[i] - found.mean;
        if constexpr (is_16_bit<T>) {
            parts[i % 4] = __fmaf_rn(away, away, parts[i % 4]);
        } else {
            parts[i % 4] += away * away;
        }
    }
    found.squares = tree(parts, sum);
#pragma unroll
    for (i32 apart = 1; apart < Team::LANES; apart *= 2) {
        found = joined_spread(found, apart, apart * ELEMENTS);
    }
    if constexpr (Team::WARPS > 1) {
        found = warps_value(found, Team::WARPS, slots);
#pragma unroll
        for (i32 apart = 1; apart < Team::WARPS; apart *= 2) {
            found = joined_spread(found, apart, apart * WARP * ELEMENTS);
        }
    }
    return found;
}

// What brings mean and deviation of a row to 0 and 1; of 16 bits without rounding in between.
template <typename T>
struct Standard {
    using Value = compute_t<T>;
    Value mean;
    Value factor;
    Value moved;

    __device__ __forceinline__ Value apply(Value x) const {
        if constexpr (is_16_bit<T>) {
            return __fmaf_rn(x, factor, moved);
        } else {
            return multiply(x - mean, factor);
        }
    }
};

template <typename T>
__device__ __forceinline__ Standard<T> standard(const Spread<compute_t<T>>& found, i32 length,
                                                f64 eps) {
    using Value = compute_t<T>;
    const Value variance = found.squares * (Value(1) / static_cast<Value>(length));
    Value factor;
    if constexpr (is_16_bit<T>) {
        factor = rsqrtf(variance + static_cast<Value>(eps));
    } else {
        factor = inverse_deviation(variance, eps);
    }
    return {found.mean, factor, -found.mean * factor};
}

// Rows of one axis that fill the vectors of their teams, `step` elements apart.
template <typename T, i32 VECTORS, i32 TEAM, i32 BLOCK, i32 BLOCKS, i32 AHEAD, bool IS_FIRST>
__global__ void __launch_bounds__(BLOCK, (norm_blocks<T, VECTORS, BLOCK, BLOCKS>))
    layer_norm_full(T* __restrict__ out, const T* __restrict__ source,
                    const T* __restrict__ weight, const T* __restrict__ bias, f64 eps, i64 rows,
                    i64 step) {
    static_assert(is_float<T>, "the result is of floats");
    using Value = compute_t<T>;
    constexpr i32 ELEMENTS = 16 / sizeof(T) * VECTORS;
    // Weight and bias stay in registers where they serve several rows and there is room.
    constexpr bool STAYS = AHEAD > 0 && 20 + ELEMENTS + 8 * VECTORS <= 65536 / (BLOCK * BLOCKS);
    constexpr i32 HELD = STAYS ? VECTORS : 1;

    // shared memory: of a row and of the next, which some warps begin while others read
    __shared__ Spread<Value> slots[1 + (AHEAD > 0)][BLOCK / WARP];

    const auto write = [&](auto aligned) {
        constexpr bool ALIGNED = is_same<decltype(aligned), Every>;
        using Row = FullRow<T, VECTORS, TEAM, BLOCK, AHEAD, IS_FIRST, ALIGNED>;
        Row row(rows);
        i32 turn = 0;
        // load
        typename Row::Packed weights[HELD];
        typename Row::Packed biases[HELD];
        const auto load_factors = [&](i32 k) {
            weights[k % HELD].fill(convert<T>(Value(1)));
            biases[k % HELD].fill(convert<T>(Value(-0.0)));  // x + -0 is x
            if (weight != nullptr) row.template load<false>(weights[k % HELD], weight, k);
            if (bias != nullptr) row.template load<false>(biases[k % HELD], bias, k);
        };
        if constexpr (STAYS) {
#pragma unroll
            for (i32 k = 0; k < VECTORS; ++k) load_factors(k);
        }
        row.for_each(source, step, [&] {
            // compute
            const auto found = spread_of<T, TEAM>(row, slots[turn]);
            if constexpr (AHEAD > 0) turn ^= 1;
            const auto scale = standard<T>(found, Row::LENGTH, eps);
            // store
#pragma unroll
            for (i32 k = 0; k < VECTORS; ++k) {
                if constexpr (!STAYS) load_factors(k);
                const auto w = unrelated(weights[k % HELD]);
                const auto b = unrelated(biases[k % HELD]);
                Value y[Row::WIDTH];
#pragma unroll
                for (i32 i = 0; i < Row::WIDTH; ++i) {
                    y[i] = scaled<T>(scale.apply(row.x[k * Row::WIDTH + i]),
                                     convert<Value>(w.lane(i)), convert<Value>(b.lane(i)));
                }
                row.store(out, k, y);
            }
        });
    };
    if (is_vector_address(out) && is_vector_address(source) && is_vector_address(weight) &&
        is_vector_address(bias)) {
        write(Every{});
    } else {
        write(Cut{});
    }
}
