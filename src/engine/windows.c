/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What peers ask of this rank's windows. The requests of one rank are heard in order. Payloads of puts come in any
 * order; signals are raised and gets answered when all that was asked before has landed.
 */
#include "engine/windows.h"

#include "base/error.h"
#include "base/poller.h"
#include "base/random.h"
#include "engine/failure.h"
#include "engine/links.h"
#include "engine/team.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum request_stage { REQUEST_READY, REQUEST_STARVES, REQUEST_MOVES, REQUEST_ON_LINK };

#define KEPT_REQUESTS 64 /* of a team, at most */

/* A request of a rank. */
struct window_request {
    struct list node; /* in windows->asked[from], then in windows->answers */
    struct team *team;
    int from;
    struct wire_window what;
    struct link *link;
    enum request_stage stage; /* what it waits for: a slot, the store, the link */
    uint64_t at;              /* where its bytes lie in the window */
    void *slot;               /* of the store; NULL: none */
    struct list starving;     /* in the store's list */
    struct window_move move;
    bool holds; /* data */
    union {
        struct link_recv recv;
        struct link_send send;
    };
    char data[]; /* of a short put to a store */
};

static struct windows *windows_of(const struct team *team)
{
    return atomic_load_explicit(&team->windows, memory_order_acquire);
}

/* ---- Windows ---- */

static void windows_landed(struct window_request *request, tutti_result_t result);

static void windows_release(struct windows *windows)
{
    if (!windows)
        return;
    while (!list_empty(&windows->idle))
        free(list_entry(list_pop(&windows->idle), struct window_request, node));
    free(windows->asked);
    free(windows->raised);
    free(windows->taken);
    free(windows->heard);
    free(windows->puts);
    free(windows->gets);
    free(windows->gates);
    free(windows);
}

static bool windows_allocate(struct windows *windows, size_t n)
{
    list_init(&windows->all);
    list_init(&windows->answers);
    list_init(&windows->idle);
    windows->asked = malloc(n * sizeof *windows->asked);
    windows->raised = calloc(n, TUTTI_SIGNALS * sizeof *windows->raised);
    windows->taken = calloc(n, TUTTI_SIGNALS * sizeof *windows->taken);
    windows->heard = calloc(n, sizeof *windows->heard);
    windows->puts = calloc(n, sizeof *windows->puts);
    windows->gets = calloc(n, sizeof *windows->gets);
    windows->gates = malloc(n * sizeof *windows->gates);
    return windows->gates && windows->asked && windows->raised && windows->taken && windows->heard && windows->puts &&
           windows->gets;
}

struct windows *engine_windows(struct team *team)
{
    struct windows *windows = windows_of(team);
    if (windows)
        return windows;
    windows = calloc(1, sizeof *windows);
    if (!windows || !windows_allocate(windows, (size_t)team->nranks)) {
        windows_release(windows);
        return NULL;
    }
    for (int rank = 0; rank < team->nranks; rank++) {
        list_init(&windows->asked[rank]);
        gates_begin(&windows->gates[rank], team, windows_landed);
    }
    atomic_store_explicit(&team->windows, windows, memory_order_release);
    return windows;
}

bool windows_keep_in(struct team *team, struct window_store *store)
{
    lock_take(&team->engine->lock);
    struct windows *windows = engine_windows(team);
    if (windows)
        windows->store = store;
    lock_release(&team->engine->lock);
    return windows != NULL;
}

bool windows_are_host(const struct team *team)
{
    const struct windows *windows = windows_of(team);
    return !windows || !windows->store;
}

size_t windows_memory(const struct team *team)
{
    const struct windows *windows = windows_of(team);
    size_t a_rank = sizeof *windows->asked + sizeof *windows->gates + (3 + 2 * TUTTI_SIGNALS) * sizeof(uint32_t);
    return windows ? sizeof *windows + (size_t)team->nranks * a_rank : 0;
}

