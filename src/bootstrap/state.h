/* SPDX-License-Identifier: Apache-2.0 */
/* A rank that has joined: one connection to send on and one to receive on for each power of two below n. */
#ifndef TUTTI_BOOTSTRAP_STATE_H
#define TUTTI_BOOTSTRAP_STATE_H

#include "bootstrap/bootstrap.h"
#include "wire/bootstrap.h"

struct bootstrap {
    int rank, nranks, steps;
    uint64_t deadline;
    const bootstrap_stop_t *abort;
    struct bootstrap_counters counters;
    uint32_t sequence;
    tutti_result_t broken; /* of the first failure */
    struct boot_failed failure;
    char root[NET_TEXT + 32];                          /* where the ranks met, and who opened it */
    int out_fd[BOOT_STEPS_MAX], in_fd[BOOT_STEPS_MAX]; /* to rank + 2^step, from rank - 2^step; -1: not connected */
};

struct bootstrap *bootstrap_new(int rank, int nranks, uint64_t deadline_ns, const bootstrap_stop_t *abort);

/* Why this rank is to end; reason 0: it is not. */
struct boot_failed bootstrap_stopped(const bootstrap_stop_t *abort, int rank);
enum boot_reason bootstrap_reason(enum bootstrap_refusal how);

/* Tells those that wait for this rank, now or in later steps, why it goes no further: else they would blame it. */
void bootstrap_tell(struct bootstrap *bootstrap, const struct boot_failed *why);

static inline int bootstrap_target(const struct bootstrap *bootstrap, int step)
{
    return (int)((bootstrap->rank + (1ll << step)) % bootstrap->nranks);
}

static inline int bootstrap_source(const struct bootstrap *bootstrap, int step)
{
    return (int)((bootstrap->rank - (1ll << step) + bootstrap->nranks) % bootstrap->nranks);
}

#endif
