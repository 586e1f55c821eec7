/* SPDX-License-Identifier: Apache-2.0 */
/* Life of communicators: join, split, shrink, end. Around the engine's team it keeps what users see. docs/comm.md. */
#ifndef TUTTI_COMM_COMM_H
#define TUTTI_COMM_COMM_H

#include "base/fork.h"
#include "base/thread.h"
#include "bootstrap/bootstrap.h"
#include "comm/meet.h"
#include "engine/p2p.h"
#include "engine/team_open.h"

#include <pthread.h>

#define COMM_MAGIC      0x4d4d4f43u
#define COMM_NAME_BYTES 48
#define COMM_PREMULS    64 /* living pre-multiplied sums of one communicator */

enum comm_state { COMM_MAKING, COMM_READY, COMM_FAILED, COMM_FINALIZED, COMM_SUSPENDED };

struct premul {
    bool used;
    tutti_type_t type;
    uint64_t scalar;
    const void *scalar_at; /* in device memory; NULL: `scalar` */
};

/* How a communicator is to be made: one of the ways below. */
struct comm_settings {
    tutti_unique_id_t id;
    int rank, nranks;
    int blocking;
    uint64_t timeout_ms;
    struct team_bound bound;
    char name[COMM_NAME_BYTES];
    struct executor_config executor;
    bool on_host; /* its calls work on host memory, though the executor's config names a device */
    uint64_t deadline;
    struct tutti_comm *grows; /* it is made of this one and newcomers; NULL: it is not, or no more */
    bool has_id;              /* of that: this member passes it */
};

enum comm_growing { COMM_STAYS, COMM_WILL_GROW, COMM_GROWS };

struct tutti_comm {
    uint32_t magic;
    uint32_t generation; /* fork_generation of the process that made it, */
    pid_t maker_pid;     /* and which that is */
    _Atomic int state;
    struct engine *engine;
    struct team *team;              /* NULL until made */
    _Atomic(struct team *) to_fail; /* the same when it is whole: for an abort while the rest is made */
    struct executor *executor;      /* of users' calls; NULL until made; the team's own while it is suspended */
    pthread_rwlock_t executing;     /* written while `executor` changes, read by threads beside calls */
    struct choice_table *choices;
    struct meeting meeting;              /* of those who shrink it, or grow it */
    _Atomic int growing;                 /* enum comm_growing: one that grows out of it is being made */
    uint64_t number;                     /* of one that grows: drawn by members; 0: rank 0 draws it */
    _Atomic(struct tutti_comm *) parent; /* while a thread of the parent's makes this one; changed under `joining` */
    uint64_t id;
    struct comm_settings settings;
    _Atomic int grouped;         /* calls on it that open groups keep, */
    _Atomic int grouped_windows; /* and those of them that name a window */
    bootstrap_stop_t abort;      /* watched while joining */
    _Atomic int failed;          /* the result of making it */
    int lost;                    /* the rank that died while others met; -1: none is known */
    char sentence[1024];
    struct thread maker; /* of a non-blocking init, or of a child that is made without blocking; under `joining`: any
                            thread may abort */
    pthread_mutex_t joining;
    struct premul premul[COMM_PREMULS];
};

/* NULL or a wild pointer gives an error that says so. */
tutti_result_t comm_check(tutti_comm_t comm);
/* As comm_check, and the communicator must be made, whole and not finalized. */
static inline bool comm_works(tutti_comm_t comm)
{
    return comm && comm->magic == COMM_MAGIC && comm->generation == fork_generation &&
           atomic_load_explicit(&comm->state, memory_order_acquire) == COMM_READY &&
           !atomic_load_explicit(&comm->team->failed, memory_order_acquire);
}
/* Why it is not. */
tutti_result_t comm_refuse(tutti_comm_t comm) __attribute__((cold));
static inline tutti_result_t comm_usable(tutti_comm_t comm)
{
    return __builtin_expect(comm_works(comm), 1) ? TUTTI_SUCCESS : comm_refuse(comm);
}

