/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chaos: processes live through eras. In an era some of them make communicators that overlap and run random collectives
 * on all of them, until a fault comes: a process is killed, stopped, or aborts one of the communicators. What every
 * process sees of that is judged. The dead are replaced by new processes, and the next era begins.
 */
#ifndef TUTTI_TESTS_CHAOS_H
#define TUTTI_TESTS_CHAOS_H

#include "job.h"

#include <stdatomic.h>
#include <sys/types.h>

#define SLOTS        6    /* processes at most */
#define COMMS        5    /* communicators of an era; the first one is the world */
#define AGREEMENT    1    /* the one on which ranks agree to end, unless a process is stopped: never aborted */
#define TIMEOUT_MS   5000 /* TUTTI_TIMEOUT of all processes */
#define DEAD_SECONDS 90   /* an era that takes longer hangs */

enum fault { FAULT_NONE, FAULT_KILL, FAULT_PAUSE, FAULT_STOP, FAULT_ABORT, FAULTS };

/* What an era is like: the same for all who ask with the same seed, era and number of members. */
struct plan {
    enum fault fault;
    int victim; /* place of the process that it strikes */
    int second; /* place of another that is killed; -1: none */
    int second_after_ms;
    int after_ms; /* since the beginning, since there is a meeting point, or since all work, where the fault cannot come
                     before */
    int pause_ms;
    int aborted;       /* the communicator */
    int leaving;       /* how the old communicators are given up after a loss, and when */
    bool non_blocking; /* the world is made so */
    bool two_inits;    /* members replace the world by a second one, made while the first lives */
};

struct plan plan_draw(uint64_t seed, uint64_t era, int members);
const char *fault_name(enum fault fault);
/* The color and key by which `place` of `members` is in communicator `comm`. */
int plan_color(int comm, int members, int place);
int plan_key(int comm, int members, int place);
/* The rank of `who` where `asker` is a member; -1: none. */
int plan_rank(int comm, int members, int asker, int who);
int plan_size(int comm, int members, int asker);

/* What a process tells of itself. Written by it alone. */
struct account {
    _Atomic uint64_t idle;    /* eras that it has ended, with nothing left open */
    _Atomic uint64_t joined;  /* the era whose world it has made */
    _Atomic uint64_t working; /* the era all of whose communicators it has made */
    _Atomic int stage;        /* where it is: of stage_names */
    _Atomic uint64_t jobs, failures, shrunk;
    _Atomic bool bad; /* something was wrong: it has said what */
    int descriptors;  /* open when it was idle first */
};

struct era {
    uint64_t number; /* of all that are played */
    uint64_t drawn;  /* what it is like is drawn from this: the number, unless one is played again and again */
    int members;
    int slot[SLOTS]; /* by place */
    tutti_unique_id_t id[2];
    _Atomic uint64_t id_made[2]; /* the era's number */
};

struct world {
    uint64_t seed;
    struct era era;
    _Atomic uint64_t begun;     /* the era that is under way; all above is written before */
    _Atomic uint64_t struck;    /* the era whose fault has come */
    _Atomic uint64_t end;       /* the era that may end */
    _Atomic uint64_t abort_now; /* the era whose victim is to abort */
    _Atomic bool over;
    pid_t pid[SLOTS];
    struct account account[SLOTS];
};

enum stage { STAGE_IDLE, STAGE_INIT, STAGE_SPLIT, STAGE_WORK, STAGE_STRUCK, STAGE_SHRINK, STAGE_SHRUNK, STAGE_DESTROY };
const char *stage_name(int stage);

void nap(int ms);
double now(void);
/* A process's whole life: eras until the world is over. Returns its exit status. */
int live(struct world *world, int slot);

#endif
