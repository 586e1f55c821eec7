/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPUs of several hosts: islands, in which they reach one another, and rails, of which each joins a rank of every
 * island. There are as many rails as the smallest island has ranks. Where islands are alike each rank is on a rail,
 * else these are the first ranks of columns (docs/understand/schedule.md). An island's steps go by its own executor, a
 * rail's by staging.
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
    int count, size;    /* islands; ranks of the smallest one, and so rails */
    bool alike;         /* all islands have as many */
    int here, index;    /* this rank's island; its number there, which is its rail where islands are alike */
    int rail;           /* this rank's; -1: it is on none */
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
