/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps and growths of an elastic group. Each is a turn: work on the present generation's communicators, then a word
 * that all have done the work. When that fails members consent on whether the turn counts, and on the members of the
 * next generation. A turn that does not count is done again there.
 */
#include "comm/elastic.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/param.h"
#include "engine/collective.h"
#include "engine/failure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRIES_MORE 16 /* than there are members: a turn that fails with all of them here ends the group */

/* What members tell one another when they meet: rank 0's numbers hold. */
struct elastic_hello {
    uint64_t generation, steps, timeout;
    uint32_t turn, chunk_bytes;
    int32_t next, minimum, chunks;
    struct generation_member member;
};

tutti_result_t elastic_known(const struct tutti_elastic *elastic)
{
    if (!elastic || elastic->magic != ELASTIC_MAGIC)
        return error_set(TUTTI_INVALID_ARGUMENT, "the elastic group %p is not one, or was ended",
                         (const void *)elastic);
    if (elastic->fork != fork_generation)
        return error_set(TUTTI_INVALID_USAGE, "the elastic group %p belongs to the process that forked this one",
                         (const void *)elastic);
    return TUTTI_SUCCESS;
}

tutti_result_t elastic_check(const struct tutti_elastic *elastic)
{
    tutti_result_t result = elastic_known(elastic);
    if (result != TUTTI_SUCCESS || elastic->over == TUTTI_SUCCESS)
        return result;
    return error_note(elastic->over, "%s", elastic->sentence);
}

/* ---- Meeting ---- */

static tutti_result_t compare_hellos(const struct elastic_hello *all, int members)
{
    for (int rank = 1; rank < members; rank++)
        if (all[rank].timeout != all[0].timeout || all[rank].minimum != all[0].minimum)
            return error_set(
                TUTTI_INVALID_ARGUMENT,
                "rank 0 has a timeout of %.3f s and a minimum of %d, rank %d of %.3f s and %d: all members "
                "pass the same",
                (double)all[0].timeout / NS_PER_S, all[0].minimum, rank, (double)all[rank].timeout / NS_PER_S,
                all[rank].minimum);
        else if (all[rank].chunk_bytes != all[0].chunk_bytes || all[rank].chunks != all[0].chunks)
            return error_set(TUTTI_INVALID_ARGUMENT,
                             "rank 0 has %d chunks of %u bytes, rank %d has %d of %u: all members pass the same",
                             all[0].chunks, all[0].chunk_bytes, rank, all[rank].chunks, all[rank].chunk_bytes);
    return TUTTI_SUCCESS;
}

/* A newcomer's number is the next one, in the order of ranks; so is the unit of one that names none. */
static void number_members(const struct elastic_hello *all, int members, struct generation_member *member,
                           int32_t *next)
{
    *next = all[0].next;
    for (int rank = 0; rank < members; rank++) {
        member[rank] = all[rank].member;
        if (member[rank].number < 0)
            member[rank].number = (*next)++;
        if (member[rank].unit < 0)
            member[rank].unit = member[rank].number;
    }
}

static struct elastic_hello hello_of(const struct tutti_elastic *elastic)
{
    struct elastic_hello hello = {.generation = elastic->number,
                                  .steps = elastic->steps,
                                  .timeout = elastic->settings.timeout,
                                  .turn = elastic->turn,
                                  .chunk_bytes = (uint32_t)elastic->settings.bound.bytes,
                                  .next = elastic->next,
                                  .minimum = elastic->settings.minimum,
                                  .chunks = elastic->settings.bound.pieces,
                                  .member = {-1, elastic->settings.unit, elastic->settings.shard}};
    if (elastic->now)
        hello.member = elastic->now->member[elastic->now->comm->team->rank];
    return hello;
}

