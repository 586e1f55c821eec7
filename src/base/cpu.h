/* SPDX-License-Identifier: Apache-2.0 */
/* What differs between processors: the hint for a polling loop, and the cache line. */
#ifndef TUTTI_BASE_CPU_H
#define TUTTI_BASE_CPU_H

#define CACHE_LINE 64

#if defined(__x86_64__)
static inline void cpu_relax(void)
{
    __builtin_ia32_pause();
}
#else
static inline void cpu_relax(void)
{
    __asm__ volatile("yield" ::: "memory");
}
#endif

#endif
