/* SPDX-License-Identifier: Apache-2.0 */
/* Elastic groups: the exported calls. */
#include "api/internal.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/param.h"
#include "comm/elastic.h"

#include <string.h>

static tutti_result_t refuse_group(const char *call)
{
    return group_open() ? group_note(error_set(TUTTI_INVALID_USAGE, "%s() cannot be part of a group", call))
                        : TUTTI_SUCCESS;
}

static tutti_result_t check_bound(const tutti_elastic_config_t *set)
{
    if (!set->chunk_bytes && !set->chunks)
        return TUTTI_SUCCESS;
    return set->chunk_bytes < 4096 || set->chunk_bytes > 256u << 20 || set->chunks < 1 || set->chunks > 32
               ? error_set(TUTTI_INVALID_ARGUMENT,
                           "config.chunk_bytes is %zu and chunks %d; they must be 4096 to 268435456 and 1 to 32, or "
                           "both 0",
                           set->chunk_bytes, set->chunks)
               : TUTTI_SUCCESS;
}

static tutti_result_t check_settings(const tutti_elastic_config_t *config, struct elastic_settings *settings)
{
    tutti_elastic_config_t set = TUTTI_ELASTIC_CONFIG_INITIALIZER;
    if (config && (config->size < sizeof(size_t) || config->size > 4096))
        return error_set(TUTTI_INVALID_ARGUMENT, "config.size is %zu; set it with TUTTI_ELASTIC_CONFIG_INITIALIZER",
                         config->size);
    if (config)
        memcpy(&set, config, config->size < sizeof set ? config->size : sizeof set);
    if (set.timeout_ms < 0 || set.timeout_ms > 86400000)
        return error_set(TUTTI_INVALID_ARGUMENT, "config.timeout_ms is %d; it must be 0 to 86400000", set.timeout_ms);
    if (set.minimum < 1 || set.shard < 0 || set.unit < -1)
        return error_set(TUTTI_INVALID_ARGUMENT,
                         "config.minimum is %d, unit %d and shard %d; the least are 1, -1 and 0", set.minimum, set.unit,
                         set.shard);
    if (set.device < TUTTI_CURRENT_DEVICE)
        return error_set(TUTTI_INVALID_ARGUMENT,
                         "config.device is %d; it must be TUTTI_HOST, TUTTI_CURRENT_DEVICE or a device", set.device);
    tutti_result_t result = check_bound(&set);
    *settings = (struct elastic_settings){
        .timeout = (uint64_t)(set.timeout_ms ? set.timeout_ms : param_int(PARAM_TIMEOUT)) * NS_PER_MS,
        .minimum = set.minimum,
        .unit = set.unit,
        .shard = set.shard,
        .device = set.device,
        .bound = {.bytes = set.chunk_bytes, .pieces = set.chunks}};
    return result;
}

static tutti_result_t check_members(int members)
{
    return members > 0 && members <= CONSENT_MOST
               ? TUTTI_SUCCESS
               : error_set(TUTTI_INVALID_ARGUMENT, "%d members; an elastic group has 1 to %d", members, CONSENT_MOST);
}

tutti_result_t tutti_elastic_init(tutti_elastic_t *elastic, tutti_comm_t comm, const tutti_elastic_config_t *config)
{
    struct elastic_settings settings;
    tutti_result_t result = refuse_group("tutti_elastic_init");
    if (result == TUTTI_SUCCESS)
        result = comm_usable(comm);
    if (result == TUTTI_SUCCESS && !elastic)
        result = error_set(TUTTI_INVALID_ARGUMENT, "elastic is NULL");
    if (result == TUTTI_SUCCESS)
        result = check_members(comm->team->nranks);
    if (result == TUTTI_SUCCESS)
        result = check_settings(config, &settings);
    return result == TUTTI_SUCCESS ? elastic_open(comm, &settings, elastic) : result;
}

static tutti_result_t elastic_check_stream(const struct tutti_elastic *elastic, tutti_stream_t stream)
{
    int device = elastic_device(elastic);
    if (device != TUTTI_HOST)
        return executor_devices.runs(device, stream);
    return stream ? error_set(TUTTI_INVALID_ARGUMENT, "stream is %p; a group on host memory takes none: pass NULL",
                              (void *)stream)
                  : TUTTI_SUCCESS;
}

/* What the calls need that is named so. */
static tutti_result_t check_step(tutti_elastic_t elastic, const struct call *call, tutti_stream_t stream,
                                 const tutti_elastic_step_t *step)
{
    tutti_result_t result = elastic_check(elastic);
    if (result == TUTTI_SUCCESS)
        result = check_type(call->type);
    if (result == TUTTI_SUCCESS && (unsigned)call->op >= TUTTI_OP_COUNT)
        result = error_set(
            TUTTI_INVALID_ARGUMENT,
            "op is %d; an elastic group takes TUTTI_SUM to TUTTI_AVG, as others belong to a communicator", call->op);
    if (result == TUTTI_SUCCESS && step && step->size != sizeof *step)
        result =
            error_set(TUTTI_INVALID_ARGUMENT, "step->size is %zu; set it to sizeof(tutti_elastic_step_t)", step->size);
    return result == TUTTI_SUCCESS ? elastic_check_stream(elastic, stream) : result;
}