/* A generation on the communicator, which it takes over. *first: what rank 0 says. */
static tutti_result_t meet_on(const struct tutti_elastic *elastic, struct tutti_comm *comm, uint64_t deadline,
                              uint32_t turn, struct elastic_hello *first, struct generation **out)
{
    size_t count = (size_t)comm->team->nranks;
    struct elastic_hello mine = hello_of(elastic), *all = calloc(count, sizeof *all);
    struct generation_member *member = calloc(count, sizeof *member);
    tutti_result_t result =
        all && member ? TUTTI_SUCCESS : error_set(TUTTI_SYSTEM_ERROR, "no memory for %zu members", count);
    atomic_store(&comm->team->due, deadline);
    if (result == TUTTI_SUCCESS)
        result = team_tell_all(comm->team, &mine, sizeof mine, all);
    if (result == TUTTI_SUCCESS)
        result = compare_hellos(all, (int)count);
    *out = NULL;
    if (result == TUTTI_SUCCESS) {
        *first = all[0];
        number_members(all, (int)count, member, &first->next);
        result = generation_open(comm, member, first->minimum, first->timeout, turn ? turn : first->turn, out);
    } else {
        comm_abort(comm, true);
        comm_free(comm);
    }
    free(all);
    free(member);
    return result;
}

/* ---- The end of this member ---- */

/* What becomes of the group, where error_last() does not say it: of calls that differ mostly all members hear. */
#define LEAVES "; this member leaves the elastic group, and members without this failure go on"

static tutti_result_t be_over(struct tutti_elastic *elastic, tutti_result_t result, const char *then)
{
    elastic->over = result;
    snprintf(elastic->sentence, sizeof elastic->sentence, "%.900s%s", error_last(), then);
    if (elastic->now)
        generation_leave(elastic->now, true);
    return error_note(result, "%s", elastic->sentence);
}

static tutti_result_t be_left_out(struct tutti_elastic *elastic)
{
    const struct generation *now = elastic->now;
    const struct generation_member *mine = &now->member[now->comm->team->rank];
    char going[240], lost[240], late[80];
    struct consent_set apart = now->consent.lost; /* of those that go on: others may be dead */
    for (int i = 0; i < CONSENT_WORDS; i++)
        apart.word[i] &= now->consent.value.set.word[i];
    const char *others = generation_names(now, &now->consent.value.set, "there go on members", going),
               *cut = generation_names(now, &apart, "it has no lane to members", lost);
    snprintf(late, sizeof late, "it did not answer within %.3f s", (double)elastic->settings.timeout / NS_PER_S);
    error_set(TUTTI_REMOTE_ERROR,
              "member %d (unit %d) was left out of generation %llu: %s, or another member of its unit was lost; %s. "
              "Leave, and let a replacement join by tutti_elastic_join()",
              mine->number, mine->unit, (unsigned long long)elastic->number + 1, *cut ? cut : late,
              *others ? others : "the others have gone on");
    return be_over(elastic, TUTTI_REMOTE_ERROR, "");
}

/* ---- From one generation to the next ---- */

static void take_generation(struct tutti_elastic *elastic, struct generation *next)
{
    generation_close(elastic->before);
    elastic->before = elastic->now;
    elastic->before->replaced = true;
    elastic->now = next;
    elastic->number++;
}

/* Tells those that go on which members left, and what becomes of the step. */
static void tell_of_next(const struct tutti_elastic *elastic, const struct elastic_work *work, bool counts)
{
    const struct generation *before = elastic->before, *now = elastic->now;
    char away[240], here[240];
    struct consent_set left = {{0}};
    for (int rank = 0; rank < before->members; rank++)
        if (!consent_has(&before->consent.value.set, rank))
            consent_add(&left, rank);
    const char *without = generation_names(before, &left, "it goes on without members", away);
    log_warn("generation %llu of an elastic group begins: %s; %s, in %d units, %s", (unsigned long long)elastic->number,
             *without ? without : "nobody is missing",
             generation_names(before, &before->consent.value.set, "members", here), now->units,
             work->newcomers ? "go on, and have not grown"
             : counts        ? "go on, and their step counts with all who were in it"
                             : "do their step again");
}

