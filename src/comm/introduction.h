/* SPDX-License-Identifier: Apache-2.0 */
/* What every rank tells every other when they meet, and whether ranks that say so fit together. */
#ifndef TUTTI_COMM_INTRODUCTION_H
#define TUTTI_COMM_INTRODUCTION_H

#include "base/param.h"
#include "base/sparse.h"
#include "wire/rank.h"

struct introduction {
    uint32_t version; /* first: what follows depends on it */
    uint32_t on_device;
    uint64_t random;   /* rank 0's makes the communicator's id */
    uint64_t choices;  /* a hash of the table of algorithms */
    uint64_t settings; /* a hash of those that must agree */
    struct wire_process process;
    struct rank_fact fact;
};

/* The values of settings that must agree, in the table's order; hashes of those that are text. Sent where their hashes
 * differ. */
struct settings {
    uint64_t value[PARAM_SAME_COUNT];
};
void settings_here(struct settings *out);
uint64_t settings_hash(const struct settings *settings);

/* Fills in all but process, fact and random. */
void introduction_begin(struct introduction *out, bool on_device, uint64_t choices);

/* As it is sent: without zeros, for each of thousands gets all. Most fit into what all send first. */
#define INTRODUCTION_MOST  SPARSE_MOST(sizeof(struct introduction))
#define INTRODUCTION_FIRST 190
struct introduction_first {
    uint16_t bytes; /* of the packed form; what is behind the first ones is sent by all who have as much */
    uint8_t packed[INTRODUCTION_FIRST];
};
void introduction_pack(const struct introduction *mine, struct introduction_first *first,
                       uint8_t more[INTRODUCTION_MOST]);
/* The packed forms of all, by rank: what they sent first, and `each` bytes of each behind that. */
struct introductions {
    int nranks;
    size_t each;
    const struct introduction_first *first;
    const uint8_t *more;
};
/* Bytes of each that first[] says are behind. */
size_t introductions_more(const struct introduction_first *first, int nranks);
/* What the rank said, in `room`. NULL: no introduction. introductions_compare() refuses it, so later there is one. */
const struct introduction *introduction_of(const struct introductions *all, int rank, struct introduction *room);

/*
 * Do all fit rank `me`? An error says which rank does not and why. TUTTI_IN_PROGRESS: settings differ, and all ranks
 * find so: each is to tell its settings, and settings_refuse() knows which differ.
 */
tutti_result_t introductions_compare(const struct introductions *all, int me);
/* Always an error. */
tutti_result_t settings_refuse(const struct introductions *said, const struct settings *all, int me);

#endif
