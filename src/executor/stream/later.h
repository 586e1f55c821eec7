/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What closed executors leave until it can be freed. Freeing waits for all work of the GPU, which may wait for a
 * peer's, and that for this very thread. So it is done when nothing is under way, and nothing begins meanwhile.
 */
#ifndef TUTTI_EXECUTOR_STREAM_LATER_H
#define TUTTI_EXECUTOR_STREAM_LATER_H

#include "base/list.h"
#include "device/cuda/driver.h"

#include <stdbool.h>

struct cuda_device;
struct stream_base;

/* First in malloc'ed memory, which is freed when the work is done. */
struct later {
    struct list node;
    struct cuda_device *device;
    const struct cuda_driver *cu;
    bool (*may)(const struct later *later); /* can something be done now? NULL: always */
    /* In a pause, with the device's context current, and no capture to spoil. True: all is done. */
    bool (*work)(struct later *later);
};

/* Sets the rest of it. False: there was no memory for its GPU, and the process keeps what it is about to its end. */
bool later_leave(struct later *later, const struct stream_base *base);
/* A call on that executor: is it the time? */
void later_sweep(const struct stream_base *base);
/* A communicator of that device rests: is it the time? */
void later_sweep_device(int device);
/* All that is left, under the lock of their list. */
void later_each(void (*visit)(struct later *later));

#endif
