/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the blocks of rounds lie, and who copies and reduces them: a memory has a backend. Rounds over links say what
 * is to be done; the backend does it at once, or starts it and says later that it is over. docs/engine.md.
 */
#ifndef TUTTI_ENGINE_ROUNDS_MEMORY_H
#define TUTTI_ENGINE_ROUNDS_MEMORY_H

#include "device/reduce.h"

#include <stdatomic.h>
#include <stdint.h>

struct team;

enum rounds_kind { ROUNDS_COPY, ROUNDS_REDUCE, ROUNDS_PREPARE };

enum { ROUNDS_SOURCES = 64 };

/* A piece of work: to[i] = from[0][i] op from[1][i] op ..., in this order. Of copies and preparations there is one
 * source. */
struct rounds_item {
    enum rounds_kind kind;
    bool finishes; /* it completes its block: reduction_finish() comes after it */
    int sources;
    void *to; /* may be one of the sources */
    const void *from[ROUNDS_SOURCES];
    size_t count, size;                /* elements, bytes of one */
    const struct reduction *reduction; /* not of copies */

    /* of what was started */
    struct team *team;
    _Atomic bool done;
    void *state; /* the backend's */
};

enum rounds_done { ROUNDS_DONE, ROUNDS_STARTED };

struct rounds_memory {
    const char *name;
    /* Memory for blocks between rounds; NULL: none. */
    void *(*allocate)(size_t size);
    void (*release)(void *memory, size_t size);
    /* Where links read and write what lies at an address of the user's or of allocate()'s. NULL: there. */
    void *(*place)(void *address);
    /* Does it, or starts it: then rounds_item_done() follows, from any thread. The item stays until then, and what it
     * names is read and written by nobody else. Items of different slices may end in any order. */
    enum rounds_done (*work)(struct rounds_item *item);
    /* When it returns, what was started is over or will never touch memory again. NULL where nothing is started. */
    void (*give_up)(struct rounds_item *item);
};

extern const struct rounds_memory rounds_host;

/* What was started is over: its rounds go on. */
void rounds_item_done(struct rounds_item *item);
/* As the host does it, at once. */
void rounds_item_run(const struct rounds_item *item);

#endif
