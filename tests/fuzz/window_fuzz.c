/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a rank does when a peer asks anything of its windows, in any order: no byte outside a window changes, what is no
 * request fails the communicator, and what had been asked is withdrawn then. The peer is a rank of this process, whose
 * payloads come by the link to itself.
 */
#include "engine/engine_life.h"
#include "engine/failure.h"
#include "engine/links.h"
#include "engine/team.h"
#include "engine/team_open.h"
#include "engine/window.h"

#include <stdlib.h>
#include <string.h>

#define GUARD   64
#define STEPS   200
#define SENDS   8
#define LONGEST 4096
#define PIECE   (LONGEST / 2)

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
    const uint8_t *at;
    size_t left;
};

static const size_t sizes[] = {0, 100, LONGEST};
#define WINDOWS (sizeof sizes / sizeof *sizes)

struct sent {
    struct link_send send;
    bool pending;
};

struct world {
    struct input in;
    bool stored; /* the windows are a store's */
    struct window_store store;
    char *slots; /* as the allocator guards them */
    struct list moves, moved;
    struct team *team;
    struct tutti_window *window[WINDOWS];
    unsigned char *memory[WINDOWS];
    struct sent sent[SENDS];
};

static struct engine *engine;
static char payload[2 * LONGEST];

static uint8_t byte(struct input *in)
{
    if (!in->left)
        return 0;
    in->left--;
    return *in->at++;
}

/* Numbers at which something changes, or any. */
static uint64_t number(struct input *in)
{
    static const uint64_t edges[] = {
        0, 1, 99, 100, 101, 511, 512, 513, LONGEST - 1, LONGEST, LONGEST + 1, UINT64_MAX, 50, 200, UINT64_MAX - 99};
    uint8_t which = byte(in);
    return which < 4 * sizeof edges / sizeof *edges ? edges[which / 4] : which * 16u + byte(in);
}

/* ---- A store, which moves when it is told ---- */

static void take_move(struct window_store *store, struct window_move *move)
{
    list_push(&container_of(store, struct world, store)->moves, &move->node);
}

static struct window_move *next_moved(struct window_store *store)
{
    struct list *node = list_pop(&container_of(store, struct world, store)->moved);
    return node ? list_entry(node, struct window_move, node) : NULL;
}

static void stop_moving(struct window_store *store)
{
    struct world *w = container_of(store, struct world, store);
    while (list_pop(&w->moves) || list_pop(&w->moved))
        continue;
}

static void store_world(struct world *w)
{
    w->store = (struct window_store){
        .piece = PIECE, .free = STORE_SLOTS, .move = take_move, .moved = next_moved, .stop = stop_moving};
    w->slots = malloc(STORE_SLOTS * PIECE);
    if (!w->slots || !windows_keep_in(w->team, &w->store))
        abort();
    for (int i = 0; i < STORE_SLOTS; i++)
        w->store.slots[i] = w->slots + (size_t)i * PIECE;
    list_init(&w->store.starving);
    list_init(&w->moves);
    list_init(&w->moved);
}

static void move_some(struct world *w)
{
    for (int count = byte(&w->in) % 4; w->stored && count && !list_empty(&w->moves); count--) {
        struct window_move *move = list_entry(list_pop(&w->moves), struct window_move, node);
        char *device = (char *)(uintptr_t)move->device;
        memcpy(move->out ? move->host : device, move->out ? device : move->host, move->bytes);
        move->result = byte(&w->in) == 77 ? TUTTI_DEVICE_ERROR : TUTTI_SUCCESS;
        list_push(&w->moved, &move->node);
    }
    lock_release(&engine->lock);
    if (w->stored)
        windows_moved(w->team);
    lock_take(&engine->lock);
}

/* ---- The world ---- */

