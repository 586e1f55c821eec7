/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this folder share. */
#ifndef TUTTI_FABRIC_INTERNAL_H
#define TUTTI_FABRIC_INTERNAL_H

#include "base/list.h"
#include "device/cuda/device.h"
#include "device/cuda/driver.h"
#include "device/cuda/launch.h"
#include "device/cuda/memory.h"
#include "fabric/board.h"
#include "fabric/fabric.h"
#include "fabric/staged.h"

#include <pthread.h>

#define IMPORTS      64 /* buffers of one peer that stay mapped */
#define RETIRED_MOST 32 /* mappings that nobody wants any more, before they are closed */

/* A peer's allocation that is mapped here. */
struct import {
    uint64_t id, base, used; /* used: 0: this place is free */
    struct cuda_handle handle;
    CUdeviceptr address;
};

struct retired {
    struct list node;
    struct cuda_handle handle;
    CUdeviceptr address;
};

/* Where the stream stood when sends were issued. */
struct mark {
    CUevent event;
    int users;
};

/* A send by copy engine whose receiver has not said where to. */
struct transfer {
    struct list node;
    int peer;
    const void *from;
    uint64_t bytes;
    uint32_t sequence;
    struct mark *mark;
};

struct fabric {
    struct team *team;
    const struct cuda_driver *cu;
    struct cuda_device *device;
    int rank, nranks;
    bool in_host;          /* windows are in host memory: GPUs do not reach each other */
    bool copies;           /* copy engines may carry large messages */
    bool here[KERNEL_RANKS]; /* the rank lives in this process */
    struct staged *staged; /* ranks share no memory: all goes by it, and nothing below is used but `order` */
    size_t copy_from;      /* bytes of a message from which on it is copied */

    struct board *board;
    bool board_registered;
    CUdeviceptr board_device;
    struct kernel_team kernels; /* what every launch takes */
    CUdeviceptr window, bulk;   /* own device memory; 0: none */
    struct board_buffer windows[KERNEL_RANKS], bulks[KERNEL_RANKS];
    bool window_imported[KERNEL_RANKS], bulk_imported[KERNEL_RANKS];
    bool bulk_posted, bulk_ready;
    size_t device_bytes;

    CUevent order; /* after the last operation outside of graphs */
    CUstream last;
    _Atomic bool any;      /* there was one */
    _Atomic bool captured; /* there was one in a graph: the event tells nothing of those */

    _Atomic uint32_t sent[KERNEL_RANKS], received[KERNEL_RANKS];
    pthread_mutex_t lock; /* guards what follows, and marks */
    struct list pending;  /* transfers, in the order of their calls */
    CUstream copy[KERNEL_RANKS];
    struct import import[KERNEL_RANKS][IMPORTS];
    uint64_t imports_used;
    struct list retired;
    _Atomic int retired_count;

    pthread_t helper;
    bool helper_runs;
    _Atomic bool stop;
};

/* order.c: this rank's operations follow one another, whatever streams they are issued on */
tutti_result_t order_begin(struct fabric *fabric, CUstream stream, bool *capturing);
tutti_result_t order_end(struct fabric *fabric, CUstream stream, bool capturing, tutti_result_t issued);

/* memory.c */
tutti_result_t memory_zeroed(const struct cuda_driver *cu, size_t size, CUdeviceptr *out);

/* scratch.c: windows, and the larger scratch that is made at its first use */
tutti_result_t scratch_window(struct fabric *fabric);
tutti_result_t scratch_describe(struct fabric *fabric, CUdeviceptr memory, struct board_buffer *out);
tutti_result_t scratch_reach(struct fabric *fabric, int peer, const struct board_buffer *theirs, CUdeviceptr *out, bool *imported);
tutti_result_t scratch_post_bulk(struct fabric *fabric);
tutti_result_t scratch_take_bulk(struct fabric *fabric);
/* Gives back peers' memory, and own as soon as no peer writes to it. */
void scratch_close(struct fabric *fabric);

/* exchange.c: any pattern of messages between ranks, of which each sends and receives one to and from each */
tutti_result_t exchange_issue(struct fabric *fabric, struct kernel_exchange *what, CUstream stream, bool capturing);

/* copy.c: large messages, by copy engine */
tutti_result_t copy_exchange(struct fabric *fabric, const struct kernel_exchange *what, uint32_t sends, uint32_t recvs, CUstream stream);
tutti_result_t copy_chain(struct fabric *fabric, const char *from, char *to, uint64_t bytes, uint64_t piece, int before, int after,
                          CUstream stream);
void copy_pending(struct fabric *fabric);
void copy_drop(struct fabric *fabric);
/* Closes mappings that are not wanted any more, if nothing is under way. */
void copy_tidy(struct fabric *fabric);
void copy_close(struct fabric *fabric);

/* helper.c: the thread that acts on news of peers */
tutti_result_t helper_start(struct fabric *fabric);
void helper_stop(struct fabric *fabric);
/* The team's failure; asked before every issue, and while waiting for a peer's host. */
tutti_result_t fabric_failure(struct fabric *fabric);
/* An error if one of these has closed its fabric: it will not take what this rank sends. */
tutti_result_t fabric_needs(struct fabric *fabric, uint32_t ranks);

static inline CUdeviceptr board_address(const struct fabric *fabric, const void *word)
{
    return fabric->board_device + (CUdeviceptr)((const char *)word - (const char *)fabric->board);
}

#endif
