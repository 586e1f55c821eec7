/* SPDX-License-Identifier: Apache-2.0 */
/* The function that hears of lost peers and of the failure. */
#ifndef TUTTI_ENGINE_NEWS_H
#define TUTTI_ENGINE_NEWS_H

#include "engine/team.h"

/* `news` is called, by any thread and under any lock, when a peer's process is lost or the team fails. NULL: no longer;
 * when this returns it is not being called. `excuses` (or NULL): does that failure of a peer's leave what this rank has
 * issued alone? */
void team_on_news(struct team *team, void (*news)(void *context),
                  bool (*excuses)(void *context, const struct wire_abort *news), void *context);
void team_tell_news(struct team *team);
/* A peer's team has failed. Is this one excused from failing for that? Then the host begins nothing any more. */
bool team_excuses(struct team *team, const struct wire_abort *news);

#endif
