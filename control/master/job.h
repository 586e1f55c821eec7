/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All processes of a job, as the agents of its hosts report them: reports go in, looks for the rules come out. The time
 * is an argument, nothing is asked. Not for two threads at once, but a look may be used and freed beside a report that
 * is taken.
 */
#ifndef TUTTI_MASTER_JOB_H
#define TUTTI_MASTER_JOB_H

#include "report/report.h"

#include "base/clock.h"
#include "base/slots.h"

#define JOB_HOSTS    32768u
#define JOB_SOURCE   64
#define JOB_WAY      160
#define JOB_BYTES    (2048ull << 20) /* of memory for the reports of all hosts */
#define JOB_FROM_ONE (512ull << 20)  /* for the reports of one address */
#define JOB_SILENT_NS                                                                                                  \
    (3 * NS_PER_S) /* after this silence a host counts as silent, and another agent may take its name */
#define JOB_FORGET_NS (600 * NS_PER_S) /* after this silence the host's processes are forgotten */
#define JOB_DEAD_NS                                                                                                    \
    (60 * NS_PER_S) /* a dead process is looked at for this time if no living one shares a communicator with it */

/* Hosts report their lanes from time to time, and all do while a lane seems slow: segments are too many to be sent each
 * second. Of a larger job this many hosts have a turn at once, and then the next ones. */
#define JOB_LANES_EVERY_NS (30 * NS_PER_S)
#define JOB_LANES_FOR_NS   (5 * NS_PER_S)
#define JOB_LANES_HOSTS    64u

/* How many turns it takes until each host has had one. */
size_t job_lanes_turns(size_t hosts);

/* Where a report came from. */
struct job_origin {
    const char *source, *way;
};

struct job_host {
    char name[WIRE_BOX_NAME];
    char source[JOB_SOURCE]; /* the address of its latest report: of the agent that passed it on, if one did */
    char way[JOB_WAY];       /* the addresses and hosts on the way, for people */
    uint64_t agent, number, heard, reports;
    int64_t clock; /* ns that its CLOCK_REALTIME is behind ours, or less: a report's shortest way is in it */
    uint32_t left_out, unreadable;
    struct job_process *processes;
    size_t count, bytes; /* bytes: of memory */
    uint64_t lanes;      /* the time until which somebody looks at its lanes */
};

struct master_job {
    struct job_host *hosts;
    size_t count, bytes; /* bytes: of all hosts */
    struct slots names;  /* of hosts */
    uint64_t lanes;      /* the time until which lanes of all hosts are looked at */
};

enum job_answer { JOB_TAKEN, JOB_WANTS_ALL, JOB_REFUSES };

/* Moves what the job needs out of the report, which the caller frees. `now`: CLOCK_MONOTONIC, `day`: CLOCK_REALTIME.
 * JOB_REFUSES after error_note. */
enum job_answer job_take(struct master_job *job, struct report *report, const struct job_origin *origin, uint64_t now,
                         uint64_t day);
/* Notes that somebody looks at the lanes of this host until this time. */
void job_look_at_lanes(struct master_job *job, const char *host, uint64_t until);
/* Looks at the lanes of all hosts for a while, because lanes seem slow. */
void job_look_closer(struct master_job *job, uint64_t now);
bool job_wants_lanes(const struct master_job *job, const char *host, uint64_t now);
/* What the boxes of a host have had no place for, so far. */
struct job_unrecorded {
    uint64_t comms, lanes;
};
struct job_unrecorded job_unrecorded(const struct job_host *host);
/* Drops hosts that have been silent for JOB_FORGET_NS. */
void job_forget(struct master_job *job, uint64_t now);
void job_free(struct master_job *job);

/* What the rules look at: whole, also when later reports come. */
struct job_look {
    struct look look;
    struct blackbox *copies; /* the outermost parts; the calls of a communicator are shared */
    struct job_box **shared;
    int64_t *clocks; /* for each box: ns that its host's CLOCK_REALTIME is behind ours, as far as it is known */
};

/* False: no memory. */
bool job_look(const struct master_job *job, uint64_t now, struct job_look *out);
void job_look_free(struct job_look *look);

#endif
