/* SPDX-License-Identifier: Apache-2.0 */
/* Windows of GPUs on several hosts: peers of this host are reached by copy engines, others by lanes. */
#ifndef TUTTI_EXECUTOR_ISLANDS_WINDOWS_H
#define TUTTI_EXECUTOR_ISLANDS_WINDOWS_H

#include "engine/puts.h"
#include "executor/islands/islands.h"

/* As in engine/executor.h. */
tutti_result_t islands_window_open(struct islands *islands, void *buffer, size_t size, tutti_window_t *out);
tutti_result_t islands_register(struct islands *islands, void *buffer, size_t size, void **out);
tutti_window_t islands_registered_window(void *registered);
void islands_unregister(struct islands *islands, void *registered);
tutti_result_t islands_window_close(struct islands *islands, tutti_window_t window);
tutti_result_t islands_window_address(struct islands *islands, tutti_window_t window, int rank, void **address,
                                      size_t *size);
bool islands_window_is_open(struct islands *islands, tutti_window_t window);
/* Is a peer of these calls of another host? */
bool islands_window_is_far(const struct islands *islands, const struct window_item *items, int count);
/* With the device's context current, behind all that was issued before. */
tutti_result_t islands_window_calls(struct islands *islands, const struct window_item *items, int count,
                                    tutti_stream_t stream);
/* Frees what was not closed. */
void islands_windows_free(struct islands *islands);

#endif
