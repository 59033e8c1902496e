// What a kernel tells of a bad value, in the status words of its device; 0 says that all is well.
//
//   report   code, two numbers, and where; the first report stays, any one of those at a time
//
// Limits: none. Source: none; softcuda/backends/reports.py makes the error of it.
#pragma once

#include "dtypes.cuh"

constexpr i64 STATUS_INDEX = 1;  // an index out of range: the index, the extent, who asked
constexpr i64 STATUS_POWER = 2;  // an integer raised to a negative power: the exponent

// Without status words nothing is told.
__device__ __forceinline__ void report(i64* status, i64 code, i64 first, i64 second, i64 where) {
    if (status != nullptr && status[0] == 0) {
        status[1] = first;
        status[2] = second;
        status[3] = where;
        status[0] = code;
    }
}
