/* SPDX-License-Identifier: Apache-2.0 */
/* What all executors on GPUs refuse of windows, each in one sentence. */
#ifndef TUTTI_EXECUTOR_STREAM_WINDOW_H
#define TUTTI_EXECUTOR_STREAM_WINDOW_H

#include "device/cuda/driver.h"
#include "engine/puts.h"

struct team;

/* Words on GPUs count to INT32_MAX. */
tutti_result_t window_refuse_long_waits(const struct team *team, const struct window_item *items, int count);
/* Of GPUs that share no memory: a thread carries calls out, by numbers that a replay would repeat. */
tutti_result_t window_refuse_capture(const struct cuda_driver *cu, CUstream stream, const struct team *team, int peer);
/* GPUs of several hosts that have no window so far. */
tutti_result_t window_refuse_first(void);
/* The window is a registration's. */
tutti_result_t window_refuse_close(void);

#endif
