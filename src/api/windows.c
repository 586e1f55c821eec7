/* SPDX-License-Identifier: Apache-2.0 */
/* Windows: puts, gets and signals, one by one or of a group. */
#include "api/group.h"
#include "api/internal.h"

#include "base/error.h"

#include <stdlib.h>

#define FEW_ITEMS 16 /* these lie on the stack */

/* ---- Life of windows ---- */

static tutti_result_t check_ungrouped(const char *call)
{
    return group_open()
               ? group_note(error_set(TUTTI_INVALID_USAGE,
                                      "%s() in a group: it waits for all ranks; call it before or behind", call))
               : TUTTI_SUCCESS;
}

tutti_result_t tutti_window_register(tutti_comm_t comm, void *buffer, size_t size, tutti_window_t *window)
{
    tutti_result_t result = comm_usable(comm);
    if (result == TUTTI_SUCCESS)
        result = check_ungrouped("tutti_window_register");
    if (result != TUTTI_SUCCESS)
        return result;
    if (!window || (!buffer && size) || size > PTRDIFF_MAX)
        return error_set(TUTTI_INVALID_ARGUMENT, "buffer is %p, size %zu, window %p; a window has memory, and a handle",
                         buffer, size, (void *)window);
    return comm->executor->ops.window_open(comm->executor, buffer, size, window);
}

static tutti_result_t check_window(tutti_comm_t comm, tutti_window_t window)
{
    return comm->executor->ops.window_is_open(comm->executor, window)
               ? TUTTI_SUCCESS
               : error_set(TUTTI_INVALID_ARGUMENT, "%p is not a window of this communicator", (void *)window);
}

/* Also of one that has failed. */
static tutti_result_t check_made(tutti_comm_t comm)
{
    tutti_result_t result = comm_check(comm);
    if (result != TUTTI_SUCCESS)
        return result;
    return comm->executor ? TUTTI_SUCCESS : comm_usable(comm);
}

tutti_result_t tutti_window_deregister(tutti_comm_t comm, tutti_window_t window)
{
    tutti_result_t result = check_made(comm);
    if (result == TUTTI_SUCCESS)
        result = check_ungrouped("tutti_window_deregister");
    if (result == TUTTI_SUCCESS)
        result = check_window(comm, window);
    if (result == TUTTI_SUCCESS)
        result = not_grouped("window", atomic_load(&comm->grouped_windows));
    return result == TUTTI_SUCCESS ? comm->executor->ops.window_close(comm->executor, window) : result;
}

tutti_result_t tutti_window_address(tutti_comm_t comm, tutti_window_t window, int rank, void **address, size_t *size)
{
    tutti_result_t result = check_made(comm);
    if (result == TUTTI_SUCCESS)
        result = check_window(comm, window);
    if (result == TUTTI_SUCCESS)
        result = check_root(comm, rank);
    return result == TUTTI_SUCCESS ? comm->executor->ops.window_address(comm->executor, window, rank, address, size)
                                   : result;
}

/* ---- Calls ---- */

static tutti_result_t pass(tutti_comm_t comm, const struct window_item *item, tutti_stream_t stream)
{
    return group_open() ? group_keep_window(comm, item, stream) : comm_windows(comm, item, 1, stream);
}

static tutti_result_t check_signal(int signal)
{
    return signal >= 0 && signal < TUTTI_SIGNALS
               ? TUTTI_SUCCESS
               : error_set(TUTTI_INVALID_ARGUMENT, "signal is %d; it must be 0 to %d", signal, TUTTI_SIGNALS - 1);
}

static tutti_result_t check_inside(tutti_comm_t comm, const struct window_item *item)
{
    size_t size;
    tutti_result_t result = comm->executor->ops.window_address(comm->executor, item->window, item->peer, NULL, &size);
    if (result != TUTTI_SUCCESS || (item->offset <= size && item->length <= size - item->offset))
        return result;
    return error_set(TUTTI_INVALID_ARGUMENT, "%zu bytes at %llu of rank %d's part of the window, which has %zu",
                     item->length, (unsigned long long)item->offset, item->peer, size);
}

