/* SPDX-License-Identifier: Apache-2.0 */
/* The beginning and the end of a team. */
#include "engine/team_open.h"

#include "base/backoff.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/param.h"
#include "base/random.h"
#include "engine/calls.h"
#include "engine/failure.h"
#include "engine/host.h"
#include "engine/p2p.h"
#include "engine/puts.h"
#include "engine/queue.h"
#include "engine/rounds.h"
#include "engine/rounds_memory.h"
#include "engine/shared.h"
#include "engine/team.h"
#include "engine/window.h"

#include <stdlib.h>
#include <string.h>

int team_crowd(const struct roster *roster, const int32_t *row, int nranks, int rank, long online)
{
    struct roster_cursor cursor = {.roster = roster};
    const struct wire_process own = roster_read(&cursor, roster_row(roster, row, rank))->process;
    long local = 0, beside = 0;
    for (int i = 0; i < nranks; i++) {
        const struct roster_row *its = roster_row(roster, row, i);
        if (its->host != own.host)
            continue;
        const struct wire_process *process = &roster_read(&cursor, its)->process;
        local++;
        beside += process->processors == own.processors && process->processor_set == own.processor_set;
    }
    long machine = online > 0 ? 100 * local / online : 0, set = own.processors ? 100 * beside / own.processors : 0;
    return (int)(machine > set ? machine : set);
}

static void count_local(struct team *team)
{
    uint64_t host = team_row(team, team->rank)->host;
    team->one_process = true;
    for (int rank = 0; rank < team->nranks; rank++) {
        team->one_process &= wire_same_process(team_row(team, rank)->uuid, team_row(team, team->rank)->uuid);
        if (team_row(team, rank)->host != host)
            continue;
        team->local_rank += rank < team->rank;
        team->local_ranks++;
    }
    int crowd = team_crowd(team->roster, team->row, team->nranks, team->rank, sysconf(_SC_NPROCESSORS_ONLN));
    team->crowded = crowd > 100;
    lock_take(&team->engine->lock);
    if (team->crowded)
        link_crowd(team->engine->links);
    lock_release(&team->engine->lock);
    unsigned nap = ENGINE_NAP_US * (unsigned)(crowd / 100);
    if (nap > team->engine->nap_us)
        team->engine->nap_us = nap;
}

/* Ranks of a host whose GPUs are not known are together. */
static uint64_t team_level_key(const struct roster_entry *entry, int level)
{
    if (level == TEAM_LEVEL_HOST)
        return entry->process.host;
    if (level == TEAM_LEVEL_ISLAND)
        return mix64(entry->process.host ^ mix64(entry->island)) | 1;
    return entry->process.place[level - TEAM_LEVEL_PLACES];
}

tutti_result_t team_levels(const struct roster *roster, const int32_t *row, int nranks, struct levels **out)
{
    struct roster_cursor cursor = {.roster = roster};
    const size_t bytes = (size_t)nranks * TEAM_LEVELS * sizeof(uint64_t);
    uint64_t *keys = memory_zeros(bytes);
    struct levels_of of = {.nranks = nranks, .depth = TEAM_LEVELS, .host = TEAM_LEVEL_HOST};
    if (!keys)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for a communicator of %d ranks", nranks);
    for (int level = 0; level < TEAM_LEVELS; level++)
        of.key[level] = keys + (size_t)level * (size_t)nranks;
    for (int rank = 0; rank < nranks; rank++) {
        const struct roster_entry *entry = roster_read(&cursor, roster_row(roster, row, rank));
        for (int level = 0; level < TEAM_LEVELS; level++)
            keys[(size_t)level * (size_t)nranks + (size_t)rank] = team_level_key(entry, level);
    }
    tutti_result_t result = levels_make(&of, out);
    memory_free_zeros(keys, bytes);
    return result;
}

static void team_open_source(const void *context, int rank, struct roster_entry *out)
{
    const struct wire_process *processes = context;
    *out = (struct roster_entry){.process = processes[rank]};
}

