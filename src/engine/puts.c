/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this rank asks of the windows of others, and its waits for signals. A request is a message; the payload of a
 * longer put, and of a get, is one of the link's, which both ends name by the request's number.
 */
#include "engine/puts.h"

#include "base/error.h"
#include "base/poller.h"
#include "engine/calls.h"
#include "engine/failure.h"
#include "engine/links.h"
#include "engine/op.h"
#include "engine/progress.h"
#include "engine/transfers.h"
#include "engine/wait.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEPT_PUTS 128 /* items of an operation whose memory is kept for the next one, at most */

struct puts {
    struct transfers all;
    int room;    /* for items */
    int first;   /* transfer: none before it is pending */
    int waiting; /* item: no wait before it is left */
    struct window_item *item;
    struct transfer transfer[]; /* of each item; of some none is posted */
};

/* ---- Issuing ---- */

/* One thread issues, and takes what is kept; where something is kept, none else is stored (p2p_new()). */
static struct puts *puts_memory(struct team *team, int count)
{
    struct puts *kept = atomic_load_explicit(&team->puts_idle, memory_order_acquire);
    if (kept)
        atomic_store_explicit(&team->puts_idle, NULL, memory_order_relaxed);
    if (kept && kept->room >= count)
        return kept;
    puts_free(kept);
    size_t transfers = (size_t)count * sizeof(struct transfer);
    struct puts *puts = malloc(sizeof *puts + transfers + (size_t)count * sizeof *puts->item);
    if (!puts)
        return NULL;
    puts->room = count;
    puts->item = (struct window_item *)((char *)puts->transfer + transfers);
    return puts;
}

static void puts_keep(struct team *team, struct puts *puts)
{
    struct puts *kept = atomic_load_explicit(&team->puts_idle, memory_order_relaxed);
    if (puts->room > KEPT_PUTS || kept)
        puts_free(puts);
    else
        atomic_store_explicit(&team->puts_idle, puts, memory_order_release);
}

void puts_free(struct puts *puts)
{
    free(puts);
}

static struct puts *puts_new(struct team *team, const struct window_item *items, int count)
{
    struct puts *puts = puts_memory(team, count);
    if (!puts)
        return NULL;
    puts->first = puts->waiting = 0;
    memcpy(puts->item, items, (size_t)count * sizeof *items);
    transfers_begin(&puts->all);
    puts->all.count = count;
    for (int i = 0; i < count; i++)
        puts->transfer[i].pending = false;
    return puts;
}

enum wire_collective puts_kind(const struct window_item *items, int count)
{
    static const enum wire_collective kinds[] = {[WINDOW_PUT] = WIRE_PUT,
                                                 [WINDOW_SIGNAL] = WIRE_SIGNAL,
                                                 [WINDOW_GET] = WIRE_GET,
                                                 [WINDOW_FLUSH] = WIRE_FLUSH,
                                                 [WINDOW_WAIT] = WIRE_WAIT_SIGNAL};
    for (int i = 1; i < count; i++)
        if (items[i].call != items[0].call)
            return WIRE_GROUP;
    return kinds[items[0].call];
}

/* Fills in what the queue knows of an operation. */
static void engine_puts_describe(struct op *op, struct puts *puts, const struct window_item *items, int count)
{
    size_t bytes = 0;
    for (int i = 0; i < count; i++)
        bytes += items[i].call == WINDOW_PUT || items[i].call == WINDOW_GET ? items[i].length : 0;
    op->kind = &op_puts;
    op->puts = puts;
    op->call.count = op->bytes = bytes;
    op->call.type = TUTTI_UINT8;
    op->call.root = count == 1 ? items[0].peer : -1;
    op->call.op = -1;
    op->wire_kind = puts_kind(items, count);
}

tutti_result_t puts_issue(struct team *team, const struct window_item *items, int count, struct tutti_stream *stream)
{
    struct op *op;
    tutti_result_t result = team_place(team, false, &op);
    if (result != TUTTI_SUCCESS)
        return result;
    struct puts *puts = puts_new(team, items, count);
    if (!puts)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for %d calls on windows", count);
    for (int i = 0; i < count; i++)
        team->signalled[items[i].peer] += items[i].call != WINDOW_WAIT && items[i].signal != WIRE_NO_SIGNAL;
    engine_puts_describe(op, puts, items, count);
    team_issue(team, op, stream);
    return TUTTI_SUCCESS;
}

/* ---- Asking. Under the team's and the engine's locks ---- */

