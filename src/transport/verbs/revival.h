/* SPDX-License-Identifier: Apache-2.0 */
/* A device that is lost, until it is open again. */
#ifndef TUTTI_TRANSPORT_VERBS_REVIVAL_H
#define TUTTI_TRANSPORT_VERBS_REVIVAL_H

#include "base/thread.h"
#include "transport/common.h"
#include "transport/verbs/parts.h"

struct verbs_device;

/* Closes what a lost device had, and opens the device anew when it is there again. Adapters take milliseconds and more
 * for that: a thread does it, and leaves `fresh` for the next poll. */
struct verbs_revival {
    struct verbs_device *device;
    struct thread thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool ends;                    /* the transport is closed; under the lock */
    _Atomic bool done;            /* `fresh` is there */
    struct transport_timer start; /* when there was no thread to be had */
    struct verbs_parts old, fresh;
    struct ibv_mr **regions; /* of the old ones: of payloads that are still under way */
    int count;
};

#endif
