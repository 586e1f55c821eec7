/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives of GPUs that share no memory, on several hosts for one: through pinned host memory and the team. Each
 * file has a header for its functions; this one has their data. */
#ifndef TUTTI_EXECUTOR_STAGED_STAGED_H
#define TUTTI_EXECUTOR_STAGED_STAGED_H

#include "base/list.h"
#include "base/thread.h"
#include "device/cuda/driver.h"
#include "device/cuda/kernels/kernels.h"
#include "engine/engine.h"
#include "engine/p2p.h"
#include "executor/staged/relay.h"
#include "executor/stream/base.h"

#include <pthread.h>

#define SLICES 3 /* of a channel: one is copied from the GPU, one is with the team, one is copied to the GPU */

struct job;
struct asker;
struct dynamic_call;
struct staged_windows;
struct window_item;

/* How a reduction is staged (fold.c). */
enum fold {
    FOLD_NONE,  /* by the team, on processors */
    FOLD_WHOLE, /* all that is reduced at a rank is sent there, and the GPU reduces it */
    FOLD_PARTS  /* each rank's GPU reduces a part of the slice, which is then sent to who wants it */
};

/* A slice of a collective. Messages lie in the memory of all three slices as they need it. */
struct slice {
    char *memory, *in, *out; /* pinned; where its input and its output lie in it */
    CUevent copied_in, copied_out;
    uint64_t position;  /* in the team's queue */
    size_t from, count; /* elements of each block */
};

/* A thread, a team and an engine of its own: channels do not wait for one another. */
struct channel {
    struct staged *staged;
    int index;
    struct engine *engine; /* NULL: channel 0 has the communicator's team */
    struct team *team;
    struct team *rail; /* a part of `team`, or all of it, for jobs on rails; NULL: there is none */
    CUstream in, out;  /* these, and all events, are NULL where there is a courier */
    CUevent finished;  /* behind the channel's last copy for a job */
    struct slice slice[SLICES];
    uint32_t ordered, job; /* of the courier: the last order; the job that it is of */
    uint64_t pace;         /* ns that the latest copies took for 1 MiB; 0: not known */
    bool brought;          /* the job's kernel has come with the first block already */
    struct list jobs;      /* by job->turn[index] */
    pthread_cond_t news;
    struct thread thread;
    bool stop;
};

/* A thread that asks the driver whether the GPU still works, where a kernel copies. */
struct doubt {
    CUevent event; /* never recorded */
    pthread_mutex_t lock;
    pthread_cond_t news;
    struct thread thread;
    bool asked, stop;
    uint64_t looked;  /* for freed memory, last */
    _Atomic int lost; /* the driver's error */
};

struct staged {
    struct stream_base base;
    _Atomic uint32_t *done; /* pinned: the last job that is complete; behind it: the last operation that is over */
    CUdeviceptr done_device;
    void *pinned; /* all slices. Made before anything waits: pinning memory may wait for all work of the GPU */
    size_t slice_bytes;
    int blocks;   /* of a kernel, at most, as the user says; 0: nothing said */
    int channels; /* the same on all ranks */
    struct kernel_copy
        *copies; /* pinned, one a channel: a kernel in the user's stream copies; NULL: streams of the channels do */
    CUdeviceptr copies_device;
    struct kernel_post *post; /* pinned, behind the copies: where graphs' kernels ask for their jobs */
    CUdeviceptr launches;     /* device memory: their launches */
    struct doubt doubt;
    bool kernel;        /* a kernel is to copy */
    bool folds;         /* the GPUs of all ranks reduce what is staged */
    bool direct;        /* adapters read and write the GPU's memory by themselves, where they can */
    bool alone;         /* no executor above this one has islands: the rail is all ranks, where there is one */
    size_t direct_from; /* bytes of a message from which all ranks' adapters do; SIZE_MAX: not those of all ranks */
    int rail_ranks;     /* of the longest rail */
    bool crowded;       /* the ranks' threads may have to share processors */
    struct relays relays;
    struct channel channel[ENGINE_MOST];
    pthread_mutex_t lock;
    struct list jobs;    /* all that are not complete, in the order of issue */
    struct list recipes; /* what graphs hold, until the executor ends */
    uint32_t recipe;     /* the last one's number */
    uint32_t posted;     /* the last launch of a graph that was answered, */
    uint32_t given;      /* and its job: odd numbers, others have even ones */
    uint32_t issued;
    uint32_t told;                  /* jobs whose end the user has waited for */
    struct staged_windows *windows; /* windows.c; NULL: there was none yet */
    struct asker *asker;            /* of these */
    _Atomic uint64_t sent;          /* bytes of rows whose lengths the GPU knew */
    bool exchanged;                 /* there were such */
    bool broken;                    /* a job has failed */
    bool refuses;                   /* the communicator has failed, and no job comes any more: peers are to hear so */
};

/* A collective, sends and receives of a group, an exchange whose lengths the GPU knows, or calls on windows. */
struct job {
    struct list node;              /* in staged->jobs; in staged->recipes */
    struct list turn[ENGINE_MOST]; /* in channel->jobs */
    struct call call;
    bool on_rail;              /* the call is of the ranks of this one's rail, and a step of */
    struct call step_of;       /* one of all ranks */
    size_t each, slices;       /* elements of each block in a slice; slice s belongs to channel s modulo their number */
    enum fold fold;            /* FOLD_NONE: it is no reduction, or no GPU reduces */
    struct p2p_item *items;    /* NULL: a collective, in slices; or */
    struct window_item *asked; /* calls on windows that a graph holds */
    int count;                 /* of the list */
    size_t *lengths;           /* of a reduce-scatter: elements of each rank's block; NULL: all have as many */
    struct dynamic_call *dynamic; /* the list is made when the user's stream has come to the job (dynamic.c) */
    struct place memory[2]; /* of that: all of its output and of its input, for adapters; device 0: not for them */
    uint32_t sequence;      /* of what a graph holds: the recipe's number */
    bool replayed;          /* a graph's */
    uint32_t channels;      /* bits of those that take part: always channel 0, which waits for the user's stream */
    int left;               /* channels that are not through */
    bool failed;
    uint32_t ticket; /* of the communicator's operation, which the host is to store; 0: a stream stores it */
    uint32_t before; /* of the operation before, which a stream may store */
    CUevent ready;   /* the user's stream has come to the job; NULL: there is a courier */
};

/* Whose call a job is. */
static inline struct team *job_team(const struct channel *channel, const struct job *job)
{
    return job->on_rail ? channel->rail : channel->team;
}

/* How many ranks a job is among: on rails the same for all, also for ranks that are on none. */
static inline size_t job_ranks(const struct staged *staged, const struct job *job)
{
    return (size_t)(job->on_rail ? staged->rail_ranks : staged->channel[0].team->nranks);
}

/* What a slice has of a rank's block, and where that begins behind the first of all blocks: elements. */
struct job_part {
    size_t from, count;
};
static inline struct job_part job_part(const struct job *job, const struct slice *slice, int rank)
{
    size_t before = (size_t)rank * job->call.count, length = job->lengths ? job->lengths[rank] : job->call.count;
    if (job->lengths) {
        before = 0;
        for (int i = 0; i < rank; i++)
            before += job->lengths[i];
    }
    size_t left = length > slice->from ? length - slice->from : 0;
    return (struct job_part){before + slice->from, left < slice->count ? left : slice->count};
}

#endif
