/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that attend to several things each: whatever rings its bell, or has waited for its time, is looked at. So a
 * process needs one thread for all things of a kind, and not one for each.
 */
#ifndef TUTTI_BASE_ATTEND_H
#define TUTTI_BASE_ATTEND_H

#include "base/list.h"
#include "tutti/tutti.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct attendant;

/* Set the first three. A look must not wait for another thing of the same thread. */
struct attended {
    _Atomic uint32_t *bell;          /* grows, and is woken (futex_wake_all), with news; perhaps of another process */
    uint64_t (*look)(void *context); /* the microseconds until the next one, if the bell does not ring before */
    void *context;

    /* attend.c */
    struct list node;
    struct attendant *by; /* NULL: nobody */
    uint32_t heard;       /* the bell, in front of the last look */
    uint64_t due;         /* the next one; ns */
};

/*
 * From here on it is looked at, by a thread of that name and key: one that is there, or a new one. Where the kernel
 * cannot let a thread wait for several bells (before Linux 5.16) each thing has a thread of its own.
 */
tutti_result_t attend_begin(struct attended *attended, const char *name, uint64_t key);
/* When this returns it is not being looked at, and will not be. Nothing if it is not attended. */
void attend_end(struct attended *attended);

static inline bool attend_is_on(const struct attended *attended)
{
    return attended->by != NULL;
}

/* Things that a thread can attend to. For tests: at most `most` from here on; 0: as many as the kernel lets it. */
int attend_most(void);
void attend_set_most(int most);

#endif
