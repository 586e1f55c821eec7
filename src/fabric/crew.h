/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The crew: threads of this process that issue a group's calls for several GPUs at the same time. A launch takes the driver 4 us of
 * the caller's time, whatever is launched: one thread with four GPUs would need 16. docs/fabric.md.
 */
#ifndef TUTTI_FABRIC_CREW_H
#define TUTTI_FABRIC_CREW_H

#include <stdint.h>

/* One share of the work. Shares may be carried out at the same time. */
typedef void crew_work_t(void *argument, int share);

/*
 * Hands shares 1 to count - 1 to members that are awake, one to each at most. Returns the set of those; none if the last time was long
 * ago, if another thread has the crew, or where there are too few processors. The caller carries out the others, in an order in which
 * none of them waits for a later one, and then awaits those that were handed out.
 */
uint32_t crew_hand(crew_work_t *work, void *argument, int count);
void crew_await(uint32_t handed);

/* For each fabric of the process. The crew ends with the last one. */
void crew_join(void);
void crew_leave(void);

#endif