bool windows_have(const struct team *team, const struct tutti_window *window)
{
    const struct windows *windows = windows_of(team);
    if (!windows)
        return false;
    list_each(node, &windows->all) if (list_entry(node, struct tutti_window, node) == window) return true;
    return false;
}

bool windows_any(const struct team *team)
{
    lock_take(&team->engine->lock);
    const struct windows *windows = windows_of(team);
    bool any = windows && !list_empty(&windows->all);
    lock_release(&team->engine->lock);
    return any;
}

void windows_free(struct team *team)
{
    windows_release(windows_of(team));
}

/* ---- What was asked, in order ---- */

struct wire_tag windows_tag(const struct team *team, int from, int to, uint32_t number, uint32_t message)
{
    return (struct wire_tag){.comm = team->id,
                             .seq = number,
                             .slice = WIRE_TAG_P2P,
                             .from = (uint32_t)from,
                             .to = (uint32_t)to,
                             .message = message};
}

struct wire_call windows_call(uint64_t length)
{
    return (struct wire_call){wire_signature(WIRE_SIGNATURE_P2P, TUTTI_UINT8, 7, (uint32_t)mix64(length)), -1, length};
}

static struct window_request *request_memory(struct windows *windows, size_t data)
{
    if (data || list_empty(&windows->idle))
        return malloc(sizeof(struct window_request) + data);
    windows->idle_count--;
    return list_entry(list_pop(&windows->idle), struct window_request, node);
}

static struct window_request *request_new(struct team *team, int from, const struct wire_window *what, size_t data)
{
    struct window_request *request = request_memory(windows_of(team), data);
    if (!request) {
        team_fail(team, TUTTI_SYSTEM_ERROR, team->rank, "no memory for what is asked of a window");
        return NULL;
    }
    list_init(&request->node);
    request->team = team;
    request->from = from;
    request->what = *what;
    request->link = NULL;
    request->stage = REQUEST_READY;
    request->slot = NULL;
    request->holds = data;
    list_init(&request->starving);
    return request;
}

static void request_free(struct window_request *request)
{
    struct windows *windows = windows_of(request->team);
    list_remove(&request->node);
    list_remove(&request->starving);
    if (request->holds || windows->idle_count == KEPT_REQUESTS) {
        free(request);
        return;
    }
    windows->idle_count++;
    list_push(&windows->idle, &request->node);
}

static void raise_signal(struct windows *windows, int from, uint32_t signal)
{
    if (signal == WIRE_NO_SIGNAL)
        return;
    windows->raised[(size_t)from * TUTTI_SIGNALS + signal]++;
    windows->heard[from]++;
}

static struct tutti_window *find_window(const struct windows *windows, uint32_t number)
{
    list_each(node, &windows->all)
    {
        struct tutti_window *window = list_entry(node, struct tutti_window, node);
        if (window->number == number)
            return window;
    }
    return NULL;
}

/* ---- By a store: payloads lie in slots between the link and the window ---- */

static void slot_granted(struct window_request *request);

static void slot_want(struct window_store *store, struct window_request *request)
{
    request->stage = REQUEST_STARVES;
    if (!store->free) {
        list_push(&store->starving, &request->starving);
        return;
    }
    request->slot = store->slots[--store->free];
    slot_granted(request);
}

static void slot_return(struct window_store *store, struct window_request *request)
{
    if (!request->slot)
        return;
    store->slots[store->free++] = request->slot;
    request->slot = NULL;
    struct list *next = list_pop(&store->starving);
    if (next) {
        list_init(next);
        slot_want(store, list_entry(next, struct window_request, starving));
    }
}

static void store_move(struct window_store *store, struct window_request *request, void *host, bool out)
{
    request->stage = REQUEST_MOVES;
    request->move =
        (struct window_move){.host = host, .device = request->at, .bytes = request->what.length, .out = out};
    store->move(store, &request->move);
}

/* ---- Answers ---- */

