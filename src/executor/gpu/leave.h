/* SPDX-License-Identifier: Apache-2.0 */
/* What a closed executor leaves, to be freed at a quiet time. */
#ifndef TUTTI_EXECUTOR_GPU_LEAVE_H
#define TUTTI_EXECUTOR_GPU_LEAVE_H

struct gpu;

/* Peers' windows are not used any more: they are unmapped in a pause. */
void leave_give_back_windows(struct gpu *gpu);
/* Unmaps peers' memory as soon as nothing is under way; frees own as soon as peers have unmapped it, too. Waits for
 * neither. */
void leave_close(struct gpu *gpu);
/* The process ends, and with it all that it has mapped: peers are told. */
void leave_exit(void);

#endif
