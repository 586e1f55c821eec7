/* SPDX-License-Identifier: Apache-2.0 */
/* The links of a team: made when first needed. */
#include "engine/links.h"

tutti_result_t team_link(struct team *team, int rank, struct link **out)
{
    if (team->link[rank]) {
        *out = team->link[rank];
        return TUTTI_SUCCESS;
    }
    struct roster_cursor cursor = {.roster = team->roster};
    tutti_result_t result =
        link_get(team->engine->links, &roster_read(&cursor, team_row(team, rank))->process,
                 roster_session(team_row(team, team->rank), team_row(team, rank)), &team->link[rank]);
    if (result == TUTTI_SUCCESS)
        link_be_patient(team->link[rank], team->timeout_ms);
    *out = team->link[rank];
    return result;
}