/* Members consent. *counts: the turn does. A turn of growth that counts has made the next generation. */
static tutti_result_t end_generation(struct tutti_elastic *elastic, struct elastic_work *work, uint64_t due,
                                     bool *counts)
{
    struct generation *now = elastic->now, *next = NULL;
    tutti_result_t result = generation_end(now, due);
    if (result != TUTTI_SUCCESS)
        return be_over(elastic, result, "");
    const struct consent_value *value = &now->consent.value;
    *counts = value->turn >= work->turn;
    if (*counts && work->newcomers && work->grown)
        return TUTTI_SUCCESS;
    if (!consent_has(&value->set, now->consent.me) || (*counts && work->newcomers))
        return be_left_out(elastic);
    result = generation_follow(now, clock_ns() + now->timeout, &next);
    if (result != TUTTI_SUCCESS) {
        generation_close(next);
        return be_over(elastic, result, LEAVES);
    }
    take_generation(elastic, next);
    tell_of_next(elastic, work, *counts);
    return TUTTI_SUCCESS;
}

/* What cannot be mended by doing it again: calls that differ, no memory. */
static bool is_final(tutti_result_t result)
{
    return result != TUTTI_REMOTE_ERROR;
}

typedef tutti_result_t turn_fn(struct tutti_elastic *elastic, struct elastic_work *work, uint64_t due);

static tutti_result_t try_turn(struct tutti_elastic *elastic, struct elastic_work *work, uint64_t due, turn_fn *turn)
{
    generation_enter(elastic->now, work->turn);
    tutti_result_t result = generation_make(elastic->now, due);
    generation_set_due(elastic->now, due);
    if (result == TUTTI_SUCCESS)
        result = turn(elastic, work, due);
    return result == TUTTI_SUCCESS ? generation_finish(elastic->now, work->turn) : result;
}

/* Until the turn counts. A growth is not done again. *members: those with whom it counts. */
static tutti_result_t run_turn(struct tutti_elastic *elastic, struct elastic_work *work, turn_fn *turn, int *tries)
{
    char why[TEAM_SENTENCE];
    work->turn = elastic->turn + 1;
    for (*tries = 1;; ++*tries) {
        struct generation *worked = elastic->now;
        uint64_t due = clock_ns() + worked->timeout;
        bool counts = false;
        tutti_result_t result = try_turn(elastic, work, due, turn);
        if (result == TUTTI_SUCCESS)
            break;
        if (is_final(result) || *tries > worked->members + TRIES_MORE)
            return be_over(elastic, result, LEAVES);
        snprintf(why, sizeof why, "%s", error_last());
        result = end_generation(elastic, work, due, &counts);
        if (result != TUTTI_SUCCESS)
            return result;
        if (counts)
            break;
        if (work->newcomers) /* not in a call any more */
            return error_set(TUTTI_REMOTE_ERROR, "the group did not grow, and goes on without newcomers: %s", why);
    }
    elastic->turn = work->turn;
    generation_enter(elastic->now, 0);
    return TUTTI_SUCCESS;
}

/* ---- Steps ---- */

int elastic_device(const struct tutti_elastic *elastic)
{
    const struct comm_settings *settings = &elastic->now->comm->settings;
    return settings->on_host ? settings->executor.device : TUTTI_HOST;
}

static void keep_no_more(struct tutti_elastic *elastic)
{
    if (elastic->kept && elastic_device(elastic) != TUTTI_HOST)
        executor_devices.keep_no_more(elastic_device(elastic), elastic->kept);
    else
        free(elastic->kept);
    elastic->kept = NULL;
    elastic->kept_bytes = 0;
}

