/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Worker threads of this process that issue a group's calls for several GPUs at the same time. A launch takes the
 * driver 4 us of the caller's time, whatever is launched: one thread with four GPUs would need 16. docs/executor.md.
 */
#ifndef TUTTI_ENGINE_WORKERS_H
#define TUTTI_ENGINE_WORKERS_H

#include <stdint.h>

/* One share of the work. Shares may be carried out at the same time. */
typedef void worker_task_t(void *argument, int share);

/*
 * Hands shares 1 to count - 1 to members that are awake, one to each at most. Returns the set of those; none if the
 * last time was long ago, if another thread has the workers, or where there are too few processors. The caller carries
 * out the others, in an order in which none of them waits for a later one, and then awaits those that were handed out.
 */
uint32_t workers_hand(worker_task_t *work, void *argument, int count);
void workers_await(uint32_t handed);

/* For each executor of the process. They end with the last one. */
void workers_join(void);
void workers_leave(void);

#endif
