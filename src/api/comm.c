/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators, streams and memory: the exported calls. */
#include "api/internal.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/param.h"
#include "bootstrap/env.h"
#include "comm/memory.h"
#include "engine/progress.h"
#include "engine/wait.h"

#include <arpa/inet.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int tutti_get_version(void)
{
    return TUTTI_VERSION;
}

const char *tutti_get_error_string(tutti_result_t result)
{
    return error_name(result);
}

const char *tutti_get_last_error(tutti_comm_t comm)
{
    if (!comm || comm_check(comm) != TUTTI_SUCCESS)
        return error_last();
    int state = atomic_load_explicit(&comm->state, memory_order_acquire);
    if (state == COMM_FAILED)
        return comm->sentence;
    if (state != COMM_MAKING && atomic_load_explicit(&comm->team->failed, memory_order_acquire))
        return comm->team->cause.text;
    return error_last();
}

/* ---- Making ---- */

tutti_result_t tutti_get_unique_id(tutti_unique_id_t *id)
{
    if (!id)
        return error_set(TUTTI_INVALID_ARGUMENT, "id is NULL");
    struct env_identity place;
    bool named = false;
    tutti_result_t result = param_check();
    if (result == TUTTI_SUCCESS)
        result = env_identity_named(&place, &named);
    if (named && result == TUTTI_SUCCESS)
        *id = place.id;
    return result == TUTTI_SUCCESS && !named ? roots_open(id, -1) : result;
}

/* Every rank got the id by itself, as the environment names the place: rank 0 opens it. */
static tutti_result_t open_named(const tutti_unique_id_t *id)
{
    struct env_identity place;
    bool named;
    tutti_result_t result = env_identity_named(&place, &named);
    if (result != TUTTI_SUCCESS || !named || memcmp(&place.id, id, sizeof *id) != 0)
        return result;
    place.root_here = true;
    roots_settle(); /* the last one was there, too */
    return roots_open_env(&place);
}

static tutti_result_t begin_order(tutti_comm_t *comm, const tutti_config_t *config, struct comm_settings *settings)
{
    if (!comm)
        return error_set(TUTTI_INVALID_ARGUMENT, "comm is NULL");
    tutti_result_t result = param_check();
    return result == TUTTI_SUCCESS ? comm_settings(settings, config) : result;
}

tutti_result_t tutti_comm_init_rank(tutti_comm_t *comm, int nranks, const tutti_unique_id_t *id, int rank,
                                    const tutti_config_t *config)
{
    struct comm_settings settings = comm_defaults();
    settings.rank = rank;
    settings.nranks = nranks;
    tutti_result_t result = begin_order(comm, config, &settings);
    if (result == TUTTI_SUCCESS && !id)
        result = error_set(TUTTI_INVALID_ARGUMENT, "id is NULL");
    if (result == TUTTI_SUCCESS && nranks < 1)
        result = error_set(TUTTI_INVALID_ARGUMENT, "nranks is %d; it must be 1 or more", nranks);
    if (result == TUTTI_SUCCESS && (rank < 0 || rank >= nranks))
        result = error_set(TUTTI_INVALID_ARGUMENT, "rank is %d; it must be 0 to %d", rank, nranks - 1);
    if (result != TUTTI_SUCCESS)
        return group_note(result);
    settings.id = *id;
    result = rank == 0 ? open_named(id) : TUTTI_SUCCESS;
    return result == TUTTI_SUCCESS ? group_init(&settings, comm) : group_note(result);
}

tutti_result_t tutti_comm_init_from_env(tutti_comm_t *comm, const tutti_config_t *config)
{
    struct comm_settings settings = comm_defaults();
    struct env_identity identity;
    tutti_result_t result = begin_order(comm, config, &settings);
    if (result == TUTTI_SUCCESS)
        result = env_identity_find(&identity);
    if (result != TUTTI_SUCCESS)
        return group_note(result);
    result = roots_open_env(&identity);
    env_identity_release(&identity);
    if (result != TUTTI_SUCCESS)
        return group_note(result);
    settings.rank = identity.rank;
    settings.nranks = identity.nranks;
    settings.id = identity.id;
    return group_init(&settings, comm);
}

