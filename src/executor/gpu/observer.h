/* SPDX-License-Identifier: Apache-2.0 */
/* An observer looks at what an executor does, and changes nothing: the black box. */
#ifndef TUTTI_EXECUTOR_GPU_OBSERVER_H
#define TUTTI_EXECUTOR_GPU_OBSERVER_H

#include "plan/ways.h"
#include "tutti/tutti.h"

#include <stdint.h>

struct call;
struct gpu;
struct p2p_item;
struct window_item;

struct observer {
    /* A call of that number begins; it has returned, and has its ticket. Between the two: how it is carried, */
    void (*called)(const struct gpu *gpu, const struct call *call, uint32_t number);
    void (*messages)(const struct gpu *gpu, const struct p2p_item *items, int count, uint32_t number);
    void (*windows)(const struct gpu *gpu, const struct window_item *items, int count, uint32_t number);
    void (*goes)(const struct gpu *gpu, enum way way, const struct flow *flow);
    void (*copies)(const struct gpu *gpu); /* copy engines carry messages of an exchange */
    void (*returned)(const struct gpu *gpu, tutti_result_t result);
    void (*waited)(const struct gpu *gpu); /* what was issued is over, or has been given up */
};

#endif
