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
#include "engine/puts.h"
#include "engine/team.h"
#include "engine/window.h"

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

static tutti_result_t host_window_open(struct executor *executor, void *buffer, size_t size, tutti_window_t *out)
{
    return window_open((struct team *)executor, buffer, size, TUTTI_SUCCESS, out);
}

static tutti_result_t host_window_close(struct executor *executor, tutti_window_t window)
{
    return window_close((struct team *)executor, window);
}

static tutti_result_t host_window_calls(struct executor *executor, const struct window_item *items, int count,
                                        tutti_stream_t stream)
{
    return puts_issue((struct team *)executor, items, count, stream);
}

static tutti_result_t host_window_address(struct executor *executor, tutti_window_t window, int rank, void **address,
                                          size_t *size)
{
    return window_address((struct team *)executor, window, rank, address, size);
}

static bool host_window_is_open(const struct executor *executor, tutti_window_t window)
{
    return windows_have((const struct team *)executor, window);
}

static const char *host_keeps(const struct executor *executor)
{
    return windows_any((const struct team *)executor) ? "windows" : NULL;
}

const struct executor_ops host_executor_ops = {.name = "host",
                                               .issue = host_issue,
                                               .messages = host_messages,
                                               .window_open = host_window_open,
                                               .window_close = host_window_close,
                                               .window_calls = host_window_calls,
                                               .window_address = host_window_address,
                                               .window_is_open = host_window_is_open,
                                               .goes_on = host_goes_on,
                                               .keeps = host_keeps};