static void answered(struct link_send *send, tutti_result_t result)
{
    (void)result; /* a peer that is lost asks for nothing more */
    struct window_request *request = container_of(send, struct window_request, send);
    if (request->slot)
        slot_return(windows_of(request->team)->store, request);
    request_free(request);
}

static void send_answer(struct window_request *request, void *from)
{
    struct team *team = request->team;
    const struct wire_window *what = &request->what;
    request->send = (struct link_send){.tag = windows_tag(team, team->rank, request->from, what->number, WIRE_TAG_GET),
                                       .call = windows_call(what->length),
                                       .place = place_host(from),
                                       .class = PATH_PROMPT,
                                       .length = what->length,
                                       .done = answered};
    request->stage = REQUEST_ON_LINK;
    link_send(request->link, &request->send);
}

/* The bytes of a window, or none of a flush. */
static void answer(struct windows *windows, struct window_request *request)
{
    const struct wire_window *what = &request->what;
    const struct tutti_window *window = what->length ? find_window(windows, what->window) : NULL;
    tutti_result_t result = team_link(request->team, request->from, &request->link);
    if (result != TUTTI_SUCCESS || (what->length && !window)) { /* it was there when this was asked */
        request_free(request);
        return;
    }
    list_push(&windows->answers, &request->node);
    request->at = window ? (uintptr_t)window->base + what->offset : 0;
    if (window && windows->store)
        slot_want(windows->store, request);
    else
        send_answer(request, (void *)(uintptr_t)request->at);
}

/* Does what has come to its turn. */
static void retire(struct windows *windows, int from)
{
    struct list *asked = &windows->asked[from];
    while (!windows->stopped && !list_empty(asked)) {
        struct window_request *request = list_entry(asked->next, struct window_request, node);
        if (request->stage != REQUEST_READY)
            return;
        if (request->what.what == WIRE_WINDOW_GET) {
            list_remove(&request->node);
            answer(windows, request);
            continue;
        }
        raise_signal(windows, from, request->what.signal);
        request_free(request);
    }
}

/* What a lost rank had asked for is never done: a wait for that rank finds out. */
static void windows_landed(struct window_request *request, tutti_result_t result)
{
    struct team *team = request->team;
    struct windows *windows = windows_of(team);
    if (result == TUTTI_REMOTE_ERROR) {
        request->link = NULL;
        if (windows->store)
            slot_return(windows->store, request);
        return;
    }
    request->stage = REQUEST_READY;
    if (result != TUTTI_SUCCESS)
        team_fail(team, result, result == TUTTI_INVALID_ARGUMENT ? team->rank : request->from, error_last());
    else if (windows->store)
        store_move(windows->store, request, request->slot, false);
    else
        retire(windows, request->from);
}

static void put_landed(struct link_recv *recv, tutti_result_t result)
{
    windows_landed(container_of(recv, struct window_request, recv), result);
}

static struct link_recv payload_of(const struct window_request *request, void *to)
{
    const struct team *team = request->team;
    const struct wire_window *what = &request->what;
    return (struct link_recv){.tag = windows_tag(team, request->from, team->rank, what->number, WIRE_TAG_PUT),
                              .call = windows_call(what->length),
                              .place = place_host(to),
                              .class = PATH_PROMPT,
                              .length = what->length,
                              .done = put_landed};
}

static void take_payload(struct window_request *request, void *to)
{
    request->stage = REQUEST_ON_LINK;
    request->recv = payload_of(request, to);
    link_recv(request->link, &request->recv);
}

static void slot_granted(struct window_request *request)
{
    if (request->what.what == WIRE_WINDOW_GET)
        store_move(windows_of(request->team)->store, request, request->slot, true);
    else
        take_payload(request, request->slot);
}

