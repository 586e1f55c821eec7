/* SPDX-License-Identifier: Apache-2.0 */
/* Handles: what may be done with a communicator in which state; its end. */
#include "comm/comm.h"

#include "base/error.h"
#include "base/fork.h"
#include "base/param.h"
#include "engine/audit.h"
#include "engine/engine_life.h"
#include "engine/failure.h"
#include "engine/team_open.h"
#include "engine/wait.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

tutti_result_t comm_check(tutti_comm_t comm)
{
    if (!comm)
        return error_set(TUTTI_INVALID_ARGUMENT, "the communicator is NULL");
    if (comm->magic != COMM_MAGIC)
        return error_set(TUTTI_INVALID_ARGUMENT, "the communicator %p is not one, or was destroyed", (void *)comm);
    if (comm->generation != fork_generation)
        return error_set(TUTTI_INVALID_USAGE,
                         "the communicator %p belongs to process %d, which forked this one; a forked child can make "
                         "communicators of its own, not use its parent's",
                         (void *)comm, (int)comm->maker_pid);
    return TUTTI_SUCCESS;
}

tutti_result_t comm_refuse(tutti_comm_t comm)
{
    tutti_result_t result = comm_check(comm);
    if (result != TUTTI_SUCCESS)
        return result;
    switch (atomic_load_explicit(&comm->state, memory_order_acquire)) {
    case COMM_READY:
        return comm->executor->ops.goes_on(comm->executor) ? TUTTI_SUCCESS : team_report(comm->team);
    case COMM_MAKING:
        return error_note(TUTTI_IN_PROGRESS, "the communicator is still being made; ask tutti_comm_get_async_error()");
    case COMM_SUSPENDED:
        return atomic_load(&comm->team->failed)
                   ? team_report(comm->team)
                   : error_set(TUTTI_INVALID_USAGE, "the communicator is suspended; call tutti_comm_resume() first");
    case COMM_FINALIZED:
        return error_set(TUTTI_INVALID_USAGE, "the communicator was finalized; only tutti_comm_destroy() is left");
    default:
        return error_note((tutti_result_t)atomic_load(&comm->failed), "%s", comm->sentence);
    }
}

struct comm_settings comm_defaults(void)
{
    return (struct comm_settings){.executor = executor_devices.defaults()};
}

tutti_result_t comm_settings(struct comm_settings *settings, const tutti_config_t *config)
{
    tutti_config_t set = TUTTI_CONFIG_INITIALIZER;
    if (config && (config->size < sizeof(size_t) + 2 * sizeof(int) || config->size > 4096))
        return error_set(TUTTI_INVALID_ARGUMENT, "config.size is %zu; set it with TUTTI_CONFIG_INITIALIZER",
                         config->size);
    if (config)
        memcpy(&set, config, config->size < sizeof set ? config->size : sizeof set);
    if (set.blocking < -1 || set.blocking > 1)
        return error_set(TUTTI_INVALID_ARGUMENT, "config.blocking is %d; it must be -1, 0 or 1", set.blocking);
    if (set.device < TUTTI_CURRENT_DEVICE)
        return error_set(TUTTI_INVALID_ARGUMENT,
                         "config.device is %d; it must be TUTTI_HOST, TUTTI_CURRENT_DEVICE or a device", set.device);
    if (set.timeout_ms < 0)
        return error_set(TUTTI_INVALID_ARGUMENT, "config.timeout_ms is %d; it must not be negative", set.timeout_ms);
    if (set.blocks < 0 || set.blocks > executor_devices.most_blocks)
        return error_set(TUTTI_INVALID_ARGUMENT, "config.blocks is %d; it must be 0 to %d", set.blocks,
                         executor_devices.most_blocks);
    if (set.policy < -1 || set.policy > TUTTI_POLICY_ZERO)
        return error_set(TUTTI_INVALID_ARGUMENT, "config.policy is %d; it must be -1 to %d", set.policy,
                         TUTTI_POLICY_ZERO);
    settings->blocking = set.blocking < 0 ? (int)param_int(PARAM_COMM_BLOCKING) : set.blocking;
    if (set.timeout_ms || !settings->timeout_ms)
        settings->timeout_ms = (uint64_t)(set.timeout_ms ? set.timeout_ms : param_int(PARAM_TIMEOUT));
    settings->deadline = clock_deadline_ms((uint64_t)param_int(PARAM_INIT_TIMEOUT));
    snprintf(settings->name, sizeof settings->name, "%s", set.name ? set.name : "");
    settings->executor.device = set.device;
    settings->executor.blocks = set.blocks ? set.blocks : settings->executor.blocks;
    settings->executor.policy = set.policy >= 0 ? set.policy : settings->executor.policy;
    return set.device == TUTTI_CURRENT_DEVICE ? executor_devices.current_device(&settings->executor.device)
                                              : TUTTI_SUCCESS;
}