tutti_result_t tutti_comm_init_all(tutti_comm_t *comms, int n)
{
    tutti_unique_id_t id;
    if (!comms || n < 1)
        return group_note(error_set(TUTTI_INVALID_ARGUMENT,
                                    "comms is %p and n is %d; n communicators are to be made, 1 or more", (void *)comms,
                                    n));
    tutti_result_t result = tutti_get_unique_id(&id);
    if (result != TUTTI_SUCCESS)
        return group_note(result);
    tutti_group_start();
    for (int rank = 0; rank < n && result == TUTTI_SUCCESS; rank++)
        result = tutti_comm_init_rank(&comms[rank], n, &id, rank, NULL);
    tutti_result_t ended = tutti_group_end();
    return result == TUTTI_SUCCESS ? ended : result;
}

static tutti_result_t no_group(const char *what)
{
    if (!group_open())
        return TUTTI_SUCCESS;
    return group_note(error_set(TUTTI_INVALID_USAGE, "%s cannot be part of a group", what));
}

/* What is wrong with a rank's arguments is told to all, who wait for it: each fails, and none waits in vain. */
tutti_result_t tutti_comm_split(tutti_comm_t comm, int color, int key, tutti_comm_t *child,
                                const tutti_config_t *config)
{
    struct making making;
    tutti_result_t result = comm_usable(comm);
    if (result != TUTTI_SUCCESS)
        return group_note(result);
    if (!child || color < TUTTI_SPLIT_NOCOLOR)
        result = error_set(TUTTI_INVALID_ARGUMENT,
                           "child is %p and color is %d; a color is TUTTI_SPLIT_NOCOLOR, or 0 or more", (void *)child,
                           color);
    if (group_open())
        return result == TUTTI_SUCCESS ? group_split(comm, color, key, config, child) : group_note(result);
    making_split(&making, comm, color, key, config, result);
    return making_go(&making, child);
}

tutti_result_t tutti_comm_duplicate(tutti_comm_t comm, tutti_comm_t *child, const tutti_config_t *config)
{
    tutti_result_t result = comm_usable(comm);
    return result == TUTTI_SUCCESS ? tutti_comm_split(comm, 0, comm->team->rank, child, config) : group_note(result);
}

static tutti_result_t check_excluded(tutti_comm_t comm, const int *excluded, int count)
{
    if (count < 0 || (count && !excluded))
        return error_set(TUTTI_INVALID_ARGUMENT, "excluded is %p and count is %d", (const void *)excluded, count);
    for (int i = 0; i < count; i++) {
        tutti_result_t result = check_root(comm, excluded[i]);
        if (result != TUTTI_SUCCESS)
            return result;
        if (excluded[i] == comm->team->rank)
            return error_set(TUTTI_INVALID_USAGE, "rank %d is excluded and must not call tutti_comm_shrink()",
                             excluded[i]);
    }
    return TUTTI_SUCCESS;
}

static tutti_result_t can_shrink(tutti_comm_t comm)
{
    tutti_result_t result = no_group("tutti_comm_shrink()");
    if (result == TUTTI_SUCCESS)
        result = comm_check(comm);
    if (result != TUTTI_SUCCESS)
        return result;
    int state = atomic_load_explicit(&comm->state, memory_order_acquire);
    if (state == COMM_MAKING || state == COMM_SUSPENDED)
        return comm_refuse(comm);
    return state == COMM_READY ? TUTTI_SUCCESS
                               : error_set(TUTTI_INVALID_USAGE, "the communicator was never made, or was finalized");
}

