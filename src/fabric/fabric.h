/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fabric: the GPUs of one host that a communicator's ranks own, one each, and that write into one another's memory. What a
 * team is to host memory a fabric is to device memory: it carries out collectives, in the order of CUDA streams, and never
 * makes a caller wait for a peer's work. docs/fabric.md.
 */
#ifndef TUTTI_FABRIC_FABRIC_H
#define TUTTI_FABRIC_FABRIC_H

#include "engine/p2p.h"
#include "engine/team.h"

struct fabric;

/* A CUstream; NULL is the legacy default stream. */
typedef void *fabric_stream_t;

#define FABRIC_BLOCKS 64
#define FABRIC_RANKS  8 /* most that share a board; more are staged through the host */

/* How a fabric is to be made. */
struct fabric_order {
    int device; /* CUDA ordinal */
    int blocks; /* of a kernel, at most; 0: the library's own number */
    int policy; /* TUTTI_POLICY_... */
};

/* As the parameters say, on no device. */
struct fabric_order fabric_order(void);

/* The host memory that the ranks of a fabric share; one rank makes it and hands the descriptor to the others. */
tutti_result_t fabric_create_board(int nranks, int *fd);

/*
 * Collective over the team: this rank owns the order's CUDA device. `board` is a descriptor of what one rank made by
 * fabric_create_board(), which stays the caller's; -1 where ranks share no memory: then all is staged through the host. The team
 * must outlive the fabric.
 */
tutti_result_t fabric_open(struct team *team, const struct fabric_order *order, int board, struct fabric **out);
/* Waits for this rank's work unless the team has failed. Does not wait for peers: memory that they may still write to is
 * freed when they have closed theirs. NULL is allowed. */
void fabric_close(struct fabric *fabric);

/*
 * The user aborts: no call begins any more. What peers have come to, too, is brought to its end, for a bounded time; then the team fails, and peers'
 * operations that need nothing more of this rank end as if nothing had happened. False: there is no such way, or the team has failed.
 */
bool fabric_leave(struct fabric *fabric);
void fabric_wait_left(struct fabric *fabric);

/* What may need peers' hosts is begun: calls that one thread issues for several ranks are all prepared before any is issued. */
tutti_result_t fabric_prepare(struct fabric *fabric, const struct call *call);
tutti_result_t fabric_collective(struct fabric *fabric, const struct call *call, fabric_stream_t stream);
/* Sends and receives of one group, at the same time. */
tutti_result_t fabric_p2p(struct fabric *fabric, const struct p2p_item *items, int count, fabric_stream_t stream);
/* What comes on `stream` follows what is on `before`: for a group on several streams. */
tutti_result_t fabric_follow(struct fabric *fabric, fabric_stream_t stream, fabric_stream_t before);

/* Whether other threads may issue calls on the stream in the caller's stead: not what is captured, or the caller's own stream. */
bool fabric_any_thread(struct fabric *fabric, fabric_stream_t stream);

/* The team's failure, also if so far only the board tells of it: streams may have been let go already, with undefined data. */
tutti_result_t fabric_hear_failure(struct fabric *fabric);

/* Waits for all that was issued outside of graphs. */
tutti_result_t fabric_synchronize(struct fabric *fabric);

/* Its operations go by the team's messages, in threads of their own: nobody else may use the team meanwhile. */
bool fabric_uses_team(const struct fabric *fabric);

int fabric_device(const struct fabric *fabric);
void fabric_memory(struct fabric *fabric, size_t *device_bytes, size_t *host_bytes);

/* Memory of the thread's current device that peers can map. */
tutti_result_t fabric_memory_alloc(void **out, size_t size);
tutti_result_t fabric_memory_free(void *pointer);

#endif
