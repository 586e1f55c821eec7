/* SPDX-License-Identifier: Apache-2.0 */
/* The control socket of a process: an abstract datagram socket "softverbs.SLOT", which also reserves the process's slot
 * of queue pair numbers in its network namespace. Only the same user and root are heard. */
#ifndef VERBS_CONTROL_H
#define VERBS_CONTROL_H

#include <stddef.h>
#include <stdint.h>

#define CONTROL_PREFIX "softverbs."
#define CONTROL_ANSWER 8192

/* 0, or errno (EADDRINUSE: another process has this slot). */
int control_bind(int fd, uint32_t slot);

/* Answers what waits on the socket. With the engine's lock held. */
void control_serve(int fd);

/* Runs one command. 0 or errno; the answer is text. */
int control_run(const char *command, char *answer, size_t size);

#endif