static struct team *sibling_of(const struct team *team, int rank)
{
    list_each(node, &team->engine->teams)
    {
        struct team *sibling = list_entry(node, struct team, node);
        if (sibling->id == team->id && sibling->rank == rank)
            return sibling;
    }
    return NULL;
}

static tutti_result_t refuse_closed(const struct team *team, int peer)
{
    return error_set(TUTTI_INVALID_USAGE,
                     "rank %d has destroyed the communicator, and rank %d uses its window or waits for its signal",
                     peer, team->rank);
}

static tutti_result_t ask_here(struct team *team, int peer, const struct wire_window *what, const void *data,
                               size_t bytes)
{
    struct team *sibling = sibling_of(team, peer);
    if (!sibling)
        return refuse_closed(team, peer);
    windows_hear(sibling, team->rank, what, data, bytes);
    poller_wake(team->engine->poller);
    return TUTTI_SUCCESS;
}

/* A short put takes its data along. */
static tutti_result_t ask(struct team *team, struct link *link, const struct window_item *item,
                          const struct wire_window *what, size_t bytes)
{
    char body[sizeof *what + WIRE_WINDOW_SHORT];
    if (item->signal != WIRE_NO_SIGNAL)
        team->calls.with[item->peer].signalled++;
    if (team_is_here(team, item->peer))
        return ask_here(team, item->peer, what, item->local, bytes);
    memcpy(body, what, sizeof *what);
    if (bytes)
        memcpy(body + sizeof *what, item->local, bytes);
    const struct wire_tag tag = {.comm = team->id, .from = (uint32_t)team->rank, .to = (uint32_t)item->peer};
    return link_window(link, &tag, body, sizeof *what + bytes);
}

static tutti_result_t ask_put(struct team *team, struct puts *puts, int index, struct link *link,
                              struct wire_window *what)
{
    const struct window_item *item = &puts->item[index];
    struct windows *windows = engine_windows(team);
    struct link_grant *grant = NULL;
    bool is_short = item->length <= WIRE_WINDOW_SHORT && (team_is_here(team, item->peer) || !link_is_held(link));
    what->number = windows->puts[item->peer]++;
    if (!is_short && !windows->store)
        grant = gates_choose(&windows->gates[item->peer], link, what);
    tutti_result_t result = ask(team, link, item, what, is_short ? item->length : 0);
    if (result != TUTTI_SUCCESS || is_short)
        return result;
    struct transfer *transfer = &puts->transfer[index];
    transfer_fill(transfer, &puts->all, item->peer, true,
                  windows_tag(team, team->rank, item->peer, what->number, WIRE_TAG_PUT), windows_call(item->length),
                  item->local, item->length);
    puts->all.pending++;
    transfer->link = link;
    transfer->pending = true;
    link_send_granted(link, &transfer->send, grant);
    return TUTTI_SUCCESS;
}

/* The answer to a flush has no bytes. */
static tutti_result_t ask_get(struct team *team, struct puts *puts, int index, struct link *link,
                              struct wire_window *what)
{
    const struct window_item *item = &puts->item[index];
    struct transfer *transfer = &puts->transfer[index];
    what->number = engine_windows(team)->gets[item->peer]++;
    transfer_fill(transfer, &puts->all, item->peer, false,
                  windows_tag(team, item->peer, team->rank, what->number, WIRE_TAG_GET), windows_call(what->length),
                  item->local, what->length);
    puts->all.pending++;
    transfer_post(transfer, link);
    return ask(team, link, item, what, 0);
}

/* A wait needs the link, by which this rank hears of the peer's end. */
static tutti_result_t ask_one(struct team *team, struct puts *puts, int index)
{
    const struct window_item *item = &puts->item[index];
    struct wire_window what = {.window = item->window ? item->window->number : 0,
                               .signal = item->signal,
                               .offset = item->offset,
                               .length = item->call == WINDOW_PUT || item->call == WINDOW_GET ? item->length : 0};
    struct link *link;
    tutti_result_t result = team_link(team, item->peer, &link);
    if (result != TUTTI_SUCCESS)
        return result;
    switch (item->call) {
    case WINDOW_PUT:
        what.what = WIRE_WINDOW_PUT;
        return ask_put(team, puts, index, link, &what);
    case WINDOW_SIGNAL:
        what.what = WIRE_WINDOW_SIGNAL;
        return ask(team, link, item, &what, 0);
    case WINDOW_GET:
    case WINDOW_FLUSH:
        what.what = WIRE_WINDOW_GET;
        return ask_get(team, puts, index, link, &what);
    default:
        return TUTTI_SUCCESS;
    }
}

