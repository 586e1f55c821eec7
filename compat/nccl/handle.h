/* SPDX-License-Identifier: Apache-2.0 */
/* What the opaque pointers point at. */
#ifndef TUTTI_NCCL_HANDLE_H
#define TUTTI_NCCL_HANDLE_H

#include "nccl/names.h"

enum handle_kind { HANDLE_FREE, HANDLE_COMM, HANDLE_WINDOW, HANDLE_CLOSING };

/*
 * A communicator or a window. The memory of handles is never given back to the system, so that any pointer can be
 * looked at safely: a wild, an old or a NULL one is told from a living one without touching what it points at.
 */
struct ncclComm {
    _Atomic int kind;
    _Atomic int users; /* calls inside, and groups that hold work of it: it is freed when they are gone */
    /* From here on: of one communicator or window. A handle that is used again begins with zeros. */
    tutti_comm_t comm;
    int rank, nranks; /* -1, 0: ask tutti */
    int device;       /* what the caller named, for host memory */
    int blocking;
    bool host;
    _Atomic bool revoked;
    _Atomic bool suspended;
    size_t given_back;  /* bytes of the device, when it was suspended */
    bool aborted;       /* but not waited for */
    ncclResult_t ended; /* what the abort has returned */
    uint64_t group;     /* the last group that noted it */
    /* Of a window: */
    struct ncclComm *owner;
    void *registration, *buffer;
    size_t size;
    bool symmetric;
    tutti_window_t window; /* for puts; NULL: none */
};
#define HANDLE_LIFE offsetof(struct ncclComm, comm)

/* A new handle, of which nobody knows yet; NULL, with the sentence, when there is none left. */
struct ncclComm *handle_new(enum handle_kind kind);
void handle_free(struct ncclComm *handle);
/* Counts the caller as a user of a living communicator. Each success is paid back by handle_leave(). */
ncclResult_t handle_enter(ncclComm_t comm, struct ncclComm **out);
void handle_hold(struct ncclComm *handle);
void handle_leave(struct ncclComm *handle);
/* Nobody enters any more. Fails when it is no living communicator, or another thread closes it already. */
ncclResult_t handle_close(ncclComm_t comm, struct ncclComm **out);
/* After handle_close: returns when nobody uses it. */
void handle_wait(struct ncclComm *handle);
struct ncclComm *handle_window(ncclWindow_t window);
/* A window of this communicator, or NULL: asked again after each is freed. */
struct ncclComm *handle_window_of(const struct ncclComm *owner);

#endif
