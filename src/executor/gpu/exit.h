/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a process that has not ended its communicators. */
#ifndef TUTTI_EXECUTOR_GPU_EXIT_H
#define TUTTI_EXECUTOR_GPU_EXIT_H

/* From now on the end of the process waits, for a bounded time, for what its GPUs still do for peers. */
void exit_register(void);

#endif
