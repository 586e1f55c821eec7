/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks tell one another besides operations. */
#ifndef TUTTI_ENGINE_MEMOS_H
#define TUTTI_ENGINE_MEMOS_H

#include "engine/team.h"

/* Also when the team has failed. `hear` is called under the engine's lock, and says nothing but WIRE_MEMO_LEAVE and
 * WIRE_MEMO_CONSENT: an answer to an answer to an answer is the last. A rank
 * that speaks to one that has closed the team is answered that this one has left. team_say: under the engine's lock. */
void team_on_memos(struct team *team, memo_fn *hear, void *context);
tutti_result_t team_say(struct team *team, int to, const struct wire_memo *memo);
/* Members of a generation that ask in this team, which is closed, are answered that the generation is over without
 * them. Under the engine's lock. */
void memos_over(struct engine *engine, uint64_t comm);
void memos_heard(void *context, struct link *link, const struct wire_tag *tag, const struct wire_memo *memo);

#endif
