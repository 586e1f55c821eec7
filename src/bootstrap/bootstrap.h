/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bootstrap: ranks that know only a unique id (an address and a nonce) find each other and get a small control
 * allgather. It needs TCP and nothing else, so it works before any transport does. See docs/bootstrap.md.
 *
 * One process opens the root; all ranks, that process's included, join. Each rank sends one hello to the root and gets
 * the addresses of the ceil(log2 n) ranks at distance 1, 2, 4, ... Then the root is not needed any more.
 */
#ifndef TUTTI_BOOTSTRAP_BOOTSTRAP_H
#define TUTTI_BOOTSTRAP_BOOTSTRAP_H

#include "base/poller.h"
#include "tutti/tutti.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bootstrap_root;
struct bootstrap;

struct bootstrap_counters {
    uint64_t messages_sent, messages_received; /* frames, handshakes included */
    uint64_t bytes_sent, bytes_received;
    uint64_t connected; /* connections opened */
    uint64_t accepted;  /* connections accepted and proven */
    uint64_t retries;   /* attempts to connect that failed and were repeated */
    uint64_t strangers; /* connections accepted and dropped without a proof */
};

/*
 * Opens the root of one communicator. It lives in `poller` and needs nothing but somebody who calls poller_wait; it
 * never blocks. id NULL: on the best interface (TUTTI_SOCKET_IFNAME), any port, a fresh nonce. Else: at the address and
 * with the nonce of `id`. *out_id (may be NULL) gets the id to join with.
 */
tutti_result_t bootstrap_root_open(struct poller *poller, const tutti_unique_id_t *id, tutti_unique_id_t *out_id,
                                   struct bootstrap_root **out);
/* As bootstrap_root_open with an id, but listens on all addresses of this host; only the id's family, port and nonce
 * are used. */
tutti_result_t bootstrap_root_open_anywhere(struct poller *poller, const tutti_unique_id_t *id,
                                            struct bootstrap_root **out);
/* True once all ranks have joined or been told of the failure, or the first rank's time is up. The sockets are closed
 * then; only bootstrap_root_close is left to do. From any thread. */
bool bootstrap_root_done(const struct bootstrap_root *root);
/* True once every rank has been told: it is done as soon as they have hung up. From any thread. */
bool bootstrap_root_answered(const struct bootstrap_root *root);
/* `rank` of the `nranks` that are to join keeps the meeting from taking place, and so do not come the first `members`:
 * all others are told, also those that come later, within TUTTI_INIT_TIMEOUT. In the thread that runs the poller, or
 * when none does. */
enum bootstrap_refusal { BOOTSTRAP_DIED, BOOTSTRAP_SILENT, BOOTSTRAP_FAILED };
/* What another thread writes to make every call of a rank fail soon: 0 until then, BOOTSTRAP_ABORT because its user
 * wants it, or the rank because of which it fails: others are told of that one. */
typedef _Atomic uint64_t bootstrap_stop_t;
#define BOOTSTRAP_ABORT 1u
static inline uint64_t bootstrap_stop_for(enum bootstrap_refusal how, int rank)
{
    return (uint64_t)(how + 1) << 32 | (uint32_t)rank;
}
void bootstrap_root_refuse(struct bootstrap_root *root, enum bootstrap_refusal how, int rank, int nranks, int members);
/* Frees it. Ranks that still wait for it fail. In the thread that runs the poller, or when none does. NULL is fine. */
void bootstrap_root_close(struct bootstrap_root *root);

/*
 * Joins as `rank` of `nranks` and blocks until all connections of this rank stand. Every rank calls it once, with the
 * same id and nranks. deadline_ns: on the clock of clock_ns(). abort (may be NULL) is watched until bootstrap_close.
 *
 * A failure names the rank to blame where one is known:
 *   TUTTI_INVALID_ARGUMENT  not an id, rank not in [0, nranks)
 *   TUTTI_INVALID_USAGE     wrong nonce or version; two processes with one rank, ranks that disagree on nranks
 *   TUTTI_REMOTE_ERROR      a rank died, did not come, or was aborted; the root went away
 *   TUTTI_SYSTEM_ERROR      sockets or memory
 */
tutti_result_t bootstrap_join(const tutti_unique_id_t *id, int rank, int nranks, uint64_t deadline_ns,
                              const bootstrap_stop_t *abort, struct bootstrap **out);

/* The deadline of the following operations; after bootstrap_join it is the join's. */
void bootstrap_set_deadline(struct bootstrap *bootstrap, uint64_t deadline_ns);

/*
 * Everyone's `size` bytes to everyone, in rank order; `mine` may be its place in `all`. Every rank calls it with the
 * same size. ceil(log2 n) messages sent and received. One thread at a time. After a failure every later operation
 * returns the same.
 */
tutti_result_t bootstrap_allgather(struct bootstrap *bootstrap, const void *mine, size_t size, void *all);
/* Returns on no rank before every rank has called it. */
tutti_result_t bootstrap_barrier(struct bootstrap *bootstrap);

/* The rank that died or hung up, and so broke the bootstrap; -1: none is known. NULL is allowed. */
int bootstrap_lost(const struct bootstrap *bootstrap);

void bootstrap_counters(const struct bootstrap *bootstrap, struct bootstrap_counters *out);
/* NULL is fine. Peers that are in an operation, or start one, fail with a remote error. */
void bootstrap_close(struct bootstrap *bootstrap);

#endif
