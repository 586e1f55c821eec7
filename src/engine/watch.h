/* SPDX-License-Identifier: Apache-2.0 */
/* A wait that lasts. */
#ifndef TUTTI_ENGINE_WATCH_H
#define TUTTI_ENGINE_WATCH_H

#include <stdint.h>

struct op;
struct team;

/* When it began, and whom it is for. */
struct watch {
    uint64_t position;
    int peer;
    uint32_t round, slice;
    uint64_t since, next, warn, tell; /* when it began, when to look again, to warn, to tell the application */
};

/* `op` waits for op->waiting. Under the team's lock. */
void team_watch(struct team *team, const struct op *op, uint64_t now);
/* Fails: `what` has waited `waited` ns for a process that gives no sign of life. */
void team_give_up(struct team *team, int rank, uint64_t waited, const char *what);

#endif
