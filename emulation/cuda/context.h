/* SPDX-License-Identifier: Apache-2.0 */
/* Devices and contexts. A context owns its streams; memory belongs to a device and remembers the context it was made
 * in. */
#pragma once

#include "cuda/state.h"
#include "cuda/config.h"

struct CUctx_st {
    int device;
    unsigned flags, refs, peers; /* peers: devices whose memory it has access to, a bit each */
    bool primary, active;
    bool held; /* a call waits for all its work, and others for that call */
    unsigned long long id;
    _Atomic CUresult error; /* sticky: what killed it */
    CUstream streams, legacy;
    struct {
        unsigned long long given, begun; /* operations */
    } queues[CONFIG_CONNECTIONS_MAX];
};

struct emulated_device {
    struct CUctx_st primary;
    size_t used; /* bytes of memory */
};

struct emulated_device *device_get(CUdevice ordinal); /* NULL: there is none */
int device_number(CUdevice ordinal);                  /* of the machine's devices; this process may not see all */
CUdevice device_of_number(int number);                /* -1: it does not see it */
CUcontext context_current(void);                      /* NULL: there is none */
CUresult context_fail(CUcontext context, CUresult error);
void context_drain(CUcontext context);   /* waits for all its streams; lock held */
void context_hold(CUcontext context);    /* the same; with TUTTI_EMULATED_BLOCK other calls on it wait meanwhile */
CUcontext context_next(CUcontext after); /* walks all live contexts; lock held */
bool context_is_live(CUcontext context);
void context_start(CUcontext context, int device, unsigned flags);
/* The stack of the thread. */
CUresult context_push(CUcontext context);
CUresult context_pop(CUcontext *out);
/* Contexts that are no device's primary one; lock held. */
CUcontext context_make(int device, unsigned flags); /* NULL: no memory, or there are too many */
bool context_is_made(CUcontext context);
void context_unmake(CUcontext context);