static void world_open(struct world *w)
{
    struct wire_process process[2];
    engine_introduce(engine, &process[0]);
    process[1] = process[0];
    const struct team_config config = {.id = 77, .rank = 0, .nranks = 2, .members.processes = process, .untold = true};
    if (team_open(engine, &config, &w->team) != TUTTI_SUCCESS)
        abort();
    if (w->stored)
        store_world(w);
    for (size_t i = 0; i < WINDOWS; i++) {
        w->memory[i] = malloc(sizes[i] + 2 * GUARD);
        if (!w->memory[i])
            abort();
        memset(w->memory[i], 0xa5, sizes[i] + 2 * GUARD);
        if (window_enlist(w->team, (uint32_t)i, w->memory[i] + GUARD, sizes[i], &w->window[i]) != TUTTI_SUCCESS)
            abort();
    }
}

static void look_at_guards(const struct world *w)
{
    for (size_t i = 0; i < WINDOWS; i++)
        for (size_t at = 0; at < GUARD; at++)
            if (w->memory[i][at] != 0xa5 || w->memory[i][GUARD + sizes[i] + at] != 0xa5)
                abort();
}

static void sent(struct link_send *send, tutti_result_t result)
{
    (void)result;
    container_of(send, struct sent, send)->pending = false;
}

static void ask(struct world *w)
{
    static char data[WIRE_WINDOW_SHORT + 1];
    struct wire_window what = {.what = byte(&w->in) % 5,
                               .number = byte(&w->in) % 4,
                               .window = byte(&w->in) % (WINDOWS + 1),
                               .signal = byte(&w->in) % 2 ? byte(&w->in) % (TUTTI_SIGNALS + 1) : WIRE_NO_SIGNAL,
                               .offset = number(&w->in),
                               .length = number(&w->in)};
    size_t bytes = byte(&w->in) % 3 ? what.length : number(&w->in);
    if (byte(&w->in) % 2) {
        what.gate = (const uint32_t[]){WIRE_GATE_ASKED, WIRE_GATE_ASKED, 1, 2}[byte(&w->in) % 4];
        what.ends = byte(&w->in) % 8 ? 0 : 1;
    }
    windows_hear(w->team, 1, &what, data, bytes <= sizeof data ? bytes : 0);
}

/* A payload that may be one of those that were asked for. */
static void send(struct world *w)
{
    struct sent *one = &w->sent[byte(&w->in) % SENDS];
    uint64_t length = number(&w->in);
    struct link *link;
    if (one->pending || length > sizeof payload || team_link(w->team, 1, &link) != TUTTI_SUCCESS)
        return;
    one->pending = true;
    one->send = (struct link_send){.tag = windows_tag(w->team, 1, 0, byte(&w->in) % 4, WIRE_TAG_PUT),
                                   .call = windows_call(length),
                                   .place = place_host(payload),
                                   .length = length,
                                   .done = sent};
    link_send(link, &one->send);
}

static void world_close(struct world *w)
{
    engine_windows_stop(w->team);
    struct windows *windows = atomic_load(&w->team->windows);
    if (!list_empty(&windows->asked[0]) || !list_empty(&windows->asked[1]) || !list_empty(&windows->answers))
        abort();
    for (size_t i = 0; i < SENDS; i++)
        if (w->sent[i].pending)
            link_cancel_send(w->team->link[1], &w->sent[i].send);
    lock_release(&engine->lock);
    look_at_guards(w);
    team_close(w->team); /* with its windows */
    for (size_t i = 0; i < WINDOWS; i++)
        free(w->memory[i]);
    free(w->slots);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    setenv("TUTTI_DEBUG", "none", 1);
    if (engine_acquire(&engine) != TUTTI_SUCCESS)
        abort();
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct world w = {.in = {data, size}, .stored = size && data[size - 1] % 2};
    world_open(&w);
    lock_take(&engine->lock);
    for (int i = 0; i < STEPS && w.in.left && !atomic_load(&w.team->failed); i++) {
        uint8_t what = byte(&w.in);
        if (what % 3)
            ask(&w);
        else
            send(&w);
        if (w.stored && what % 2)
            move_some(&w);
        link_poll(engine->links);
    }
    world_close(&w);
    return 0;
}
