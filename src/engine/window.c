/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a window: no rank uses one before all have it, and none gives its memory back before all have come to
 * close it, with what they have put. */
#include "engine/window.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/known.h"
#include "engine/collective.h"
#include "engine/failure.h"
#include "engine/links.h"
#include "engine/puts.h"
#include "engine/wait.h"
#include "transport/shm/import.h"

#include <stdlib.h>
#include <string.h>

#define MAP_MS 1000

/* What each rank tells all others of its memory. */
struct window_told {
    uint64_t size, address, offset;
    uint32_t region, reserved;
};

tutti_result_t window_enlist(struct team *team, uint32_t number, void *buffer, size_t size, struct tutti_window **out)
{
    struct tutti_window *window = calloc(1, sizeof *window + (size_t)team->nranks * sizeof window->peer[0]);
    lock_take(&team->engine->lock);
    struct windows *windows = window ? engine_windows(team) : NULL;
    if (windows) {
        *window = (struct tutti_window){.team = team, .number = number, .base = buffer, .size = size};
        window->known = size && !windows->store ? known_add(buffer, size) : 0;
        list_push(&windows->all, &window->node);
    }
    lock_release(&team->engine->lock);
    if (!windows) {
        free(window);
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for a window of %d ranks", team->nranks);
    }
    *out = window;
    return TUTTI_SUCCESS;
}

void window_drop(struct tutti_window *window)
{
    struct team *team = window->team;
    lock_take(&team->engine->lock);
    struct gates *gates = engine_windows(team)->gates;
    list_remove(&window->node);
    for (int rank = 0; rank < team->nranks; rank++)
        gates_forget(&gates[rank], window);
    lock_release(&team->engine->lock);
    for (int rank = 0; rank < team->nranks; rank++)
        if (window->peer[rank].import)
            import_release(window->peer[rank].import);
    known_remove(window->known);
    free(window);
}

void window_drop_all(struct team *team)
{
    struct windows *windows = atomic_load(&team->windows);
    while (windows && !list_empty(&windows->all))
        window_drop(list_entry(windows->all.next, struct tutti_window, node));
}

static tutti_result_t all_can(struct team *team, tutti_result_t mine)
{
    int32_t who = mine == TUTTI_SUCCESS ? team->nranks : team->rank;
    const struct call least = {
        .coll = COLL_ALLREDUCE, .type = TUTTI_INT32, .count = 1, .op = TUTTI_MIN, .in = &who, .out = &who};
    tutti_result_t result = team_do(team, &least);
    if (mine != TUTTI_SUCCESS || result != TUTTI_SUCCESS || who == team->nranks)
        return mine != TUTTI_SUCCESS ? mine : result;
    return error_set(TUTTI_REMOTE_ERROR, "rank %d has no memory for the window, so no rank gets it", who);
}

static void window_learn(struct tutti_window *window, const struct window_told *told)
{
    const struct team *team = window->team;
    for (int rank = 0; rank < team->nranks; rank++) {
        bool here = windows_are_host(team) ? team_is_here(team, rank) : rank == team->rank;
        bool same_host = team_row(team, rank)->host == team_row(team, team->rank)->host;
        window->peer[rank] = (struct window_peer){.size = told[rank].size,
                                                  .address = here ? (char *)(uintptr_t)told[rank].address : NULL,
                                                  .region = same_host ? told[rank].region : 0,
                                                  .offset = told[rank].offset};
    }
}

static tutti_result_t window_tell(struct tutti_window *window, struct window_told *all)
{
    struct team *team = window->team;
    struct window_told mine = {.size = window->size, .address = (uintptr_t)window->base};
    if (!window->size || !windows_are_host(team) ||
        !region_find(window->base, window->size, &mine.region, &mine.offset))
        mine.region = 0;
    if (mine.region) {
        lock_take(&team->engine->lock);
        link_announce(team->engine->links, window->base);
        lock_release(&team->engine->lock);
    }
    tutti_result_t result = team_tell_all(team, &mine, sizeof mine, all);
    if (result == TUTTI_SUCCESS)
        window_learn(window, all);
    return result;
}

