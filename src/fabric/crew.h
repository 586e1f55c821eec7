/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The crew: threads of this process that issue a group's calls for several GPUs at the same time. A launch takes the driver 4 us of
 * the caller's time, whatever is launched: one thread with four GPUs would need 16. docs/fabric.md.
 */
#ifndef TUTTI_FABRIC_CREW_H
#define TUTTI_FABRIC_CREW_H

/* One share of the work. The shares of a call may be carried out at the same time. */
typedef void crew_work_t(void *argument, int share);

/*
 * Carries out shares 0 to count - 1, and returns when all are done. The caller does what the crew cannot take: all of it when the
 * last time was long ago and the crew is asleep, when another thread has the crew, or where there are too few processors.
 */
void crew_run(crew_work_t *work, void *argument, int count);

/* For each fabric of the process. The crew ends with the last one. */
void crew_join(void);
void crew_leave(void);

#endif
