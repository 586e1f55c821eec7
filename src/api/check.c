/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments that are wrong by themselves. */
#include "api/internal.h"

#include "base/error.h"

tutti_result_t refuse_type(tutti_type_t type)
{
    return error_set(TUTTI_INVALID_ARGUMENT, "the type is %d; tutti_type_t ends at %d", (int)type,
                     TUTTI_TYPE_COUNT - 1);
}

tutti_result_t refuse_root(tutti_comm_t comm, int root)
{
    return error_set(TUTTI_INVALID_ARGUMENT, "rank %d is not in this communicator of %d ranks", root,
                     comm->team->nranks);
}

tutti_result_t refuse_count(size_t count, size_t times, tutti_type_t type)
{
    return error_set(TUTTI_INVALID_ARGUMENT,
                     "count is %zu; %zu times as many elements of %zu bytes do not fit into memory", count, times,
                     type_size(type));
}

tutti_result_t refuse_buffer(const char *name, size_t count)
{
    return error_set(TUTTI_INVALID_ARGUMENT, "the %s buffer is NULL and count is %zu", name, count);
}
