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
    *settings = (struct elastic_settings){
        .timeout = (uint64_t)(set.timeout_ms ? set.timeout_ms : param_int(PARAM_TIMEOUT)) * NS_PER_MS,
        .minimum = set.minimum,
        .unit = set.unit,
        .shard = set.shard};
    return TUTTI_SUCCESS;
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
    if (result == TUTTI_SUCCESS && comm_device(comm) != TUTTI_HOST)
        result = error_set(TUTTI_INVALID_USAGE,
                           "an elastic group works on host memory; the communicator is of device "
                           "%d: make one with config.device TUTTI_HOST",
                           comm_device(comm));
    if (result == TUTTI_SUCCESS)
        result = check_members(comm->team->nranks);
    if (result == TUTTI_SUCCESS)
        result = check_settings(config, &settings);
    return result == TUTTI_SUCCESS ? elastic_open(comm, &settings, elastic) : result;
}

tutti_result_t tutti_elastic_allreduce(tutti_elastic_t elastic, const void *in, void *out, size_t count,
                                       tutti_type_t type, tutti_op_t op, tutti_elastic_step_t *step)
{
    struct call call = {.coll = COLL_ALLREDUCE, .type = type, .count = count, .op = (int16_t)op, .in = in, .out = out};
    tutti_result_t result = refuse_group("tutti_elastic_allreduce");
    if (result == TUTTI_SUCCESS)
        result = elastic_check(elastic);
    if (result == TUTTI_SUCCESS)
        result = check_type(type);
    if (result == TUTTI_SUCCESS && (unsigned)op >= TUTTI_OP_COUNT)
        result = error_set(
            TUTTI_INVALID_ARGUMENT,
            "op is %d; an elastic group takes TUTTI_SUM to TUTTI_AVG, as others belong to a communicator", (int)op);
    if (result == TUTTI_SUCCESS)
        result = check_blocks(&call, 1);
    if (result == TUTTI_SUCCESS)
        result = check_buffer("in", in, count);
    if (result == TUTTI_SUCCESS)
        result = check_buffer("out", out, count);
    if (result == TUTTI_SUCCESS && step && step->size != sizeof *step)
        result =
            error_set(TUTTI_INVALID_ARGUMENT, "step->size is %zu; set it to sizeof(tutti_elastic_step_t)", step->size);
    return result == TUTTI_SUCCESS ? elastic_allreduce(elastic, &call, step) : result;
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

tutti_result_t tutti_elastic_get_state(tutti_elastic_t elastic, tutti_elastic_state_t *state)
{
    if (!state || state->size != sizeof *state)
        return error_set(TUTTI_INVALID_ARGUMENT,
                         "state is %p of size %zu; set state->size to "
                         "sizeof(tutti_elastic_state_t)",
                         (void *)state, state ? state->size : 0);
    tutti_result_t result = elastic_check(elastic);
    if (result != TUTTI_SUCCESS)
        return result;
    const struct generation *now = elastic->now;
    const struct generation_member *mine = &now->member[now->comm->team->rank];
    *state = (tutti_elastic_state_t){.size = sizeof *state,
                                     .steps = elastic->steps,
                                     .generation = elastic->number,
                                     .members = now->members,
                                     .units = now->units,
                                     .member = mine->number,
                                     .unit = mine->unit,
                                     .shard = mine->shard,
                                     .host_bytes = elastic_memory(elastic)};
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
