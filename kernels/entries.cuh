// Entries: what sort.cu sorts and scatter.cu reads; a key, and the position that it came from.
//
//   WORD   u32 where keys and positions lie below 2^31, else u64
//
// Limits: none. Source: none.
#pragma once

#include "common.cuh"

template <typename WORD>
struct alignas(2 * sizeof(WORD)) Entry {
    WORD key;
    WORD position;
};