/* join.c */
/* As the parameters say, on host memory. */
struct comm_settings comm_defaults(void);
/* *settings says what holds where the config says nothing of the executor or, if it is not 0, of the timeout. */
tutti_result_t comm_settings(struct comm_settings *settings, const tutti_config_t *config);
tutti_result_t comm_new(const struct comm_settings *settings, struct tutti_comm **out);
/* error_last() stays what it was: what is told of is why the communicator is freed. */
void comm_free(struct tutti_comm *comm);
/* Joins; blocks. The result is also kept in the communicator. */
tutti_result_t comm_join(struct tutti_comm *comm);
/* Joins in a thread of its own. */
tutti_result_t comm_join_later(struct tutti_comm *comm);
tutti_result_t comm_join_wait(struct tutti_comm *comm);
/* The team of settings.nranks ranks: what each is, and which process it lives in. */
tutti_result_t comm_open_team(struct tutti_comm *comm, uint64_t id, const struct team_members *members);

/* grow.c: joins together with the other members of settings.grows and newcomers. */
tutti_result_t grow_claim(struct tutti_comm *comm);
tutti_result_t grow_join(struct tutti_comm *comm, tutti_result_t (*join)(struct tutti_comm *comm));
/* The communicator that grows another was never joined. */
void grow_forget(struct tutti_comm *comm);
/* What grows out of it, if anything, is given up, if it is not wanted; waits until nothing of this one is used for it.
 */
void grow_wait(struct tutti_comm *comm, bool wanted);

/* roots.c: meeting points that this process serves */
tutti_result_t roots_open(tutti_unique_id_t *id, int opener); /* a rank of the communicator that grows, or -1 */
/* Newcomers who wait at `id`, if this process serves it, hear that members do not come. */
struct roots_refusal {
    enum bootstrap_refusal how;
    int rank, nranks, members;
};
void roots_refuse(const tutti_unique_id_t *id, const struct roots_refusal *refusal);
struct env_identity;
tutti_result_t roots_open_env(struct env_identity *identity);
/* Closes those that have done their work. */
void roots_sweep(void);
/* A rank of this process was aborted while it joined: the communicator of that id is never made, and its meeting point
 * closes, if this process has it. */
void roots_give_up(const tutti_unique_id_t *id);
/* As roots_sweep(), after waiting (bounded) for ranks that have been told all but not yet hung up. */
void roots_settle(void);

/* share.c: what the ranks of one host share: shared memory of the team, and an executor for its GPUs */
tutti_result_t share_all(struct tutti_comm *comm);
/* Collective: the executor anew, after the communicator was suspended. Where that fails the team has failed. */
tutti_result_t share_executor(struct tutti_comm *comm, struct executor **out);
/* An arena for a part of the communicator, where all its ranks can share memory. Its members call this together, when
 * all have it. */
tutti_result_t share_part(struct tutti_comm *comm, struct team *part);
/* Closes what came for this rank and it never took, for its joining failed. What came for other ranks of this process
 * stays. */
void share_forget(struct team *team);

/* rest.c: gives back what the communicator holds of its device, and takes it again. Collective, and both wait. mine: an
 * error, with its sentence, if this rank cannot. */
tutti_result_t comm_suspend(struct tutti_comm *comm, tutti_result_t mine);
tutti_result_t comm_resume(struct tutti_comm *comm);

