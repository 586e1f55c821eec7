/* SPDX-License-Identifier: Apache-2.0 */
/* Sleeping on a word of memory, also of memory shared between processes. */
#ifndef TUTTI_BASE_FUTEX_H
#define TUTTI_BASE_FUTEX_H

#include "base/clock.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Sleeps while *word == value, at most timeout_us; may also return for no reason. */
static inline void futex_wait(_Atomic uint32_t *word, uint32_t value, uint64_t timeout_us)
{
    struct timespec timeout = {(time_t)(timeout_us / 1000000), (long)(timeout_us % 1000000) * 1000};
    syscall(SYS_futex, word, FUTEX_WAIT, value, &timeout, NULL, 0);
}

/* ---- Several words at once: Linux 5.16 and later; headers may be older ---- */

#define FUTEX_MANY      128 /* words, at most */
#define FUTEX_MANY_CALL 449 /* SYS_futex_waitv, on all architectures */

struct futex_word {
    uint64_t value, address;
    uint32_t flags, unused;
};

/* Sleeps while all have these values, at most until `deadline` (clock_ns()); may also return for no reason. */
static inline void futex_wait_any(_Atomic uint32_t *const *words, const uint32_t *values, int count, uint64_t deadline)
{
    struct futex_word all[FUTEX_MANY];
    struct timespec until = {(time_t)(deadline / NS_PER_S), (long)(deadline % NS_PER_S)};
    for (int i = 0; i < count; i++)
        all[i] = (struct futex_word){.value = values[i], .address = (uintptr_t)words[i], .flags = 2 /* of 32 bits */};
    syscall(FUTEX_MANY_CALL, all, count, 0, &until, CLOCK_MONOTONIC);
}

/* Does the kernel, and what filters its calls, let a process do that? */
static inline bool futex_waits_for_many(void)
{
    uint32_t word = 0;
    struct futex_word other = {.value = 1, .address = (uintptr_t)&word, .flags = 2};
    return syscall(FUTEX_MANY_CALL, &other, 1, 0, NULL, CLOCK_MONOTONIC) < 0 && errno == EAGAIN;
}

static inline void futex_wake_all(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

#endif
