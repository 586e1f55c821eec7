/* SPDX-License-Identifier: Apache-2.0 */
/* Joining: meet at the bootstrap, exchange what ranks must know of each other, refuse those that do not fit, share
 * memory. */
#include "bootstrap/bootstrap.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/near.h"
#include "base/random.h"
#include "comm/comm.h"
#include "comm/introduction.h"
#include "engine/failure.h"
#include "engine/wait.h"
#include "transport/transport.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- What this rank tells ---- */

/* A port of an adapter, and how near it is: the more folders its path in sysfs shares with the GPU's the nearer. */
struct join_port {
    uint8_t number;
    int shared, distance;
};

static int join_by_nearness(const void *left, const void *right)
{
    const struct join_port *a = left, *b = right;
    if (a->shared != b->shared)
        return b->shared - a->shared;
    return a->distance != b->distance ? a->distance - b->distance : a->number - b->number;
}

static void join_order_ports(struct engine *engine, struct rank_fact *fact)
{
    struct join_port port[WIRE_DEVICES];
    struct transport_nic nic;
    int count = 0;
    lock_take(&engine->lock);
    for (; count < WIRE_DEVICES && link_domain_nic(engine->links, &transport_verbs, (unsigned)count, &nic); count++) {
        char folder[NEAR_FOLDER + 64], gpu[NEAR_FOLDER];
        near_adapter(nic.name, folder);
        snprintf(gpu, sizeof gpu, "/sys/bus/pci/devices/%.16s", fact->bus_id);
        port[count] = (struct join_port){.number = (uint8_t)count,
                                         .shared = *fact->bus_id ? near_shared("", gpu, folder) : 0,
                                         .distance = nic.distance ? nic.distance : INT_MAX};
    }
    lock_release(&engine->lock);
    qsort(port, (size_t)count, sizeof *port, join_by_nearness);
    memset(fact->nic, WIRE_NO_NIC, sizeof fact->nic);
    for (int i = 0; i < count; i++)
        fact->nic[i] = port[i].number;
}

static tutti_result_t comm_join_introduce(const struct tutti_comm *comm, struct introduction *mine)
{
    const struct executor_config *executor = &comm->settings.executor;
    bool on_device = executor->device != TUTTI_HOST;
    introduction_begin(mine, on_device, choice_hash(comm->choices));
    engine_introduce(comm->engine, &mine->process);
    if (on_device) {
        executor_devices.describe(executor->device, &mine->fact);
        near_note(executor->device, mine->fact.bus_id);
        near_use(executor->device);
    }
    join_order_ports(comm->engine, &mine->fact);
    if (on_device)
        log_info("rank %d works on GPU %s of island %016llx", comm->settings.rank, mine->fact.bus_id,
                 (unsigned long long)mine->fact.island);
    mine->random = comm->number;
    return comm->number ? TUTTI_SUCCESS : random_bytes(&mine->random, sizeof mine->random);
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

/* Some settings differ: all tell theirs, so that the sentence can name which. */
static tutti_result_t comm_join_refuse(const struct tutti_comm *comm, struct bootstrap *bootstrap,
                                       const struct introductions *said)
{
    struct settings mine, *all = calloc((size_t)comm->settings.nranks, sizeof *all);
    if (!all)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for %d ranks", comm->settings.nranks);
    settings_here(&mine);
    tutti_result_t result = bootstrap_allgather(bootstrap, &mine, sizeof mine, all);
    if (result == TUTTI_SUCCESS)
        result = settings_refuse(said, all, comm->settings.rank);
    free(all);
    return result;
}

static void comm_join_source(const void *context, int rank, struct roster_entry *out)
{
    struct introduction room;
    const struct introduction *said = introduction_of(context, rank, &room);
    *out = (struct roster_entry){said->process, said->fact.island};
}

static tutti_result_t make_team(struct tutti_comm *comm, const struct introductions *all)
{
    struct introduction first;
    const struct roster *roster = roster_make(all->nranks, comm_join_source, all);
    if (!roster)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for %d ranks", all->nranks);
    comm->id = introduction_of(all, 0, &first)->random;
    if (!comm->settings.name[0])
        snprintf(comm->settings.name, sizeof comm->settings.name, "world-%04x", (unsigned)(comm->id & 0xffff));
    tutti_result_t result = comm_open_team(comm, comm->id, &(struct team_members){.roster = roster});
    roster_release(roster);
    return result;
}

/* What all say, in memory that is the caller's to free, whatever comes back. */
static tutti_result_t comm_join_exchange(struct tutti_comm *comm, struct bootstrap *bootstrap,
                                         struct introductions *all)
{
    struct introduction mine;
    struct introduction_first first, *firsts = memory_zeros((size_t)all->nranks * sizeof first);
    uint8_t mine_more[INTRODUCTION_MOST];
    all->first = firsts;
    tutti_result_t result = firsts ? comm_join_introduce(comm, &mine)
                                   : error_set(TUTTI_SYSTEM_ERROR, "no memory for %d ranks", all->nranks);
    if (result != TUTTI_SUCCESS)
        return result;
    introduction_pack(&mine, &first, mine_more);
    result = bootstrap_allgather(bootstrap, &first, sizeof first, firsts);
    if (result != TUTTI_SUCCESS || !(all->each = introductions_more(firsts, all->nranks)))
        return result;
    uint8_t *more = memory_zeros((size_t)all->nranks * all->each);
    all->more = more;
    return more ? bootstrap_allgather(bootstrap, mine_more, all->each, more)
                : error_set(TUTTI_SYSTEM_ERROR, "no memory for %d ranks", all->nranks);
}

static tutti_result_t comm_join_meet(struct tutti_comm *comm, struct bootstrap *bootstrap)
{
    struct introductions all = {.nranks = comm->settings.nranks};
    tutti_result_t result = comm_join_exchange(comm, bootstrap, &all);
    if (result == TUTTI_SUCCESS)
        result = introductions_compare(&all, comm->settings.rank);
    if (result == TUTTI_IN_PROGRESS)
        result = comm_join_refuse(comm, bootstrap, &all);
    if (result == TUTTI_SUCCESS)
        result = make_team(comm, &all);
    memory_free_zeros((void *)(uintptr_t)all.first, (size_t)all.nranks * sizeof *all.first);
    memory_free_zeros((void *)(uintptr_t)all.more, (size_t)all.nranks * all.each);
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
    tutti_result_t result = comm->choices ? TUTTI_SUCCESS : choice_open(&comm->choices);
    if (result == TUTTI_SUCCESS)
        result = bootstrap_join(&settings->id, settings->rank, settings->nranks, settings->deadline, &comm->abort,
                                &bootstrap);
    double connected = ms_since(&since);
    if (result == TUTTI_SUCCESS) {
        bootstrap_counters(bootstrap, &counters);
        result = comm_join_meet(comm, bootstrap);
    }
    comm->lost = bootstrap_lost(bootstrap);
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
    comm->lost = -1;
    tutti_result_t result = comm->settings.grows ? grow_join(comm, join) : join(comm);
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
    if (result != TUTTI_SUCCESS && atomic_load(&comm->abort) && !comm->number)
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
