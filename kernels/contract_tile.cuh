// Boxes of a contraction in shared memory: which elements a thread moves, which sums it holds.
//
//   Box            extents of a block's box of rows x columns x depth and of a thread's part
//   BoxLine        where rows lie among those of one k
//   Corner         which rows and columns of the box a thread sums
//   BoxFragments   a thread's factors of one k
//   Entry          where a row of an operand is read from, and where in the box it is held
//   BoxLoader      fetch: a step's elements on their way; stash: what came through registers into
//                  shared memory, [BLOCK_K][STRIDE], rows beside each other, in the compute type
//
// Rows are read in the order of their entries, which is that of the operand's memory, and held in
// the order of the box, which is that of the result's: the way to shared memory reorders them.
//
//   ROWS_SINGLE    neighbouring threads read neighbouring rows
//   ROWS_VECTOR    the same, a vector of rows that are neighbours in the box too
//   ROWS_APART     the same, a vector of rows that lie `pitch` apart in the box
//   DEPTH_SINGLE   neighbouring threads read neighbours along the depth
//
// Elements that need no conversion and are not Made (made.cuh) go to shared memory at once, from
// sm_80 on without a wait (cp.async), except those of vectors that are taken apart. Vectors are
// read element by element where the operand's address is no multiple of one.
// Edges: what lies beyond the depth is not read, and stale in shared memory: the caller does not
// multiply it. Entries of rows that do not exist name a row that does.
// Shared memory: STRIDE is ROWS and one vector more, so that reads along the depth spread over the
// banks. Long lines have a gap of a vector behind every 128 bytes: what lies beside each other in
// the operand is often 128 bytes apart in the box, or a multiple of it.
// Source: as in tile.cuh; Matthews, High-Performance Tensor Contraction without Transposition
// (2018), for the tables of rows and depths.
#pragma once

#include "tile_loader.cuh"

// DEPTHS steps of BLOCK_K are in shared memory at once; WIDE_M threads of a warp lie along m;
// a multiprocessor is to hold BLOCKS blocks; copies of a step start before its k FETCH, among the
// products of that k, or in front of the step where FETCH is negative.
template <i32 M, i32 N, i32 K, i32 PART_M, i32 PART_N, i32 DEPTHS, i32 WIDE_M, i32 BLOCKS,
          i32 FETCH>
struct Box {
    static constexpr i32 BLOCK_M = M;
    static constexpr i32 BLOCK_N = N;
    static constexpr i32 BLOCK_K = K;
    static constexpr i32 THREAD_M = PART_M;
    static constexpr i32 THREAD_N = PART_N;
    static constexpr i32 STAGES = DEPTHS;
    static constexpr i32 LANES_M = WIDE_M;
    static constexpr i32 LANES_N = WARP / WIDE_M;
    static constexpr i32 RESIDENT = BLOCKS;
    static constexpr i32 FETCH_K = FETCH;
    static constexpr i32 THREADS = (M / PART_M) * (N / PART_N);
    static constexpr i32 WARPS_N = N / (LANES_N * PART_N);

    static_assert(M % (LANES_M * PART_M) == 0, "warps tile the box along m");
    static_assert(N % (LANES_N * PART_N) == 0, "warps tile the box along n");
    static_assert(K % 2 == 0, "two sets of fragments take turns");
    static_assert(STAGES >= 2, "one stage is filled while another is read");
    static_assert(FETCH_K + 1 < K, "copies start before the step's barrier");
};

template <typename C, i32 ROWS>
struct BoxLine {
    static constexpr i32 GROUP = ROWS < 128 ? ROWS : 128 / static_cast<i32>(sizeof(C));
    static constexpr bool HAS_GAPS = GROUP < ROWS;

    __device__ static constexpr __forceinline__ i32 held(i32 row) {
        return HAS_GAPS ? row + row / GROUP * FRAGMENT<C> : row;
    }
    static constexpr i32 STRIDE = ROWS + (HAS_GAPS ? ROWS / GROUP + 1 : 1) * FRAGMENT<C>;

    // Whether a thread's part, LANES wide, lies at constant distances from its first row.
    static constexpr bool suits(i32 lanes, i32 part) {
        return !HAS_GAPS || lanes * FRAGMENT<C> % GROUP == 0 || lanes * part % GROUP == 0;
    }
};

// A thread's place in the box: warps row-major, LANES_M x LANES_N threads a warp. Half a warp has
// at most 8 different vectors of an operand: its load is one access of shared memory.
template <typename BOX, typename C>
struct Corner {
    static constexpr i32 WIDTH = FRAGMENT<C>;
    static constexpr i32 LANES_M = BOX::LANES_M, LANES_N = BOX::LANES_N;
    i32 first_row, first_column;