tutti_result_t comm_new(const struct comm_settings *settings, struct tutti_comm **out)
{
    struct tutti_comm *comm = calloc(1, sizeof *comm);
    if (!comm)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for a communicator");
    comm->magic = COMM_MAGIC;
    comm->generation = fork_generation;
    comm->maker_pid = getpid();
    comm->settings = *settings;
    atomic_store(&comm->state, COMM_MAKING);
    pthread_mutex_init(&comm->joining, NULL);
    pthread_rwlock_init(&comm->executing, NULL);
    tutti_result_t result = engine_acquire(&comm->engine);
    if (result == TUTTI_SUCCESS && settings->grows)
        result = grow_claim(comm);
    if (result != TUTTI_SUCCESS) {
        if (comm->engine)
            engine_release(comm->engine);
        free(comm);
        return result;
    }
    *out = comm;
    return TUTTI_SUCCESS;
}

void comm_free(struct tutti_comm *comm)
{
    struct error_saved saved;
    error_save(&saved);
    grow_forget(comm);
    if (comm->executor)
        comm->executor->ops.close(comm->executor);
    if (comm->team) {
        meeting_close(&comm->meeting);
        share_forget(comm->team);
        team_close(comm->team);
    }
    choice_close(comm->choices);
    roots_settle();
    engine_release(comm->engine);
    pthread_mutex_destroy(&comm->joining);
    pthread_rwlock_destroy(&comm->executing);
    comm->magic = 0;
    free(comm);
    error_restore(&saved);
}

tutti_result_t comm_open_team(struct tutti_comm *comm, uint64_t id, const struct team_members *members)
{
    comm->id = id;
    const struct team_config config = {.id = id,
                                       .name = comm->settings.name,
                                       .rank = comm->settings.rank,
                                       .nranks = comm->settings.nranks,
                                       .members = *members,
                                       .choices = comm->choices,
                                       .timeout_ms = comm->settings.timeout_ms,
                                       .bound = comm->settings.bound};
    tutti_result_t result = team_open(comm->engine, &config, &comm->team);
    if (result != TUTTI_SUCCESS)
        return result;
    meeting_open(&comm->meeting, comm->team);
    return TUTTI_SUCCESS;
}

tutti_result_t comm_wait(struct tutti_comm *comm, bool end)
{
    uint64_t issued = atomic_load_explicit(&comm->team->issued, memory_order_relaxed);
    tutti_result_t result = comm->executor->uses_team ? TUTTI_SUCCESS : team_wait(comm->team, issued);
    tutti_result_t executed =
        comm->executor->ops.wait(comm->executor); /* also after a failure: nothing is touched later */
    result = result == TUTTI_SUCCESS ? executed : result;
    return result == TUTTI_SUCCESS ? team_audit(comm->team, end) : result;
}

void comm_memory(struct tutti_comm *comm, size_t *device_bytes, size_t *host_bytes)
{
    *device_bytes = *host_bytes = 0;
    pthread_rwlock_rdlock(&comm->executing);
    if (comm->executor)
        comm->executor->ops.memory(comm->executor, device_bytes, host_bytes);
    pthread_rwlock_unlock(&comm->executing);
    *host_bytes += team_memory(comm->team);
}

