/* SPDX-License-Identifier: Apache-2.0 */
/* Exchanges whose lengths only the GPUs know: what can be checked without these. */
#include "api/internal.h"

#include "base/error.h"

#define ROWS_MOST  ((size_t)INT32_MAX - 1) /* of a window */
#define SHAPE_MOST ((size_t)1 << 40)       /* bytes of a row */

static tutti_result_t check_shape(const tutti_dynamic_t *what, tutti_type_t type)
{
    size_t row;
    if (what->splits < 1 || what->splits > TUTTI_DYNAMIC_SPLITS)
        return error_set(TUTTI_INVALID_ARGUMENT, "splits is %d; it must be 1 to %d", what->splits,
                         TUTTI_DYNAMIC_SPLITS);
    if (what->windows < 1 || what->splits % what->windows)
        return error_set(TUTTI_INVALID_ARGUMENT, "windows is %d; it must divide the number of splits, %d",
                         what->windows, what->splits);
    if (!what->row || __builtin_mul_overflow(what->row, type_size(type), &row) || row > SHAPE_MOST)
        return error_set(TUTTI_INVALID_ARGUMENT, "row is %zu; it must be 1 or more, and 1 TiB at most", what->row);
    if (!what->split_rows || !what->index_counts || (!what->indices && what->index_room))
        return error_set(TUTTI_INVALID_ARGUMENT, "split_rows is %p, index_counts %p, indices %p; none may be NULL",
                         (const void *)what->split_rows, (const void *)what->index_counts, (const void *)what->indices);
    if (((uintptr_t)what->split_rows | (uintptr_t)what->index_counts | (uintptr_t)what->indices |
         (uintptr_t)what->recv_splits) %
        sizeof(int64_t))
        return error_set(TUTTI_INVALID_ARGUMENT, "counts are int64_t: their addresses must be multiples of 8");
    return TUTTI_SUCCESS;
}

/* Do `windows` windows, each `stride` rows behind the one before, and of `rows` rows, fit into memory? */
static bool check_fits(size_t windows, size_t stride, size_t rows, size_t row)
{
    size_t all;
    return !__builtin_mul_overflow(windows - 1, stride, &all) && !__builtin_add_overflow(all, rows, &all) &&
           !__builtin_mul_overflow(all, row, &all) && all <= PTRDIFF_MAX;
}

static tutti_result_t check_rows(const tutti_dynamic_t *what, size_t row, size_t n)
{
    if (what->send_rows > ROWS_MOST || what->recv_rows > ROWS_MOST || what->index_room > UINT32_MAX ||
        what->send_rows * (size_t)what->windows > UINT32_MAX)
        return error_set(
            TUTTI_INVALID_ARGUMENT,
            "send_rows is %zu in %d windows, recv_rows %zu, index_room %zu; a window has up to %zu rows, and "
            "all of send, and the indices, up to %u",
            what->send_rows, what->windows, what->recv_rows, what->index_room, ROWS_MOST, UINT32_MAX);
    if (what->recv_stride && what->recv_stride < what->recv_rows)
        return error_set(TUTTI_INVALID_ARGUMENT, "recv_stride is %zu, and a window has %zu rows: windows would overlap",
                         what->recv_stride, what->recv_rows);
    if (!check_fits((size_t)what->windows, what->send_rows, what->send_rows, row) ||
        !check_fits(n, what->recv_stride, what->recv_rows, row))
        return error_set(TUTTI_INVALID_ARGUMENT,
                         "send_rows %zu or recv_rows %zu, of %zu bytes each, do not fit into memory", what->send_rows,
                         what->recv_rows, row);
    return TUTTI_SUCCESS;
}

static tutti_result_t check_dynamic(const void *send, const void *recv, tutti_type_t type, const tutti_dynamic_t *what,
                                    tutti_comm_t comm)
{
    tutti_result_t result = comm_usable(comm);
    if (result == TUTTI_SUCCESS && group_open())
        result = error_set(TUTTI_INVALID_USAGE, "tutti_alltoallv_dynamic() in a group: call it before or behind");
    if (result == TUTTI_SUCCESS)
        result = check_type(type);
    if (result == TUTTI_SUCCESS && (!what || what->size < sizeof *what))
        result = error_set(TUTTI_INVALID_ARGUMENT, "what is %p, its size %zu; size must be sizeof(tutti_dynamic_t)",
                           (const void *)what, what ? what->size : 0);
    if (result == TUTTI_SUCCESS)
        result = check_shape(what, type);
    if (result == TUTTI_SUCCESS)
        result = check_rows(what, what->row * type_size(type), (size_t)comm->team->nranks);
    if (result == TUTTI_SUCCESS)
        result = check_buffer("send", send, what->send_rows);
    if (result == TUTTI_SUCCESS)
        result = check_buffer("recv", recv, what->recv_rows);
    if (result == TUTTI_SUCCESS && send == recv && send)
        result = error_set(TUTTI_INVALID_USAGE, "alltoallv_dynamic cannot run in place; give it another recv buffer");
    return result;
}

tutti_result_t tutti_alltoallv_dynamic(const void *send, void *recv, tutti_type_t type, const tutti_dynamic_t *what,
                                       tutti_comm_t comm, tutti_stream_t stream)
{
    tutti_result_t result = check_dynamic(send, recv, type, what, comm);
    if (result != TUTTI_SUCCESS)
        return group_note(result);
    const struct dynamic_call call = {send, recv, what->row * type_size(type), *what};
    return comm->executor->ops.dynamic(comm->executor, &call, stream);
}
