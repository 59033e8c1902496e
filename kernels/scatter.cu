// index_add and scatter_add: values added where indices say, without atomics.
//
//   out[key] = out[key] + sum of values[position] over the sorted entries (key, position)
//
//   scatter_keys     entries[n] = (place(n) + index[n] * step, n), for sort.cu
//   scatter_values   level 0: runs of equal keys among the entries, their values added up
//   scatter_sums     levels above: runs of equal keys among the sums of the level below
//   T: i32 i64 f16 bf16 f32 f64, that of values and out. Layouts: indices and values of any
//   strides; out dense, and holds x already. Every architecture.
//
// index_add addresses slices: a key is an index, and every column of a slice is added up by threads
// of its own, neighbours in neighbouring lanes. scatter_add addresses elements: a key is the place
// in out, and there is one column.
//
// A thread adds up `length` entries of a column one after the other. A run that begins and ends
// among them is done and goes to out; the first run and the last may go on elsewhere, so their sums
// become two entries of the next level, whatever their keys. Levels shrink by length / 2 until one
// thread a column takes all that is left. Which values meet in which order follows from the sorted
// entries and from `length` alone, `length` from the shapes: the same inputs give the same bits.
// Launch: 256 threads a block, a grid-stride loop over entries (scatter_keys), or chunks * columns.
// Shared memory: none.
// Limits: 64 axes. INDEX is i64 where a number or an offset passes 2^31. Sums are kept in sum_t<T>
// and rounded once.
// Source: Blelloch, Heroux, Zagha, Segmented operations for sparse matrix computation on vector
// multiprocessors (1993), for segmented sums over pieces of equal length.
#include "entries.cuh"
#include "indices.cuh"
#include "ops.cuh"
#include "walk.cuh"

[[maybe_unused]] constexpr i32 AT_ONCE = 8;  // entries of a thread in flight
[[maybe_unused]] constexpr i32 BLOCKS_EACH = 3;  // of a multiprocessor, at least

template <typename INDEX>
using word_t = count_t<INDEX>;

// The neutral element of a sum: -0 keeps the sign of every zero.
template <typename SUM>
__device__ __forceinline__ SUM nothing() {
    return is_float<SUM> ? -SUM(0) : SUM(0);
}

// One level: how its entries are cut, and where its sums go. The host packs it, see
// softcuda/backends/cuda/scatter.py.
template <typename INDEX>
struct Level {
    static constexpr i32 VALUES = 0, OUT = 1, SUMS = 2;  // sets of strides
    i64 count;    // entries
    i64 length;   // of a chunk
    i64 threads;  // chunks * columns
    i64 columns;
    i64 out_step;  // elements of out from one key to the next
    Walk<INDEX, 3> walk;  // columns, innermost first, then chunks
};

// A chunk of entries, and one column of it.
template <typename INDEX>
struct Place {
    i64 chunk;
    INDEX offsets[3];

    __device__ __forceinline__ Place(const Level<INDEX>& level, i64 thread) {
        for (INDEX& offset : offsets) offset = 0;
        const i32 last = level.walk.rank - 1;
        visit_axes<INDEX>(level.walk.extents, level.walk.rank, thread, [&](i32 axis, INDEX at) {
            if (axis == last) {
                chunk = at;
                return;
            }
            for (i32 set = 0; set < 3; ++set) offsets[set] += at * level.walk.strides[set][axis];
        });
    }
};

// Where the sums of a chunk and column go.
template <typename T>
struct Sums {
    using Sum = sum_t<T>;
    T* out;     // key 0
    i64 step;   // from one key to the next
    Sum* next;  // the chunk's two entries of the next level, `columns` apart; null on the last
    i64 columns;
    u64* keys;  // of those two; null but for one column

    __device__ __forceinline__ void finish(u64 key, Sum sum) const {
        T& place = out[static_cast<i64>(key) * step];
        place = convert<T>(add(convert<Sum>(place), sum));
    }

    __device__ __forceinline__ void pass_on(i32 which, u64 key, Sum sum) const {
        next[which * columns] = sum;
        if (keys != nullptr) keys[which] = key;
    }

    __device__ __forceinline__ void close_first(u64 key, Sum sum) const {
        if (next == nullptr) {
            finish(key, sum);
        } else {
            pass_on(0, key, sum);
        }
    }

    // `is_only`: the chunk is one run, which is its first and its last.
    __device__ __forceinline__ void close_last(u64 key, Sum sum, bool is_only) const {
        if (next == nullptr) {
            finish(key, sum);
        } else {
            if (is_only) pass_on(0, key, sum);
            pass_on(1, key, is_only ? nothing<Sum>() : sum);
        }
    }
};

// COUNT neighbours of a chunk.
template <typename WORD, typename SUM, i32 COUNT>
struct Batch {
    WORD keys[COUNT];
    SUM x[COUNT];
};

// Level 0: the values of a column, and the sorted entries that say where they go.
template <typename T, typename INDEX>
struct Values {
    using Word = word_t<INDEX>;
    const T* column;
    const Entry<Word>* entries;
    i64 step;  // from the value of one position to the next

    __device__ __forceinline__ Word key(i64 n) const { return entries[n].key; }

    template <i32 COUNT>
    __device__ __forceinline__ void load_batch(i64 n, Batch<Word, sum_t<T>, COUNT>& batch) const {
        T loaded[COUNT];
#pragma unroll
        for (i32 k = 0; k < COUNT; ++k) {
            const Entry<Word> entry = entries[n + k];
            batch.keys[k] = entry.key;
            loaded[k] = column[static_cast<i64>(entry.position) * step];
        }
#pragma unroll
        for (i32 k = 0; k < COUNT; ++k) batch.x[k] = convert<sum_t<T>>(loaded[k]);
    }
};

