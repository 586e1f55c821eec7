/* SPDX-License-Identifier: Apache-2.0 */
/* Windows in a GPU's memory that peers of other hosts put into and get from: a thread copies between that memory and
 * slots of pinned memory, which links use. */
#ifndef TUTTI_EXECUTOR_STAGED_STORE_H
#define TUTTI_EXECUTOR_STAGED_STORE_H

#include "base/thread.h"
#include "device/cuda/driver.h"
#include "engine/windows.h"

#include <pthread.h>

struct cuda_device;
struct team;

struct staged_store {
    struct window_store as; /* as the team knows it */
    struct cuda_device *device;
    const struct cuda_driver *cu;
    struct team *team;
    CUstream stream;
    pthread_mutex_t lock;
    pthread_cond_t news, quiet;
    struct list asked, over; /* moves */
    bool busy;               /* some are being carried out, */
    unsigned stops;          /* for which nobody waits any more if this has grown */
    bool ends;
    struct thread thread;
};

/* With the device's context current. slots: STORE_SLOTS times `piece` bytes. Then store_close() whatever comes back. */
tutti_result_t store_open(struct staged_store *store, struct team *team, struct cuda_device *device, char *slots,
                          size_t piece);
/* Nothing is asked of it any more. */
void store_close(struct staged_store *store);

#endif
