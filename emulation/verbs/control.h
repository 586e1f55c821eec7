/* SPDX-License-Identifier: Apache-2.0 */
/* The control socket of a process: an abstract datagram socket "softverbs.SLOT", which also reserves the process's slot
 * of queue pair numbers in its network namespace. Only the same user and root are heard. */
#ifndef VERBS_CONTROL_H
#define VERBS_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define CONTROL_PREFIX "softverbs."
#define CONTROL_ANSWER 8192

/* Whether a line of /proc/net/unix is about a control socket, and of which slot. */
static inline bool control_slot_of(const char *line, unsigned *slot)
{
    const char *name = strstr(line, "@" CONTROL_PREFIX);
    if (name)
        *slot = (unsigned)strtoul(name + 1 + strlen(CONTROL_PREFIX), NULL, 10);
    return name;
}

/* 0, or errno (EADDRINUSE: another process has this slot). */
int control_bind(int fd, uint32_t slot);

/* Answers what waits on the socket. With the engine's lock held. */
void control_serve(int fd);

/* Runs one command. 0 or errno; the answer is text. */
int control_run(const char *command, char *answer, size_t size);

#endif
