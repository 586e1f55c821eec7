/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processor's counter: a few nanoseconds to read where clock_gettime takes tens. Its rate is for readers to find
 * out: they compare it with the clock over a long time. Only to be used where ticks_reliable() says so.
 */
#ifndef TUTTI_BASE_TICKS_H
#define TUTTI_BASE_TICKS_H

#include "base/clock.h"

#include <stdbool.h>
#include <stdint.h>

#if defined(__x86_64__)
#include <cpuid.h>

#define TICKS_KIND 1 /* x86 time stamp counter */

static inline uint64_t ticks_now(void)
{
    return __builtin_ia32_rdtsc();
}

/* The counter runs at one rate in all power states (CPUID 80000007h, EDX bit 8). */
static inline bool ticks_reliable(void)
{
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & (1u << 8));
}

#elif defined(__aarch64__)

#define TICKS_KIND 2 /* Arm generic timer: fixed rate by definition */

static inline uint64_t ticks_now(void)
{
    uint64_t value;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(value));
    return value;
}

static inline bool ticks_reliable(void)
{
    return true;
}

#else

#define TICKS_KIND 0 /* none */

static inline uint64_t ticks_now(void)
{
    return 0;
}

static inline bool ticks_reliable(void)
{
    return false;
}

#endif

/* The counter and CLOCK_MONOTONIC at one moment: of a few tries the one that was interrupted least. */
static inline void ticks_pair(uint64_t *ticks, uint64_t *ns)
{
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < 8; i++) {
        uint64_t before = ticks_now(), clock = clock_ns(), after = ticks_now();
        if (after - before < least) {
            least = after - before;
            *ticks = before + least / 2;
            *ns = clock;
        }
    }
}

#endif
