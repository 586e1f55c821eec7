/* SPDX-License-Identifier: Apache-2.0 */
/* The order of what graphs replay, among calls. */
#ifndef TUTTI_EXECUTOR_STREAM_GRAPHS_H
#define TUTTI_EXECUTOR_STREAM_GRAPHS_H

#include "device/cuda/driver.h"
#include "tutti/tutti.h"

#include <stdatomic.h>
#include <stdbool.h>

struct stream_base;

/* And whether the GPU still works. */
struct graphs {
    CUevent serial, tail; /* the last operation, of graphs and calls, and of those in the graph that is captured; NULL:
                             nothing was captured */
    cuuint64_t capture;   /* in which the last operation was captured */
    CUstream last_captured;
    CUevent sound; /* recorded in the stream behind it, in which nothing else is: tells whether the GPU has failed */
    CUstream sounded;
    _Atomic bool lost;   /* it has */
    _Atomic int refused; /* how often in a row nothing could be recorded */
};

/* Between calls of order_begin() and order_end(), in front of and behind the operation. */
tutti_result_t graphs_begin(struct stream_base *base, CUstream stream);
tutti_result_t graphs_end(struct stream_base *base, CUstream stream);
/* What another executor captures on the stream comes behind this one's last operation. */
tutti_result_t graphs_behind(struct stream_base *base, CUstream stream);
/* Waits for what graphs have replayed so far, which nothing holds up that waits for peers. */
tutti_result_t graphs_wait(struct stream_base *base);
void graphs_close(struct stream_base *base);

#endif
