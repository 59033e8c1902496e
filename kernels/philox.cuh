// Philox 4x32-10: blocks of four words that depend on a counter and a key alone.
//
//   block = ten rounds of (c0, c1, c2, c3) -> (hi(M1 c2) ^ c1 ^ k0, lo(M1 c2),
//                                              hi(M0 c0) ^ c3 ^ k1, lo(M0 c0)), keys stepped
//
// Limits: the counter's upper two words are 0, as on the host.
// Source: Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011.
#pragma once

#include "common.cuh"

struct PhiloxBlock {
    u32 words[4];
};

// Block COUNTER (modulo 2^64) of the generator with this SEED.
__device__ __forceinline__ PhiloxBlock philox_block(u64 counter, u64 seed) {
    u32 c0 = static_cast<u32>(counter), c1 = static_cast<u32>(counter >> 32), c2 = 0, c3 = 0;
    u32 k0 = static_cast<u32>(seed), k1 = static_cast<u32>(seed >> 32);
#pragma unroll
    for (i32 round = 0; round < 10; ++round) {
        const u32 high0 = __umulhi(0xD2511F53u, c0), low0 = 0xD2511F53u * c0;
        const u32 high1 = __umulhi(0xCD9E8D57u, c2), low1 = 0xCD9E8D57u * c2;
        c0 = high1 ^ c1 ^ k0;
        c1 = low1;
        c2 = high0 ^ c3 ^ k1;
        c3 = low0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return {{c0, c1, c2, c3}};
}

// Two words as a whole number below 2^53: (first >> 5) * 2^26 + (second >> 6).
__device__ __forceinline__ f64 philox_fraction53(u32 first, u32 second) {
    return static_cast<f64>((static_cast<u64>(first >> 5) << 26) + (second >> 6));
}
