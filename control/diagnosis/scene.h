/* SPDX-License-Identifier: Apache-2.0 */
/* A snapshot in order: every rank of every communicator, and whom it waits for. Private to the rules. */
#ifndef TUTTI_DIAGNOSIS_SCENE_H
#define TUTTI_DIAGNOSIS_SCENE_H

#include "diagnosis/diagnosis.h"
#include "diagnosis/view.h"

/* Where following the waits ends. MISSES: at a rank that stands nowhere, so others wait for a call or for data of it.
 */
enum ending { MISSES, DEAD, STOPPED, TRACED, BROKEN, STILL, ABSENT, CIRCLE, INVERTED, UNREAD };

struct group;

/* One rank of one communicator. */
struct member {
    const struct blackbox *box;
    const struct blackbox_comm *comm;
    const struct process_facts *facts; /* never NULL */
    struct group *group;
    struct member *sibling;       /* the next one of this process; the last has NULL */
    size_t process;               /* its place in the look */
    const struct blackbox_op *op; /* not done: what it is in */
    uint64_t newest;              /* collective that it has called, by number */
    bool has_newest, dead, stuck, moved;
    /* whom it waits for */
    struct member *next; /* NULL: nobody; the chain ends here, how is told by `ending` */
    struct member *end;  /* where following `next` ends: never NULL once resolved */
    enum ending ending;
    int awaited; /* rank; -1: none */
    enum { UNSEEN, WALKED, RESOLVED } mark;
};

struct group {
    struct member *members; /* by rank */
    size_t count;
    bool told;  /* there is a finding of its calls or of its failure: how its ranks wait is no news */
    bool lives; /* a process of it does */
    struct member *first_dead, *behind; /* the first dead one; the one that has called least */
    bool one_clock;                     /* all its boxes are of one boot: times compare */
    bool one_host;                      /* and so are those of all groups */
    /* the last answer of waits.c about GPUs */
    uint64_t asked_seq;
    int asked, answer;
};

/* Medians of parts of the time ready to run without a processor: of the thread that was so longest, and shortest. */
struct crowd {
    double part, least;
};

struct scene {
    const struct snapshot *snapshot;
    struct member *members; /* by communicator and rank */
    size_t count;
    struct group *groups;
    size_t group_count;
    struct member **of_process; /* the first member of each box */
    struct crowd *crowds;       /* of each process, what is usual on its machine; NULL: not asked so far */
    uint64_t steps;
};

/* `stuck`: in place of the snapshot's; a rank that moved between the looks may stand still if `moving`. False: no
 * memory. */
bool scene_open(struct scene *scene, const struct snapshot *snapshot, uint64_t stuck, bool moving);
void scene_close(struct scene *scene);

struct member *scene_find(struct group *group, int rank);
/* By its id; NULL: nobody is in it. */
struct group *scene_group(const struct scene *scene, uint64_t id);
/* Fills in next, end, ending and awaited of all. (waits.c) */
void scene_follow(struct scene *scene);
/* Has this rank called the collective that `op` is? */
bool has_called(const struct member *member, const struct blackbox_op *op);
/* The matrix of delays of a communicator; no cells if there is no memory. The cells are the caller's. (delays.c) */
void delays_open(struct delays *delays, const struct group *group);
/* Do lanes remember what goes from this member to that one, on another host? (lanes.c) */
bool lanes_tell(const struct member *from, const struct member *to);
/* How long the latest segment was under way there that has landed; 0: none is known. (lanes.c) */
uint64_t lanes_last(const struct member *from, const struct member *to);
/* A number that no other process has. */
uint64_t process_key(const struct blackbox *box);
/* The facts of the same process in the earlier look; NULL: none. */
const struct process_facts *facts_before(const struct scene *scene, const struct member *member);

/* What a process had of processors between the looks. */
struct share {
    uint64_t time;         /* between them; 0: it is not known */
    uint64_t ran, delayed; /* on a processor, all threads; ready to run without one, the thread that was so longest */
    uint64_t least;        /* of the threads that wanted to run, the one that was so shortest */
    size_t active;         /* so many did */
};
struct share share_of(const struct scene *scene, const struct member *member);
bool is_starved(const struct share *share);
bool hardly_runs(const struct share *share);
/* Others of its machine have no processors either: what others take there is to blame, and no rank. */
bool is_crowded_out(struct scene *scene, const struct member *member);

/* ---- Findings in the making ---- */

struct finding *finding_add(struct findings *findings, enum finding_kind kind, enum confidence confidence,
                            const struct member *about);
/* Nobody's box is there: a rank of this communicator. */
struct finding *finding_add_rank(struct findings *findings, enum finding_kind kind, const struct blackbox_comm *comm,
                                 int rank);
void say(struct finding *finding, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* One more line of evidence, if there is room. */
void prove(struct finding *finding, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Where in training this process is, if its calls tell. (stage.c) */
void prove_stage(struct finding *finding, const struct blackbox *box);
/* "rank 3 (process 812 on node7)" */
void say_who(struct finding *finding, const struct member *member);
/* " 0 1 2 and 5 more" */
struct rank_list {
    char text[128];
    size_t count, named;
};
void list_rank(struct rank_list *list, int rank);
const char *list_text(struct rank_list *list);

/* ---- The rules ---- */

void rule_calls(struct scene *scene, struct findings *findings);
void rule_failures(struct scene *scene, struct findings *findings);
void rule_joining(struct scene *scene, struct findings *findings);
void rule_hang(struct scene *scene, struct findings *findings);
void rule_slow(struct scene *scene, struct findings *findings);
void rule_lanes(struct scene *scene, struct findings *findings);
/* In which part of the time of the calls that all remember the others waited for each member, which was last: by
 * member. Those that are not known stay as they are. */
void slow_shares(struct scene *scene, const struct group *group, double *shares);
/* Where lanes went down though their processes live. */
void rule_losses(struct scene *scene, struct findings *findings);
void rule_delays(struct scene *scene, struct findings *findings);
/* Makes a scene of its own: of this very moment. */
void rule_starved(const struct snapshot *snapshot, struct findings *findings);

#endif