/* Ranks of a duplicate are rows, as those of the whole job are. */
static tutti_result_t team_open_rows(struct team *team, const struct team_members *from)
{
    int32_t *row = malloc((size_t)team->nranks * sizeof *row);
    bool alike = true;
    if (!row)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for a communicator of %d ranks", team->nranks);
    for (int rank = 0; rank < team->nranks; rank++) {
        row[rank] = (int32_t)(team_row(from->of, from->rank[rank]) - team->roster->row);
        alike &= row[rank] == rank;
    }
    if (alike)
        free(row);
    else
        team->row = row;
    return TUTTI_SUCCESS;
}

static tutti_result_t team_open_members(struct team *team, const struct team_members *from)
{
    const struct roster *given = from->of ? from->of->roster : from->roster;
    team->roster = given ? roster_again(given) : roster_make(team->nranks, team_open_source, from->processes);
    if (!team->roster)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for a communicator of %d ranks", team->nranks);
    return from->of ? team_open_rows(team, from) : TUTTI_SUCCESS;
}

static tutti_result_t team_open_allocate(struct team *team, const struct team_config *config)
{
    size_t n = (size_t)team->nranks;
    team->link = memory_zeros(n * sizeof *team->link);
    team->gone = memory_zeros(n * sizeof *team->gone);
    team->sent = memory_zeros(n * sizeof *team->sent);
    team->received = memory_zeros(n * sizeof *team->received);
    team->signalled = memory_zeros(n * sizeof *team->signalled);
    team->calls.hear = calls_hear;
    team->calls.with = memory_zeros(n * sizeof *team->calls.with);
    team->calls.looks = -1;
    if (!team->link || !team->gone || !team->sent || !team->received || !team->signalled || !team->calls.with)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for a communicator of %d ranks", team->nranks);
    if (team->whole && !(team->in_whole = malloc(n * sizeof *team->in_whole)))
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for a part of %d ranks", team->nranks);
    if (team->whole)
        memcpy(team->in_whole, config->members.rank, n * sizeof *team->in_whole);
    team->queue.limit = 2 * QUEUE_BLOCK;
    tutti_result_t result = team_open_members(team, &config->members);
    return result == TUTTI_SUCCESS ? queue_open(&team->queue) : result;
}

static void team_open_release(struct team *team)
{
    size_t n = (size_t)team->nranks;
    window_drop_all(team);
    windows_free(team);
    queue_close(&team->queue);
    shared_close(team);
    rounds_free(team->rounds_idle);
    p2p_free(atomic_load(&team->p2p_idle));
    puts_free(atomic_load(&team->puts_idle));
    trace_comm_close(team->trace);
    pthread_mutex_destroy(&team->news_lock);
    pthread_mutex_destroy(&team->parts_lock);
    free(team->in_whole);
    free(team->levels);
    roster_release(team->roster);
    free(team->row);
    memory_free_zeros(team->link, n * sizeof *team->link);
    memory_free_zeros((void *)team->gone, n * sizeof *team->gone);
    memory_free_zeros(team->sent, n * sizeof *team->sent);
    memory_free_zeros(team->received, n * sizeof *team->received);
    memory_free_zeros(team->signalled, n * sizeof *team->signalled);
    memory_free_zeros(team->calls.with, n * sizeof *team->calls.with);
    free(team);
}

static enum choice_class class_of(struct team *team)
{
    struct roster_cursor cursor = {.roster = team->roster};
    for (int rank = 0; rank < team->nranks; rank++) {
        const struct transport_ops *ops =
            team_is_here(team, rank)
                ? NULL
                : link_domain_reach(team->engine->links, &roster_read(&cursor, team_row(team, rank))->process);
        if (ops && !(ops->caps & TRANSPORT_SAME_HOST))
            return CHOICE_TCP;
    }
    return CHOICE_SHM;
}

/* Would this team's operations meet those of another team of the same number? Two ranks of one communicator in this
 * process are told apart by their rank. */
static bool team_open_is_taken(const struct team *team)
{
    list_each(node, &team->engine->teams)
    {
        const struct team *other = list_entry(node, struct team, node);
        if (other->id == team->id && (other->rank == team->rank || other->nranks != team->nranks))
            return true;
    }
    return false;
}