static void windows_refuse(struct team *team, int from, const struct wire_window *what, const char *why)
{
    static const char *const kinds[] = {"request", "put", "signal", "get"};
    const char *kind = kinds[what->what <= WIRE_WINDOW_GET ? what->what : 0];
    char sentence[TEAM_SENTENCE];
    snprintf(sentence, sizeof sentence,
             "rank %d sent rank %d a %s (kind %u, %llu bytes at offset %llu of window %u) that rank %d refuses: %s",
             from, team->rank, kind, what->what, (unsigned long long)what->length, (unsigned long long)what->offset,
             what->window, team->rank, why);
    team_fail(team, TUTTI_INVALID_USAGE, from, sentence);
}

/* The payload comes by a credit that stands, or that is to stand. Then it is a gate's to withdraw. */
static bool comes_by_gate(struct window_request *request)
{
    const struct wire_window *what = &request->what;
    struct gates *gates = &windows_of(request->team)->gates[request->from];
    struct link *link = request->link;
    const struct link_recv recv = payload_of(request, (void *)(uintptr_t)request->at);
    request->link = NULL;
    if (what->gate == WIRE_GATE_ASKED && !gates_open(gates, what, link, &recv, request))
        request->link = link;
    else if (what->gate != WIRE_GATE_ASKED && !gates_take(gates, what, &recv.tag, request))
        windows_refuse(request->team, request->from, what, "the credit that it names does not stand");
    return !request->link;
}

/* A put whose payload comes by the link. */
static void queue_payload(struct windows *windows, struct window_request *request)
{
    tutti_result_t result = team_link(request->team, request->from, &request->link);
    list_push(&windows->asked[request->from], &request->node);
    request->stage = REQUEST_ON_LINK;
    if (result != TUTTI_SUCCESS)
        request->link = NULL; /* it is lost */
    else if (request->what.gate && !windows->store && comes_by_gate(request))
        return;
    else if (windows->store)
        slot_want(windows->store, request);
    else
        take_payload(request, (void *)(uintptr_t)request->at);
}

static void end_move(struct windows *windows, struct window_move *move)
{
    struct window_request *request = container_of(move, struct window_request, move);
    if (move->result != TUTTI_SUCCESS) {
        team_fail(request->team, move->result, request->team->rank, move->sentence);
        return;
    }
    if (move->out) {
        send_answer(request, request->slot);
        return;
    }
    request->stage = REQUEST_READY;
    slot_return(windows->store, request);
    retire(windows, request->from);
}

void windows_moved(struct team *team)
{
    struct window_move *move;
    lock_take(&team->engine->lock);
    struct windows *windows = windows_of(team);
    while ((move = windows->store->moved(windows->store)))
        end_move(windows, move);
    lock_release(&team->engine->lock);
    poller_wake(team->engine->poller); /* what was sent, and whoever waits for a signal */
}

/* ---- What is asked ---- */

/* What is wrong with a request. NULL: it may be done, and *window is where. */
static const char *check(const struct windows *windows, const struct wire_window *what, size_t bytes,
                         struct tutti_window **window)
{
    bool moves = what->what == WIRE_WINDOW_PUT || what->what == WIRE_WINDOW_GET;
    bool gated = what->gate || what->ends;
    *window = moves && what->length ? find_window(windows, what->window) : NULL;
    if (what->what < WIRE_WINDOW_PUT || what->what > WIRE_WINDOW_GET)
        return "the kind of request is unknown";
    if (what->signal != WIRE_NO_SIGNAL && what->signal >= TUTTI_SIGNALS)
        return "the number of the signal is too high";
    if (bytes && (what->what != WIRE_WINDOW_PUT || bytes != what->length || bytes > WIRE_WINDOW_SHORT))
        return "the data behind the request have another length";
    if (gated && (what->what != WIRE_WINDOW_PUT || !what->length || bytes))
        return "only a put with a payload has a gate";
    if (moves && what->length && !*window)
        return "the window does not exist, or was closed";
    if (*window && (what->offset > (*window)->size || what->length > (*window)->size - what->offset))
        return "the window is smaller";
    if (moves && windows->store && what->length > windows->store->piece)
        return "a part of it is longer than a slot";
    return NULL;
}

