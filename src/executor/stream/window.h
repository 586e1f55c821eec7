/* SPDX-License-Identifier: Apache-2.0 */
/* What all executors on GPUs refuse of windows, each in one sentence. */
#ifndef TUTTI_EXECUTOR_STREAM_WINDOW_H
#define TUTTI_EXECUTOR_STREAM_WINDOW_H

#include "device/cuda/driver.h"
#include "engine/puts.h"

struct team;

/* Words on GPUs count to INT32_MAX. */
tutti_result_t window_refuse_long_waits(const struct team *team, const struct window_item *items, int count);
/* Of GPUs that share no memory, where no kernel asks for what a graph holds. */
tutti_result_t window_refuse_capture(void);
/* A kernel of the GPU is to copy from, or to, this memory. */
tutti_result_t window_check_local(int ordinal, const void *local);
/* GPUs of several hosts that have no window so far. */
tutti_result_t window_refuse_first(void);
/* The window is a registration's. */
tutti_result_t window_refuse_close(void);

#endif
