/* SPDX-License-Identifier: Apache-2.0 */
/* Loaded before the library: its allreduce leaves the last element alone, and its barrier is none where BARRIER_AWAY
 * says so. */
#include "tutti/tutti.h"

#include <dlfcn.h>
#include <stdlib.h>

typedef tutti_result_t (*allreduce_fn)(const void *, void *, size_t, tutti_type_t, tutti_op_t, tutti_comm_t,
                                       tutti_stream_t);

tutti_result_t tutti_allreduce(const void *send, void *recv, size_t count, tutti_type_t type, tutti_op_t op,
                               tutti_comm_t comm, tutti_stream_t stream)
{
    allreduce_fn right = (allreduce_fn)dlsym(RTLD_NEXT, "tutti_allreduce");
    return right(send, recv, count > 1 ? count - 1 : count, type, op, comm, stream);
}

typedef tutti_result_t (*barrier_fn)(tutti_comm_t, tutti_stream_t);

tutti_result_t tutti_barrier(tutti_comm_t comm, tutti_stream_t stream)
{
    barrier_fn right = (barrier_fn)dlsym(RTLD_NEXT, "tutti_barrier");
    return getenv("BARRIER_AWAY") ? TUTTI_SUCCESS : right(comm, stream);
}
