/* SPDX-License-Identifier: Apache-2.0 */
/* A snapshot, sorted: every rank of every communicator, and the rank that it waits for. Only the rules use it. */
#ifndef TUTTI_DIAGNOSIS_SCENE_H
#define TUTTI_DIAGNOSIS_SCENE_H

#include "diagnosis/diagnosis.h"

struct member_group;

/* One rank of one communicator. */
struct member {
    const struct blackbox *box;
    const struct blackbox_comm *comm;
    const struct process_facts *facts; /* never NULL */
    struct member_group *group;
    struct member *sibling;       /* the next one of this process; the last has NULL */
    size_t process;               /* its place in the look */
    const struct blackbox_op *op; /* the operation that it is in, which is not done */
    uint64_t newest;              /* collective that it has called, by number */
    bool has_newest, dead, stuck, moved;
    /* whom it waits for */
    struct member *next;      /* NULL: nobody: the chain ends here, and `ending` tells how */
    struct member *end;       /* where following `next` ends: never NULL once resolved */
    enum finding_kind ending; /* FINDING_BEHIND: at a rank that waits for nobody, and others wait for it */
    int awaited;              /* rank; -1: none */
    enum { UNSEEN, WALKED, RESOLVED } mark;
};

struct member_group {
    struct member *members; /* by rank */
    size_t count;
    bool told;  /* a finding tells of its calls or its failure: waits of its ranks are no news */
    bool lives; /* a process of it does */
    struct member *first_dead, *behind; /* the first dead member; the member that has called least */
    bool one_clock;                     /* all its boxes are of one boot, so times can be compared */
    bool one_host;                      /* the boxes of all groups are of one boot, too */
    /* the last answer of waits.c about GPUs */
    uint64_t asked_seq;
    int asked, answer;
};

/* Medians of the part of the time in which a thread was ready to run without a processor: of the thread that was so
 * longest, and shortest. */
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
    struct crowd *crowds;       /* of each process, what is usual on its machine; NULL: not asked so far */
    uint64_t steps;
};

/* `stuck`: in place of the snapshot's; a rank that moved between the looks may stand still if `moving`. False: no
 * memory. */
bool scene_open(struct scene *scene, const struct snapshot *snapshot, uint64_t stuck, bool moving);
void scene_close(struct scene *scene);

struct member *scene_find(struct member_group *group, int rank);
/* By its id; NULL: nobody is in it. */
struct member_group *scene_group(const struct scene *scene, uint64_t id);
/* Has this rank called the collective that `op` is? */
bool member_has_called(const struct member *member, const struct blackbox_op *op);
/* Nanoseconds since it has waited in what it is in. */
uint64_t member_waited(const struct member *waiter);
/* A number that no other process has. */
uint64_t process_key(const struct blackbox *box);
/* The facts of the same process in the earlier look; NULL: none. */
const struct process_facts *facts_before(const struct scene *scene, const struct member *member);

#endif
