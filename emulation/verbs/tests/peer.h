/* SPDX-License-Identifier: Apache-2.0 */
/* Two processes that do the same random things to each other: the plan of a round, which both can compute. */
#ifndef VERBS_TESTS_PEER_H
#define VERBS_TESTS_PEER_H

#include <stdbool.h>
#include <stdint.h>

#define SLOT_SIZE (256 * 1024)
#define SLOTS     16
#define PIECES    4

enum plan_kind { PLAN_SEND, PLAN_SEND_IMM, PLAN_WRITE, PLAN_WRITE_IMM, PLAN_READ, PLAN_ADD, PLAN_SWAP, PLAN_KINDS };

struct plan {
    enum plan_kind kind;
    uint32_t size;
    int pieces;  /* of the initiator's list */
    int landing; /* of the receiver's list */
    bool signaled, inlined, fenced;
    uint64_t operand;
};

/* splitmix64 */
static inline uint64_t peer_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

#endif
