/* SPDX-License-Identifier: Apache-2.0 */
/* A lock that is tried rather than waited for. Holders never sleep in the kernel; who must have it backs off until it
 * is free. */
#ifndef TUTTI_BASE_LOCK_H
#define TUTTI_BASE_LOCK_H

#include "base/backoff.h"

#include <stdatomic.h>
#include <stdbool.h>

struct try_lock {
    _Atomic bool held;
};

static inline bool lock_try(struct try_lock *lock)
{
    return !atomic_load_explicit(&lock->held, memory_order_relaxed) &&
           !atomic_exchange_explicit(&lock->held, true, memory_order_acquire);
}

static inline void lock_take(struct try_lock *lock)
{
    unsigned turn = 0;
    while (!lock_try(lock))
        backoff(&turn);
}

static inline void lock_release(struct try_lock *lock)
{
    atomic_store_explicit(&lock->held, false, memory_order_release);
}

#endif
