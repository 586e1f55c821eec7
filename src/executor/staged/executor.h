/* SPDX-License-Identifier: Apache-2.0 */
/* GPUs that share no memory: what they exchange is staged through the host. */
#ifndef TUTTI_EXECUTOR_STAGED_EXECUTOR_H
#define TUTTI_EXECUTOR_STAGED_EXECUTOR_H

#include "engine/executor.h"

extern const struct executor_kind executor_staged;

struct call;

/*
 * Rails: parts of the executor's team, for calls that are steps of calls of all ranks. Collective over the team, before
 * anything else is asked of the executor. members: ranks of this one's rail, in the order that they have there; only
 * this one where it is on none. most: ranks of a rail.
 */
tutti_result_t staged_open_rails(struct executor *executor, const int *members, int count, int most);
/*
 * A collective of this rank's rail, a step of the call `of`: as issue(). All ranks issue one, each on its rail. A rank
 * that is on none, or on one with nothing to do, has no elements, but is told what others have.
 * longest: elements of a block, on the rail whose blocks are the longest. Of alltoallv, elements of the longest message
 * of any rank. None of these goes from a rank to itself.
 */
tutti_result_t staged_on_rail(struct executor *executor, const struct call *call, size_t longest, const struct call *of,
                              tutti_stream_t stream);
/* Bytes of a message from which adapters reach the memory of all ranks' GPUs; SIZE_MAX: they do not. */
size_t staged_direct_from(struct executor *executor);
/* As executor_staged.open, for the ranks of islands, which then get rails. */
tutti_result_t staged_open_net(struct team *team, const struct executor_config *config, struct executor **out);

/* Can graphs hold its calls? */
bool staged_captures(struct executor *executor);

/* Memory that all ranks register together: *out is the window that it is, or NULL. Closed by staged_unregister(), which
 * waits for nobody. */
tutti_result_t staged_register(struct executor *executor, void *buffer, size_t size, tutti_result_t mine, void **out);
void staged_unregister(struct executor *executor, void *registered);
/* A window, with what the caller has found out: see windows.h. */
tutti_result_t staged_open_window(struct executor *executor, void *buffer, size_t size, tutti_result_t mine,
                                  tutti_window_t *out);
/* Can these calls go on that stream, of which the executor is to carry out some? */
tutti_result_t staged_check_window_calls(struct executor *executor, const struct window_item *items, int count,
                                         tutti_stream_t stream);

#endif