    __device__ __forceinline__ explicit Corner(i32 thread) {
        const i32 warp = thread / WARP, lane = thread % WARP;
        const i32 of_two = lane >> 1 & 1, of_four = lane >> 1 & 3;
        const i32 of_eight = (lane & 1) | (lane >> 2 & 6);
        const i32 of_sixteen = (lane & 1) | (lane >> 1 & 14);
        // Lanes of a warp along one side, and what is left of the warp along the other.
        static_assert(LANES_M == 2 || LANES_M == 4 || LANES_M == 8 || LANES_M == 16, "lanes");
        constexpr bool IS_TALL = LANES_M >= 8;
        constexpr i32 MANY = IS_TALL ? LANES_M : LANES_N;
        const i32 many = MANY == 8 ? of_eight : of_sixteen, few = MANY == 8 ? of_four : of_two;
        const i32 lane_m = IS_TALL ? many : few, lane_n = IS_TALL ? few : many;
        first_row = warp / BOX::WARPS_N * BOX::THREAD_M * LANES_M + lane_m * WIDTH;
        first_column = warp % BOX::WARPS_N * BOX::THREAD_N * LANES_N + lane_n * WIDTH;
    }
    __device__ __forceinline__ i32 row(i32 i) const {
        return first_row + i / WIDTH * WIDTH * LANES_M + i % WIDTH;
    }
    __device__ __forceinline__ i32 column(i32 j) const {
        return first_column + j / WIDTH * WIDTH * LANES_N + j % WIDTH;
    }
};

// ---- factors ------------------------------------------------------------------------------------

template <typename BOX, typename C>
struct BoxFragments : Fragments<BOX, C> {
    using LineA = BoxLine<C, BOX::BLOCK_M>;
    using LineB = BoxLine<C, BOX::BLOCK_N>;
    static_assert(LineA::suits(BOX::LANES_M, BOX::THREAD_M), "rows of a thread and the gaps");
    static_assert(LineB::suits(BOX::LANES_N, BOX::THREAD_N), "columns of a thread and the gaps");

    // `line_a` and `line_b` start at this thread's first row and column.
    __device__ __forceinline__ void read(const C* line_a, const C* line_b) {
        constexpr i32 WIDTH = FRAGMENT<C>;
#pragma unroll
        for (i32 i = 0; i < BOX::THREAD_M; i += WIDTH) {
            const auto piece = load<WIDTH>(line_a + LineA::held(i * BOX::LANES_M));
#pragma unroll
            for (i32 lane = 0; lane < WIDTH; ++lane) this->a[i + lane] = piece.lanes[lane];
        }
#pragma unroll
        for (i32 j = 0; j < BOX::THREAD_N; j += WIDTH) {
            const auto piece = load<WIDTH>(line_b + LineB::held(j * BOX::LANES_N));
#pragma unroll
            for (i32 lane = 0; lane < WIDTH; ++lane) this->b[j + lane] = piece.lanes[lane];
        }
    }
};

// ---- loads --------------------------------------------------------------------------------------

template <typename OFFSET>
struct Entry {
    OFFSET from;  // in the operand, from the first row of the box [elements]
    i32 place;    // in the box
};

constexpr i32 ROWS_APART = 5;  // beside the ways of tile_loader.cuh

// SWAPS: rows of each pair are held the other way round, where they are moved one by one.
template <typename S, typename T, typename BOX, i32 ROWS, i32 WAY, typename OFFSET, bool SWAPS>
struct BoxLoader {
    using C = compute_t<T>;
    using Line = BoxLine<C, ROWS>;
    static constexpr bool IS_ALONG_DEPTH = WAY == DEPTH_SINGLE;
    static constexpr bool IS_SINGLE = WAY == ROWS_SINGLE || WAY == DEPTH_SINGLE;
    static constexpr bool IS_TAKEN_APART = WAY == ROWS_APART;
    static constexpr bool IS_DIRECT = is_same<S, C> && !IS_TAKEN_APART;
    static constexpr i32 BLOCK_K = BOX::BLOCK_K, THREADS = BOX::THREADS;
    static constexpr i32 RUN = IS_SINGLE ? 1 : FRAGMENT<C>;  // elements of a piece
    static constexpr i32 STRIDE = Line::STRIDE;
    static constexpr i32 SIZE = BLOCK_K * STRIDE;
    static constexpr i32 ENTRIES = ROWS / RUN;
    static constexpr i32 COUNT = ENTRIES * BLOCK_K;
    static constexpr i32 PIECES = ceil_divide(COUNT, THREADS);
    static constexpr i32 GROUP = PIECES < 8 ? PIECES : 8;
    static constexpr i32 BYTES = sizeof(S) * RUN;
    static constexpr bool IS_SWAPPED = SWAPS && WAY != ROWS_VECTOR;
    static constexpr i32 TURN = IS_SWAPPED ? 1 : 0;
    static_assert(WAY == ROWS_VECTOR || IS_SINGLE || IS_TAKEN_APART, "a way to read");
    static_assert(BYTES <= 16, "a vector of the operand is one access");

    bool is_aligned;
    i32 pitch;  // of ROWS_APART
    S staged[IS_DIRECT ? 1 : PIECES * RUN];
    Making<S> making;

    // Where what an entry of no row reads, the first one once more, is held: of vectors that are
    // taken apart again where it belongs, since their last elements would lie beyond the box.
    __device__ static constexpr __forceinline__ i32 spare(i32 place) {
        return WAY == ROWS_APART ? TURN : Line::held(place ^ TURN);
    }
    // What an entry says of a place of the box.
    __device__ static constexpr __forceinline__ i32 placed(i32 place) {
        return WAY == ROWS_APART ? place ^ TURN : Line::held(place ^ TURN);
    }

