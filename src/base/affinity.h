/* SPDX-License-Identifier: Apache-2.0 */
/* On which processors a thread may run. */
#ifndef TUTTI_BASE_AFFINITY_H
#define TUTTI_BASE_AFFINITY_H

#include <sched.h>

/* How many the calling thread may run on; 0: not known. `set`, if not NULL: which; then none. */
int affinity_count(cpu_set_t *set);

#endif