static tutti_result_t keep_input(struct tutti_elastic *elastic, const struct call *call, tutti_stream_t stream)
{
    int device = elastic_device(elastic);
    tutti_result_t result = TUTTI_SUCCESS;
    if (elastic->kept_bytes < call->bytes) {
        keep_no_more(elastic);
        if (device != TUTTI_HOST)
            result = executor_devices.keep(device, call->bytes, &elastic->kept);
        else if (!(elastic->kept = malloc(call->bytes)))
            result = error_set(TUTTI_SYSTEM_ERROR, "no memory for a copy of %zu bytes", call->bytes);
        if (result != TUTTI_SUCCESS)
            return error_note(result, "%s; pass another buffer for the result", error_last());
        elastic->kept_bytes = call->bytes;
    }
    if (device != TUTTI_HOST)
        return executor_devices.copy(device, elastic->kept, call->in, call->bytes, stream);
    memcpy(elastic->kept, call->in, call->bytes);
    return TUTTI_SUCCESS;
}

/* Until the end of the work on the GPUs. */
static tutti_result_t allreduce_on_device(struct tutti_comm *comm, struct call *call, tutti_stream_t stream)
{
    struct executor_note note;
    call_fill(call);
    tutti_result_t result = comm_prepare(comm, call, &note);
    if (result == TUTTI_SUCCESS)
        result = comm_collective(comm, call, NULL, stream, &note);
    tutti_result_t waited = comm_wait(comm, false); /* also after a failure: something may be issued */
    return result == TUTTI_SUCCESS ? waited : result;
}

static tutti_result_t allreduce_turn(struct tutti_elastic *elastic, struct elastic_work *work, uint64_t due)
{
    struct call call = work->call;
    int device = elastic_device(elastic);
    bool restores = work->input && work->again; /* the result of a try that does not count is there */
    tutti_result_t result = TUTTI_SUCCESS;
    (void)due;
    work->again = true;
    if (restores && device != TUTTI_HOST)
        result = executor_devices.copy(device, call.out, work->input, call.bytes, work->stream);
    else if (restores)
        memcpy(call.out, work->input, call.bytes);
    if (result != TUTTI_SUCCESS)
        return result;
    return device == TUTTI_HOST ? team_do(elastic->now->data->team, &call)
                                : allreduce_on_device(elastic->now->data, &call, work->stream);
}

/* `with`: the generation with whose members the step counts. */
static tutti_result_t describe(struct tutti_elastic *elastic, const struct generation *with, uint64_t number, int tries,
                               tutti_elastic_step_t *step)
{
    if (!step)
        return TUTTI_SUCCESS;
    if (elastic->set_room < with->members) {
        int *more = realloc(elastic->set, (size_t)with->members * sizeof *more);
        if (!more)
            return error_set(TUTTI_SYSTEM_ERROR, "no memory for the numbers of %d members", with->members);
        elastic->set = more;
        elastic->set_room = with->members;
    }
    for (int rank = 0; rank < with->members; rank++)
        elastic->set[rank] = with->member[rank].number;
    *step = (tutti_elastic_step_t){.size = step->size,
                                   .step = elastic->steps,
                                   .generation = number,
                                   .members = with->members,
                                   .units = with->units,
                                   .tries = tries,
                                   .scale = 1.0 / with->units,
                                   .set = elastic->set};
    return TUTTI_SUCCESS;
}

tutti_result_t elastic_allreduce(struct tutti_elastic *elastic, const struct call *call, tutti_stream_t stream,
                                 tutti_elastic_step_t *step)
{
    struct elastic_work work = {.call = *call, .stream = stream};
    bool in_place = call->in == call->out && call->bytes;
    tutti_result_t result = in_place ? keep_input(elastic, call, stream) : TUTTI_SUCCESS;
    int tries;
    if (result != TUTTI_SUCCESS)
        return be_over(elastic, result, LEAVES);
    work.input = in_place ? elastic->kept : NULL;
    uint64_t number = elastic->number;
    result = run_turn(elastic, &work, allreduce_turn, &tries);
    if (result != TUTTI_SUCCESS) {
        if (in_place && elastic_device(elastic) != TUTTI_HOST) /* nothing that was waited for may be behind the copy */
            executor_devices.drain(elastic_device(elastic), stream);
        return error_note(result, "%s", elastic->sentence);
    }
    elastic->steps++;
    /* A turn that counts by consent counts with the generation that ended. */
    bool ended = elastic->number > number + (uint64_t)tries - 1;
    result = describe(elastic, ended ? elastic->before : elastic->now, elastic->number - ended, tries, step);
    if (!ended) {
        generation_close(elastic->before);
        elastic->before = NULL;
    }
    return result;
}

