/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A listening port that refuses strangers. Each connection is sent a random number and must answer with a hello that proves it
 * knows the nonce; then its socket goes to the owner. Until then it costs one small record, has a few seconds, and is the first to
 * go when there are too many.
 */
#ifndef TUTTI_BOOTSTRAP_GATE_H
#define TUTTI_BOOTSTRAP_GATE_H

#include "base/list.h"
#include "bootstrap/stream.h"

struct gate;

/* A proven hello. The callee owns `fd` from now on. `challenge` is this side's random number of that connection. */
typedef void (*gate_hello_fn)(struct gate *gate, int fd, const struct boot_hello *hello, const uint8_t challenge[16]);

struct gate {
    struct poll_source source;
    struct poller *poller;
    const uint8_t *nonce;
    gate_hello_fn hello;
    struct bootstrap_counters *counters;
    struct list waiting; /* struct newcomer, oldest first */
    int waiting_count, room;
    uint64_t full_since; /* no descriptor or memory for a caller since then; 0: there is room */
    int full_error;
    bool open, paused;
};

/* Listens at *at (changed to the address bound). The fields of `gate` are set here; counters and nonce must outlive it. */
tutti_result_t gate_open(struct gate *gate, struct poller *poller, struct net_address *at, const uint8_t *nonce,
                         gate_hello_fn hello, struct bootstrap_counters *counters);
void gate_close(struct gate *gate);
/* Drops connections whose time is up; call it a few times a second while gate_busy. */
void gate_tick(struct gate *gate, uint64_t now);
/* Has there been no room for callers for so long that waiting helps no more? Sets the rest of *failed, all but `rank`. */
bool gate_full(const struct gate *gate, uint64_t now, struct boot_failed *failed);
static inline bool gate_busy(const struct gate *gate)
{
    return gate->waiting_count > 0 || gate->paused;
}

#endif
