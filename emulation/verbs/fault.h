/* SPDX-License-Identifier: Apache-2.0 */
/* Faults on demand, seeded and repeatable: what happens to packets, which calls fail. Set by SOFTVERBS_FAULT and by the
 * control socket; the grammar is in docs/use/emulation.md. All calls under the engine's lock. */
#ifndef VERBS_FAULT_H
#define VERBS_FAULT_H

#include "verbs/wire.h"

enum fault_direction { FAULT_OUT = 1, FAULT_IN = 2 };
enum fault_call {
    FAULT_POST_SEND,
    FAULT_POST_RECV,
    FAULT_POLL,
    FAULT_REGISTER,
    FAULT_MODIFY,
    FAULT_HAND,
    FAULT_LIST,
    FAULT_OPEN,
    FAULT_QUERY_DEVICE,
    FAULT_QUERY_PORT,
    FAULT_QUERY_ADDRESS,
    FAULT_DOMAIN,
    FAULT_CHANNEL,
    FAULT_COMPLETION_QUEUE,
    FAULT_RESIZE,
    FAULT_QUEUE_PAIR,
    FAULT_SHARED_QUEUE,
    FAULT_MODIFY_SHARED,
    FAULT_NOTIFY,
    FAULT_DEREGISTER,
    FAULT_END_QUEUE_PAIR,
    FAULT_END_SHARED_QUEUE,
    FAULT_END_COMPLETION_QUEUE,
    FAULT_END_CHANNEL,
    FAULT_END_DOMAIN,
    FAULT_CLOSE,
    FAULT_EVENT,
    FAULT_COMPLETION_EVENT,
    FAULT_FORK,
    FAULT_SOURCE,
    FAULT_CALLS
};

/* Replaces or extends the settings by a text such as "drop=0.01,dup=0.01,seed=7". On error nothing changes and *why
 * says why. */
bool fault_set(const char *text, const char **why);
void fault_clear(void);
bool fault_touches_packets(void);

/* Whether writes to device memory are held back. */
bool fault_posts(void);

/* Whether adapters cannot change the UDP source port of a queue pair. */
bool fault_fixes_source(void);

/* How many copies of this packet go on now (0, 1 or 2); may change its bytes, may keep a copy for later. */
unsigned fault_packet(enum fault_direction direction, const struct path *path, uint8_t *bytes, size_t size);

/* As fault_packet, for a packet that came. */
unsigned fault_arrival(const struct arrival *arrival, uint8_t *copy);

/* Lets packets go whose time has come, out by `resend` and in by `deliver`; returns the next packet's time, 0 if none
 * waits. */
typedef void (*fault_resend_fn)(const struct path *path, const uint8_t *bytes, size_t size);
uint64_t fault_release(uint64_t now, fault_resend_fn resend, wire_deliver_fn deliver);
void fault_forget(void);

/* Whether this call is the one that must fail. */
bool fault_fails(enum fault_call call);

/* The same without the engine's lock. */
bool fault_fails_unlocked(enum fault_call call);

/* As fault_fails(), of a call that would have taken `object` back. The object stays, as does what it needs, and nobody
 * asks for it again: a list keeps it in reach, not to be taken for a leak. */
bool fault_keeps(enum fault_call call, const void *object);

/* How long it takes to open a device. Without the engine's lock. */
uint64_t fault_open_us(void);

/* As fault_fails(FAULT_POLL), cheap when that fault is not set, and without the engine's lock. */
bool fault_poll_fails(void);

#endif