static tutti_result_t take_step(const char *name, tutti_elastic_t elastic, struct call *call, tutti_stream_t stream,
                                tutti_elastic_step_t *step)
{
    tutti_result_t result = refuse_group(name);
    if (result == TUTTI_SUCCESS)
        result = check_step(elastic, call, stream, step);
    if (result == TUTTI_SUCCESS)
        result = check_blocks(call, 1);
    if (result == TUTTI_SUCCESS)
        result = check_buffer("in", call->in, call->count);
    if (result == TUTTI_SUCCESS)
        result = check_buffer("out", call->out, call->count);
    return result == TUTTI_SUCCESS ? elastic_allreduce(elastic, call, stream, step) : result;
}

tutti_result_t tutti_elastic_allreduce(tutti_elastic_t elastic, const void *in, void *out, size_t count,
                                       tutti_type_t type, tutti_op_t op, tutti_elastic_step_t *step)
{
    struct call call = {.coll = COLL_ALLREDUCE, .type = type, .count = count, .op = (int16_t)op, .in = in, .out = out};
    return take_step(__func__, elastic, &call, NULL, step);
}

tutti_result_t tutti_elastic_allreduce_on(tutti_elastic_t elastic, const void *in, void *out, size_t count,
                                          tutti_type_t type, tutti_op_t op, tutti_stream_t stream,
                                          tutti_elastic_step_t *step)
{
    struct call call = {.coll = COLL_ALLREDUCE, .type = type, .count = count, .op = (int16_t)op, .in = in, .out = out};
    return take_step(__func__, elastic, &call, stream, step);
}

tutti_result_t tutti_elastic_get_unique_id(tutti_elastic_t elastic, tutti_unique_id_t *id)
{
    tutti_result_t result = elastic_check(elastic);
    if (result == TUTTI_SUCCESS && !id)
        result = error_set(TUTTI_INVALID_ARGUMENT, "id is NULL");
    return result == TUTTI_SUCCESS ? roots_open(id, elastic->now->comm->team->rank) : result;
}

tutti_result_t tutti_elastic_grow(tutti_elastic_t elastic, int newcomers, const tutti_unique_id_t *id)
{
    tutti_result_t result = refuse_group("tutti_elastic_grow");
    if (result == TUTTI_SUCCESS)
        result = elastic_check(elastic);
    if (result == TUTTI_SUCCESS && newcomers < 1)
        result = error_set(TUTTI_INVALID_ARGUMENT, "newcomers is %d; it must be 1 or more", newcomers);
    if (result == TUTTI_SUCCESS)
        result = check_members(newcomers > CONSENT_MOST ? newcomers : elastic->now->members + newcomers);
    return result == TUTTI_SUCCESS ? elastic_grow(elastic, newcomers, id) : result;
}

tutti_result_t tutti_elastic_join(tutti_elastic_t *elastic, int members, const tutti_unique_id_t *id, int rank,
                                  const tutti_elastic_config_t *config)
{
    struct elastic_settings settings;
    tutti_result_t result = refuse_group("tutti_elastic_join");
    if (result == TUTTI_SUCCESS && (!elastic || !id))
        result = error_set(TUTTI_INVALID_ARGUMENT, "elastic is %p and id %p; neither may be NULL", (void *)elastic,
                           (const void *)id);
    if (result == TUTTI_SUCCESS)
        result = check_members(members);
    if (result == TUTTI_SUCCESS && (rank < 1 || rank >= members))
        result = error_set(TUTTI_INVALID_ARGUMENT,
                           "rank is %d of %d; that of a newcomer is at least the number of old members", rank, members);
    if (result == TUTTI_SUCCESS)
        result = param_check();
    if (result == TUTTI_SUCCESS)
        result = check_settings(config, &settings);
    return result == TUTTI_SUCCESS ? elastic_join(id, members, rank, &settings, elastic) : result;
}

/* Of the library that had no device_bytes. */
#define STATE_BEFORE offsetof(tutti_elastic_state_t, device_bytes)

tutti_result_t tutti_elastic_get_state(tutti_elastic_t elastic, tutti_elastic_state_t *state)
{
    size_t device, host;
    if (!state || (state->size != sizeof *state && state->size != STATE_BEFORE))
        return error_set(TUTTI_INVALID_ARGUMENT,
                         "state is %p of size %zu; set state->size to "
                         "sizeof(tutti_elastic_state_t)",
                         (void *)state, state ? state->size : 0);
    tutti_result_t result = elastic_check(elastic);
    if (result != TUTTI_SUCCESS)
        return result;
    const struct generation *now = elastic->now;
    const struct generation_member *mine = &now->member[now->comm->team->rank];
    elastic_memory(elastic, &device, &host);
    const tutti_elastic_state_t all = {.size = state->size,
                                       .steps = elastic->steps,
                                       .generation = elastic->number,
                                       .members = now->members,
                                       .units = now->units,
                                       .member = mine->number,
                                       .unit = mine->unit,
                                       .shard = mine->shard,
                                       .host_bytes = host,
                                       .device_bytes = device};
    memcpy(state, &all, state->size);
    return TUTTI_SUCCESS;
}

tutti_result_t tutti_elastic_end(tutti_elastic_t elastic)
{
    if (!elastic)
        return TUTTI_SUCCESS;
    tutti_result_t result = refuse_group("tutti_elastic_end");
    if (result == TUTTI_SUCCESS)
        result = elastic_known(elastic);
    if (result != TUTTI_SUCCESS)
        return result;
    elastic_close(elastic);
    return TUTTI_SUCCESS;
}