/* count elements, to or from a window. */
static tutti_result_t move(struct window_item *item, size_t count, tutti_type_t type, tutti_comm_t comm,
                           tutti_stream_t stream)
{
    tutti_result_t result = comm_usable(comm);
    if (result == TUTTI_SUCCESS)
        result = check_type(type);
    if (result == TUTTI_SUCCESS)
        result = check_count(count, type);
    if (result == TUTTI_SUCCESS)
        result = check_buffer("local", item->local, count);
    if (result == TUTTI_SUCCESS)
        result = check_root(comm, item->peer);
    if (result == TUTTI_SUCCESS)
        result = check_window(comm, item->window);
    if (result == TUTTI_SUCCESS) {
        item->length = count * type_size(type);
        result = check_inside(comm, item);
    }
    return result == TUTTI_SUCCESS ? pass(comm, item, stream) : group_note(result);
}

tutti_result_t tutti_put(const void *local, size_t count, tutti_type_t type, int peer, tutti_window_t window,
                         size_t offset, tutti_comm_t comm, tutti_stream_t stream)
{
    struct window_item item = {.call = WINDOW_PUT,
                               .peer = peer,
                               .window = window,
                               .local = (void *)(uintptr_t)local,
                               .offset = offset,
                               .signal = WIRE_NO_SIGNAL};
    return move(&item, count, type, comm, stream);
}

tutti_result_t tutti_put_signal(const void *local, size_t count, tutti_type_t type, int peer, tutti_window_t window,
                                size_t offset, int signal, tutti_comm_t comm, tutti_stream_t stream)
{
    struct window_item item = {.call = WINDOW_PUT,
                               .peer = peer,
                               .window = window,
                               .local = (void *)(uintptr_t)local,
                               .offset = offset,
                               .signal = (uint32_t)signal};
    tutti_result_t result = check_signal(signal);
    return result == TUTTI_SUCCESS ? move(&item, count, type, comm, stream) : group_note(result);
}

tutti_result_t tutti_get(void *local, size_t count, tutti_type_t type, int peer, tutti_window_t window, size_t offset,
                         tutti_comm_t comm, tutti_stream_t stream)
{
    struct window_item item = {
        .call = WINDOW_GET, .peer = peer, .window = window, .local = local, .offset = offset, .signal = WIRE_NO_SIGNAL};
    return move(&item, count, type, comm, stream);
}

tutti_result_t tutti_signal(int peer, int signal, tutti_comm_t comm, tutti_stream_t stream)
{
    const struct window_item item = {.call = WINDOW_SIGNAL, .peer = peer, .signal = (uint32_t)signal};
    tutti_result_t result = comm_usable(comm);
    if (result == TUTTI_SUCCESS)
        result = check_root(comm, peer);
    if (result == TUTTI_SUCCESS)
        result = check_signal(signal);
    return result == TUTTI_SUCCESS ? pass(comm, &item, stream) : group_note(result);
}

/* Several calls of one kind: in a group they are of the group, else one operation. */
static tutti_result_t pass_all(tutti_comm_t comm, const struct window_item *items, int count, tutti_stream_t stream)
{
    tutti_result_t result = TUTTI_SUCCESS;
    if (!group_open())
        return count ? comm_windows(comm, items, count, stream) : TUTTI_SUCCESS;
    for (int i = 0; i < count && result == TUTTI_SUCCESS; i++)
        result = group_keep_window(comm, &items[i], stream);
    return result;
}

static tutti_result_t check_waits(tutti_comm_t comm, const tutti_signal_wait_t *waits, int n)
{
    tutti_result_t result = comm_usable(comm);
    if (result == TUTTI_SUCCESS && (n < 0 || (n && !waits)))
        result = error_set(TUTTI_INVALID_ARGUMENT, "n is %d, waits %p", n, (const void *)waits);
    for (int i = 0; i < n && result == TUTTI_SUCCESS; i++) {
        result = check_root(comm, waits[i].peer);
        if (result == TUTTI_SUCCESS)
            result = check_signal(waits[i].signal);
    }
    return result;
}

