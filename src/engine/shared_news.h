/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks tell one another of failures through the memory that they share. */
#ifndef TUTTI_ENGINE_SHARED_NEWS_H
#define TUTTI_ENGINE_SHARED_NEWS_H

#include "engine/team.h"

/* Tells the other ranks of the arena how far the team still goes, and first why. */
void shared_tell_failure(struct team *team, bool first);
void shared_gone(struct team *team, int rank, enum wire_cause how);
/* Did the rank know of the failure, before it left? */
bool shared_knew(const struct team *team, int rank);

#endif
