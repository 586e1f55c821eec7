/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A communicator rests: its executor, and with it all memory of the device, is closed, and made anew when it wakes. The
 * team stays, with links, numbers and what ranks know of one another. All ranks do it together, or none does.
 */
#include "comm/comm.h"

#include "base/error.h"
#include "engine/failure.h"

/* What would be lost with the executor. */
static tutti_result_t rest_allowed(struct tutti_comm *comm)
{
    const char *kept = comm->executor->ops.keeps(comm->executor);
    if (!kept)
        return TUTTI_SUCCESS;
    return error_set(TUTTI_INVALID_USAGE, "a communicator cannot be suspended while it has %s", kept);
}

/* Other threads may ask after the communicator, or abort it. */
static struct executor *rest_exchange(struct tutti_comm *comm, struct executor *executor, enum comm_state state)
{
    pthread_rwlock_wrlock(&comm->executing);
    struct executor *before = comm->executor;
    comm->executor = executor;
    atomic_store_explicit(&comm->state, state, memory_order_release);
    pthread_rwlock_unlock(&comm->executing);
    return before;
}

tutti_result_t comm_suspend(struct tutti_comm *comm, tutti_result_t mine)
{
    tutti_result_t result = comm_wait(comm, false);
    if (result != TUTTI_SUCCESS)
        return result;
    result = comm_agree(comm->team, mine == TUTTI_SUCCESS ? rest_allowed(comm) : mine);
    if (result != TUTTI_SUCCESS)
        return result;
    struct executor *before = rest_exchange(comm, &comm->team->host, COMM_SUSPENDED);
    int device = before->device;
    if (before != comm->executor)
        before->ops.close(before);
    /* A rank's memory can go when the others have unmapped it: each has done so when it comes. */
    result = comm_agree(comm->team, TUTTI_SUCCESS);
    if (device != TUTTI_HOST)
        executor_devices.sweep(device);
    return result;
}

/* This rank could open it, and another one could not. */
static void close_unused(struct executor *executor)
{
    struct error_saved saved;
    error_save(&saved);
    executor->ops.close(executor);
    error_restore(&saved);
}

tutti_result_t comm_resume(struct tutti_comm *comm)
{
    struct executor *executor = &comm->team->host;
    tutti_result_t result = team_failure(comm->team);
    if (result == TUTTI_SUCCESS)
        result = share_executor(comm, &executor);
    if (result == TUTTI_SUCCESS)
        rest_exchange(comm, executor, COMM_READY);
    else if (executor != &comm->team->host)
        close_unused(executor);
    return result;
}
