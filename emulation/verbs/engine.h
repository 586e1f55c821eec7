/* SPDX-License-Identifier: Apache-2.0 */
/* What moves the emulated adapter: one lock, one background thread, and whoever polls. The table of queue pairs, and
 * timers. */
#ifndef VERBS_ENGINE_H
#define VERBS_ENGINE_H

#include "verbs/object.h"

void engine_lock(void);
void engine_unlock(void);

/* The first user starts the engine (sockets, a slot of queue pair numbers, the thread), the last one stops it. With the
 * lock held; engine_release may let it go for a while. 0 or errno. */
int engine_retain(void);
void engine_release(void);

/* Enters a queue pair into the table and gives it a number. 0 or errno. */
int engine_add_qp(struct qp *qp);
void engine_remove_qp(struct qp *qp);
struct qp *engine_find_qp(uint32_t qpn);
/* Every queue pair of this process. */
void engine_each_qp(void (*each)(struct qp *qp, void *arg), void *arg);

/* There is something to send for this queue pair: it will be run before the engine rests. */
void engine_mark(struct qp *qp);

/* As engine_mark, of a queue pair whose peer has nothing to do until it hears more: not after a few batches, but after
 * this one. */
void engine_hurry(struct qp *qp);

/* The queue pair has a timer that ends at `deadline`. */
void engine_arm(struct qp *qp, uint64_t deadline);

/* As engine_arm, but a sleeping thread is not woken to be on time to less than half a millisecond. Pollers are. */
void engine_arm_loosely(struct qp *qp, uint64_t deadline);

/* fault_release must run at `deadline`. */
void engine_alarm(uint64_t deadline);

/* Runs what was marked and sends what was built. */
void engine_push(void);

/* One step of progress by a thread that polls. Does nothing when another thread is at it. */
void engine_poll(const void *queue);

/* A thread polls and found something: it will be back for more. */
void engine_polled(void);

/* At the end of the process. */
void engine_settle(void);

/* The program goes to sleep: the thread must watch. */
void engine_watch(void);

/* The first slot of queue pair numbers that this process has; 0: none. */
uint32_t engine_slot(void);

#endif