/* ---- Growing ---- */

static tutti_result_t grow_turn(struct tutti_elastic *elastic, struct elastic_work *work, uint64_t due)
{
    struct tutti_comm *old = elastic->now->comm, *grown;
    struct comm_settings settings = {.blocking = 1,
                                     .timeout_ms = old->settings.timeout_ms,
                                     .bound = old->settings.bound,
                                     .executor = old->settings.executor,
                                     .on_host = old->settings.on_host,
                                     .deadline = due,
                                     .nranks = elastic->now->members + work->newcomers,
                                     .rank = old->team->rank,
                                     .has_id = work->id != NULL,
                                     .grows = old};
    struct elastic_hello first;
    if (work->id)
        settings.id = *work->id;
    tutti_result_t result = comm_new(&settings, &grown);
    if (result != TUTTI_SUCCESS)
        return result;
    result = comm_join(grown);
    if (result != TUTTI_SUCCESS) {
        char sentence[TEAM_SENTENCE];
        snprintf(sentence, sizeof sentence, "%s", error_last());
        if (grown->team)
            comm_abort(grown, true);
        comm_free(grown);
        return error_note(TUTTI_REMOTE_ERROR, "%s", sentence);
    }
    result = meet_on(elastic, grown, due, work->turn, &first, &work->grown);
    if (result == TUTTI_SUCCESS)
        elastic->next = first.next;
    return result == TUTTI_SUCCESS ? result : error_note(TUTTI_REMOTE_ERROR, "%s", error_last());
}

/* Newcomers hear here that the growth counts. A member that is lost meanwhile is found by the next step. */
static tutti_result_t see_grown(struct generation *grown, uint64_t due)
{
    tutti_result_t result = generation_make(grown, due);
    return result == TUTTI_SUCCESS ? comm_agree(grown->comm->team, TUTTI_SUCCESS) : result;
}

tutti_result_t elastic_grow(struct tutti_elastic *elastic, int newcomers, const tutti_unique_id_t *id)
{
    struct elastic_work work = {.newcomers = newcomers, .id = id};
    int tries, before = elastic->now->members;
    tutti_result_t result = run_turn(elastic, &work, grow_turn, &tries);
    if (result != TUTTI_SUCCESS) {
        generation_close(work.grown);
        return result;
    }
    take_generation(elastic, work.grown);
    log_info("generation %llu of an elastic group: %d members in %d units, after %d",
             (unsigned long long)elastic->number, elastic->now->members, elastic->now->units, before);
    see_grown(elastic->now, clock_ns() + elastic->now->timeout);
    return TUTTI_SUCCESS;
}

/* ---- Beginning and end ---- */

static struct tutti_elastic *elastic_new(const struct elastic_settings *settings)
{
    struct tutti_elastic *elastic = calloc(1, sizeof *elastic);
    if (!elastic) {
        error_set(TUTTI_SYSTEM_ERROR, "no memory for an elastic group");
        return NULL;
    }
    *elastic = (struct tutti_elastic){.magic = ELASTIC_MAGIC, .fork = fork_generation, .settings = *settings};
    return elastic;
}

