/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of this folder share. A plan of steps is drawn from a seed. Every actor (a thread or a process that
 * plays one or more ranks) draws the same plan and does its ranks' part of it.
 */
#ifndef TUTTI_TESTS_SOAK_H
#define TUTTI_TESTS_SOAK_H

#define NCCL_WITHOUT_CUDA_HEADERS 1
#include "nccl.h"

#include "device/cuda/abi.h"
#include "job.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { GPUS = 4, STREAMS = 3, FAMILIES = 3, PENDING = 24, GRAPHS = 2, GRAPH_TASKS = 4, MEETINGS = 512 };
enum mode { ONE_THREAD, THREADS, PROCESSES, PAIRS, MODES }; /* PAIRS: processes of one thread with two GPUs */

/* ---- What all processes of a run see ---- */

struct shared {
    struct {
        _Atomic uint64_t notes;
        char at[200]; /* what it does */
    } actor[GPUS];
    struct {
        _Atomic uint32_t ready;
        ncclUniqueId id;
    } meeting[MEETINGS];
    _Atomic uint32_t arrived; /* at barriers, all in all */
    _Atomic uint64_t tasks, bytes;
};

struct run {
    struct shared *shared;
    uint64_t seed;
    int nranks, steps;
    enum mode mode;
    bool no_graphs, verbose;
    const char *without; /* what is left out */
};
extern struct run run;

/* ---- Communicators: one that all ranks had, or what splits made of it ---- */

struct family {
    bool alive, waits; /* waits: blocking */
    int color[GPUS];   /* which of its communicators a GPU's rank is in; -1: none */
    int rank[GPUS], size[GPUS];
};

/* ---- Tasks ---- */

/* Where the buffer of an operation lies. */
enum place { FROM_NCCL, FROM_DRIVER, FROM_POOL, FROM_ARENA, IN_PIECES, MANAGED, PLACES };

struct work {
    CUdeviceptr at;
    size_t room;
    enum place place;
    CUdeviceptr reserved; /* of pieces */
    size_t piece;
};

/* One rank's part. */
struct part {
    struct job job;
    struct work work[2];
    CUdeviceptr aux; /* the buffers as they are before, as they are after, and a scalar */
    size_t begin[2], after[2], scalar;
};

struct task {
    struct job job;                     /* as drawn, for any rank */
    int times;                          /* it is called, one behind the other, with the same result */
    int family, stream, before, behind; /* streams; before, behind: of the copies around it */
    bool captured, device_scalar, given_up;
    bool with_zeros;       /* messages of no bytes are called, too */
    bool shifts;           /* every rank takes another stream */
    unsigned joined[GPUS]; /* streams that its group makes one with its own; bits */
    uint64_t key;
    struct family ranks; /* as they were */
    struct part part[GPUS];
};

struct graph {
    bool alive, ran;
    int count, stream;
    unsigned families; /* bits */
    struct task *task[GRAPH_TASKS];
    CUgraphExec exec[GPUS];
};

struct gpu {
    CUcontext context;
    CUstream stream[STREAMS], side; /* [0]: the null stream */
    CUevent event;
    CUdeviceptr arena;
    size_t arena_used;
};

struct actor {
    int index, first, count; /* the ranks it plays */
    uint64_t rolls;
    uint32_t barriers, meetings;
    struct family family[FAMILIES];
    ncclComm_t comm[FAMILIES][GPUS];
    struct gpu gpu[GPUS];
    struct task *pending[PENDING];
    int npending;
    struct graph graph[GRAPHS];
};

/* ---- driver.c ---- */

struct driver {
#define CALL(name, symbol, ...) CUresult (*name)(__VA_ARGS__);
#include "driver.h"
#undef CALL
};
extern struct driver cu;
int driver_load(void);

/* ---- main.c ---- */

/* What an actor does now: for who looks at it from outside when nothing moves any more. */
void note(const struct actor *actor, const char *format, ...) __attribute__((format(printf, 2, 3)));
_Noreturn void wrong(const struct actor *actor, const char *what, int result);
void meet_actors(struct actor *actor);

#define DONE(call)                                                                                                     \
    do {                                                                                                               \
        int done_ = (int)(call);                                                                                       \
        if (done_)                                                                                                     \
            wrong(actor, #call, done_);                                                                                \
    } while (0)

/* ---- plan.c ---- */

/* The next number of the plan, below `below`: the same for all actors. */
uint32_t roll(struct actor *actor, uint32_t below);
/* Any task on one of the families that are alive. */
struct task *plan_task(struct actor *actor, int family, bool captured, bool tiny);
/* An index of a family that is alive or not; -1: there is none. */
int plan_family(struct actor *actor, bool alive);

/* ---- task.c ---- */

void task_prepare(struct actor *actor, struct task *task);
/* All collectives of a group on one communicator are as one operation on all their streams: it relies on that from here
 * on. */
void task_join(struct task *task, struct task **group, int count, int gpu);
/* What lies before and behind the call in the streams. */
void task_before(struct actor *actor, struct task *task, int gpu);
void task_behind(struct actor *actor, struct task *task, int gpu);
ncclResult_t task_issue(struct actor *actor, struct task *task, int gpu);
/* When streams have been waited for. */
void task_check(struct actor *actor, struct task *task);
void task_blank(struct actor *actor, struct task *task, int gpu, CUstream stream);
void task_free(struct actor *actor, struct task *task);

/* ---- comms.c ---- */

void comms_make(struct actor *actor);
void comms_end(struct actor *actor, int family);
void comms_abort(struct actor *actor, int family);
/* A call's result, waited for if it is not there yet. */
void comms_good(struct actor *actor, const char *what, ncclComm_t comm, ncclResult_t result);

/* ---- puts.c ---- */

/* For actors with one rank each. */
void puts_play(struct actor *actor, int family, int stream);

/* ---- play.c ---- */

void play(struct actor *actor);
void select_gpu(struct actor *actor, int gpu);

static inline bool plays(const struct actor *actor, const struct family *family, int gpu)
{
    return gpu >= actor->first && gpu < actor->first + actor->count && family->color[gpu] >= 0;
}

#endif
