/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel sets of x86-64, and what each needs of the processor. */
#include "device/host/kernel.h"

extern const struct kernel_set kernels_plain, kernels_avx2, kernels_avx512;

const struct kernel_set *const kernel_sets[] = {&kernels_plain, &kernels_avx2, &kernels_avx512, NULL};

bool kernel_set_usable(const struct kernel_set *set)
{
    __builtin_cpu_init();
    if (set == &kernels_avx512)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c");
    if (set == &kernels_avx2)
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c");
    return true;
}
