/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is it the network? Where the time of a job's ranks went, step by step, and what its interfaces carried meanwhile, by
 * the calls and segments that black boxes remember. A snapshot goes in; nothing is judged but by these numbers. Only
 * times of one host are subtracted from each other.
 */
#ifndef TUTTI_DIAGNOSIS_NETWORK_H
#define TUTTI_DIAGNOSIS_NETWORK_H

#include "diagnosis/diagnosis.h"

/* What a rank did, or waited for, at a moment: the first of these that holds. */
enum moment {
    MOMENT_NETWORK,  /* data of it was on its way to another host */
    MOMENT_PROGRAM,  /* it was in no call */
    MOMENT_LATE,     /* in a collective: the last rank had not come */
    MOMENT_STARVED,  /* it had data, the receiver wanted it, and nobody put it: no processor */
    MOMENT_RECEIVER, /* it had data, and the receiver did not want it yet */
    MOMENT_SENDER,   /* the receiver wanted data that it did not have yet */
    MOMENT_WAITS, /* in a call, with nothing to send to another host: it waits for others' data, or reduces, or copies
                     within the host */
    MOMENTS
};

struct moments {
    uint64_t ns[MOMENTS]; /* sums over ranks */
    uint64_t charged;     /* of the network, if all ranks of a collective are charged with what that one had whose data
                             was on its way longest: a rank that only receives, too */
};

/* The calls of the largest communicator repeat: so many of them are a step. */
struct network_step {
    uint64_t first; /* number of its first call */
    size_t ranks;   /* that remember all of it */
    uint64_t longest;
    struct moments time;
};

struct network_interface {
    char host[WIRE_BOX_NAME], name[17];
    uint64_t segments, bytes; /* that have landed on other hosts */
    uint64_t busy;            /* ns in which one was on its way */
    uint64_t median, best;    /* ns that the most frequent length took, in order of its lane; `best`: one of eight took
                                 no longer */
    uint32_t length;          /* that one */
    uint32_t rate;            /* Mbit/s as the system tells; 0: it does not */
};

/* Processes that share communicators. */
struct network_job {
    char name[WIRE_BOX_NAME]; /* of the largest communicator */
    size_t ranks, hosts;
    size_t without; /* ranks that have no lane to another host */
    uint64_t seen;  /* ns, the mean over ranks */
    struct moments time;
    size_t period; /* calls of a step; 0: there are no steps */
    struct network_step *steps;
    size_t step_count;
    struct network_interface *interfaces;
    size_t interface_count;
};

struct network_report {
    struct network_job *jobs; /* the largest first */
    size_t count;
};

/* False: no memory. Freed by network_free in both cases. */
bool network_look(const struct snapshot *snapshot, struct network_report *report);
void network_free(struct network_report *report);

/* "network", "program", "late ranks", "no processor", "receiver late", "sender late", "waits" */
const char *moment_name(enum moment moment);
uint64_t moments_sum(const struct moments *moments);
/* What the numbers, and what was found, say of the network, in one sentence. */
void network_conclude(const struct network_job *job, const struct findings *findings, char *out, size_t size);

#endif
