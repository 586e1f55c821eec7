/* SPDX-License-Identifier: Apache-2.0 */
/* Peers and blocks of kernels, from the schedule that they carry out: nothing of it is written a second time. */
#ifndef TUTTI_PLAN_STEPS_H
#define TUTTI_PLAN_STEPS_H

#include "device/cuda/launch.h"
#include "plan/ways.h"

/* Fills in whom the kernel sends to and receives from, and which parts ranks own. `flow`: of a row for `kernel`. Of a
 * KERNEL_REDUCE_OWN the results stay with their owners: somebody else carries them. */
void steps_reduce(const struct flow *flow, enum kernel_id kernel, int nranks, struct kernel_reduce *what);

/* The same of an allgather in lines: each rank gives its block to all others. */
void steps_gather(int nranks, struct kernel_reduce *what);

/* The same of what goes round: the ranks before and behind. flow: of a way that goes round. */
void steps_ring(const struct flow *flow, int rank, struct kernel_reduce *what);

/* Fills in where each part of a broadcast comes from and goes to. */
void steps_chain(const struct flow *flow, struct kernel_chain *what);

#endif