/* Into a store, in order. */
static void store_short(struct windows *windows, struct window_request *request, const void *data)
{
    memcpy(request->data, data, request->what.length);
    list_push(&windows->asked[request->from], &request->node);
    store_move(windows->store, request, request->data, false);
}

/* Takes a request, in order behind what the rank has asked before. */
static void queue_up(struct windows *windows, struct team *team, int from, const struct wire_window *what)
{
    struct window_request *request = request_new(team, from, what, 0);
    if (request)
        list_push(&windows->asked[from], &request->node);
    retire(windows, from);
}

void windows_hear(struct team *team, int from, const struct wire_window *what, const void *data, size_t bytes)
{
    struct tutti_window *window;
    if (atomic_load(&team->failed))
        return;
    struct windows *windows = engine_windows(team);
    const char *wrong = windows ? check(windows, what, bytes, &window) : "its process has no memory left";
    if (wrong) {
        windows_refuse(team, from, what, wrong);
        return;
    }
    if (windows->stopped)
        return;
    if (what->ends && !gates_give_back(&windows->gates[from], what->ends - 1)) {
        windows_refuse(team, from, what, "it ends a credit that does not stand");
        return;
    }
    if (what->what == WIRE_WINDOW_PUT && what->length && (!bytes || windows->store)) {
        struct window_request *request = request_new(team, from, what, bytes);
        if (request)
            request->at = (uintptr_t)window->base + what->offset;
        if (request && bytes)
            store_short(windows, request, data);
        else if (request)
            queue_payload(windows, request);
        return;
    }
    if (bytes)
        memcpy(window->base + what->offset, data, bytes);
    if (what->what != WIRE_WINDOW_GET && list_empty(&windows->asked[from]))
        raise_signal(windows, from, what->signal);
    else
        queue_up(windows, team, from, what);
}

void windows_heard(void *context, struct link *link, const struct wire_tag *tag, const void *body, size_t length)
{
    struct engine *engine = context;
    struct wire_window what;
    if (length < sizeof what)
        return;
    memcpy(&what, body, sizeof what);
    list_each(node, &engine->teams)
    {
        struct team *team = list_entry(node, struct team, node);
        if (team->id != tag->comm || (uint32_t)team->rank != tag->to || tag->from >= (uint32_t)team->nranks ||
            !wire_same_process(team_row(team, tag->from)->uuid, link_peer(link)->uuid))
            continue;
        windows_hear(team, (int)tag->from, &what, (const char *)body + sizeof what, length - sizeof what);
        return;
    }
}

/* ---- The end ---- */

static void drop_asked(struct list *asked)
{
    while (!list_empty(asked)) {
        struct window_request *request = list_entry(asked->next, struct window_request, node);
        if (request->stage == REQUEST_ON_LINK && request->link)
            link_cancel_recv(request->link, &request->recv);
        request_free(request);
    }
}

static void drop_answers(struct list *answers)
{
    while (!list_empty(answers)) {
        struct window_request *request = list_entry(answers->next, struct window_request, node);
        if (request->stage == REQUEST_ON_LINK)
            link_cancel_send(request->link, &request->send);
        request_free(request);
    }
}

/* Nothing gets a slot any more. */
static void stop_store(struct window_store *store)
{
    while (list_pop(&store->starving))
        continue;
    store->stop(store);
}

void engine_windows_stop(struct team *team)
{
    struct windows *windows = windows_of(team);
    if (!windows || windows->stopped)
        return;
    windows->stopped = true;
    if (windows->store)
        stop_store(windows->store);
    for (int rank = 0; rank < team->nranks; rank++) {
        gates_stop(&windows->gates[rank]);
        drop_asked(&windows->asked[rank]);
    }
    drop_answers(&windows->answers);
}

void windows_stop(struct team *team)
{
    if (!windows_of(team))
        return;
    lock_take(&team->engine->lock);
    engine_windows_stop(team);
    lock_release(&team->engine->lock);
}
