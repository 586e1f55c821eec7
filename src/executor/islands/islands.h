/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPUs of several hosts, as many on each: islands, in which they reach one another, and rails, of which each joins the
 * ranks of one index on all islands. An island's steps go by its own executor, a rail's by staging.
 */
#ifndef TUTTI_EXECUTOR_ISLANDS_ISLANDS_H
#define TUTTI_EXECUTOR_ISLANDS_ISLANDS_H

#include "base/list.h"
#include "device/cuda/driver.h"
#include "engine/op.h"
#include "engine/team.h"

#include <pthread.h>

struct islands {
    struct executor executor;
    struct team *team, *near;      /* all ranks; those of this island, a part of them */
    struct executor *island, *net; /* near's, and the whole team's, which knows the rails */
    const struct cuda_driver *cu;
    int count, size;    /* islands; ranks of each */
    int here, index;    /* this rank's island; its number there, and so its rail */
    bool in_order;      /* ranks of an island follow one another */
    size_t cut_from;    /* bytes of a vector */
    size_t direct_from; /* bytes from which adapters reach all ranks' memory; SIZE_MAX: they do not */
    char *scratch;      /* device memory, for what lies between two steps */
    size_t scratch_bytes;
    CUstream side; /* for messages between islands, while those within go on */
    CUevent fork, join;
    pthread_mutex_t lock; /* guards the list, as memory may be registered beside calls */
    struct list windows;
    bool windowed; /* there is one, or was */
};

#endif
