/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_limits: what its kernels are given. */
#pragma once

#include <cstdint>

/* Pieces of memory that go from from[k] to to[k], k = 0 .. peers - 1, in turns. */
struct Moves {
    uint64_t to[3], from[3], bytes;
    uint32_t peers, unused;
};

constexpr uint32_t MOVE_THREADS = 1024, MOVE_DEPTH = 8, MOVE_PIECE = MOVE_THREADS * MOVE_DEPTH * 16;
constexpr uint32_t BULK_STAGES = 8, BULK_PIECE = 16384;

/* The two ends of messages to and fro. result: nanoseconds, then 1 if all went well. */
struct Talk {
    uint64_t mine, theirs, result, patience;
    uint32_t rounds, first;
};

constexpr uint32_t WARM = 20; /* rounds before time is taken */

struct Fence {
    uint64_t to, result;
    uint32_t rounds, stores; /* of 16 bytes, a thread and round */
};

/* The words of all GPUs: MEET_SIZE bytes for each block of each. */
struct Team {
    uint64_t words[4], result, patience;
    uint32_t me, count, rounds, unused;
};

constexpr uint32_t MEET_SIZE = 64, TEAM_COUNTER = 512 << 10, TEAM_ROUND = TEAM_COUNTER + 256;

struct Nothing {
    uint64_t values[25]; /* 200 bytes, as the library's kernels take */
};
