/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The executor of host memory: a team's own queue, whose operations go through
 * shared memory where the ranks have some, and round by round over links
 * elsewhere.
 */
#include "engine/host.h"

#include "engine/collective.h"
#include "engine/executor.h"
#include "engine/failure.h"
#include "engine/p2p.h"
#include "engine/team.h"

_Static_assert(offsetof(struct team, host) == 0,
               "a team is its executor: a call costs no more by the table than without it");

static tutti_result_t host_issue(struct executor *executor, const struct call *call, void *owned, tutti_stream_t stream,
                                 const struct executor_note *note)
{
    (void)note;
    return team_collective((struct team *)executor, call, owned, stream);
}

static tutti_result_t host_messages(struct executor *executor, const struct p2p_item *items, int count,
                                    tutti_stream_t stream)
{
    return p2p_issue((struct team *)executor, items, count, stream);
}

static bool host_goes_on(struct executor *executor)
{
    return team_takes_collective((const struct team *)executor);
}

const struct executor_ops host_executor_ops = {
    .name = "host", .issue = host_issue, .messages = host_messages, .goes_on = host_goes_on};