tutti_result_t tutti_wait_signal(const tutti_signal_wait_t *waits, int n, tutti_comm_t comm, tutti_stream_t stream)
{
    tutti_result_t result = check_waits(comm, waits, n);
    if (result != TUTTI_SUCCESS)
        return group_note(result);
    struct window_item few[FEW_ITEMS], *items = n <= FEW_ITEMS ? few : calloc((size_t)n, sizeof *items);
    if (!items)
        return group_note(error_set(TUTTI_SYSTEM_ERROR, "no memory to wait for signals of %d ranks", n));
    for (int i = 0; i < n; i++)
        items[i] = (struct window_item){
            .call = WINDOW_WAIT, .peer = waits[i].peer, .signal = (uint32_t)waits[i].signal, .length = waits[i].count};
    result = pass_all(comm, items, n, stream);
    if (items != few)
        free(items);
    return result;
}

static tutti_result_t flush(int first, int last, tutti_comm_t comm, tutti_stream_t stream)
{
    int n = last - first;
    struct window_item few[FEW_ITEMS], *items = n <= FEW_ITEMS ? few : calloc((size_t)n, sizeof *items);
    if (!items)
        return group_note(error_set(TUTTI_SYSTEM_ERROR, "no memory to flush what was put to %d ranks", n));
    for (int rank = first; rank < last; rank++)
        items[rank - first] = (struct window_item){.call = WINDOW_FLUSH, .peer = rank, .signal = WIRE_NO_SIGNAL};
    tutti_result_t result = pass_all(comm, items, n, stream);
    if (items != few)
        free(items);
    return result;
}

tutti_result_t tutti_window_flush(int peer, tutti_window_t window, tutti_comm_t comm, tutti_stream_t stream)
{
    tutti_result_t result = comm_usable(comm);
    if (result == TUTTI_SUCCESS)
        result = check_window(comm, window);
    if (result == TUTTI_SUCCESS && peer != -1)
        result = check_root(comm, peer);
    if (result != TUTTI_SUCCESS)
        return group_note(result);
    return flush(peer < 0 ? 0 : peer, peer < 0 ? comm->team->nranks : peer + 1, comm, stream);
}

/* ---- Groups ---- */

static bool is_wait(const struct entry *entry)
{
    return entry->window.call == WINDOW_WAIT;
}

#define NEAR_ITEMS 64 /* of a group, for which the stack is enough */

/* With all that goes with the first one, as one operation. */
static tutti_result_t issue_from(struct entry *first, const struct entry *end, bool waits)
{
    struct window_item near[NEAR_ITEMS], *items = near;
    tutti_comm_t comm = first->comm;
    if (end - first > NEAR_ITEMS)
        items = malloc((size_t)(end - first) * sizeof *items);
    int count = 1;
    if (!items)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for a group of %td calls", end - first);
    items[0] = first->window;
    first->kind = ENTRY_DONE;
    for (struct entry *entry = first + 1; entry != end; entry++) {
        if (entry->kind != ENTRY_WINDOW || entry->comm != comm || entry->stream != first->stream ||
            is_wait(entry) != waits)
            continue;
        items[count++] = entry->window;
        entry->kind = ENTRY_DONE;
    }
    tutti_result_t result = comm_windows(comm, items, count, first->stream);
    if (items != near)
        free(items);
    return result;
}

tutti_result_t group_issue_windows(struct entry *entry, size_t count, bool waits)
{
    tutti_result_t result = TUTTI_SUCCESS;
    for (size_t i = 0; i < count && group_goes_on(result); i++)
        if (entry[i].kind == ENTRY_WINDOW && is_wait(&entry[i]) == waits)
            result = group_worse(result, issue_from(&entry[i], entry + count, waits));
    return result;
}
