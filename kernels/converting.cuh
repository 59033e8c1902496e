// An element of an array whose dtype is a number at launch, converted to DST: one kernel a result
// instead of one a pair. The branch is the same for a whole launch.
//
//   convert_from   bool i32 i64 f16 bf16 f32 f64 are 0 to 6
//
// Limits: the array is aligned to its dtype. Source: none.
#pragma once

#include "common.cuh"

template <typename DST>
__device__ __forceinline__ DST convert_from(const void* array, i64 offset, i32 dtype) {
    switch (dtype) {
        case 0: return convert<DST>(static_cast<const bool*>(array)[offset]);
        case 1: return convert<DST>(static_cast<const i32*>(array)[offset]);
        case 2: return convert<DST>(static_cast<const i64*>(array)[offset]);
        case 3: return convert<DST>(static_cast<const f16*>(array)[offset]);
        case 4: return convert<DST>(static_cast<const bf16*>(array)[offset]);
        case 5: return convert<DST>(static_cast<const f32*>(array)[offset]);
        default: return convert<DST>(static_cast<const f64*>(array)[offset]);
    }
}
