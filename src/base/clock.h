/* SPDX-License-Identifier: Apache-2.0 */
/* Time in nanoseconds since boot (CLOCK_MONOTONIC, the same for all processes of a host) and deadlines made of it. */
#ifndef TUTTI_BASE_CLOCK_H
#define TUTTI_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define NS_PER_US 1000ull
#define NS_PER_MS 1000000ull
#define NS_PER_S  1000000000ull

static inline uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static inline uint64_t clock_deadline_ms(uint64_t ms)
{
    return clock_ns() + ms * NS_PER_MS;
}

static inline bool clock_passed(uint64_t deadline)
{
    return clock_ns() >= deadline;
}

/* 0 when passed. */
static inline uint64_t clock_left_ns(uint64_t deadline)
{
    uint64_t now = clock_ns();
    return now >= deadline ? 0 : deadline - now;
}

/* Milliseconds until `deadline` for poll(2) and its like: rounded up, 0 when passed. */
static inline int clock_left_ms(uint64_t deadline)
{
    uint64_t now = clock_ns();
    return now >= deadline ? 0 : (int)((deadline - now + NS_PER_MS - 1) / NS_PER_MS);
}

#endif
