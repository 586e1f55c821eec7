/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small owner for the transport under test: it notes every upcall, and gives out memory for puts. A party is one
 * process's side: two of them live in one process, or one in each of two processes that were forked.
 */
#ifndef TUTTI_TESTS_OWNER_H
#define TUTTI_TESTS_OWNER_H

#include "transport/transport.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#define MOST_ENDS 64

enum note_kind {
    NOTE_UP,
    NOTE_ACCEPTED,
    NOTE_DOWN,
    NOTE_MESSAGE,
    NOTE_TARGET,
    NOTE_ARRIVED,
    NOTE_SENT,
    NOTE_WRITABLE,
    NOTE_UNREADABLE,
    NOTE_UNWRITABLE,
    NOTE_LENT,
    NOTE_COPIED,
    NOTE_SHARED
};

/* One upcall. */
struct note {
    enum note_kind kind;
    uint64_t id; /* imm, token, key or result */
    uint64_t offset, length;
    uint64_t hash; /* of the bytes */
    int fd;
};

struct party;

/* One end of one lane. */
struct end {
    struct party *party;
    struct lane *lane;       /* NULL once closed */
    struct wire_hello hello; /* of an accepted lane */
    struct note *notes;
    size_t count, room;
    size_t counts[NOTE_SHARED + 1];
    uint8_t *area; /* puts go to area + offset */
    size_t area_size;
    int area_device; /* struct place's */
    bool drop;       /* target() says NULL */
    bool leaves;     /* what is lent stays where it lies */
    size_t left;     /* how often that was asked */
    bool quiet;      /* count only */
    void (*hook)(struct end *end, const struct note *note, const void *bytes);
    void *hook_context;
};

struct party {
    struct poller *poller;
    struct wire_process self;
    const struct transport_ops *ops;
    struct transport *transport;
    struct end *ends[MOST_ENDS];
    int count;
    int64_t memory; /* of lanes, as told */
    int flushed;    /* the latest token */
    bool refuses;   /* closes lanes that it should accept */
    bool declines;  /* takes no lanes now */
    void (*greets)(struct end *end, const struct note *note,
                   const void *bytes); /* hook of accepted ends, from the first note on */
};

/* The transport under test. */
extern const struct transport_ops *under_test;

void party_open(struct party *party);
void party_open_as(struct party *party, const uint8_t *uuid);
/* False: the transport cannot be opened, and error_last() says why. */
bool party_try_open(struct party *party, const uint8_t *uuid);
void party_close(struct party *party);
/* Polls once, the way an engine does: transport and, now and then, the poller. */
int party_step(struct party *party);
/* Sleeps until there is news, at most `ms`. */
void party_sleep(struct party *party, int ms);

struct end *end_new(struct party *party);
/* Opens lane `index` to `peer`; an end whose up or down follows. */
struct end *end_open(struct party *party, const struct wire_process *peer, uint16_t index, uint32_t epoch);
void end_close(struct end *end);
/* Closes it and forgets what it noted. */
void end_drop(struct end *end);
/* The end that `party` accepted as lane `index`, NULL if none yet. */
struct end *end_accepted(struct party *party, uint16_t index);
const struct note *end_last(const struct end *end, enum note_kind kind);

/* Two parties of one process, and a lane between them. */
struct pair {
    struct party a, b;
    struct end *at, *bt;
};
void pair_open(struct pair *pair);
void pair_close(struct pair *pair);
void pair_step(struct pair *pair);

/* For a sanitizer on a busy machine. */
#define CONFORMANCE_PATIENCE_MS 240000

/* Polls both until `condition`; fails the test when that takes too long. */
#define pair_until(pair, condition)                                                                                    \
    do {                                                                                                               \
        uint64_t pair_deadline = clock_deadline_ms(CONFORMANCE_PATIENCE_MS);                                           \
        while (!(condition)) {                                                                                         \
            pair_step(pair);                                                                                           \
            if (clock_passed(pair_deadline))                                                                           \
                fail_msg("waited in vain for: %s", #condition);                                                        \
        }                                                                                                              \
    } while (0)
#define party_until(party, condition)                                                                                  \
    do {                                                                                                               \
        uint64_t party_deadline = clock_deadline_ms(CONFORMANCE_PATIENCE_MS);                                          \
        while (!(condition)) {                                                                                         \
            party_step(party);                                                                                         \
            if (clock_passed(party_deadline))                                                                          \
                fail_msg("waited in vain for: %s", #condition);                                                        \
        }                                                                                                              \
    } while (0)

/* Memory of a party that its hardware knows: KNOWN_LENGTH bytes, 0 at first. */
#define KNOWN_LENGTH (1 << 20)
struct known_bytes {
    uint8_t *bytes;
    struct transport_memory *memory;
    struct wire_remote remote; /* for the peer */
};
void know(struct party *party, struct known_bytes *known);
void forget(struct party *party, struct known_bytes *known);
/* From `offset` of the source to where `remote` and the offset say. */
tutti_result_t put_direct(struct end *end, const struct known_bytes *source, const struct wire_remote *remote,
                          size_t offset, size_t length, uint64_t token);

/* A message of `length` bytes made of `seed`, cut in `parts` parts. */
tutti_result_t send_pattern(struct end *end, uint64_t seed, size_t length, int parts);
void fill_pattern(void *bytes, size_t length, uint64_t seed);
bool has_pattern(const void *bytes, size_t length, uint64_t seed);
uint64_t pattern_hash(const void *bytes, size_t length);

/* Deterministic random numbers. */
uint64_t random_next(uint64_t *state);

#endif
