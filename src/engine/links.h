/* SPDX-License-Identifier: Apache-2.0 */
/* The links of a team. */
#ifndef TUTTI_ENGINE_LINKS_H
#define TUTTI_ENGINE_LINKS_H

#include "engine/team.h"

/* The link to a rank. Under the engine's lock. */
tutti_result_t team_link(struct team *team, int rank, struct link **out);

#endif
