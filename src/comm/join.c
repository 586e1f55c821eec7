/* SPDX-License-Identifier: Apache-2.0 */
/* Joining: meet at the bootstrap, exchange what ranks must know of each other, refuse those that do not fit, share
 * memory. */
#include "bootstrap/bootstrap.h"
#include "base/error.h"
#include "base/log.h"
#include "base/param.h"
#include "base/random.h"
#include "comm/comm.h"
#include "engine/failure.h"
#include "engine/wait.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What every rank tells every other. */
struct introduction {
    struct wire_process process;
    uint64_t random; /* rank 0's makes the communicator's id */
    uint64_t choices;
    uint32_t version;
    int32_t on_device;
    uint64_t settings[PARAM_SAME_COUNT]; /* their values; hashes of those that are text */
};

/* The parameters that must agree, in the table's order. */
static void shared_settings(enum param_id *out)
{
    for (int id = 0; id < PARAM_COUNT; id++)
        if (param_row((enum param_id)id)->same_on_all_ranks)
            *out++ = (enum param_id)id;
}

/* Not the text, which may spell one value in several ways. */
static uint64_t value_of(enum param_id id)
{
    const char *text = param_text(id);
    return param_row(id)->kind == PARAM_KIND_STRING ? hash_bytes(0, text, strlen(text)) : (uint64_t)param_int(id);
}

static tutti_result_t refuse_setting(enum param_id id, int me, int rank, uint64_t theirs)
{
    char there[40] = "another one";
    enum param_kind kind = param_row(id)->kind;
    if (kind != PARAM_KIND_STRING && kind != PARAM_KIND_CHOICE)
        snprintf(there, sizeof there, "%lld", (long long)theirs);
    return error_set(TUTTI_INVALID_USAGE,
                     "%s differs: rank %d has \"%s\", rank %d %s; it must be the same on all ranks",
                     param_row(id)->name, me, param_text(id), rank, there);
}

static tutti_result_t comm_join_introduce(const struct tutti_comm *comm, struct introduction *mine)
{
    enum param_id ids[PARAM_SAME_COUNT];
    shared_settings(ids);
    memset(mine, 0, sizeof *mine);
    engine_introduce(comm->engine, &mine->process);
    mine->choices = choice_hash(comm->choices);
    mine->version = TUTTI_VERSION;
    mine->on_device = comm->settings.executor.device != TUTTI_HOST;
    for (int i = 0; i < PARAM_SAME_COUNT; i++)
        mine->settings[i] = value_of(ids[i]);
    return random_bytes(&mine->random, sizeof mine->random);
}

static tutti_result_t comm_join_compare(const struct introduction *all, int nranks, int me)
{
    enum param_id ids[PARAM_SAME_COUNT];
    shared_settings(ids);
    for (int rank = 0; rank < nranks; rank++) {
        const struct introduction *theirs = &all[rank], *mine = &all[me];
        if (theirs->version != mine->version)
            return error_set(TUTTI_INVALID_USAGE, "rank %d has tutti %u, rank %d has %u; use one version", rank,
                             theirs->version, me, mine->version);
        if (theirs->on_device != mine->on_device)
            return error_set(TUTTI_INVALID_USAGE, "rank %d works on %s, rank %d on %s; use one kind of memory", rank,
                             theirs->on_device ? "a GPU" : "host memory", me,
                             mine->on_device ? "a GPU" : "host memory");
        for (int i = 0; i < PARAM_SAME_COUNT; i++)
            if (theirs->settings[i] != mine->settings[i])
                return refuse_setting(ids[i], me, rank, theirs->settings[i]);
        if (theirs->choices != mine->choices)
            return error_set(TUTTI_INVALID_USAGE,
                             "rank %d has another table of algorithms than rank %d (see TUTTI_TUNE_FILE)", rank, me);
    }
    return TUTTI_SUCCESS;
}

static void count_bootstrap(struct tutti_comm *comm, const struct bootstrap *bootstrap)
{
    struct bootstrap_counters counters;
    bootstrap_counters(bootstrap, &counters);
    trace_count(comm->engine->trace, WIRE_COUNTER_BOOTSTRAP_SENT, counters.messages_sent);
    trace_count(comm->engine->trace, WIRE_COUNTER_BOOTSTRAP_RECEIVED, counters.messages_received);
    trace_count(comm->engine->trace, WIRE_COUNTER_BOOTSTRAP_SENT_BYTES, counters.bytes_sent);
    trace_count(comm->engine->trace, WIRE_COUNTER_BOOTSTRAP_RECEIVED_BYTES, counters.bytes_received);
}

static tutti_result_t make_team(struct tutti_comm *comm, const struct introduction *all)
{
    int nranks = comm->settings.nranks;
    struct wire_process *processes = malloc((size_t)nranks * sizeof *processes);
    if (!processes)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for %d ranks", nranks);
    for (int rank = 0; rank < nranks; rank++)
        processes[rank] = all[rank].process;
    comm->id = mix64(all[0].random);
    if (!comm->settings.name[0])
        snprintf(comm->settings.name, sizeof comm->settings.name, "world-%04x", (unsigned)(comm->id & 0xffff));
    tutti_result_t result = comm_open_team(comm, comm->id, processes);
    free(processes);
    return result;
}

