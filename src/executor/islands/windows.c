/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A window of the island and a window of all ranks, with the same memory. A pair of ranks has the one of the two that
 * joins them, for all puts and signals: so what is promised of a pair holds, whichever it is.
 */
#include "executor/islands/windows.h"

#include "base/error.h"
#include "executor/staged/executor.h"
#include "executor/stream/window.h"

#include <stdlib.h>

struct islands_window {
    struct list node; /* in islands->windows */
    tutti_window_t near, far;
    void *registered; /* that the near one is; NULL: it is one by itself */
};

static struct islands_window *islands_window_of(tutti_window_t window)
{
    return (struct islands_window *)(void *)window;
}

/* This rank's number of a rank of its own island; -1: it is of another one. */
static int near_rank(const struct islands *islands, int rank)
{
    const struct level *hosts = levels_hosts(islands->team->levels);
    return hosts->group[rank] == islands->here ? islands->team->levels->position[rank] - hosts->first[islands->here]
                                               : -1;
}

/* ---- Life ---- */

static void enter_window(struct islands *islands, struct islands_window *window)
{
    islands->windowed = true;
    pthread_mutex_lock(&islands->lock);
    list_push(&islands->windows, &window->node);
    pthread_mutex_unlock(&islands->lock);
}

static void leave_window(struct islands *islands, struct islands_window *window)
{
    pthread_mutex_lock(&islands->lock);
    list_remove(&window->node);
    pthread_mutex_unlock(&islands->lock);
    free(window);
}

/* All ranks of the island get the first one, or none does; and all ranks the second, or none. */
tutti_result_t islands_window_open(struct islands *islands, void *buffer, size_t size, tutti_window_t *out)
{
    struct executor *island = islands->island;
    struct islands_window *window = calloc(1, sizeof *window);
    *out = NULL;
    tutti_result_t result = island->ops.window_open(island, buffer, size, window ? &window->near : out);
    if (!window && result == TUTTI_SUCCESS)
        result = error_set(TUTTI_SYSTEM_ERROR, "no memory for a window");
    tutti_window_t near = window ? window->near : *out, far = NULL;
    *out = NULL;
    result = staged_open_window(islands->net, buffer, size, result, &far);
    if (result != TUTTI_SUCCESS) {
        struct error_saved saved;
        error_save(&saved);
        if (near)
            island->ops.window_close(island, near);
        error_restore(&saved);
        free(window);
        return result;
    }
    window->far = far;
    enter_window(islands, window);
    *out = (tutti_window_t)(void *)window;
    return TUTTI_SUCCESS;
}

/* What the island takes for its collectives, and both windows, or none of these. */
tutti_result_t islands_register(struct islands *islands, void *buffer, size_t size, void **out)
{
    struct executor *island = islands->island;
    struct islands_window *window = calloc(1, sizeof *window);
    void *registered = NULL, *far = NULL;
    *out = NULL;
    tutti_result_t result = island->ops.register_symmetric(island, buffer, size, &registered);
    tutti_window_t near = registered ? island->ops.symmetric_window(island, registered) : NULL;
    tutti_result_t mine = result == TUTTI_SUCCESS && !(window && near)
                              ? error_set(TUTTI_INVALID_USAGE, "the ranks of a host do not all map it")
                              : result;
    result = staged_register(islands->net, buffer, size, mine, &far);
    if (result != TUTTI_SUCCESS || !far) {
        island->ops.unregister(island, registered);
        free(window);
        return result;
    }
    window->near = near;
    window->far = far;
    window->registered = registered;
    enter_window(islands, window);
    *out = window;
    return TUTTI_SUCCESS;
}

tutti_window_t islands_registered_window(void *registered)
{
    return registered;
}

void islands_unregister(struct islands *islands, void *registered)
{
    struct islands_window *window = registered;
    if (!window)
        return;
    staged_unregister(islands->net, window->far);
    islands->island->ops.unregister(islands->island, window->registered);
    leave_window(islands, window);
}

tutti_result_t islands_window_close(struct islands *islands, tutti_window_t handle)
{
    struct executor *island = islands->island, *net = islands->net;
    struct islands_window *window = islands_window_of(handle);
    if (window->registered)
        return window_refuse_close();
    tutti_result_t result = net->ops.window_close(net, window->far);
    tutti_result_t near = island->ops.window_close(island, window->near);
    leave_window(islands, window);
    return result == TUTTI_SUCCESS ? near : result;
}

tutti_result_t islands_window_address(struct islands *islands, tutti_window_t handle, int rank, void **address,
                                      size_t *size)
{
    struct executor *island = islands->island, *net = islands->net;
    int near = near_rank(islands, rank);
    return near < 0 ? net->ops.window_address(net, islands_window_of(handle)->far, rank, address, size)
                    : island->ops.window_address(island, islands_window_of(handle)->near, near, address, size);
}

bool islands_window_is_open(struct islands *islands, tutti_window_t handle)
{
    bool open = false;
    pthread_mutex_lock(&islands->lock);
    list_each(node, &islands->windows)
    {
        open = open || (const void *)list_entry(node, struct islands_window, node) == (const void *)handle;
    }
    pthread_mutex_unlock(&islands->lock);
    return open;
}

void islands_windows_free(struct islands *islands)
{
    for (struct list *node; (node = list_pop(&islands->windows));)
        free(list_entry(node, struct islands_window, node));
}

/* ---- Calls ---- */

/* Calls of one kind, to peers of the island or to all others, with the numbers that ranks and windows have there. */
static int pick_calls(const struct islands *islands, const struct window_item *items, int count, bool waits, bool near,
                      struct window_item *out)
{
    int picked = 0;
    for (int i = 0; i < count; i++) {
        int rank = near_rank(islands, items[i].peer);
        if ((items[i].call == WINDOW_WAIT) != waits || (rank >= 0) != near)
            continue;
        const struct islands_window *window = items[i].window ? islands_window_of(items[i].window) : NULL;
        out[picked] = items[i];
        out[picked].peer = near ? rank : items[i].peer;
        out[picked++].window = !window ? NULL : near ? window->near : window->far;
    }
    return picked;
}

bool islands_window_is_far(const struct islands *islands, const struct window_item *items, int count)
{
    bool far = false;
    for (int i = 0; i < count; i++)
        far = far || near_rank(islands, items[i].peer) < 0;
    return far;
}

/* What is asked goes before all waits, by both ways. */
tutti_result_t islands_window_calls(struct islands *islands, const struct window_item *items, int count,
                                    tutti_stream_t stream)
{
    struct window_item *some = malloc((size_t)count * sizeof *some);
    tutti_result_t result = TUTTI_SUCCESS;
    if (!some)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for %d calls on windows", count);
    for (int turn = 0; turn < 4 && result == TUTTI_SUCCESS; turn++) {
        bool near = turn % 2 == 0;
        struct executor *executor = near ? islands->island : islands->net;
        int picked = pick_calls(islands, items, count, turn >= 2, near, some);
        if (picked)
            result = executor->ops.window_calls(executor, some, picked, stream);
    }
    free(some);
    return result;
}