tutti_result_t tutti_comm_shrink(tutti_comm_t comm, const int *excluded, int count, tutti_comm_t *child,
                                 const tutti_config_t *config)
{
    struct making making;
    tutti_result_t result = can_shrink(comm);
    if (result != TUTTI_SUCCESS)
        return result;
    result = child ? check_excluded(comm, excluded, count) : error_set(TUTTI_INVALID_ARGUMENT, "child is NULL");
    grow_wait(comm, false);
    comm_end_calls(comm); /* or members might wait there for this rank, and this rank here for them */
    making_shrink(&making, comm, excluded, count, config, result);
    return making_go(&making, child);
}

static tutti_result_t can_grow(tutti_comm_t comm, int nranks, const tutti_unique_id_t *id, int rank)
{
    int members = comm ? comm->team->nranks : 0;
    if (nranks <= members || nranks < 2)
        return error_set(TUTTI_INVALID_ARGUMENT, "nranks is %d; it must be more than the %d ranks of the communicator",
                         nranks, members);
    if (comm && rank != -1)
        return error_set(TUTTI_INVALID_ARGUMENT, "rank is %d; a member keeps its own and passes -1", rank);
    if (!comm && !id)
        return error_set(TUTTI_INVALID_ARGUMENT, "id is NULL; a newcomer passes that of tutti_comm_get_unique_id()");
    if (!comm && (rank < 1 || rank >= nranks))
        return error_set(TUTTI_INVALID_ARGUMENT,
                         "rank is %d; that of a newcomer is at least the number of members, and below %d", rank,
                         nranks);
    return TUTTI_SUCCESS;
}

tutti_result_t tutti_comm_get_unique_id(tutti_comm_t comm, tutti_unique_id_t *id)
{
    tutti_result_t result = comm_usable(comm);
    if (result == TUTTI_SUCCESS && !id)
        result = error_set(TUTTI_INVALID_ARGUMENT, "id is NULL");
    return result == TUTTI_SUCCESS ? roots_open(id, comm->team->rank) : result;
}

tutti_result_t tutti_comm_grow(tutti_comm_t comm, int nranks, const tutti_unique_id_t *id, int rank,
                               tutti_comm_t *grown, const tutti_config_t *config)
{
    struct comm_settings settings = comm_defaults();
    tutti_result_t result = comm ? comm_usable(comm) : TUTTI_SUCCESS;
    if (result == TUTTI_SUCCESS)
        result = can_grow(comm, nranks, id, rank);
    if (result == TUTTI_SUCCESS && comm) {
        settings.timeout_ms = comm->settings.timeout_ms;
        settings.executor = comm->settings.executor;
    }
    if (result == TUTTI_SUCCESS)
        result = begin_order(grown, config, &settings);
    if (result != TUTTI_SUCCESS)
        return group_note(result);
    settings.nranks = nranks;
    settings.rank = comm ? comm->team->rank : rank;
    settings.has_id = id != NULL;
    settings.id = id ? *id : (tutti_unique_id_t){{0}};
    settings.grows = comm;
    if (comm)
        settings.executor.device = comm->settings.executor.device; /* a rank stays where it is */
    return group_init(&settings, grown);
}

/* ---- Ending ---- */

/* A growth that a group of this thread has not begun yet would wait for itself. */
static int kept_by_group(tutti_comm_t comm)
{
    bool will_grow = group_open() && atomic_load(&comm->growing) == COMM_WILL_GROW;
    return atomic_load(&comm->grouped) + will_grow;
}

tutti_result_t not_grouped(const char *what, int kept)
{
    if (!kept)
        return TUTTI_SUCCESS;
    return group_note(
        error_set(TUTTI_INVALID_USAGE, "calls of an open group are on this %s; call tutti_group_end() first", what));
}

tutti_result_t tutti_comm_finalize(tutti_comm_t comm)
{
    tutti_result_t result = comm_check(comm);
    if (result == TUTTI_SUCCESS)
        result = not_grouped("communicator", kept_by_group(comm));
    return result == TUTTI_SUCCESS ? comm_finalize(comm) : result;
}

/* The user has heard of it, or need not: a peer may go when all is done. That calls differ a peer may find after
 * this rank's last one has ended well. */