tutti_result_t window_open(struct team *team, void *buffer, size_t size, tutti_result_t mine, struct tutti_window **out)
{
    struct tutti_window *window = NULL;
    struct window_told *all = calloc((size_t)team->nranks, sizeof *all);
    uint32_t number = atomic_load(&team->seq); /* of collectives: the same on all ranks, and not met again */
    *out = NULL;
    tutti_result_t result = mine;
    if (result == TUTTI_SUCCESS)
        result = all ? window_enlist(team, number, buffer, size, &window)
                     : error_set(TUTTI_SYSTEM_ERROR, "no memory for a window of %d ranks", team->nranks);
    result = all_can(team, result);
    if (result == TUTTI_SUCCESS)
        result = window_tell(window, all);
    free(all);
    if (result == TUTTI_SUCCESS)
        *out = window;
    else if (window)
        window_drop(window);
    return result;
}

static tutti_result_t flush_all(struct team *team)
{
    const struct windows *windows = atomic_load(&team->windows);
    struct window_item *items = calloc((size_t)team->nranks, sizeof *items);
    int count = 0;
    if (!items)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory to close a window of %d ranks", team->nranks);
    for (int rank = 0; rank < team->nranks; rank++)
        if (windows->puts[rank])
            items[count++] = (struct window_item){.call = WINDOW_FLUSH, .peer = rank, .signal = WIRE_NO_SIGNAL};
    tutti_result_t result = count ? puts_issue(team, items, count, NULL) : TUTTI_SUCCESS;
    if (count && result == TUTTI_SUCCESS)
        result = team_wait(team, atomic_load(&team->issued));
    free(items);
    return result;
}

tutti_result_t window_close(struct team *team, struct tutti_window *window)
{
    tutti_result_t result = team_wait(team, atomic_load(&team->issued)); /* on any stream: puts are numbered then */
    if (result == TUTTI_SUCCESS)
        result = flush_all(team);
    if (result == TUTTI_SUCCESS)
        result = team_do(team, &(struct call){.coll = COLL_BARRIER, .type = TUTTI_UINT8, .op = -1});
    if (result != TUTTI_SUCCESS && !atomic_load(&team->failed))
        return result; /* it is as it was, and may be closed again */
    if (result != TUTTI_SUCCESS)
        windows_stop(team);
    window_drop(window);
    return result;
}

/* ---- Where it is ---- */

/* The peer says what memory it shares when a lane to it comes up. */
static void window_map(struct team *team, struct window_peer *peer, int rank)
{
    struct region_pair who;
    struct link *link;
    uint64_t deadline = clock_deadline_ms(MAP_MS);
    memcpy(who.owner, team_row(team, rank)->uuid, sizeof who.owner);
    memcpy(who.mapper, team_row(team, team->rank)->uuid, sizeof who.mapper);
    lock_take(&team->engine->lock);
    tutti_result_t result = team_link(team, rank, &link);
    lock_release(&team->engine->lock);
    while (result == TUTTI_SUCCESS && !(peer->import = import_hold(&who, peer->region)) && !clock_passed(deadline) &&
           !atomic_load(&team->failed))
        engine_sleep(team->engine, NULL, 1);
    if (!peer->import)
        peer->region = 0; /* it is not tried again */
    else if (peer->offset <= peer->import->size && peer->size <= peer->import->size - peer->offset)
        peer->address = peer->import->base + peer->offset;
}

tutti_result_t window_address(struct team *team, struct tutti_window *window, int rank, void **address, size_t *size)
{
    struct window_peer *peer = &window->peer[rank];
    if (address && !peer->address && peer->region && !peer->import)
        window_map(team, peer, rank);
    if (address)
        *address = peer->address;
    if (size)
        *size = peer->size;
    return TUTTI_SUCCESS;
}
