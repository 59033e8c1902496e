// Entries in the order of their keys; those of one key stay in the order of their positions.
//
//   entries[n] = (key[n], n)  ->  sorted by (key, position)
//
//   sort_small     up to 4096 entries in one block: a bitonic network over (key, position)
//   sort_count     counts[digit, stretch] = entries of a stretch whose key has the digit
//   sort_offsets   counts of a digit become what lies in the stretches before; totals[digit]
//   sort_move      entries to where their digit goes: by digit, then stretch, then place in it
//   WORD: u32 or u64; one kernel of each for every architecture
//
// A pass of the last three sorts by 8 bits and keeps the order of what is equal in them; passes
// from the lowest bits up sort the whole key. The result is the only one there is, however many
// blocks share the work: no atomics, no order of arrival.
// Launch: 256 threads a block (sort_small 512, one block). sort_count and sort_move: a block a
// stretch, whose length is a multiple of TILE; sort_offsets: a block a digit.
// Shared memory: sort_small 32 KiB; sort_count 8 KiB; sort_move 26 KiB.
// Limits: sort_small takes keys below 2^52.
// Source: Merrill and Grimshaw, High performance and scalable radix sorting (2011); Batcher,
// Sorting networks and their applications (1968).
#include "block_scan.cuh"
#include "entries.cuh"

[[maybe_unused]] constexpr i32 THREADS = 256;
constexpr i32 WARPS = THREADS / WARP;
constexpr i32 DIGITS = 256;

constexpr i32 SMALL_THREADS = 512;
constexpr i32 SMALL = 4096;
constexpr i32 SMALL_BITS = 12;

static_assert(THREADS == DIGITS, "a thread looks after a digit");
static_assert(1 << SMALL_BITS == SMALL, "a position of a small sort fits its bits");

// Entries of a thread at a time: those of a block fill 16 KiB.
template <typename WORD>
constexpr i32 ITEMS = 64 / sizeof(Entry<WORD>);
template <typename WORD>
constexpr i32 TILE = THREADS * ITEMS<WORD>;

template <typename WORD>
__device__ __forceinline__ u32 digit_of(const Entry<WORD>& entry, i32 shift) {
    return static_cast<u32>(entry.key >> shift) % DIGITS;
}

// The entries of a tile that a thread holds: neighbours lie in neighbouring lanes, so that their
// order is that of (warp, item, lane).
template <typename WORD>
struct Held {
    static constexpr i32 COUNT = ITEMS<WORD>;
    Entry<WORD> entries[COUNT];
    i64 first;
    i64 end;

    __device__ __forceinline__ void load_tile(const Entry<WORD>* from, i64 tile, i64 stop) {
        first = tile + warp_index() * (WARP * COUNT) + lane_index();
        end = stop;
#pragma unroll
        for (i32 k = 0; k < COUNT; ++k) {
            if (has(k)) entries[k] = from[first + k * WARP];
        }
    }

    __device__ __forceinline__ bool has(i32 k) const { return first + k * WARP < end; }
};

// How often the lanes of a warp saw each digit so far.
struct Tally {
    u32 seen[WARPS][DIGITS];

    __device__ __forceinline__ void clear() {
        for (i32 digit = lane_index(); digit < DIGITS; digit += WARP) seen[warp_index()][digit] = 0;
        __syncwarp();
    }

    // Counts a digit of every lane that has one; returns how many came before it.
    __device__ __forceinline__ u32 count(u32 digit, bool has) {
        u32 same = __ballot_sync(WHOLE_WARP, has);
#pragma unroll
        for (i32 bit = 0; bit < 8; ++bit) {
            const bool is_set = (digit >> bit) % 2 != 0;
            const u32 set = __ballot_sync(WHOLE_WARP, is_set);
            same &= is_set ? set : ~set;
        }
        const u32 below = same & ((1u << lane_index()) - 1);
        const u32 before = has ? seen[warp_index()][digit] : 0;
        __syncwarp();
        if (has && below == 0) seen[warp_index()][digit] = before + __popc(same);
        __syncwarp();
        return before + __popc(below);
    }
};

// The sum of what the threads before this one hold; `total` becomes that of the block.
template <typename WORD>
__device__ __forceinline__ WORD held_before(WORD value, WORD& total, WORD* slots) {
    return sum_before<WARPS>(value, total, slots, [](WORD a, WORD b) { return a + b; });
}

