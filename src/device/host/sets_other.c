/* SPDX-License-Identifier: Apache-2.0 */
/* Processors with one kernel set: the portable source; on aarch64 its vectors are NEON's. */
#include "device/host/kernel.h"

extern const struct kernel_set kernels_plain;

const struct kernel_set *const kernel_sets[] = {&kernels_plain, NULL};

bool kernel_set_usable(const struct kernel_set *set)
{
    return set == &kernels_plain;
}
