/* SPDX-License-Identifier: Apache-2.0 */
/* Windows of GPUs that share no memory. */
#ifndef TUTTI_EXECUTOR_STAGED_WINDOWS_H
#define TUTTI_EXECUTOR_STAGED_WINDOWS_H

#include "engine/puts.h"
#include "executor/staged/staged.h"

/* As in engine/executor.h. mine: whether this rank can have one, as the caller has found out; an error has its
 * sentence. */
tutti_result_t staged_window_open(struct staged *staged, void *buffer, size_t size, tutti_result_t mine,
                                  tutti_window_t *out);
tutti_result_t staged_window_close(struct staged *staged, tutti_window_t window);
/* Closes it alone: no peer puts there any more. */
void staged_window_forget(struct staged *staged, tutti_window_t window);
/* Can memory that ranks register together be windows? Ranks of one thread could not wait for one another. */
bool staged_windows_by_processes(const struct team *team);
tutti_result_t staged_window_address(struct staged *staged, tutti_window_t window, int rank, void **address,
                                     size_t *size);
bool staged_window_is_open(const struct staged *staged, tutti_window_t window);
bool staged_windows_any(const struct staged *staged);
/* Can the calls go on that stream? *captured: a graph is to hold them, by issue_asked(). Else issue() puts them on the
 * stream, between order_begin() and order_end(). */
tutti_result_t staged_window_check(const struct staged *staged, const struct window_item *items, int count,
                                   CUstream stream, bool *captured);
tutti_result_t staged_window_issue(struct staged *staged, const struct window_item *items, int count, CUstream stream);

/* The team has failed: when it returns nothing is stored to this rank's windows. */
void staged_windows_stop(struct staged *staged);
/* Streams have come to all that was issued, or the team has failed. Returns the pinned memory, which is left. */
void *staged_windows_end(struct staged *staged);

#endif
