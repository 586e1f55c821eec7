/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks tell one another besides operations. */
#ifndef TUTTI_ENGINE_WORDS_H
#define TUTTI_ENGINE_WORDS_H

#include "engine/team.h"

/* Also when the team has failed. `hear` is called under the
 * engine's lock, and speaks but WIRE_WORD_LEAVE. Who speaks to a rank that has closed the team is answered that it has
 * left. team_say: under the engine's lock. */
void team_on_words(struct team *team, word_fn *hear, void *context);
tutti_result_t team_say(struct team *team, int to, const struct wire_word *word);
void words_heard(void *context, struct link *link, const struct wire_tag *tag, const struct wire_word *word);

#endif