/* Users' calls, as engine/executor.h has them. */
static inline bool comm_prepares(const struct tutti_comm *comm)
{
    return comm->executor->ops.prepare != NULL;
}
static inline tutti_result_t comm_prepare(struct tutti_comm *comm, const struct call *call, struct executor_note *note)
{
    return comm_prepares(comm) ? comm->executor->ops.prepare(comm->executor, call, note) : TUTTI_SUCCESS;
}
static inline tutti_result_t comm_collective(struct tutti_comm *comm, const struct call *call, void *owned,
                                             tutti_stream_t stream, const struct executor_note *note)
{
    return comm->executor->ops.issue(comm->executor, call, owned, stream, note);
}
static inline tutti_result_t comm_collectives(struct tutti_comm *comm, const struct executor_call *calls, int count,
                                              tutti_stream_t stream)
{
    return comm->executor->ops.issue_many(comm->executor, calls, count, stream);
}
static inline tutti_result_t comm_p2p(struct tutti_comm *comm, const struct p2p_item *items, int count,
                                      tutti_stream_t stream)
{
    return comm->executor->ops.messages(comm->executor, items, count, stream);
}
static inline tutti_result_t comm_windows(struct tutti_comm *comm, const struct window_item *items, int count,
                                          tutti_stream_t stream)
{
    return comm->executor->ops.window_calls(comm->executor, items, count, stream);
}
static inline bool comm_any_thread(struct tutti_comm *comm, tutti_stream_t stream)
{
    return comm->executor->ops.any_thread(comm->executor, stream);
}
/* Whether one operation may be on several streams; if so, what comes on `stream` follows what is on `before`. */
static inline bool comm_joins_streams(const struct tutti_comm *comm)
{
    return comm->executor && comm->executor->on_streams; /* none while it is being made */
}
static inline tutti_result_t comm_follow(struct tutti_comm *comm, tutti_stream_t stream, tutti_stream_t before)
{
    return comm->executor->ops.follow(comm->executor, stream, before);
}
/* TUTTI_HOST or a CUDA ordinal. */
static inline int comm_device(const struct tutti_comm *comm)
{
    return comm->executor->device;
}
/* Bytes that the communicator holds. */
void comm_memory(struct tutti_comm *comm, size_t *device_bytes, size_t *host_bytes);
/* What it has failed of, if it has. */
tutti_result_t comm_failure(struct tutti_comm *comm);

/* agree.c: how this rank fared (a failure's sentence is the thread's last). Success when all ranks say so; else all
 * fail, with the first one's sentence. */
tutti_result_t comm_agree(struct team *team, tutti_result_t mine);

/*
 * child.c: a child of the parent's. A rank that cannot make it takes part all the same, until all know: `refused` is
 * what the caller has found wrong already. making_go() makes it, at once or, if that is wanted, in a thread: then
 * TUTTI_IN_PROGRESS. Those of a group are run by threads of the group's: making_run(), then making_end().
 */
struct making {
    struct tutti_comm *parent, *child;
    int color, key;
    bool has_child; /* this rank is to be a member */
    bool shrinks, list_is_wrong;
    bool *is_out; /* by rank: excluded */
    int *members; /* ranks of the parent, while it is being made */
    bool blocking;
    tutti_result_t refused;
    char sentence[TEAM_SENTENCE]; /* of that */
};
void making_split(struct making *making, struct tutti_comm *parent, int color, int key, const tutti_config_t *config,
                  tutti_result_t refused);
void making_shrink(struct making *making, struct tutti_comm *parent, const int *excluded, int count,
                   const tutti_config_t *config, tutti_result_t refused);
void making_refuse(struct making *making, tutti_result_t refused);
tutti_result_t making_go(struct making *making, tutti_comm_t *out);
tutti_result_t making_run(struct making *making);
tutti_result_t making_end(struct making *making, tutti_result_t result, tutti_comm_t *out);

/* comm.c */
/* Waits until everything issued is done. Finds out that peers were in other calls; at the `end` also what was sent and
 * never received. */
tutti_result_t comm_wait(struct tutti_comm *comm, bool end);
tutti_result_t comm_finalize(struct tutti_comm *comm);
/* The communicator is about to be freed: waits, for a bounded time, until peers store nothing more to the user's
 * memory. An error says to which memory they may. */
tutti_result_t comm_leave(struct tutti_comm *comm);
/* The user issues nothing more: peers of a failed communicator hear so. */
void comm_end_calls(struct tutti_comm *comm);
/* The team is whole: aborts are to find it. An error if one came before. */
tutti_result_t comm_publish_team(struct tutti_comm *comm);
/* Gives up. Then, if it `waits`, nothing of the user's is touched any more; else comm_finalize or another abort waits.
 */
tutti_result_t comm_abort(struct tutti_comm *comm, bool waits);

#endif