tutti_result_t comm_failure(struct tutti_comm *comm)
{
    pthread_rwlock_rdlock(&comm->executing);
    comm->executor->ops.hear(comm->executor);
    pthread_rwlock_unlock(&comm->executing);
    return team_report(comm->team);
}

void comm_end_calls(struct tutti_comm *comm)
{
    if (comm->executor->uses_team)
        comm->executor->ops.end_calls(comm->executor);
    else
        team_end_calls(comm->team);
}

tutti_result_t comm_finalize(struct tutti_comm *comm)
{
    comm_join_wait(comm);
    grow_wait(comm, true);
    int state = atomic_load(&comm->state);
    if (state == COMM_FINALIZED || state == COMM_FAILED)
        return TUTTI_SUCCESS;
    atomic_store(&comm->team->ending,
                 comm_device(comm) == TUTTI_HOST); /* which issues for what it has been called for */
    tutti_result_t result = comm_wait(comm, true);
    comm_end_calls(comm);
    atomic_store(&comm->state, COMM_FINALIZED);
    return result;
}

static tutti_result_t fail_by_abort(struct team *team)
{
    char sentence[80];
    snprintf(sentence, sizeof sentence, "the communicator was aborted by rank %d", team->rank);
    return team_fail(team, TUTTI_REMOTE_ERROR, team->rank, sentence);
}

tutti_result_t comm_publish_team(struct tutti_comm *comm)
{
    atomic_store(&comm->to_fail, comm->team);
    return atomic_load(&comm->abort) ? fail_by_abort(comm->team) : TUTTI_SUCCESS;
}

/* What is waited for while it is made may be calls on the parent, which cannot be taken back. */
static void abort_making(struct tutti_comm *comm)
{
    pthread_mutex_lock(&comm->joining);
    struct tutti_comm *parent = atomic_load(&comm->parent);
    if (parent)
        comm_abort(parent, false);
    pthread_mutex_unlock(&comm->joining);
}

/* Waits until nothing of the user's is touched any more. */
static tutti_result_t comm_settle(struct tutti_comm *comm, bool ends)
{
    tutti_result_t result = TUTTI_SUCCESS;
    pthread_rwlock_rdlock(&comm->executing);
    if (comm->executor) {
        comm->executor->ops.wait(comm->executor);
        result = comm->executor->ops.settle(comm->executor, ends);
    }
    pthread_rwlock_unlock(&comm->executing);
    return result;
}

tutti_result_t comm_leave(struct tutti_comm *comm)
{
    return comm_settle(comm, true);
}

/* Is there something to give up? Peers still store to the windows of a finalized communicator, and graphs may replay
 * its calls. */
static bool comm_goes_on(const struct tutti_comm *comm)
{
    int state = atomic_load(&comm->state);
    return state == COMM_READY || (state == COMM_FINALIZED && comm->executor->ops.keeps(comm->executor));
}

tutti_result_t comm_abort(struct tutti_comm *comm, bool waits)
{
    atomic_store(&comm->abort, BOOTSTRAP_ABORT);
    atomic_fetch_add(&comm->meeting.aborts, 1);
    if (atomic_load(&comm->parent))
        abort_making(comm);
    if (atomic_load(&comm->growing))
        meeting_stop(&comm->meeting);
    struct team *team = atomic_load(&comm->to_fail);
    pthread_rwlock_rdlock(&comm->executing);
    bool goes_on = comm_goes_on(comm), leaves = goes_on && comm->executor->ops.give_up(comm->executor);
    pthread_rwlock_unlock(&comm->executing);
    if (team && !leaves && (goes_on || atomic_load(&comm->state) != COMM_FINALIZED)) {
        if (!atomic_load(&team->failed))
            fail_by_abort(team);
        team_stop(team);
        team_report(team);
    }
    if (waits) {
        comm_join_wait(comm);
        grow_wait(comm, false);
    }
    if (waits && leaves)
        comm->executor->ops.wait_given_up(comm->executor);
    team = atomic_load(&comm->to_fail);
    if (team)
        trace_comm_aborted(team->trace);
    if (!waits || !team)
        return TUTTI_SUCCESS;
    team_wait(team, atomic_load(&team->issued));
    return comm_settle(comm, false);
}
