/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows of a team: memory of each rank that the others put into and get from, and the signals that come with it. Here
 * is the side of the rank whose memory it is: what peers ask of it. Nobody but this process and its adapters writes
 * there, so what is withdrawn is never written. docs/understand/window.md.
 */
#ifndef TUTTI_ENGINE_WINDOWS_H
#define TUTTI_ENGINE_WINDOWS_H

#include "base/list.h"
#include "engine/gates.h"
#include "tutti/tutti.h"
#include "wire/link.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct link;
struct shm_import;
struct team;

/* What a rank knows of another one's memory of a window. */
struct window_peer {
    uint64_t size;
    char *address;             /* where this process reaches it; NULL: not yet, or nowhere */
    uint32_t region;           /* of that process, 0: none */
    uint64_t offset;           /* there */
    struct shm_import *import; /* of it; NULL: not held */
};

/* Something that lies in a window which processors do not reach, and in host memory. */
struct window_move {
    struct list node; /* the store's */
    void *host;
    uint64_t device; /* its address */
    size_t bytes;
    bool out;              /* from the device */
    tutti_result_t result; /* an error: with the sentence */
    char sentence[160];
};

#define STORE_SLOTS 8 /* of host memory, for what is under way */

/* What stores to windows of that memory and reads them, with a thread of its own. An executor's, which outlives its
 * team. Under the engine's lock. */
struct window_store {
    size_t piece; /* bytes of a slot: no put or get is longer */
    void *slots[STORE_SLOTS];
    int free;             /* the first ones of these */
    struct list starving; /* requests that wait for one */
    /* Begins, in the order in which they are asked for. When they are over, the thread calls windows_moved(). */
    void (*move)(struct window_store *store, struct window_move *move);
    /* One that is over, if any; it waits for no lock but its own. */
    struct window_move *(*moved)(struct window_store *store);
    /* Nothing is stored or read any more when this returns, whatever was asked for. */
    void (*stop)(struct window_store *store);
};

struct tutti_window {
    struct list node; /* in windows->all */
    struct team *team;
    uint32_t number; /* the same on all ranks */
    char *base;
    size_t size;
    uint64_t known;  /* base/known.h */
    bool registered; /* it ends with a registration, for which nobody waits */
    struct window_peer peer[];
};

/* Of a team. Under the engine's lock, but `taken`, which is of who has the team's. */
struct windows {
    struct list all;            /* changed by who issues alone */
    struct list answers;        /* to gets, that go */
    bool stopped;               /* nothing is taken any more */
    struct window_store *store; /* NULL: windows are host memory */
    struct list *asked;         /* by rank: what it has asked and is not done, in order */
    uint32_t *raised;           /* by rank and signal, */
    uint32_t *taken;            /* and those of them that were waited for */
    uint32_t *heard;            /* by rank: all its signals */
    uint32_t *puts, *gets;      /* by rank: numbers of what this one asks */
    struct gates *gates;        /* by rank */
    struct list idle;           /* memory of requests, for later ones: */
    int idle_count;
};

/* The team's, made at first use. NULL: there is no memory for them. Under the engine's lock. */
struct windows *engine_windows(struct team *team);

/* All windows of the team are of its memory. Before there is one. False: there is no memory. */
bool windows_keep_in(struct team *team, struct window_store *store);
/* Some moves are over. */
void windows_moved(struct team *team);
/* Windows of processors' memory? */
bool windows_are_host(const struct team *team);

/* Is it one of the team's? For who issues. */
bool windows_have(const struct team *team, const struct tutti_window *window);
/* Is there any? Any thread. */
bool windows_any(const struct team *team);

/* What a rank of a peer, or of this process, asks. `bytes` behind it, at `data`. Under the engine's lock. */
void windows_heard(void *context, struct link *link, const struct wire_tag *tag, const void *body, size_t length);
void windows_hear(struct team *team, int from, const struct wire_window *what, const void *data, size_t bytes);

/* The tag of a payload: which way it goes, its direction says. */
struct wire_tag windows_tag(const struct team *team, int from, int to, uint32_t number, uint32_t message);
struct wire_call windows_call(uint64_t length);

/* The team has failed, or ends: when this returns, nothing comes into a window or is read from one. engine_: under the
 * engine's lock; the other takes it. */
void engine_windows_stop(struct team *team);
void windows_stop(struct team *team);
void windows_free(struct team *team);
size_t windows_memory(const struct team *team);

#endif
