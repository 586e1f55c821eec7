/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All processes of a job, as the agents of its hosts have told of them: reports go in, looks for the rules come out.
 * The time is an argument, nothing is asked. Not for two threads at once, but a look may be used and freed beside a
 * report that is taken.
 */
#ifndef TUTTI_MASTER_JOB_H
#define TUTTI_MASTER_JOB_H

#include "report/report.h"

#include "base/clock.h"

#define JOB_HOSTS     4096u
#define JOB_SOURCE    64
#define JOB_WAY       160
#define JOB_BYTES     (2048ull << 20)  /* of memory for what all hosts tell */
#define JOB_FROM_ONE  (512ull << 20)   /* for what comes from one address */
#define JOB_SILENT_NS (3 * NS_PER_S)   /* from then on a host counts as silent, and another agent may take its name */
#define JOB_FORGET_NS (600 * NS_PER_S) /* and its processes are forgotten */
#define JOB_DEAD_NS   (60 * NS_PER_S)  /* for so long a dead process is looked at that no living one has to do with */

/* From time to time all hosts tell of their lanes, and as long as one seems slow: segments are too many to be told each
 * second. Of larger jobs they would be too many at once. */
#define JOB_LANES_EVERY_NS (30 * NS_PER_S)
#define JOB_LANES_FOR_NS   (5 * NS_PER_S)
#define JOB_LANES_HOSTS    64u

/* Where a report came from. */
struct job_origin {
    const char *source, *way;
};

struct job_host {
    char name[WIRE_BOX_NAME];
    char source[JOB_SOURCE]; /* the address that its latest report came from: of an agent that passed it on, if one did
                              */
    char way[JOB_WAY];       /* over which addresses and hosts, for people */
    uint64_t agent, number, heard, reports;
    int64_t clock; /* ns that its CLOCK_REALTIME is behind ours, or less: the shortest way of a report is in it */
    uint32_t left_out, unreadable;
    struct job_process *processes;
    size_t count, bytes; /* bytes: of memory */
    uint64_t lanes;      /* until then somebody looks at its lanes */
};

struct master_job {
    struct job_host *hosts;
    size_t count;
    uint64_t lanes; /* until then lanes of all hosts are looked at */
};

enum job_answer { JOB_TAKEN, JOB_WANTS_ALL, JOB_REFUSES };

/* Moves what it needs out of the report, which the caller frees. `now`: CLOCK_MONOTONIC, `day`: CLOCK_REALTIME.
 * JOB_REFUSES after error_note. */
enum job_answer job_take(struct master_job *job, struct report *report, const struct job_origin *origin, uint64_t now,
                         uint64_t day);
/* Somebody looks at the lanes of this host, until then. */
void job_look_at_lanes(struct master_job *job, const char *host, uint64_t until);
/* Lanes seem slow: those of all hosts are looked at for a while. */
void job_look_closer(struct master_job *job, uint64_t now);
bool job_wants_lanes(const struct master_job *job, const char *host, uint64_t now);
/* Drops hosts that have been silent for long. */
void job_forget(struct master_job *job, uint64_t now);
void job_free(struct master_job *job);

/* What the rules look at. Whole, whatever comes later. */
struct job_look {
    struct look look;
    struct blackbox *copies; /* of the outermost part: what a communicator did is shared */
    struct job_box **shared;
    int64_t *clocks; /* of each box: ns that its host's CLOCK_REALTIME is behind ours, as far as that is known */
};

/* False: no memory. */
bool job_look(const struct master_job *job, uint64_t now, struct job_look *out);
void job_look_free(struct job_look *look);

#endif
