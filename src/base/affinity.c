/* SPDX-License-Identifier: Apache-2.0 */
/* On which processors a thread may run: what its launcher and its user have left it of the machine's. */
#include "base/affinity.h"

int affinity_count(cpu_set_t *set)
{
    cpu_set_t own, *to = set ? set : &own;
    if (sched_getaffinity(0, sizeof *to, to) == 0)
        return CPU_COUNT(to);
    CPU_ZERO(to);
    return 0;
}