static tutti_result_t puts_start(struct team *team, struct op *op)
{
    if (!engine_windows(team))
        return team_fail(team, TUTTI_SYSTEM_ERROR, team->rank, "no memory for windows");
    tutti_result_t result = TUTTI_SUCCESS;
    link_gather(team->engine->links);
    for (int i = 0; i < op->puts->all.count && result == TUTTI_SUCCESS; i++)
        if ((result = ask_one(team, op->puts, i)) != TUTTI_SUCCESS)
            result = team_fail_transfer(team, op->puts->item[i].peer, result, error_last());
    link_ring(team->engine->links);
    return result;
}

/* ---- Waiting ---- */

static uint32_t *taken_of(const struct team *team, const struct window_item *item)
{
    struct windows *windows = atomic_load(&team->windows);
    return &windows->taken[(size_t)item->peer * TUTTI_SIGNALS + item->signal];
}

static bool has_come(const struct team *team, const struct window_item *item)
{
    struct windows *windows = atomic_load(&team->windows);
    uint32_t raised = windows->raised[(size_t)item->peer * TUTTI_SIGNALS + item->signal];
    return raised - *taken_of(team, item) >= item->length;
}

/* The wait that is next; NULL: there is none. */
static const struct window_item *next_wait(const struct puts *puts)
{
    const struct window_item *item = puts->item + puts->waiting;
    while (item < puts->item + puts->all.count && item->call != WINDOW_WAIT)
        item++;
    return item < puts->item + puts->all.count ? item : NULL;
}

static tutti_result_t wait_on(struct team *team, struct op *op)
{
    struct puts *puts = op->puts;
    const struct window_item *item;
    while ((item = next_wait(puts)) && has_come(team, item)) {
        *taken_of(team, item) += (uint32_t)item->length;
        puts->waiting = (int)(item - puts->item) + 1;
    }
    if (!item)
        return TUTTI_SUCCESS;
    if (link_check(team->link[item->peer]) != TUTTI_SUCCESS) /* after what it had said */
        return team_lose(team, item->peer, error_last());
    if (team_is_here(team, item->peer) && !sibling_of(team, item->peer)) {
        tutti_result_t result = refuse_closed(team, item->peer);
        return team_fail(team, result, item->peer, error_last());
    }
    op_waits(op, item->peer, ((struct windows *)atomic_load(&team->windows))->heard[item->peer],
             (uint32_t)puts->waiting);
    return TUTTI_IN_PROGRESS;
}

static tutti_result_t puts_step(struct team *team, struct op *op)
{
    struct puts *puts = op->puts;
    if (puts->all.result != TUTTI_SUCCESS)
        return transfers_fail(team, &puts->all);
    if (!puts->all.pending)
        return wait_on(team, op);
    while (!puts->transfer[puts->first].pending)
        puts->first++;
    op_waits(op, puts->transfer[puts->first].peer, (uint32_t)puts->first, 0);
    return TUTTI_IN_PROGRESS;
}

static bool puts_may_move(const struct op *op)
{
    const struct puts *puts = op->puts;
    const struct team *team = op->team;
    if (puts->all.result != TUTTI_SUCCESS)
        return true;
    if (puts->all.pending)
        return false;
    const struct window_item *item = next_wait(puts);
    return !item || has_come(team, item) || link_is_lost(team->link[item->peer]);
}

static bool puts_waits(const struct op *op)
{
    const struct puts *puts = op->puts;
    return !puts_may_move(op) && (!puts->all.pending || puts->transfer[puts->first].pending);
}

static void puts_tell(const struct op *op, struct wire_message *head)
{
    const struct puts *puts = op->puts;
    head->tag.slice = WIRE_TAG_P2P;
    head->tag.round = op->waiting_round;
    head->flags = puts->all.pending ? WIRE_WAITS_FOR_WINDOW : WIRE_WAITS_FOR_SIGNAL;
    head->call = windows_call(0);
}

static void puts_end(struct team *team, struct op *op)
{
    struct puts *puts = op->puts;
    for (int i = 0; i < puts->all.count; i++)
        transfers_cancel(&puts->transfer[i], 1);
    puts_keep(team, puts);
    op->puts = NULL;
}

const struct op_kind op_puts = {.needs_links = true,
                                .start = puts_start,
                                .step = puts_step,
                                .may_move = puts_may_move,
                                .end = puts_end,
                                .waits = puts_waits,
                                .describe = puts_tell};