static bool failed_before(const struct team *team)
{
    tutti_result_t failed = team ? (tutti_result_t)atomic_load(&team->failed) : TUTTI_SUCCESS;
    return failed != TUTTI_SUCCESS && (failed != TUTTI_INVALID_USAGE || atomic_load(&team->reported));
}

tutti_result_t tutti_comm_destroy(tutti_comm_t comm)
{
    if (!comm)
        return TUTTI_SUCCESS;
    tutti_result_t result = comm_check(comm);
    if (result == TUTTI_SUCCESS)
        result = not_grouped("communicator", kept_by_group(comm));
    if (result != TUTTI_SUCCESS)
        return result;
    bool old = failed_before(comm->team);
    result = comm_finalize(comm);
    tutti_result_t left = comm_leave(comm);
    comm_free(comm);
    return left != TUTTI_SUCCESS ? left : old ? TUTTI_SUCCESS : result;
}

tutti_result_t tutti_comm_abort(tutti_comm_t comm)
{
    tutti_result_t result = comm_check(comm);
    return result == TUTTI_SUCCESS ? comm_abort(comm, !group_open()) : result;
}

tutti_result_t tutti_comm_get_async_error(tutti_comm_t comm, tutti_result_t *state)
{
    tutti_result_t result = comm_check(comm);
    if (result != TUTTI_SUCCESS)
        return result;
    if (!state)
        return error_set(TUTTI_INVALID_ARGUMENT, "state is NULL");
    switch (atomic_load_explicit(&comm->state, memory_order_acquire)) {
    case COMM_MAKING:
        *state = TUTTI_IN_PROGRESS;
        break;
    case COMM_FAILED:
        *state = (tutti_result_t)atomic_load(&comm->failed);
        break;
    default:
        *state = comm_failure(comm);
    }
    return TUTTI_SUCCESS;
}

/* ---- Rest ---- */

static tutti_result_t may_rest(tutti_comm_t comm, const char *what)
{
    tutti_result_t result = no_group(what);
    return result == TUTTI_SUCCESS ? comm_check(comm) : result;
}

tutti_result_t tutti_comm_suspend(tutti_comm_t comm)
{
    tutti_result_t result = may_rest(comm, "tutti_comm_suspend()");
    if (result == TUTTI_SUCCESS)
        result = comm_usable(comm);
    return result == TUTTI_SUCCESS ? comm_suspend(comm, not_grouped("communicator", kept_by_group(comm))) : result;
}

tutti_result_t tutti_comm_resume(tutti_comm_t comm)
{
    tutti_result_t result = may_rest(comm, "tutti_comm_resume()");
    if (result != TUTTI_SUCCESS)
        return result;
    if (atomic_load_explicit(&comm->state, memory_order_acquire) == COMM_SUSPENDED)
        return comm_resume(comm);
    result = comm_usable(comm);
    return result == TUTTI_SUCCESS ? error_set(TUTTI_INVALID_USAGE, "the communicator is not suspended") : result;
}

/* ---- Asking ---- */

static tutti_result_t made(tutti_comm_t comm, const void *out)
{
    tutti_result_t result = comm_check(comm);
    if (result == TUTTI_SUCCESS &&
        (atomic_load_explicit(&comm->state, memory_order_acquire) == COMM_MAKING || !comm->team))
        result = error_note(TUTTI_IN_PROGRESS, "the communicator is not made yet");
    if (result == TUTTI_SUCCESS && !out)
        result = error_set(TUTTI_INVALID_ARGUMENT, "the place for the answer is NULL");
    return result;
}

tutti_result_t tutti_comm_count(tutti_comm_t comm, int *count)
{
    tutti_result_t result = made(comm, count);
    if (result == TUTTI_SUCCESS)
        *count = comm->team->nranks;
    return result;
}

tutti_result_t tutti_comm_rank(tutti_comm_t comm, int *rank)
{
    tutti_result_t result = made(comm, rank);
    if (result == TUTTI_SUCCESS)
        *rank = comm->team->rank;
    return result;
}

