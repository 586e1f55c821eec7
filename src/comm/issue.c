/* SPDX-License-Identifier: Apache-2.0 */
/* Where a communicator's work goes: to the team, which works on host memory, or to the executor, which works on GPUs. */
#include "comm/comm.h"

#include <stdlib.h>

tutti_result_t comm_collective_on_gpu(struct tutti_comm *comm, const struct call *call, void *owned, tutti_stream_t stream)
{
    tutti_result_t result = gpu_collective(comm->gpu, call, stream);
    free(owned); /* counts and offsets: a launch has its own copy */
    return result;
}

bool comm_joins_streams(const struct tutti_comm *comm)
{
    return comm->gpu != NULL;
}

tutti_result_t comm_follow(struct tutti_comm *comm, tutti_stream_t stream, tutti_stream_t before)
{
    return comm->gpu ? gpu_follow(comm->gpu, stream, before) : TUTTI_SUCCESS;
}
