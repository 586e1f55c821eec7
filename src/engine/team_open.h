/* SPDX-License-Identifier: Apache-2.0 */
/* The beginning and the end of a team. */
#ifndef TUTTI_ENGINE_TEAM_OPEN_H
#define TUTTI_ENGINE_TEAM_OPEN_H

#include "engine/team.h"

/* Ranks for each processor where `rank` may run, in percent: of the machine, which has `online` of them, or of those
 * that its launcher or container has left it, whichever is more. Above 100 they must take turns. Sets of processors
 * that overlap in part are taken for apart. */
int team_crowd(const struct roster *roster, const int32_t *row, int nranks, int rank, long online);
/* The levels of `near` in a team, nearest first: GPUs that NVLink joins, hosts, and what TUTTI_PLACE tells. */
enum { TEAM_LEVEL_ISLAND, TEAM_LEVEL_HOST, TEAM_LEVEL_PLACES, TEAM_LEVELS = TEAM_LEVEL_PLACES + WIRE_PLACES };
/* Of `nranks` ranks. row: by rank, numbers of rows of the roster; NULL: ranks are rows. */
tutti_result_t team_levels(const struct roster *roster, const int32_t *row, int nranks, struct levels **out);
/* The ranks: one of these is given. */
struct team_members {
    const struct roster *roster;          /* by rank; the team holds it, too */
    const struct wire_process *processes; /* by rank; of their GPUs nothing is known */
    const struct team *of;                /* ranks of another team: */
    const int *rank;                      /* which, by rank */
};
/* What a team is to be. The engine's thread may use a team as soon as it is in the list: nothing of this is changed
 * later. */
struct team_config {
    uint64_t id;
    const char *name;
    int rank, nranks;
    struct team_members members;
    struct team *whole; /* or NULL. Else the new team is a part of it (part.h), and the members are ranks of it */
    const struct choice_table *choices; /* or NULL */
    uint64_t timeout_ms;                /* 0: TUTTI_TIMEOUT */
    struct team_bound bound;
    bool untold; /* another team fails with it, and the log has its failure from that one */
};
/* The team of `rank` among the processes; takes over nothing: what is said of members is copied. Joins the engine's
 * list. */
tutti_result_t team_open(struct engine *engine, const struct team_config *config, struct team **out);
/* No operation is running or queued. Waits for visitors, who leave since none is. */
void team_close(struct team *team);
/* Bytes that it holds. */
size_t team_memory(const struct team *team);

#endif