static tutti_result_t elastic_begin(struct tutti_elastic *elastic, struct tutti_comm *comm, bool is_new)
{
    struct elastic_hello first;
    uint64_t due = clock_ns() + elastic->settings.timeout;
    tutti_result_t result = meet_on(elastic, comm, due, 0, &first, &elastic->now);
    if (result == TUTTI_SUCCESS) {
        elastic->number = first.generation + is_new;
        elastic->steps = first.steps;
        elastic->turn = first.turn + is_new;
        elastic->next = first.next;
        elastic->now->consent.finished = elastic->turn;
        result = see_grown(elastic->now, due);
    }
    return result;
}

tutti_result_t elastic_open(struct tutti_comm *comm, const struct elastic_settings *settings,
                            struct tutti_elastic **out)
{
    struct making making;
    tutti_comm_t child = NULL;
    struct tutti_elastic *elastic = elastic_new(settings);
    tutti_config_t config = TUTTI_CONFIG_INITIALIZER;
    config.timeout_ms = (int)(settings->timeout / NS_PER_MS);
    making_split(&making, comm, 0, comm->team->rank, &config, elastic ? TUTTI_SUCCESS : TUTTI_SYSTEM_ERROR);
    if (making.child) { /* words are of host memory; generation_make() makes what works on GPUs */
        making.child->settings.on_host = comm_device(comm) != TUTTI_HOST;
        making.child->settings.bound = settings->bound;
    }
    tutti_result_t result = making_run(&making);
    result = making_end(&making, result, &child);
    if (result == TUTTI_SUCCESS)
        result = elastic_begin(elastic, child, false);
    if (result == TUTTI_SUCCESS) {
        *out = elastic;
        return result;
    }
    elastic_close(elastic);
    return error_note(result, "there is no elastic group: %s", error_last());
}

tutti_result_t elastic_join(const tutti_unique_id_t *id, int nranks, int rank, const struct elastic_settings *settings,
                            struct tutti_elastic **out)
{
    struct comm_settings join = comm_defaults();
    struct tutti_elastic *elastic = elastic_new(settings);
    struct tutti_comm *comm = NULL;
    tutti_config_t config = TUTTI_CONFIG_INITIALIZER;
    config.device = settings->device;
    tutti_result_t result = elastic ? comm_settings(&join, &config) : TUTTI_SYSTEM_ERROR;
    join.on_host = join.executor.device != TUTTI_HOST;
    join.id = *id;
    join.nranks = nranks;
    join.rank = rank;
    join.timeout_ms = settings->timeout / NS_PER_MS;
    join.bound = settings->bound;
    if (result == TUTTI_SUCCESS)
        result = comm_new(&join, &comm);
    if (result == TUTTI_SUCCESS) {
        result = comm_join(comm);
        if (result != TUTTI_SUCCESS)
            comm_free(comm);
    }
    if (result == TUTTI_SUCCESS)
        result = elastic_begin(elastic, comm, true);
    if (result == TUTTI_SUCCESS) {
        *out = elastic;
        return result;
    }
    elastic_close(elastic);
    return error_note(result, "this process has not joined the elastic group: %s", error_last());
}

void elastic_close(struct tutti_elastic *elastic)
{
    struct error_saved saved;
    if (!elastic)
        return;
    error_save(&saved);
    if (elastic->now && elastic->over == TUTTI_SUCCESS)
        generation_leave(elastic->now, false);
    if (elastic->now)
        keep_no_more(elastic);
    generation_close(elastic->before);
    generation_close(elastic->now);
    free(elastic->set);
    elastic->magic = 0;
    free(elastic);
    error_restore(&saved);
}

void elastic_memory(const struct tutti_elastic *elastic, size_t *device, size_t *host)
{
    *device = *host = 0;
    *(elastic_device(elastic) == TUTTI_HOST ? host : device) += elastic->kept_bytes;
    *host += sizeof *elastic + (size_t)elastic->set_room * sizeof *elastic->set;
    if (elastic->before)
        generation_memory(elastic->before, device, host);
    generation_memory(elastic->now, device, host);
}
