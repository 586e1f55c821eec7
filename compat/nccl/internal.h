/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of libnccl.so.2 share. Everything below the exported names stands on tutti.h alone.
 * docs/compat-nccl.md. */
#ifndef TUTTI_COMPAT_NCCL_INTERNAL_H
#define TUTTI_COMPAT_NCCL_INTERNAL_H

#define NCCL_WITHOUT_CUDA_HEADERS 1
#pragma GCC visibility push(default)
#include "nccl.h"
#pragma GCC visibility pop
#include "tutti/tutti.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LIBRARY_VERSION 22809

/* Gives an exported function its twin: the same code under the name with p. */
#define TWIN(name) extern __typeof__(name) p##name __attribute__((alias(#name), visibility("default")))

/* ---- result.c: results and sentences ---- */

/* Keeps the sentence for ncclGetLastError(); returns `result`. */
ncclResult_t result_fail(ncclResult_t result, const char *format, ...) __attribute__((format(printf, 2, 3), cold));
/* tutti's result as NCCL's; a failure's sentence is kept. comm may be NULL. */
ncclResult_t result_of(tutti_result_t result, tutti_comm_t comm);
const char *result_sentence(void);

/* ---- config.c: ncclConfig_t of any size and version ---- */

struct config {
    int blocking;     /* 0, 1, or NCCL_CONFIG_UNDEF_INT */
    const char *name; /* NULL: none */
    int blocks;       /* most of a reduction; 0: nothing is said */
    int policy;       /* TUTTI_POLICY_..., or -1 */
};

/* user may be NULL: everything undefined. */
ncclResult_t config_read(const void *user, struct config *out);
/* What holds: the environment, else `wanted`, else `inherited`. */
int config_blocking(int wanted, int inherited);

/* ---- place.c: device memory, or host memory with TUTTI_NCCL_HOST=1 ---- */

#define PLACE_CURRENT (-1) /* the calling thread's current device */

bool place_host(void);
void place_config(tutti_config_t *config, bool host, int device);
/* Of a communicator: the CUDA device's number, on host memory `told`. */
tutti_result_t place_device(tutti_comm_t comm, bool host, int told, int *device);
tutti_result_t place_alloc(void **pointer, size_t size);
tutti_result_t place_free(void *pointer);
tutti_result_t place_premul(tutti_op_t *op, const void *scalar, ncclScalarResidence_t residence, tutti_type_t type,
                            tutti_comm_t comm, bool host);
tutti_result_t place_memory(tutti_comm_t comm, bool host, size_t *device_bytes);

/* ---- handle.c: what the opaque pointers point at ---- */

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
    bool aborted;       /* but not waited for */
    ncclResult_t ended; /* what the abort has returned */
    uint64_t group;     /* the last group that noted it */
    /* Of a window: */
    struct ncclComm *owner;
    void *registration, *buffer;
    size_t size;
    bool symmetric;
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

/* ---- group.c: groups of the calling thread ---- */

bool group_open(void);
/* In an open group: its end will fail with this, if it is an error. Returns `result`. */
ncclResult_t group_note(ncclResult_t result);
/* Work of this communicator was recorded: it stays until the group's end, which waits for it on host memory. */
ncclResult_t group_touch(struct ncclComm *handle);
/* `made` is finished at the group's end; if that fails, *out becomes NULL. */
ncclResult_t group_made(struct ncclComm *made, ncclComm_t *out);
ncclResult_t group_window(struct ncclComm *owner, struct ncclComm *window, ncclWindow_t *out);
enum group_ending { GROUP_FINALIZE, GROUP_DESTROY };
/* Carried out after all that the group holds. */
ncclResult_t group_end_later(enum group_ending how, struct ncclComm *handle);
ncclResult_t group_revoke_later(struct ncclComm *handle);

/* ---- life.c ---- */

ncclResult_t life_finalize(struct ncclComm *handle);
ncclResult_t life_revoked(struct ncclComm *handle); /* leaves it */
/* After handle_close. */
ncclResult_t life_destroy(struct ncclComm *handle);

/* ---- memory.c ---- */

ncclResult_t memory_window(struct ncclComm *owner, struct ncclComm *window);
/* Forgets the windows of a communicator that ends. */
void memory_forget(struct ncclComm *owner);

#endif