tutti_result_t tutti_comm_local_rank(tutti_comm_t comm, int *rank, int *count)
{
    tutti_result_t result = made(comm, rank && count ? rank : NULL);
    if (result != TUTTI_SUCCESS)
        return result;
    *rank = comm->team->local_rank;
    *count = comm->team->local_ranks;
    return TUTTI_SUCCESS;
}

tutti_result_t tutti_comm_address(tutti_comm_t comm, int rank, char *text, size_t bytes)
{
    tutti_result_t result = made(comm, text);
    if (result != TUTTI_SUCCESS)
        return result;
    if (rank < 0 || rank >= comm->team->nranks)
        return error_set(TUTTI_INVALID_ARGUMENT, "rank is %d of %d", rank, comm->team->nranks);
    struct roster_cursor cursor = {.roster = comm->team->roster};
    const struct wire_address *address = &roster_read(&cursor, team_row(comm->team, rank))->process.tcp[0];
    if (!address->family)
        return error_set(TUTTI_INVALID_USAGE, "the process of rank %d has no address of IP", rank);
    if (!inet_ntop(address->family == 4 ? AF_INET : AF_INET6, address->bytes, text, (socklen_t)bytes))
        return error_set(TUTTI_INVALID_ARGUMENT, "%zu bytes are too few for the address of rank %d", bytes, rank);
    return TUTTI_SUCCESS;
}

tutti_result_t tutti_comm_device(tutti_comm_t comm, int *device)
{
    tutti_result_t result = made(comm, device);
    if (result == TUTTI_SUCCESS)
        *device = comm->settings.executor.device;
    return result;
}

tutti_result_t tutti_comm_memory(tutti_comm_t comm, size_t *device_bytes, size_t *host_bytes)
{
    size_t device = 0, host = 0;
    tutti_result_t result = made(comm, &device);
    if (result != TUTTI_SUCCESS)
        return result;
    comm_memory(comm, &device, &host);
    if (device_bytes)
        *device_bytes = device;
    if (host_bytes)
        *host_bytes = host;
    return TUTTI_SUCCESS;
}

#define PAUSE_MOST (7 * 24 * 3600) /* seconds */

tutti_result_t tutti_expect_pause(tutti_comm_t comm, const char *what, int seconds)
{
    tutti_result_t result = made(comm, &seconds);
    if (result == TUTTI_SUCCESS && (seconds < 0 || seconds > PAUSE_MOST))
        result = error_set(TUTTI_INVALID_ARGUMENT, "seconds is %d; want 0 to %d", seconds, PAUSE_MOST);
    if (result == TUTTI_SUCCESS)
        trace_expect_pause(comm->engine->trace, what, (uint64_t)seconds * NS_PER_S);
    return result;
}

tutti_result_t tutti_comm_synchronize(tutti_comm_t comm)
{
    if (comm_works(comm))
        return comm_wait(comm, false);
    tutti_result_t result = comm_check(comm);
    if (result != TUTTI_SUCCESS)
        return result;
    return atomic_load_explicit(&comm->state, memory_order_acquire) == COMM_READY ? comm_wait(comm, false)
                                                                                  : comm_usable(comm);
}

/* ---- Streams ---- */

tutti_result_t tutti_stream_create(tutti_stream_t *stream)
{
    if (!stream)
        return error_set(TUTTI_INVALID_ARGUMENT, "stream is NULL");
    struct tutti_stream *made_one = calloc(1, sizeof *made_one);
    if (!made_one)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for a stream");
    list_init(&made_one->ops);
    made_one->generation = fork_generation;
    *stream = made_one;
    return TUTTI_SUCCESS;
}

