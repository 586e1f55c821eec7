/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for all that was issued outside of graphs. */
#ifndef TUTTI_EXECUTOR_STREAM_WAIT_H
#define TUTTI_EXECUTOR_STREAM_WAIT_H

#include "tutti/tutti.h"

struct stream_base;

/* With the device's context current. An error: the GPU has failed. */
tutti_result_t wait_for_last(struct stream_base *base);

#endif