static tutti_result_t comm_join_meet(struct tutti_comm *comm, struct bootstrap *bootstrap)
{
    int nranks = comm->settings.nranks;
    struct introduction mine, *all = calloc((size_t)nranks, sizeof *all);
    if (!all)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for %d ranks", nranks);
    tutti_result_t result = comm_join_introduce(comm, &mine);
    if (result == TUTTI_SUCCESS)
        result = bootstrap_allgather(bootstrap, &mine, sizeof mine, all);
    if (result == TUTTI_SUCCESS)
        result = comm_join_compare(all, nranks, comm->settings.rank);
    if (result == TUTTI_SUCCESS)
        result = make_team(comm, all);
    free(all);
    if (result == TUTTI_SUCCESS)
        result = bootstrap_barrier(bootstrap); /* everyone has a team: what links bring now finds it */
    count_bootstrap(comm, bootstrap);
    return result;
}

static double ms_since(uint64_t *since)
{
    uint64_t begin = *since;
    *since = clock_ns();
    return (double)(*since - begin) / NS_PER_MS;
}

static tutti_result_t join(struct tutti_comm *comm)
{
    uint64_t since = clock_ns();
    struct bootstrap *bootstrap = NULL;
    struct bootstrap_counters counters = {0};
    const struct comm_settings *settings = &comm->settings;
    tutti_result_t result = choice_open(&comm->choices);
    if (result == TUTTI_SUCCESS)
        result = bootstrap_join(&settings->id, settings->rank, settings->nranks, settings->deadline, &comm->abort,
                                &bootstrap);
    double connected = ms_since(&since);
    if (result == TUTTI_SUCCESS) {
        bootstrap_counters(bootstrap, &counters);
        result = comm_join_meet(comm, bootstrap);
    }
    bootstrap_close(bootstrap);
    double met = ms_since(&since);
    if (result == TUTTI_SUCCESS)
        result = share_all(comm);
    if (result == TUTTI_SUCCESS)
        log_info("rank %d of %d joined %s: connecting took %.1f ms (%llu attempts repeated), introductions %.1f, what "
                 "ranks share %.1f",
                 settings->rank, settings->nranks, settings->name, connected, (unsigned long long)counters.retries, met,
                 ms_since(&since));
    return result;
}

/* Ranks that never come leave no trace of themselves: those that wait tell. `comm`: the same for all ranks of the
 * meeting. */
static void note_join(struct tutti_comm *comm, enum wire_event_kind kind)
{
    const struct trace_about about = {.lane = -1,
                                      .peer_rank = comm->settings.rank,
                                      .comm = hash_bytes(1, &comm->settings.id, sizeof comm->settings.id),
                                      .value1 = (uint64_t)comm->settings.nranks};
    trace_event(comm->engine->trace, kind, &about);
}

tutti_result_t comm_join(struct tutti_comm *comm)
{
    uint64_t begin = clock_ns();
    note_join(comm, WIRE_EVENT_JOIN);
    tutti_result_t result = join(comm);
    note_join(comm, WIRE_EVENT_JOIN_END);
    snprintf(comm->sentence, sizeof comm->sentence, "%s", result == TUTTI_SUCCESS ? "" : error_last());
    atomic_store(&comm->failed, result);
    if (result == TUTTI_SUCCESS) {
        struct trace_about about = {.lane = -1,
                                    .peer_rank = -1,
                                    .comm = comm->id,
                                    .value1 = (uint64_t)comm->settings.nranks,
                                    .value2 = (clock_ns() - begin) / NS_PER_US};
        trace_event(comm->engine->trace, WIRE_EVENT_COMM_INIT, &about);
    } else if (comm->team) {
        team_fail(comm->team, result, -1, comm->sentence);
        team_report(comm->team); /* others may have joined, and wait for this rank, or will */
        error_note(result, "%s", comm->sentence);
    }
    atomic_store_explicit(&comm->state, result == TUTTI_SUCCESS ? COMM_READY : COMM_FAILED, memory_order_release);
    if (result != TUTTI_SUCCESS && atomic_load(&comm->abort))
        roots_give_up(&comm->settings.id);
    roots_sweep();
    return result;
}

static void *comm_join_maker(void *argument)
{
    comm_join(argument);
    return NULL;
}

tutti_result_t comm_join_later(struct tutti_comm *comm)
{
    pthread_mutex_lock(&comm->joining);
    tutti_result_t result = thread_start(&comm->maker, "tutti-maker", comm_join_maker, comm);
    pthread_mutex_unlock(&comm->joining);
    if (result == TUTTI_SUCCESS)
        return TUTTI_SUCCESS;
    snprintf(comm->sentence, sizeof comm->sentence, "%s", error_last());
    atomic_store(&comm->failed, result);
    atomic_store_explicit(&comm->state, COMM_FAILED, memory_order_release);
    return result;
}

tutti_result_t comm_join_wait(struct tutti_comm *comm)
{
    pthread_mutex_lock(&comm->joining);
    thread_end(&comm->maker);
    pthread_mutex_unlock(&comm->joining);
    while (atomic_load(&comm->parent)) /* a thread of the parent's makes it */
        usleep(200);
    tutti_result_t result = (tutti_result_t)atomic_load(&comm->failed);
    return result == TUTTI_SUCCESS ? result : error_note(result, "%s", comm->sentence);
}
