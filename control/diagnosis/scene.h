/* SPDX-License-Identifier: Apache-2.0 */
/* A snapshot, sorted: every rank of every communicator, and the rank that it waits for. Only the rules use it. */
#ifndef TUTTI_DIAGNOSIS_SCENE_H
#define TUTTI_DIAGNOSIS_SCENE_H

#include "diagnosis/diagnosis.h"
#include "diagnosis/ends.h"

struct member_group;

/* One rank of one communicator. */
struct member {
    const struct blackbox *box;
    const struct blackbox_comm *comm;
    const struct process_facts *facts; /* never NULL */
    struct member_group *group;
    struct member *sibling;       /* the next member of this process; the last has NULL */
    size_t process;               /* its place in the look */
    const struct blackbox_op *op; /* the operation that the rank is in, not finished */
    uint64_t newest;              /* number of the newest collective that the rank has called */
    bool has_newest, dead, stuck, moved;
    /* the wait of this rank */
    struct member *next;      /* the member it waits for; NULL: nobody, the chain ends here, and `ending` tells how */
    struct member *end;       /* the end of the chain of `next`; never NULL once resolved */
    enum finding_kind ending; /* FINDING_BEHIND: a rank that waits for nobody, and others wait for it */
    int awaited;              /* rank that it waits for; -1: none */
    enum { UNSEEN, WALKED, RESOLVED } mark;
};

struct member_group {
    struct member *members; /* by rank */
    size_t count;
    bool told;                          /* a finding has its calls or its failure: the waits of its ranks are no news */
    bool lives;                         /* one of its processes lives */
    struct member *first_dead, *behind; /* the first dead member; the member that has called least */
    bool one_clock;                     /* all its boxes are of one boot, so times can be compared */
    bool one_host;                      /* the boxes of all groups are of one boot, too */
    /* the last answer of waits.c about the group's GPUs */
    uint64_t asked_seq;
    int asked, answer;
};

/* What is usual on a machine: medians of the part of the time that a thread was ready to run without a processor.
 * `part`: the thread of each process with most. `least`: the thread with least. */
struct crowd {
    double part, least;
};

struct scene {
    const struct snapshot *snapshot;
    struct member *members; /* by communicator and rank */
    size_t count;
    struct member_group *groups;
    size_t group_count;
    struct member **of_process; /* the first member of each box */
    struct crowd *crowds;       /* for each process, what is usual on its machine; NULL: not measured so far */
    struct ends *ends;          /* for each process, when its calls were over; NULL: not asked so far */
    uint64_t steps;
};

/* `stuck` replaces the snapshot's value. `moving`: a rank that moved between the looks may stand still. False: no
 * memory. */
bool scene_open(struct scene *scene, const struct snapshot *snapshot, uint64_t stuck, bool moving);
void scene_close(struct scene *scene);

struct member *scene_find(struct member_group *group, int rank);
/* The group of this id; NULL: no rank is in it. */
struct member_group *scene_group(const struct scene *scene, uint64_t id);
/* The largest open communicator that has all its ranks here; NULL: there is none. */
struct member_group *scene_largest(const struct scene *scene);
/* Has this rank called the collective that `op` is? */
bool member_has_called(const struct member *member, const struct blackbox_op *op);
/* Does the process of this dead rank live on as another program? A copy of a box, beside copies alone, tells nothing.
 */
bool member_is_replaced(const struct member *member);
/* When the calls of this process were over. The scene keeps it. Never NULL. */
const struct ends *scene_ends(struct scene *scene, size_t process);
/* Nanoseconds that this rank has waited in its operation. */
uint64_t member_waited(const struct member *waiter);
/* A number that no other process has. */
uint64_t process_key(const struct blackbox *box);
/* The latest time, up to `most` ns, of which all communicators of the process remember all calls. */
uint64_t process_remembers(const struct blackbox *box, uint64_t most);
/* The facts of the same process in the earlier look; NULL: none. */
const struct process_facts *facts_before(const struct scene *scene, const struct member *member);

#endif
