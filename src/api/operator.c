/* SPDX-License-Identifier: Apache-2.0 */
/* Operators made by users: sums of inputs that each rank multiplies by its own scalar. */
#include "api/internal.h"

#include "base/error.h"

#include <string.h>

tutti_result_t operator_resolve_made(tutti_comm_t comm, tutti_op_t op, struct call *call)
{
    unsigned index = (unsigned)op - TUTTI_OP_COUNT;
    if (index >= COMM_PREMULS || !comm->premul[index].used)
        return error_set(TUTTI_INVALID_ARGUMENT,
                         "operator %d is neither built in nor a living one of this communicator", (int)op);
    if (comm->premul[index].type != call->type)
        return error_set(TUTTI_INVALID_ARGUMENT, "operator %d was made for %s, and the call is of %s", (int)op,
                         type_name(comm->premul[index].type), type_name(call->type));
    call->op = TUTTI_SUM;
    call->premul = true;
    call->scalar = comm->premul[index].scalar;
    call->scalar_at = comm->premul[index].scalar_at;
    return TUTTI_SUCCESS;
}

static tutti_result_t create(tutti_op_t *op, const void *scalar, bool on_device, tutti_type_t type, tutti_comm_t comm)
{
    tutti_result_t result = comm_usable(comm);
    if (result == TUTTI_SUCCESS)
        result = check_type(type);
    if (result != TUTTI_SUCCESS)
        return result;
    if (!op || !scalar)
        return error_set(TUTTI_INVALID_ARGUMENT, "op or scalar is NULL");
    if (on_device && comm_device(comm) == TUTTI_HOST)
        return error_set(TUTTI_INVALID_USAGE, "a scalar in device memory needs a communicator on a device");
    for (unsigned index = 0; index < COMM_PREMULS; index++) {
        struct premul *premul = &comm->premul[index];
        if (premul->used)
            continue;
        *premul = (struct premul){.used = true, .type = type, .scalar_at = on_device ? scalar : NULL};
        if (!on_device)
            memcpy(&premul->scalar, scalar, type_size(type));
        *op = (tutti_op_t)(TUTTI_OP_COUNT + index);
        return TUTTI_SUCCESS;
    }
    return error_set(TUTTI_INVALID_USAGE, "this communicator has %d operators alive already; destroy some",
                     COMM_PREMULS);
}

tutti_result_t tutti_op_create_premul_sum(tutti_op_t *op, const void *scalar, tutti_type_t type, tutti_comm_t comm)
{
    return create(op, scalar, false, type, comm);
}

tutti_result_t tutti_op_create_premul_sum_device(tutti_op_t *op, const void *device_scalar, tutti_type_t type,
                                                 tutti_comm_t comm)
{
    return create(op, device_scalar, true, type, comm);
}

tutti_result_t tutti_op_destroy(tutti_op_t op, tutti_comm_t comm)
{
    tutti_result_t result = comm_check(comm);
    unsigned index = (unsigned)op - TUTTI_OP_COUNT;
    if (result != TUTTI_SUCCESS)
        return result;
    if ((unsigned)op < TUTTI_OP_COUNT || index >= COMM_PREMULS || !comm->premul[index].used)
        return error_set(TUTTI_INVALID_ARGUMENT,
                         "operator %d was not made for this communicator, or was destroyed before", (int)op);
    comm->premul[index].used = false;
    return TUTTI_SUCCESS;
}