    // Calls VISIT(piece, entry, k) for every piece from `first` to `last` that this thread moves,
    // if it is one of the first `left` k, or of all.
    template <bool TAKES_ALL, typename VISIT>
    __device__ __forceinline__ static void pieces(i32 first, i32 last, i32 left, VISIT visit) {
        constexpr i32 LINE = IS_ALONG_DEPTH ? BLOCK_K : ENTRIES;
        constexpr bool IS_WHOLE = THREADS % LINE == 0;  // a thread's place in a line is always one
        const i32 near = threadIdx.x % LINE, far = threadIdx.x / LINE;
#pragma unroll
        for (i32 piece = first; piece < last; ++piece) {
            const i32 number = threadIdx.x + piece * THREADS;
            const i32 inner = IS_WHOLE ? near : number % LINE;
            const i32 outer = IS_WHOLE ? far + piece * (THREADS / LINE) : number / LINE;
            const i32 k = IS_ALONG_DEPTH ? inner : outer;
            const bool is_there = PIECES * THREADS == COUNT || number < COUNT;
            if (!is_there || (!TAKES_ALL && k >= left)) continue;
            visit(piece, IS_ALONG_DEPTH ? outer : inner, k);
        }
    }

    // WIDTH neighbours into shared memory, or into registers.
    template <i32 WIDTH>
    __device__ __forceinline__ static void move(const S* from, C* to, S* held) {
        if constexpr (!IS_DIRECT && sizeof(S) * WIDTH == 16) {
            const auto read = bit_cast<Words<S, WIDTH>>(ptx::load_line(from)).parted();
#pragma unroll
            for (i32 i = 0; i < WIDTH; ++i) held[i] = read.lanes[i];
        } else if constexpr (!IS_DIRECT) {
            const auto read = load_constant<WIDTH>(from);
#pragma unroll
            for (i32 i = 0; i < WIDTH; ++i) held[i] = read.lanes[i];
        } else if constexpr (__CUDA_ARCH__ < 800) {
            store(to, load_constant<WIDTH>(from));
        } else {
            ptx::copy_async_line<sizeof(S) * WIDTH>(to, from);
        }
    }

    // Starts the way of a step of at most `left` k; `depths` holds the offsets of its k. Tables are
    // read before copies, GROUP at a time: the compiler moves no read across a copy, and a thread
    // would wait for each of them in turn. IS_PLAIN: of an aligned operand, beyond `left` too,
    // where `depths` names some k that exists: without a branch, so that products run beside it.
    template <bool IS_PLAIN>
    __device__ __forceinline__ void fetch(const S* first, const Entry<OFFSET>* entries,
                                          const OFFSET* depths, i32 left, C* tile) {
#pragma unroll
        for (i32 group = 0; group < PIECES; group += GROUP) {
            const i32 last = min(group + GROUP, PIECES);
            OFFSET from[GROUP];
            i32 to[GROUP];
            pieces<true>(group, last, left, [&](i32 piece, i32 number, i32 k) {
                const Entry<OFFSET> entry = entries[number];
                from[piece - group] = entry.from + depths[k];
                to[piece - group] = k * STRIDE + entry.place;
            });
            if (IS_PLAIN || RUN == 1 || is_aligned) {
                pieces<IS_PLAIN>(group, last, left, [&](i32 piece, i32, i32) {
                    const i32 at = piece - group;
                    move<RUN>(first + from[at], tile + to[at], held_of(piece));
                });
            } else {
                pieces<false>(group, last, left, [&](i32 piece, i32, i32) {
                    const i32 at = piece - group;
#pragma unroll
                    for (i32 i = 0; i < RUN; ++i) {
                        S* const held = held_of(piece) + (IS_DIRECT ? 0 : i);
                        move<1>(first + from[at] + i, tile + to[at] + i, held);
                    }
                });
            }
        }
    }
    __device__ __forceinline__ S* held_of(i32 piece) {
        return staged + (IS_DIRECT ? 0 : piece * RUN);
    }

    // Ends the way of what `fetch` brought to registers.
    template <bool IS_PLAIN>
    __device__ __forceinline__ void stash(const Entry<OFFSET>* entries, i32 left, C* tile) const {
        if constexpr (IS_DIRECT) return;
        pieces<IS_PLAIN>(0, PIECES, left, [&](i32 piece, i32 number, i32 k) {
            const i32 place = entries[number].place;
            Vector<C, RUN> written;
#pragma unroll
            for (i32 i = 0; i < RUN; ++i) {
                written.lanes[i] = as_factor<T>(staged[piece * RUN + i], making);
            }
            if constexpr (IS_TAKEN_APART) {
#pragma unroll
                for (i32 i = 0; i < RUN; ++i) {
                    tile[k * STRIDE + Line::held(place + i * pitch)] = written.lanes[i];
                }
            } else {
                store(tile + k * STRIDE + place, written);
            }
        });
    }
};