static tutti_result_t team_open_enlist(struct team *team)
{
    struct engine *engine = team->engine;
    lock_take(&engine->lock);
    bool taken = team_open_is_taken(team);
    if (!taken) {
        team->class = class_of(team);
        list_push(&engine->teams, &team->node);
        atomic_fetch_add(&engine->team_count, 1);
        failure_heard_early(team);
    }
    lock_release(&engine->lock);
    return taken ? error_set(TUTTI_INTERNAL_ERROR,
                             "rank %d of communicator %016llx is in this process already; make the communicator again",
                             team->rank, (unsigned long long)team->id)
                 : TUTTI_SUCCESS;
}

tutti_result_t team_open(struct engine *engine, const struct team_config *config, struct team **out)
{
    struct team *team = calloc(1, sizeof *team);
    if (!team)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for a communicator");
    executor_init(&team->host, &host_executor_ops, TUTTI_HOST);
    team->engine = engine;
    team->id = config->id;
    team->rank = config->rank;
    team->nranks = config->nranks;
    team->choices = config->choices;
    team->cause.culprit = team->watch.peer = -1;
    team->limit = team->quiet = UINT32_MAX;
    team->failed_from = UINT64_MAX;
    team->timeout_ms = config->timeout_ms ? config->timeout_ms : (uint64_t)param_int(PARAM_TIMEOUT);
    team->bound = config->bound;
    pthread_mutex_init(&team->news_lock, NULL);
    pthread_mutex_init(&team->parts_lock, NULL);
    list_init(&team->parts);
    team->whole = config->whole;
    team->untold = config->untold || config->whole;
    team->memory = &rounds_host;
    tutti_result_t result = team_open_allocate(team, config);
    if (result == TUTTI_SUCCESS) {
        count_local(team);
        result = team_levels(team->roster, team->row, team->nranks, &team->levels);
    }
    if (result == TUTTI_SUCCESS) {
        if (!team->whole) /* a part takes none by itself: part.h */
            team->trace =
                trace_comm_open(engine->trace, team->id, config->name, team->rank, team->nranks, team->local_ranks);
        result = team_open_enlist(team);
    }
    if (result != TUTTI_SUCCESS) {
        team_open_release(team);
        return result;
    }
    if (team->whole)
        failure_join_whole(team);
    *out = team;
    return TUTTI_SUCCESS;
}

size_t team_memory(const struct team *team)
{
    size_t a_rank = (team->row ? sizeof *team->row : 0) + sizeof *team->link + sizeof *team->gone + sizeof *team->sent +
                    sizeof *team->received + sizeof *team->signalled + sizeof *team->calls.with;
    return sizeof *team + team->queue.blocks * sizeof(struct op_block) + (size_t)team->nranks * a_rank +
           roster_share(team->roster) + team->levels->bytes + shared_memory(team) + windows_memory(team);
}

static bool has_sibling(const struct team *team)
{
    bool any = false;
    list_each(node, &team->engine->teams) any |= list_entry(node, struct team, node)->id == team->id;
    return any;
}

void team_close(struct team *team)
{
    unsigned turn = 0;
    if (team->whole)
        failure_leave_whole(team);
    lock_take(&team->engine->lock);
    while (atomic_load(&team->visitors)) { /* under the lock nobody comes */
        lock_release(&team->engine->lock);
        backoff(&turn);
        lock_take(&team->engine->lock);
    }
    team_end_calls(team);
    engine_windows_stop(team);
    failure_flood(team->engine); /* nobody could tell of its failure later */
    list_remove(&team->node);
    atomic_fetch_sub(&team->engine->team_count, 1);
    if (!has_sibling(team)) /* another rank of this process may still ask for what has come */
        link_forget_comm(team->engine->links, team->id);
    if (!team->whole || team->ends_alone) /* members of other parts end them together */
        calls_keep(team);
    lock_release(&team->engine->lock);
    team_open_release(team);
}