tutti_result_t tutti_stream_synchronize(tutti_stream_t stream)
{
    struct team *team;
    uint64_t position;
    if (!stream)
        return error_set(TUTTI_INVALID_ARGUMENT,
                         "stream is NULL; for a communicator's own stream call tutti_comm_synchronize()");
    while ((team = stream_visit(stream, true, &position))) {
        team_wait(team, position);
        team_leave(team);
    }
    return stream_error(stream);
}

tutti_result_t tutti_stream_query(tutti_stream_t stream)
{
    struct team *team;
    uint64_t position;
    enum team_moved moved = TEAM_MOVED;
    if (!stream)
        return error_set(TUTTI_INVALID_ARGUMENT, "stream is NULL");
    while (moved == TEAM_MOVED && (team = stream_visit(stream, false, &position))) {
        moved = team_progress(team);
        if (moved != TEAM_MOVED)
            team_waits(team);
        team_leave(team);
    }
    return moved == TEAM_MOVED ? TUTTI_SUCCESS : TUTTI_IN_PROGRESS;
}

tutti_result_t tutti_stream_destroy(tutti_stream_t stream)
{
    if (!stream)
        return TUTTI_SUCCESS;
    tutti_result_t result = not_grouped("stream", atomic_load(&stream->grouped));
    if (result != TUTTI_SUCCESS)
        return result;
    tutti_stream_synchronize(stream);
    free(stream);
    return TUTTI_SUCCESS;
}

/* ---- Memory ---- */

tutti_result_t tutti_mem_alloc(void **pointer, size_t size)
{
    if (!pointer)
        return error_set(TUTTI_INVALID_ARGUMENT, "pointer is NULL");
    return memory_alloc(pointer, size);
}

tutti_result_t tutti_mem_free(void *pointer)
{
    return memory_free(pointer);
}

tutti_result_t tutti_device_mem_alloc(void **pointer, size_t size)
{
    if (!pointer || !size)
        return error_set(TUTTI_INVALID_ARGUMENT, "pointer is %p and size is %zu", (void *)pointer, size);
    return executor_devices.memory_alloc(pointer, size);
}

tutti_result_t tutti_device_mem_free(void *pointer)
{
    return executor_devices.memory_free(pointer);
}

static tutti_result_t may_register(tutti_comm_t comm, const void *buffer, size_t size, void **handle)
{
    tutti_result_t result = comm_usable(comm);
    if (result == TUTTI_SUCCESS && (!buffer || !size || !handle))
        result = error_set(TUTTI_INVALID_ARGUMENT, "buffer is %p, size %zu, handle %p; none may be NULL or 0", buffer,
                           size, (void *)handle);
    return result;
}

tutti_result_t tutti_comm_register(tutti_comm_t comm, void *buffer, size_t size, void **handle)
{
    tutti_result_t result = may_register(comm, buffer, size, handle);
    return result == TUTTI_SUCCESS ? memory_register(comm, buffer, size, handle) : result;
}

tutti_result_t tutti_comm_register_symmetric(tutti_comm_t comm, void *buffer, size_t size, void **handle)
{
    tutti_result_t result = may_register(comm, buffer, size, handle);
    return result == TUTTI_SUCCESS ? memory_register_symmetric(comm, buffer, size, handle) : result;
}

tutti_result_t tutti_comm_symmetric_window(tutti_comm_t comm, void *handle, tutti_window_t *window)
{
    tutti_result_t result = comm_usable(comm);
    if (result != TUTTI_SUCCESS)
        return result;
    if (!window)
        return error_set(TUTTI_INVALID_ARGUMENT, "window is NULL");
    *window = NULL;
    return memory_window(comm, handle, window);
}

tutti_result_t tutti_comm_deregister(tutti_comm_t comm, void *handle)
{
    tutti_window_t window = NULL;
    tutti_result_t result = comm_check(comm);
    if (result == TUTTI_SUCCESS)
        result = memory_window(comm, handle, &window);
    if (result == TUTTI_SUCCESS && window)
        result = not_grouped("window", atomic_load(&comm->grouped_windows));
    return result == TUTTI_SUCCESS ? memory_deregister(comm, handle) : result;
}
