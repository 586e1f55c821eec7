/* SPDX-License-Identifier: Apache-2.0 */
/* What people look at besides findings: the state of each process, who waits for whom, and how long messages take. A
 * snapshot goes in; the reasoning is that of the rules. */
#ifndef TUTTI_DIAGNOSIS_VIEW_H
#define TUTTI_DIAGNOSIS_VIEW_H

#include "diagnosis/diagnosis.h"

/* Where several hold, the graver one counts. */
enum view_state {
    VIEW_OUTSIDE, /* in no operation */
    VIEW_INSIDE,
    VIEW_WAITS, /* inside, and stands still */
    VIEW_ENDED,
    VIEW_SILENT, /* the agent of its host */
    VIEW_FAILED, /* one of its communicators */
    VIEW_TRACED,
    VIEW_STOPPED,
    VIEW_DEAD,
    VIEW_STATES
};

struct view_member {
    size_t process; /* its place in the look */
    const struct blackbox_comm *comm;
    const struct blackbox_op *op; /* not finished; NULL: none */
    uint64_t newest;              /* number of its newest collective; 0: none, or the first */
    int awaited;                  /* rank of this communicator that it waits for; -1: nobody that is known */
    bool stuck;
};

/* Receives of one size from one rank to another. */
struct delay {
    int from, to;
    size_t messages;
    uint64_t ns; /* the median */
    bool slow;   /* beside the others */
    bool told;   /* a finding has it */
};

/* Messages of the most frequent size; others do not compare. */
struct delays {
    struct delay *cells;
    size_t count;
    uint64_t bytes;  /* of a message */
    uint64_t median; /* of all cells; 0: too few to compare */
};

struct view_comm {
    struct view_member *members; /* by rank */
    size_t count;
    struct delays delays;
};

#define VIEW_NOBODY SIZE_MAX

struct view_process {
    enum view_state state;
    int world_rank;               /* in the largest of its communicators; -1: it has none */
    const struct view_member *in; /* what the process waits in; NULL: nothing */
    double holds_up; /* part of the latest calls' time in which the others waited for this process, which came last */
    size_t next;     /* process that this one waits for; VIEW_NOBODY: none that is known */
};

/* The pointers of a view lead into the snapshot. */
struct view {
    struct view_comm *comms;
    struct view_member *members;
    struct view_process *processes; /* one for each box */
    size_t comm_count, process_count;
};

/* False: no memory. */
bool view_open(struct view *view, const struct snapshot *snapshot);
void view_close(struct view *view);
const char *view_state_name(enum view_state state);

#endif