// Levels above: the sums of a column that the level below passed on.
template <typename SUM>
struct Given {
    using Word = u64;
    const SUM* column;
    const u64* keys;
    i64 step;  // from one sum to the next

    __device__ __forceinline__ u64 key(i64 n) const { return keys[n]; }

    template <i32 COUNT>
    __device__ __forceinline__ void load_batch(i64 n, Batch<u64, SUM, COUNT>& batch) const {
#pragma unroll
        for (i32 k = 0; k < COUNT; ++k) {
            batch.keys[k] = keys[n + k];
            batch.x[k] = column[(n + k) * step];
        }
    }
};

// A run of equal keys that is being added up.
template <typename T, typename WORD>
struct Run {
    using Sum = sum_t<T>;
    WORD key;
    Sum sum = nothing<Sum>();
    bool is_first = true;

    template <i32 COUNT>
    __device__ __forceinline__ void take(const Sums<T>& sums,
                                         const Batch<WORD, Sum, COUNT>& batch) {
#pragma unroll
        for (i32 k = 0; k < COUNT; ++k) {
            if (batch.keys[k] != key) {
                if (is_first) {
                    sums.close_first(key, sum);
                } else {
                    sums.finish(key, sum);
                }
                is_first = false;
                key = batch.keys[k];
                sum = nothing<Sum>();
            }
            sum = add(sum, batch.x[k]);
        }
    }
};

template <typename T, typename SOURCE>
__device__ __forceinline__ void add_runs(const Sums<T>& sums, const SOURCE& source, i64 begin,
                                         i64 end) {
    using Word = typename SOURCE::Word;
    Run<T, Word> run = {source.key(begin)};
    i64 n = begin;
#pragma unroll 1
    for (; n + AT_ONCE <= end; n += AT_ONCE) {
        Batch<Word, sum_t<T>, AT_ONCE> batch;
        source.load_batch(n, batch);
        run.take(sums, batch);
    }
#pragma unroll 1
    for (; n < end; ++n) {
        Batch<Word, sum_t<T>, 1> batch;
        source.load_batch(n, batch);
        run.take(sums, batch);
    }
    sums.close_last(run.key, run.sum, run.is_first);
}

// Adds up every chunk and column of a level; SOURCE(place) is what they read.
template <typename T, typename INDEX, typename SOURCE>
__device__ __forceinline__ void add_chunks(T* out, u64* keys, sum_t<T>* next,
                                           const Level<INDEX>& level, SOURCE source) {
#pragma unroll 1
    for (i64 thread = grid_thread(); thread < level.threads; thread += grid_threads()) {
        const Place<INDEX> place(level, thread);
        const i64 begin = place.chunk * level.length;
        const i64 end = begin + level.length < level.count ? begin + level.length : level.count;
        const INDEX column = place.offsets[level.SUMS];
        const Sums<T> sums = {
            out + place.offsets[level.OUT],
            level.out_step,
            next == nullptr ? nullptr : next + 2 * place.chunk * level.columns + column,
            level.columns,
            column == 0 ? keys + 2 * place.chunk : nullptr,
        };
        add_runs(sums, source(place), begin, end);
    }
}

template <typename INDEX>
__global__ void __launch_bounds__(THREADS)
    scatter_keys(Entry<word_t<INDEX>>* __restrict__ entries, const void* __restrict__ indices,
                 i64* __restrict__ status, i64 count, const __grid_constant__ Walk<INDEX, 2> walk,
                 Indexed indexed, i64 step) {
    static_assert(sizeof(walk) <= 3800, "the parameters fit 4 KiB");
    using Word = word_t<INDEX>;
    make_outputs<INDEX>(entries, count, [&](i64 n) {
        INDEX place = 0, from = 0;
        visit_axes<INDEX>(walk.extents, walk.rank, n, [&](i32 axis, INDEX at) {
            place += at * walk.strides[0][axis];
            from += at * walk.strides[1][axis];
        });
        const i64 key = place + indexed.at(indices, from, status) * step;
        return Entry<Word>{static_cast<Word>(key), static_cast<Word>(n)};
    });
}

// `row_step` is what lies between the values of one position and the next.
template <typename T, typename INDEX>
__global__ void __launch_bounds__(THREADS, BLOCKS_EACH)
    scatter_values(T* __restrict__ out, u64* __restrict__ keys, sum_t<T>* __restrict__ next,
                   const T* __restrict__ values, const Entry<word_t<INDEX>>* __restrict__ entries,
                   const __grid_constant__ Level<INDEX> level, i64 row_step) {
    static_assert(sizeof(level) <= 3800, "the parameters fit 4 KiB");
    add_chunks(out, keys, next, level, [&](const Place<INDEX>& place) {
        return Values<T, INDEX>{values + place.offsets[level.VALUES], entries, row_step};
    });
}

template <typename T>
__global__ void __launch_bounds__(THREADS, BLOCKS_EACH)
    scatter_sums(T* __restrict__ out, u64* __restrict__ keys, sum_t<T>* __restrict__ next,
                 const sum_t<T>* __restrict__ given, const u64* __restrict__ given_keys,
                 const __grid_constant__ Level<i64> level) {
    static_assert(sizeof(level) <= 3800, "the parameters fit 4 KiB");
    add_chunks(out, keys, next, level, [&](const Place<i64>& place) {
        return Given<sum_t<T>>{given + place.offsets[level.SUMS], given_keys, level.columns};
    });
}
