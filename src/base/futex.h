/* SPDX-License-Identifier: Apache-2.0 */
/* Sleeping on a word of memory, also of memory shared between processes. */
#ifndef TUTTI_BASE_FUTEX_H
#define TUTTI_BASE_FUTEX_H

#include "base/clock.h"

#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Sleeps while *word == value, at most timeout_us; may also return for no reason. */
static inline void futex_wait(_Atomic uint32_t *word, uint32_t value, uint64_t timeout_us)
{
    struct timespec timeout = {(time_t)(timeout_us / 1000000), (long)(timeout_us % 1000000) * 1000};
    syscall(SYS_futex, word, FUTEX_WAIT, value, &timeout, NULL, 0);
}

static inline void futex_wake_all(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

#endif