// `size` is the power of two from `count` up.
template <typename WORD>
__global__ void __launch_bounds__(SMALL_THREADS)
    sort_small(Entry<WORD>* __restrict__ entries, i32 count, i32 size) {
    // shared memory
    __shared__ u64 keys[SMALL];

    // load
    for (i32 n = threadIdx.x; n < size; n += SMALL_THREADS) {
        const u64 key = n < count ? static_cast<u64>(entries[n].key) : 0;
        keys[n] = n < count ? key << SMALL_BITS | n : ~0ull;
    }

    // compute
    for (i32 run = 2; run <= size; run *= 2) {
        for (i32 distance = run / 2; distance > 0; distance /= 2) {
            __syncthreads();
            for (i32 pair = threadIdx.x; pair < size / 2; pair += SMALL_THREADS) {
                const i32 low = 2 * pair - (pair & (distance - 1));
                const u64 a = keys[low], b = keys[low + distance];
                if ((a > b) != ((low & run) == 0)) continue;
                keys[low] = b;
                keys[low + distance] = a;
            }
        }
    }
    __syncthreads();

    // store
    for (i32 n = threadIdx.x; n < count; n += SMALL_THREADS) {
        entries[n] = {static_cast<WORD>(keys[n] >> SMALL_BITS), static_cast<WORD>(keys[n] % SMALL)};
    }
}

template <typename WORD>
__global__ void __launch_bounds__(THREADS)
    sort_count(WORD* __restrict__ counts, const Entry<WORD>* __restrict__ entries, i64 count,
               i64 stretch, i32 shift) {
    // indices
    const i64 begin = blockIdx.x * stretch;
    const i64 end = begin + stretch < count ? begin + stretch : count;

    // shared memory
    __shared__ Tally tally;
    tally.clear();

    // load, compute
    Held<WORD> held;
#pragma unroll 1
    for (i64 tile = begin; tile < end; tile += TILE<WORD>) {
        held.load_tile(entries, tile, end);
#pragma unroll
        for (i32 k = 0; k < held.COUNT; ++k) {
            tally.count(digit_of(held.entries[k], shift), held.has(k));
        }
    }
    __syncthreads();

    // store
    WORD total = 0;
    for (i32 warp = 0; warp < WARPS; ++warp) total += tally.seen[warp][threadIdx.x];
    counts[static_cast<i64>(threadIdx.x) * gridDim.x + blockIdx.x] = total;
}

template <typename WORD>
__global__ void __launch_bounds__(THREADS)
    sort_offsets(WORD* __restrict__ counts, WORD* __restrict__ totals, i32 stretches) {
    // shared memory
    __shared__ WORD slots[WARPS];

    WORD* const row = counts + static_cast<i64>(blockIdx.x) * stretches;
    WORD running = 0;
#pragma unroll 1
    for (i32 first = 0; first < stretches; first += THREADS) {
        const i32 place = first + threadIdx.x;
        const WORD own = place < stretches ? row[place] : 0;
        WORD total;
        const WORD before = held_before(own, total, slots);
        if (place < stretches) row[place] = running + before;
        running += total;
    }
    if (threadIdx.x == 0) totals[blockIdx.x] = running;
}

template <typename WORD>
__global__ void __launch_bounds__(THREADS)
    sort_move(Entry<WORD>* __restrict__ to, const Entry<WORD>* __restrict__ from,
              const WORD* __restrict__ counts, const WORD* __restrict__ totals, i64 count,
              i64 stretch, i32 shift) {
    // indices
    const i64 begin = blockIdx.x * stretch;
    const i64 end = begin + stretch < count ? begin + stretch : count;

    // shared memory
    __shared__ Entry<WORD> ordered[TILE<WORD>];
    __shared__ Tally tally;
    __shared__ WORD places[DIGITS];  // where number 0 of the tile would go, by digit
    __shared__ WORD slots[WARPS];

    WORD total;
    const WORD digit_total = totals[threadIdx.x];
    WORD next = held_before(digit_total, total, slots);  // of the digit of this thread
    next += counts[static_cast<i64>(threadIdx.x) * gridDim.x + blockIdx.x];
    Held<WORD> held;
#pragma unroll 1
    for (i64 tile = begin; tile < end; tile += TILE<WORD>) {
        // load
        held.load_tile(from, tile, end);
        // compute
        u32 earlier[held.COUNT];
        tally.clear();
#pragma unroll
        for (i32 k = 0; k < held.COUNT; ++k) {
            earlier[k] = tally.count(digit_of(held.entries[k], shift), held.has(k));
        }
        __syncthreads();
        WORD own = 0;
        for (i32 warp = 0; warp < WARPS; ++warp) own += tally.seen[warp][threadIdx.x];
        WORD place = held_before(own, total, slots);
        places[threadIdx.x] = next - place;
        next += own;
        for (i32 warp = 0; warp < WARPS; ++warp) {
            const u32 seen = tally.seen[warp][threadIdx.x];
            tally.seen[warp][threadIdx.x] = static_cast<u32>(place);
            place += seen;
        }
        __syncthreads();
#pragma unroll
        for (i32 k = 0; k < held.COUNT; ++k) {
            if (!held.has(k)) continue;
            const u32 first = tally.seen[warp_index()][digit_of(held.entries[k], shift)];
            ordered[first + earlier[k]] = held.entries[k];
        }
        __syncthreads();
        // store
        for (i32 n = threadIdx.x; n < static_cast<i32>(total); n += THREADS) {
            const Entry<WORD> entry = ordered[n];
            to[places[digit_of(entry, shift)] + static_cast<WORD>(n)] = entry;
        }
        __syncthreads();
    }
}
