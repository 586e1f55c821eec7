/* SPDX-License-Identifier: Apache-2.0 */
/* Whether all ranks could do what was to be done: none goes on where another cannot. */
#include "comm/comm.h"

#include "base/error.h"
#include "engine/collective.h"
#include "engine/failure.h"

#include <stdio.h>
#include <string.h>

struct agree_told {
    int32_t result;
    char sentence[TEAM_SENTENCE];
};

static tutti_result_t tell_why(struct team *team, int who, struct agree_told *told)
{
    return team_do(team, &(struct call){.coll = COLL_BROADCAST,
                                        .type = TUTTI_UINT8,
                                        .count = sizeof *told,
                                        .root = who,
                                        .op = -1,
                                        .in = told,
                                        .out = told});
}

tutti_result_t comm_agree(struct team *team, tutti_result_t mine)
{
    struct agree_told told = {(int32_t)mine, ""}, own;
    int32_t who = mine == TUTTI_SUCCESS ? team->nranks : team->rank;
    struct call least = {
        .coll = COLL_ALLREDUCE, .type = TUTTI_INT32, .count = 1, .op = TUTTI_MIN, .in = &who, .out = &who};
    if (mine != TUTTI_SUCCESS)
        snprintf(told.sentence, sizeof told.sentence, "%s", error_last());
    own = told;
    tutti_result_t result = team_do(team, &least);
    if (result == TUTTI_SUCCESS && who < team->nranks)
        result = tell_why(team, who, &told);
    if (mine != TUTTI_SUCCESS)
        return error_note(mine, "%s", own.sentence);
    if (result != TUTTI_SUCCESS || who == team->nranks)
        return result;
    told.sentence[sizeof told.sentence - 1] = 0;
    return error_set(failure_here((tutti_result_t)told.result), "rank %d: %s", who, told.sentence);
}
