// Indices of an axis, i32 or i64: read, counted from the end where negative, checked.
//
//   index_at   an index as it stands in its array
//   Indexed    the axis that indices address, and who asked for it
//
// Limits: an index outside -extent to extent - 1 is reported and becomes 0. Source: none.
#pragma once

#include "common.cuh"
#include "report.cuh"

// Element `offset` of an array of i64, or of i32.
__device__ __forceinline__ i64 index_at(const void* __restrict__ indices, i64 offset, i32 is_long) {
    return is_long != 0 ? static_cast<const i64*>(indices)[offset]
                        : static_cast<const i32*>(indices)[offset];
}

// The host packs it: see softcuda/backends/cuda/indexed.py.
struct Indexed {
    i64 extent;
    i64 where;  // who asked and the axis, for the report
    i32 is_long;

    // Element `offset` of the indices as a number from 0 to extent - 1.
    __device__ __forceinline__ i64 at(const void* __restrict__ indices, i64 offset,
                                      i64* __restrict__ status) const {
        const i64 index = index_at(indices, offset, is_long);
        const i64 from_start = index < 0 ? index + extent : index;
        if (from_start >= 0 && from_start < extent) return from_start;
        report(status, STATUS_INDEX, index, extent, where);
        return 0;
    }
};
