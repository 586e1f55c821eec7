/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The GPU executor: the GPUs of one host that a communicator's ranks own, one each, and that write into one another's
 * memory. The executor is to device memory what a team is to host memory. It carries out collectives, in the order of
 * CUDA streams, and never makes a caller wait for a peer's work. docs/executor.md. Each file has a header of its own.
 */
#ifndef TUTTI_EXECUTOR_GPU_GPU_H
#define TUTTI_EXECUTOR_GPU_GPU_H

#include "engine/team.h"
#include "executor/gpu/depart.h"
#include "executor/gpu/helper.h"
#include "executor/gpu/import.h"
#include "executor/gpu/imported.h"
#include "executor/gpu/launch.h"
#include "executor/gpu/mixing.h"
#include "executor/gpu/offer.h"
#include "executor/gpu/opened.h"
#include "executor/gpu/signals.h"
#include "executor/gpu/symmetric.h"
#include "executor/stream/base.h"
#include "plan/plan.h"
#include "wire/blackbox.h"

#include <pthread.h>

struct observer;
struct record;

/* The last plans that were made. */
struct planned {
    bool made, symmetric;
    uint64_t element, bytes;
    uint32_t together;
    struct plan plan[2]; /* for calls and for what is captured */
};

/* prepare.c: the choice of ways. */
struct gpu_plan {
    struct plan_facts facts;            /* from these */
    struct plan_rules rules;            /* and these */
    struct planned planned[COLL_COUNT]; /* come these: calls repeat */
};

/* exchange.c, launch.c, reduce.c: how messages go, and on how many blocks. */
struct gpu_shapes {
    struct plan_forms forms;
    struct kernel_room room;
    bool in_host; /* windows are in host memory */
};

/* scratch.c: memory that peers write to. */
struct gpu_scratch {
    CUdeviceptr window, bulk, stand_in; /* own device memory; 0: none */
    bool by_descriptor;                 /* peers map the window by descriptor, as some could not open IPC handles */
    bool in_host;                       /* windows are no GPU's memory */
    CUdeviceptr sealed;                 /* the window that the handles were of */
    struct mailbox_buffer windows[KERNEL_RANKS], bulks[KERNEL_RANKS];
    bool window_imported[KERNEL_RANKS], bulk_imported[KERNEL_RANKS];
    pthread_mutex_t posting; /* of bulk: by threads that call, or wait in a call of another communicator */
    _Atomic bool bulk_posted;
    uint32_t bulk_taken; /* ranks whose bulk this one has reached */
};

/* transfer.c, copy.c: messages and pieces by copy engine, by peer; the helper reads their numbers when the team has
 * failed. */
struct gpu_messages {
    struct mailbox_pair (*pair)[KERNEL_RANKS]; /* in the mailbox: [from][to] */
    _Atomic uint32_t sent[KERNEL_RANKS], received[KERNEL_RANKS], sent_pieces[KERNEL_RANKS],
        received_pieces[KERNEL_RANKS];
    /* by number of the latest messages, [0] sent ones: the first ticket of the operation that each was called in */
    _Atomic uint32_t first[2][KERNEL_RANKS][MIXING_MESSAGES];
    CUstream copy[2][KERNEL_RANKS]; /* [0] to a peer, [1] from it */
    bool pushes;                    /* within a process copy engines push all messages, on the sender's GPU */
    bool by_kernel;                 /* a kernel carries the messages that copy engines are too late for */
    uint64_t wait;                  /* percent of the time of its copies that a sender waits for the receiver's call */
    size_t stage;                   /* bytes of a piece of a staged message; 0: no message is staged */
};

/* offer.c, import.c: users' buffers that peers map, and peers' that are mapped here. */
struct gpu_offers {
    struct mailbox_offer (*place)[KERNEL_RANKS][MAILBOX_OFFERS]; /* in the mailbox: [owner][who may map it] */
    _Atomic uint32_t (*places)[KERNEL_RANKS];                    /* places that were ever used; in the mailbox, too */
    struct offered offered[KERNEL_RANKS][MAILBOX_OFFERS];
    uint64_t used;
    pthread_mutex_t offering;                                    /* guards `offered`, for calls and the importer */
    struct import *_Atomic import[KERNEL_RANKS][MAILBOX_OFFERS]; /* the answers to peers' offers; NULL: not mapped */
    pthread_mutex_t lock;        /* guards descriptors under way, old imports, and what imports become old */
    struct list passed_fds, old; /* old: what is to be closed when nothing is under way */
    _Atomic bool any_old;
    uint32_t invited[KERNEL_RANKS];                      /* offers to each peer that kernels are invited to */
    pthread_mutex_t telling;                             /* guards what follows */
    _Atomic uint32_t told[KERNEL_RANKS][MAILBOX_OFFERS]; /* numbers of offers that kernels know; 0: none */
    CUstream teller;
};

/* depart.c: ranks that take part no more, this one among them. settle.c: what they may still do to this one. */
struct gpu_departs {
    _Atomic bool leaving;      /* aborted: nothing begins any more, what is under way may end */
    _Atomic bool refused_call; /* a call was refused, for `refusal`: the team fails when all before it is over */
    struct departure refusal;
    struct depart_watch at_exit;
    _Atomic bool parted;                          /* the team's failure is no news to peers but by the mailbox */
    _Atomic uint32_t awaited;                     /* bits of ranks for whose hosts a call waits */
    struct opened opening, opened[MAILBOX_STEPS]; /* of the call that is issued; of steps */
    uint32_t reached;                             /* the last ticket that was over when this rank gave up */
    uint64_t patient;                             /* until then it waits for peers to end what stores to its memory */
    _Atomic bool given_up;                        /* this rank has given up */
};

struct gpu {
    struct stream_base base;
    int rank, nranks;
    bool here[KERNEL_RANKS];         /* the rank lives in this process */
    struct mailbox *mailbox;         /* all of it, for the files that make and leave it; others use parts: */
    struct mailbox_rank *ranks;      /* what each says of itself */
    struct mailbox_failure *failure; /* of the team, as some rank has told */
    _Atomic uint32_t *captured;      /* some rank has captured an operation */
    bool mailbox_registered;
    CUdeviceptr mailbox_device;
    struct kernel_team kernels;      /* what every launch takes */
    struct launch_held held;         /* small calls of a group: launch.c */
    struct launch_turns turns;       /* where a group's next call begins: launch.c */
    struct mailbox_step step;        /* of the call that is being issued: step.c */
    const struct observer *observer; /* NULL: there is none */
    struct record *record;           /* NULL: there is no black box */
    struct gpu_plan plan;
    struct gpu_shapes shapes;
    struct way_flows flows; /* collective.c: what this rank does in each collective, as it was last carried out */
    uint32_t reads;         /* reduce.c: launches whose contributions are read: their last number */
    _Atomic bool wrongs;    /* wrong.c: kernels read lengths, and may find them wrong */
    struct gpu_scratch scratch;
    struct gpu_messages messages;
    struct gpu_offers offers;
    struct gpu_symmetric symmetric;
    struct gpu_windows windows;
    struct gpu_departs departs;

    struct list near; /* in the process's list of GPU executors: here.c */
    int visitors;     /* others that act on this executor; guarded by that list's lock */

    struct gpu_helper helper;
    struct gpu_importer importer;
};

#endif
