/* SPDX-License-Identifier: Apache-2.0 */
/* The calls that a group keeps. */
#ifndef TUTTI_API_GROUP_H
#define TUTTI_API_GROUP_H

#include "comm/comm.h"
#include "engine/p2p.h"
#include "engine/puts.h"

#define FEW 8 /* calls of a group that need no memory of their own */

enum entry_kind { ENTRY_COLLECTIVE, ENTRY_P2P, ENTRY_WINDOW, ENTRY_INIT, ENTRY_SPLIT, ENTRY_DONE };

struct split;

struct entry {
    enum entry_kind kind;
    tutti_comm_t comm;
    tutti_stream_t stream;
    struct call call;
    struct executor_note note; /* of the call, once it is prepared */
    struct p2p_item item;
    struct window_item window;
    size_t *counts;      /* of alltoallv: owned until the operation takes it */
    tutti_comm_t *out;   /* of an init or a split */
    struct split *split; /* owned */
    int batch;           /* batch.c; -1: none */
    size_t place;        /* batch.c: in the order of the calls */
    size_t portion;      /* batch.c: of many messages of a pair */
    size_t number;       /* batch.c: a collective's, of its communicator's in the group */
    struct entry *leader,
        *last; /* batch.c: its communicator's first in the group, and of that the last; NULL: it goes by itself */
    bool joins, beside; /* batch.c: a leader with several streams; the first one on a stream other than its leader's */
};

static inline bool group_goes_on(tutti_result_t so_far)
{
    return so_far == TUTTI_SUCCESS || so_far == TUTTI_IN_PROGRESS;
}

/* Of two results of a group the one that it returns. */
static inline tutti_result_t group_worse(tutti_result_t so_far, tutti_result_t next)
{
    return so_far == TUTTI_SUCCESS || (so_far == TUTTI_IN_PROGRESS && next != TUTTI_SUCCESS) ? next : so_far;
}

/* batch.c: issues the collectives, sends and receives, those for several GPUs at the same time. Issued ones are
 * ENTRY_DONE. */
tutti_result_t batch_issue_all(struct entry *entry, size_t count);

/* windows.c: issues the waits for signals, or all other calls on windows. */
tutti_result_t group_issue_windows(struct entry *entry, size_t count, bool waits);

#endif
