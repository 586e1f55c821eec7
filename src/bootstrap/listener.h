/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A listening port that refuses strangers. Each connection is sent a random number and must answer with a hello that
 * proves it knows the nonce; then its socket goes to the owner. Until then it costs one small record, has a few
 * seconds, and is the first to go when there are too many.
 */
#ifndef TUTTI_BOOTSTRAP_LISTENER_H
#define TUTTI_BOOTSTRAP_LISTENER_H

#include "base/list.h"
#include "bootstrap/stream.h"

struct listener;

/* A proven hello. The callee owns `fd` from now on. `challenge` is this side's random number of that connection. */
typedef void (*listener_hello_fn)(struct listener *listener, int fd, const struct boot_hello *hello,
                                  const uint8_t challenge[16]);

struct listener {
    struct poll_source source;
    struct poller *poller;
    const uint8_t *nonce;
    listener_hello_fn hello;
    struct bootstrap_counters *counters;
    struct list waiting; /* struct newcomer, oldest first */
    int waiting_count, room;
    uint64_t full_since; /* no descriptor or memory for a caller since then; 0: there is room */
    int full_error;
    bool open, paused;
};

/* Listens at *at (changed to the address bound). The fields of `listener` are set here; counters and nonce must outlive
 * it. */
tutti_result_t listener_open(struct listener *listener, struct poller *poller, struct net_address *at,
                             const uint8_t *nonce, listener_hello_fn hello, struct bootstrap_counters *counters);
void listener_close(struct listener *listener);
/* Drops connections whose time is up; call it a few times a second while listener_busy. */
void listener_tick(struct listener *listener, uint64_t now);
/* Has there been no room for callers until waiting helps no more? Sets the rest of *failed, all but `rank`. */
bool listener_full(const struct listener *listener, uint64_t now, struct boot_failed *failed);
static inline bool listener_busy(const struct listener *listener)
{
    return listener->waiting_count > 0 || listener->paused;
}

#endif
