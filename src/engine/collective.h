/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives of a team. */
#ifndef TUTTI_ENGINE_COLLECTIVE_H
#define TUTTI_ENGINE_COLLECTIVE_H

#include "engine/team.h"

/* A collective: checks nothing, enqueues. Takes over `owned` (malloc'ed, may be NULL), whatever it returns. */
tutti_result_t team_collective(struct team *team, const struct call *call, void *owned, struct tutti_stream *stream);

/* By which a collective goes that is carried out on host memory. */
const struct algorithm *team_algorithm(const struct team *team, const struct call *call);

/* Collectives among ranks of the library itself, which wait. team_tell_all: every rank tells all others `size` bytes.
 */
tutti_result_t team_do(struct team *team, const struct call *call);
tutti_result_t team_tell_all(struct team *team, const void *mine, size_t size, void *all);

#endif
