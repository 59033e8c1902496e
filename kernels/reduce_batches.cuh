// What a thread of reduce_columns reads: batches of rows, of some neighbouring columns.
//
//   Columns        the columns of a thread
//   RowBatches     its rows of the reduced axis beside them
//   take_vectors   vectors of columns, LOADS rows of them in flight
//   take_scalars   the same, element by element
//
// Limits: those of reduce.cu.
// Source: none.
#pragma once

#include "reduce_reading.cuh"

// The columns of a thread: `first`, and others at a distance of `step`.
struct Columns {
    i32 first;
    i32 step;
    i64 count;  // columns from the tile's first on

    __device__ __forceinline__ bool has(i32 lane) const { return first + lane * step < count; }
};

// Rows from, from + step, ... of WIDTH columns, LOADS of them in flight.
template <i32 LOADS, typename STATE, i32 WIDTH, typename READING, typename OFFSETS, typename VALID>
__device__ __forceinline__ void take_batch(STATE (&states)[WIDTH], const READING& reading,
                                           const OFFSETS& from, const OFFSETS& step,
                                           VALID valid) {
    using Value = typename STATE::Value;
    typename READING::Held held[LOADS];
#pragma unroll
    for (i32 u = 0; u < LOADS; ++u) {
        if (valid(u)) reading.load(held[u], from.moved(u, step.at));
    }
#pragma unroll
    for (i32 lane = 0; lane < WIDTH; ++lane) {
        Value x[LOADS];
#pragma unroll
        for (i32 u = 0; u < LOADS; ++u) x[u] = reading.value(held[u], lane, valid(u));
        states[lane].take(x, valid,
                          [&](i32 u) { return reading.place(from.moved(u, step.at), 0); },
                          reading.space.options);
    }
}

// What a thread reads of the rows beside each other: batches of LOADS groups of `down` rows, of
// each of which it has row number y.
struct RowBatches {
    Share batches;
    i64 count;  // rows there are
    i32 down;
    i32 y;

    // Rows of so many batches.
    template <i32 LOADS>
    __device__ __forceinline__ i64 rows_of(i64 number) const {
        return number * LOADS * down;
    }
};

template <i32 LOADS, typename STATE, i32 WIDTH, typename READING, typename OFFSETS>
__device__ __forceinline__ void take_vectors(STATE (&states)[WIDTH], const READING& reading,
                                             const OFFSETS& start, const RowBatches& rows) {
    const Share& batches = rows.batches;
    const OFFSETS step = OFFSETS{}.moved(rows.down, reading.beside_strides());
    const i64 jump = rows.rows_of<LOADS>(batches.step);
    const i64 first = rows.rows_of<LOADS>(batches.begin);
    // Rows behind the start of the last batch, of which no other one can be cut.
    const i64 left = rows.count - first - (batches.count - 1) * jump;
    const bool is_cut = batches.count > 0 && left < LOADS * rows.down;
    OFFSETS from = start.moved(first + rows.y, reading.beside_strides());
#pragma unroll 1
    for (i64 k = batches.count - is_cut; k > 0; --k) {
        take_batch<LOADS>(states, reading, from, step, Every{});
        from = from.moved(jump, reading.beside_strides());
    }
    if (is_cut) {
        take_batch<LOADS>(states, reading, from, step,
                          [=](i32 u) { return u * rows.down + rows.y < left; });
    }
}

// The same, element by element.
template <i32 LOADS, typename STATE, i32 WIDTH, typename READING, typename OFFSETS>
__device__ __forceinline__ void take_scalars(STATE (&states)[WIDTH], const READING& reading,
                                             const OFFSETS& start, const Columns& columns,
                                             const RowBatches& rows) {
    using Value = typename STATE::Value;
#pragma unroll 1
    for (i64 k = 0; k < rows.batches.count; ++k) {
        const i64 first = rows.rows_of<LOADS>(rows.batches.begin + k * rows.batches.step);
        const i64 after = first + LOADS * rows.down;
        const i64 end = after < rows.count ? after : rows.count;
#pragma unroll 1
        for (i64 row = first + rows.y; row < end; row += rows.down) {
            typename READING::Held held = {};
            const OFFSETS offsets = start.moved(row, reading.beside_strides());
#pragma unroll
            for (i32 lane = 0; lane < WIDTH; ++lane) {
                if (columns.has(lane)) {
                    reading.load_element(held, offsets, lane, lane * columns.step);
                }
            }
#pragma unroll
            for (i32 lane = 0; lane < WIDTH; ++lane) {
                const Value x[1] = {reading.value(held, lane, columns.has(lane))};
                states[lane].take(x, [](i32) { return true; },
                                  [&](i32) { return reading.place(offsets, 0); },
                                  reading.space.options);
            }
        }
    }
}
