/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel sets of x86-64, and what each needs of the processor. */
#include "device/host/kernel.h"

#include <cpuid.h>
#include <stdatomic.h>

extern const struct kernel_set kernels_plain, kernels_avx2, kernels_avx512;

const struct kernel_set *const kernel_sets[] = {&kernels_plain, &kernels_avx2, &kernels_avx512, NULL};

static bool has_f16c(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

/* The builtin also asks whether the operating system keeps the wide registers. */
static bool has_avx2(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && has_f16c();
}

static bool has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

enum { ASKED = 1, AVX2 = 2, AVX512 = 4 };

/* Asked once: on a virtual machine each question enters the hypervisor, for tens of microseconds. */
static unsigned usable(void)
{
    static _Atomic unsigned known;
    unsigned found = atomic_load_explicit(&known, memory_order_relaxed);
    if (found)
        return found;
    found = ASKED | (has_avx2() ? AVX2 : 0) | (has_avx512() ? AVX512 : 0);
    atomic_store_explicit(&known, found, memory_order_relaxed);
    return found;
}

bool kernel_set_usable(const struct kernel_set *set)
{
    if (set == &kernels_avx512)
        return usable() & AVX512;
    return set == &kernels_avx2 ? usable() & AVX2 : true;
}
