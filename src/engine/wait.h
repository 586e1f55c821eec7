/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for a team's operations, and for a place among them. */
#ifndef TUTTI_ENGINE_WAIT_H
#define TUTTI_ENGINE_WAIT_H

#include "engine/team.h"

/* A place at the end of the queue. A caller that is far ahead of what runs is held back while operations go on. Fill
 * it, then team_issue. In a team that has failed there may be one for collectives alone (team_takes_collective). */
tutti_result_t team_place(struct team *team, bool collective, struct op **out);

/* Waits, progressing, until `position` operations have completed. Returns the failure of the team if one of them
 * failed. What had completed before the failure is not reported as failed, but only once: a second wait for the same
 * position hears of a failure behind it too. */
tutti_result_t team_wait(struct team *team, uint64_t position);
/* The same, but ends well as soon as `enough`, too. */
tutti_result_t team_wait_or(struct team *team, uint64_t position, const _Atomic bool *enough);

/* The user asks whether an operation has ended: from the first time on until the next call, this is a wait, too. */
void team_waits(struct team *team);

/* The failure, for the team's user, who may then end the process: peers know of it before, but for those that do not
 * answer soon. Not under the engine's lock. */
tutti_result_t team_report(struct team *team);

#endif
