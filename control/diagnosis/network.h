/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is it the network? Shows where the time of a job's ranks went, step by step, and what the interfaces carried
 * meanwhile. The calls and segments of black boxes are the source. A snapshot goes in; only these numbers are judged.
 * Only times of one host are subtracted from each other.
 */
#ifndef TUTTI_DIAGNOSIS_NETWORK_H
#define TUTTI_DIAGNOSIS_NETWORK_H

#include "diagnosis/diagnosis.h"

/* What a rank did, or waited for, at a moment: the first of these that holds. */
enum moment {
    MOMENT_NETWORK,  /* data of this rank was on its way to another host */
    MOMENT_PROGRAM,  /* the rank was in no call */
    MOMENT_LATE,     /* in a collective: the last rank had not come */
    MOMENT_STARVED,  /* the rank had data, the receiver wanted it, and nobody put it: no processor */
    MOMENT_RECEIVER, /* the rank had data, and the receiver did not want it yet */
    MOMENT_SENDER,   /* the receiver wanted data that the rank did not have yet */
    MOMENT_WAITS, /* in a call without data for another host: it waits for others' data, reduces, or copies in the host
                   */
    MOMENTS
};

struct moments {
    uint64_t ns[MOMENTS]; /* sums over ranks */
    uint64_t charged; /* network time, if each rank is charged with the longest one of its collective; a rank that only
                         receives, too */
};

/* A step of the largest communicator, whose calls repeat. */
struct network_step {
    uint64_t first; /* number of its first call */
    size_t ranks;   /* ranks that remember the whole step */
    uint64_t longest;
    struct moments time;
};

struct network_interface {
    char host[WIRE_BOX_NAME], name[17];
    uint64_t segments, bytes; /* what has landed on other hosts */
    uint64_t busy;            /* ns in which a segment was on its way */
    uint64_t median,
        best; /* ns of a segment of the most frequent length, in its lane's order; `best`: one in eight is no slower */
    uint32_t length; /* the most frequent length */
    uint32_t rate;   /* Mbit/s as the system tells; 0: unknown */
};

/* Processes that share communicators. */
struct network_job {
    char name[WIRE_BOX_NAME]; /* of the largest communicator */
    size_t ranks, hosts;
    size_t without; /* ranks without a lane to another host */
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

/* False: no memory. The caller frees the report by network_free in both cases. */
bool network_look(const struct snapshot *snapshot, struct network_report *report);
void network_free(struct network_report *report);

/* "network", "program", "late ranks", "no processor", "receiver late", "sender late", "waits" */
const char *moment_name(enum moment moment);
uint64_t moments_sum(const struct moments *moments);
/* One sentence: what the numbers and the findings say of the network. */
void network_conclude(const struct network_job *job, const struct findings *findings, char *out, size_t size);

#endif
