/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel sets of x86-64, and what each needs of the processor. */
#include "device/host/kernel.h"

#include <cpuid.h>

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

bool kernel_set_usable(const struct kernel_set *set)
{
    if (set == &kernels_avx512)
        return has_avx512();
    return set == &kernels_avx2 ? has_avx2() : true;
}
