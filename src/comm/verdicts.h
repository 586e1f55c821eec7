/* SPDX-License-Identifier: Apache-2.0 */
/* Tells the listeners of this process what the master of the job has found, where an agent of this host leaves it. */
#ifndef TUTTI_COMM_VERDICTS_H
#define TUTTI_COMM_VERDICTS_H

/* One more listener. Returns a descriptor that is readable when there may be news; it stays open until the last one has
 * gone. -1: the system has none to give, and verdicts_look() looks itself each time. What is there already is not
 * told. */
int verdicts_follow(void);
void verdicts_leave(void);
/* Tells what is new. Never waits. */
void verdicts_look(void);

#endif
