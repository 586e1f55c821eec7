/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The GPU executor: the GPUs of one host that a communicator's ranks own, one each, and that write into one another's memory. What a
 * team is to host memory a GPU executor is to device memory: it carries out collectives, in the order of CUDA streams, and never
 * makes a caller wait for a peer's work. docs/executor.md.
 */
#ifndef TUTTI_EXECUTOR_GPU_GPU_H
#define TUTTI_EXECUTOR_GPU_GPU_H

#include "engine/executor.h"
#include "engine/p2p.h"
#include "engine/team.h"

struct gpu;

/* A CUstream; NULL is the legacy default stream. */
typedef void *gpu_stream_t;

#define GPU_BLOCKS 64
#define GPU_RANKS  8 /* most that share a mailbox; more are staged through the host */

/* How a GPU executor is to be made. */
struct gpu_config {
    int device; /* CUDA ordinal */
    int blocks; /* of a kernel, at most; 0: the library's own number */
    int policy; /* TUTTI_POLICY_... */
};

/* As the parameters say, on no device. */
struct gpu_config gpu_config(void);

/* The host memory that the ranks of a GPU executor share; one rank makes it and hands the descriptor to the others. */
tutti_result_t gpu_create_mailbox(int nranks, int *fd);

/*
 * Collective over the team: this rank owns the order's CUDA device. `mailbox` is a descriptor of what one rank made by
 * gpu_create_mailbox(), which stays the caller's; -1 where ranks share no memory: then all is staged through the host. The team
 * must outlive the executor.
 */
tutti_result_t gpu_open(struct team *team, const struct gpu_config *order, int mailbox, struct executor **out);
/* Waits for this rank's work unless the team has failed. Does not wait for peers: memory that they may still write to is
 * freed when they have closed theirs. NULL is allowed. */
void gpu_close(struct gpu *gpu);

/*
 * The user aborts: no call begins any more. What peers have come to, too, is brought to its end, for a bounded time; then the team fails, and peers'
 * operations that need nothing more of this rank end as if nothing had happened. False: there is no such way, or the team has failed.
 */
bool gpu_leave(struct gpu *gpu);
void gpu_wait_left(struct gpu *gpu);

/* What may need peers' hosts is begun: calls that one thread issues for several ranks are all prepared before any is issued. */
tutti_result_t gpu_prepare(struct gpu *gpu, const struct call *call);
tutti_result_t gpu_collective(struct gpu *gpu, const struct call *call, gpu_stream_t stream);
/* Sends and receives of one group, at the same time. */
tutti_result_t gpu_p2p(struct gpu *gpu, const struct p2p_item *items, int count, gpu_stream_t stream);
/* What comes on `stream` follows what is on `before`: for a group on several streams. */
tutti_result_t gpu_follow(struct gpu *gpu, gpu_stream_t stream, gpu_stream_t before);

/* Whether other threads may issue calls on the stream in the caller's stead: not what is captured, or the caller's own stream. */
bool gpu_any_thread(struct gpu *gpu, gpu_stream_t stream);

/* The team's failure, also if so far only the mailbox tells of it: streams may have been let go already, with undefined data. */
tutti_result_t gpu_hear_failure(struct gpu *gpu);

/* Waits for all that was issued outside of graphs. */
tutti_result_t gpu_synchronize(struct gpu *gpu);

void gpu_memory(struct gpu *gpu, size_t *device_bytes, size_t *host_bytes);

/* Memory of the thread's current device that peers can map. */
tutti_result_t gpu_memory_alloc(void **out, size_t size);
tutti_result_t gpu_memory_free(void *pointer);

#endif
