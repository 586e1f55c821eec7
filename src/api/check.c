/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments that are wrong by themselves. */
#include "api/internal.h"

#include "base/error.h"

tutti_result_t check_type(tutti_type_t type)
{
    if ((unsigned)type < TUTTI_TYPE_COUNT)
        return TUTTI_SUCCESS;
    return error_set(TUTTI_INVALID_ARGUMENT, "the type is %d; tutti_type_t ends at %d", (int)type, TUTTI_TYPE_COUNT - 1);
}

tutti_result_t check_root(tutti_comm_t comm, int root)
{
    if (root >= 0 && root < comm->team->nranks)
        return TUTTI_SUCCESS;
    return error_set(TUTTI_INVALID_ARGUMENT, "rank %d is not in this communicator of %d ranks", root, comm->team->nranks);
}

tutti_result_t check_count(size_t count, size_t times, tutti_type_t type)
{
    size_t elements, bytes;
    if (!__builtin_mul_overflow(count, times, &elements) && !__builtin_mul_overflow(elements, type_size(type), &bytes) &&
        bytes <= PTRDIFF_MAX)
        return TUTTI_SUCCESS;
    return error_set(TUTTI_INVALID_ARGUMENT, "count is %zu; %zu times so many elements of %zu bytes is more than memory can hold", count,
                     times, type_size(type));
}

tutti_result_t check_buffer(const char *name, const void *buffer, size_t count)
{
    if (buffer || !count)
        return TUTTI_SUCCESS;
    return error_set(TUTTI_INVALID_ARGUMENT, "the %s buffer is NULL and count is %zu", name, count);
}
