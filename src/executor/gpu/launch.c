/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of an operation: each has a ticket, which its last block stores. */
#include "executor/gpu/launch.h"

#include "device/cuda/launch.h"
#include "executor/gpu/gpu.h"
#include "executor/stream/ticket.h"

tutti_result_t launch_kernel(struct gpu *gpu, const struct kernel_launch *how, tutti_type_t type,
                             struct kernel_team *what, CUstream stream)
{
    *what = gpu->kernels;
    what->ticket = gpu->base.tickets.capturing ? 0 : ticket_next(&gpu->base);
    tutti_result_t result = cuda_launch(gpu->base.device, how, type, what, stream);
    gpu->base.tickets.told = result == TUTTI_SUCCESS ? what->ticket : 0;
    return result;
}
