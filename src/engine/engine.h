/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine of this process: its links, and one thread that makes progress when no caller does. A caller that waits
 * for an operation runs the operation. The thread takes over only what is left unattended, and sleeps otherwise.
 *
 * Locks. A team's lock guards running its operations. The engine's lock guards links, the list of teams and what link
 * callbacks touch. Order: team, then engine; both are tried, not waited for, on every hot path.
 */
#ifndef TUTTI_ENGINE_ENGINE_H
#define TUTTI_ENGINE_ENGINE_H

#include "base/list.h"
#include "base/lock.h"
#include "base/thread.h"
#include "link/link.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#define ENGINE_NAP_US  1000u
#define ENGINE_MOST    16 /* of one process */
#define ENGINE_REPORTS 32
#define ENGINE_GPUS    64 /* whose nearest ports an engine keeps */

enum engine_mode { ENGINE_WORKING, ENGINE_NAPPING, ENGINE_DEEP }; /* of its thread: engine_thread.c */

struct team;

/* A descriptor that a peer shared, waiting for the ranks of this process that need it. */
struct shared_fd {
    struct list node;
    uint64_t key;
    int fd; /* or SHARED_NO_ROOM */
};

/* Processes of which others say that they are gone, the newest ones. */
struct reports {
    pthread_mutex_t lock;
    struct wire_abort last[ENGINE_REPORTS];
    unsigned count;
};

#define ENGINE_EARLY 16
#define ENGINE_OVER  64

/* That a communicator has failed which this process has not, or has not yet: peers may be ahead in making it. */
struct early_failure {
    uint64_t comm;
    struct wire_abort news;
};

#define ENGINE_CLOSED 64

/* What a team had begun when it was closed: peers may still wait for what never comes. */
struct closed {
    uint64_t comm;
    uint32_t started;
    int rank, nranks;
    struct wire_begun *with;    /* by peer; NULL: nothing was closed */
    struct wire_abort *failure; /* NULL: it was whole */
};

struct engine {
    int index; /* in the process */
    struct try_lock lock;
    struct poller *poller;
    struct link_domain *links;
    struct trace *trace;
    struct list teams;
    _Atomic int team_count;
    struct list shared;
    struct closed closed[ENGINE_CLOSED]; /* the last ones */
    unsigned closings;
    struct early_failure early[ENGINE_EARLY]; /* the last ones */
    unsigned earlies;
    uint64_t over[ENGINE_OVER]; /* communicators of generations that are over here, the last ones */
    unsigned overs;
    _Atomic uint32_t mode;      /* enum engine_mode of the thread */
    _Atomic uint32_t attending; /* callers that wait and progress */
    _Atomic uint32_t activity;  /* changes when callers come and go */
    _Atomic bool floods;        /* some team must tell its failure */
    uint64_t flooded, told;     /* failures that were told, and those that all peers have heard of; under the lock */
    pthread_mutex_t hearing;    /* of the thread that waits for that */
    struct reports reports;
    _Atomic bool stop;
    uint32_t near[ENGINE_GPUS]; /* of each GPU, once it is known: ports.h; under the lock */
    uint64_t near_known;
    int armed;                    /* sleepers on the poller, who told the transports; under the lock */
    int pollers;                  /* sleepers who wake by themselves; the others are told */
    uint64_t tells;               /* sleepers that were told of news, so far */
    int sleeping;                 /* callers among them */
    struct list asleep, beds;     /* struct bed: of those who sleep; free ones */
    uint64_t tick_at;             /* when engine_poll looks at the poller again */
    uint64_t attended;            /* when engine_attend() was last called */
    _Atomic uint64_t tick_wanted; /* when links want link_tick, UINT64_MAX: never */
    unsigned idle_polls;
    _Atomic unsigned nap_us; /* longer where many processes share few processors */
    struct thread thread;
};

/* This process, as the ranks of the next communicator must know it. */
void engine_introduce(struct engine *engine, struct wire_process *out);

/* Under the engine's lock: looks for news; returns how much there was. */
int engine_poll(struct engine *engine);

/* Under the lock. Time in which this process itself did not look is held against nobody. */
void engine_attend(struct engine *engine, uint64_t now);
/* Under the lock: how long the peer has not answered, as link_silence(), of the time in which this process did look. */
uint64_t engine_silence(struct engine *engine, struct link *link, uint64_t now);

/* Sleeps until something may have happened, at most timeout_ms, unless `team` (NULL: none) can go on. Not under the
 * lock. */
void engine_sleep(struct engine *engine, struct team *team, int timeout_ms);
/* The same until *came is set, under the lock: no other news wakes this thread, unless it is one of the few that watch
 * for all. */
void engine_sleep_until(struct engine *engine, const bool *came, int timeout_ms);

/* Under the lock: looks at everything, also at what was to wake others. */
void engine_look_everywhere(struct engine *engine);
/*
 * Under the lock, which is let go of meanwhile: sleeps as engine_sleep(). `caller`: somebody waits for an operation,
 * and is to be woken when another thread takes its news. `team`: its team, or NULL; what another rank of this process
 * has done for it is found by one more look.
 */
void engine_sleep_locked(struct engine *engine, struct team *team, int timeout_ms, bool caller);
/* The same if nobody has the lock: else a moment, for who has it may have been switched from. */
void engine_try_to_sleep(struct engine *engine, struct team *team, int timeout_ms, bool caller);
/* The end: frees what sleepers lay on. */
void engine_remove_beds(struct engine *engine);

/* Under the lock, after running an operation: wakes ranks of this process for which it did something. */
void engine_met(struct engine *engine);

/* An operation was left unfinished by a caller that goes away: sees that the thread will look after it. */
void engine_notice(struct engine *engine);

/* Takes a shared descriptor out of the table. Under the lock. SHARED_NO_ROOM: it was sent, and this process may open no
 * more. */
enum { SHARED_NOT_YET = -1, SHARED_NO_ROOM = -2 };
int engine_take_shared(struct engine *engine, uint64_t key);

#endif
