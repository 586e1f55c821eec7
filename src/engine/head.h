/* SPDX-License-Identifier: Apache-2.0 */
/* The operation at the head of a team's queue, as others may see it. */
#ifndef TUTTI_ENGINE_HEAD_H
#define TUTTI_ENGINE_HEAD_H

#include "engine/team.h"

/* Could the operation at the head move? Under the engine's lock. */
bool team_may_move(struct team *team);
/* Has its caller something to look at? Also what another thread runs just now, or has ended. Under the engine's lock.
 */
bool team_may_want(struct team *team);
/* The operation at the head of the queue. False: there is none, or another thread runs it just now. */
struct team_head {
    const struct op_kind *kind;
    bool started;
    int waiting; /* rank it waits for; -1 */
};
bool team_head(struct team *team, struct team_head *head);

#endif
