/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows between hosts are those of host memory (engine/windows.h), but for two things. Data lie in slots of pinned
 * memory on their way (store.c), and streams of the GPU ask and wait (asker.c). They have a part of the communicator's
 * team, with all of its ranks: so puts and signals go on beside the jobs of channels. docs/understand/window.md.
 */
#include "executor/staged/windows.h"

#include "base/error.h"
#include "device/cuda/device.h"
#include "device/cuda/memory.h"
#include "engine/circle.h"
#include "engine/failure.h"
#include "engine/part.h"
#include "engine/team_open.h"
#include "engine/window.h"
#include "executor/staged/asker.h"
#include "executor/staged/store.h"
#include "executor/stream/ledger.h"
#include "executor/stream/wait.h"
#include "executor/stream/window.h"

#include <stdlib.h>
#include <string.h>

#define PART_KIND 0x5749u /* of these parts, among those of a team */
#define PIECE     ((size_t)256 << 10)
#define PINNED    (sizeof(struct asker_words) + 2 * STORE_SLOTS * PIECE)

struct staged_windows {
    struct team *team;
    char *pinned; /* the words, then slots of what is asked and of what is stored */
    struct asker asker;
    struct staged_store store;
    bool asks, stores;
};

/* ---- Life of what all windows need ---- */

static tutti_result_t open_part(struct staged *staged, struct team **out)
{
    struct team *whole = staged->base.team;
    int *members = malloc((size_t)whole->nranks * sizeof *members);
    if (!members)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for windows of %d ranks", whole->nranks);
    for (int rank = 0; rank < whole->nranks; rank++)
        members[rank] = rank;
    tutti_result_t result =
        team_part(whole, members, whole->nranks, &(struct part_config){.kind = PART_KIND, .name = "windows"}, out);
    free(members);
    if (result == TUTTI_SUCCESS)
        (*out)->ends_alone = true;
    return result;
}

static tutti_result_t pin_slots(struct staged *staged, struct staged_windows *windows)
{
    void *pinned = NULL;
    tutti_result_t result =
        cuda_check(staged->base.cu->MemHostAlloc(&pinned, PINNED, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP),
                   "allocating pinned memory for windows");
    if (result != TUTTI_SUCCESS)
        return result;
    memset(pinned, 0, sizeof(struct asker_words));
    windows->pinned = pinned;
    ledger_add(&staged->base, WIRE_MEMORY_SLICES, PINNED);
    return TUTTI_SUCCESS;
}

static tutti_result_t open_threads(struct staged *staged, struct staged_windows *windows)
{
    char *slots = windows->pinned + sizeof(struct asker_words);
    windows->asks = windows->stores = true;
    staged->asker = &windows->asker;
    tutti_result_t result =
        asker_open(&windows->asker, windows->team, (struct asker_words *)(void *)windows->pinned, slots, PIECE);
    tutti_result_t stored =
        store_open(&windows->store, windows->team, staged->base.device, slots + STORE_SLOTS * PIECE, PIECE);
    circle_in_turn(windows->team, asker_is_through, &windows->asker);
    return result == TUTTI_SUCCESS ? stored : result;
}

/* Collective. */
static tutti_result_t windows_begin(struct staged *staged)
{
    struct staged_windows *windows = calloc(1, sizeof *windows);
    if (!windows)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for windows");
    staged->windows = windows;
    cuda_enter(staged->base.device);
    tutti_result_t result = pin_slots(staged, windows);
    if (result == TUTTI_SUCCESS)
        result = open_part(staged, &windows->team);
    if (result == TUTTI_SUCCESS)
        result = open_threads(staged, windows);
    cuda_leave();
    return result;
}

void staged_windows_stop(struct staged *staged)
{
    if (staged->windows && staged->windows->team)
        windows_stop(staged->windows->team);
}

void *staged_windows_end(struct staged *staged)
{
    struct staged_windows *windows = staged->windows;
    if (!windows)
        return NULL;
    if (windows->asks)
        circle_in_turn(windows->team, NULL, NULL);
    staged->asker = NULL;
    if (windows->asks)
        asker_close(&windows->asker);
    staged_windows_stop(staged);
    if (windows->stores)
        store_close(&windows->store);
    if (windows->team)
        team_close(windows->team);
    void *pinned = windows->pinned;
    staged->windows = NULL;
    free(windows);
    return pinned;
}

/* ---- Windows ---- */

/* A stream that waits holds up its hardware queue: that of the copies for which it waits must be another one. A kernel
 * that waits does not, but what lies behind the kernel in its stream does. */
static tutti_result_t check_memory(const struct staged *staged, const void *buffer, size_t size)
{
    struct cuda_range range;
    if (cuda_queues_are_few())
        return error_set(TUTTI_INVALID_USAGE, "GPUs of several hosts have no windows where streams share few hardware "
                                              "queues: leave CUDA_DEVICE_MAX_CONNECTIONS unset, or at 8 or more");
    if (!size)
        return TUTTI_SUCCESS;
    cuda_enter(staged->base.device);
    tutti_result_t result = cuda_range_of(buffer, &range);
    cuda_leave();
    if (result != TUTTI_SUCCESS)
        return result;
    if (range.kind == CUDA_HOST || range.kind == CUDA_PINNED) /* the driver copies there as well */
        return TUTTI_SUCCESS;
    size_t offset = (uintptr_t)buffer - range.base;
    if (range.kind == CUDA_DEVICE && range.ordinal == staged->base.device->ordinal && offset <= range.size &&
        size <= range.size - offset)
        return TUTTI_SUCCESS;
    return error_set(TUTTI_INVALID_USAGE,
                     "the window cannot be made: it is neither host memory nor whole in one allocation of GPU %d",
                     staged->base.device->ordinal);
}

/* All that was issued is over, in streams and by the thread. */
static tutti_result_t windows_settle(struct staged *staged)
{
    cuda_enter(staged->base.device);
    tutti_result_t result = wait_for_last(&staged->base);
    cuda_leave();
    if (result == TUTTI_SUCCESS)
        result = team_failure(staged->base.team);
    if (staged->windows && staged->windows->asks &&
        (result == TUTTI_SUCCESS || team_failure(staged->base.team) != TUTTI_SUCCESS))
        asker_drain(&staged->windows->asker);
    return result;
}

tutti_result_t staged_window_open(struct staged *staged, void *buffer, size_t size, tutti_result_t mine,
                                  tutti_window_t *out)
{
    struct tutti_window *window;
    *out = NULL;
    tutti_result_t result = mine == TUTTI_SUCCESS ? check_memory(staged, buffer, size) : mine;
    struct error_saved saved;
    error_save(&saved);
    tutti_result_t settled = windows_settle(staged);
    if (settled == TUTTI_SUCCESS && !staged->windows) {
        settled = windows_begin(staged);
        if (settled != TUTTI_SUCCESS) /* the others wait for this rank */
            team_fail(staged->base.team, settled, staged->base.team->rank, error_last());
    }
    if (settled != TUTTI_SUCCESS)
        return settled;
    error_restore(&saved);
    result = window_open(staged->windows->team, buffer, size, result, &window);
    *out = result == TUTTI_SUCCESS ? window : NULL;
    return result;
}

tutti_result_t staged_window_close(struct staged *staged, tutti_window_t window)
{
    if (window->registered)
        return window_refuse_close();
    windows_settle(staged); /* window_close() finds what has failed */
    return window_close(staged->windows->team, window);
}

void staged_window_forget(struct staged *staged, tutti_window_t window)
{
    if (windows_settle(staged) != TUTTI_SUCCESS)
        staged_windows_stop(staged);
    window_drop(window);
}

/* Is each rank a process of its own? The same answer on all ranks. */
bool staged_windows_by_processes(const struct team *team)
{
    bool apart = true;
    for (int rank = 0; rank < team->nranks && apart; rank++)
        for (int other = rank + 1; other < team->nranks && apart; other++)
            apart = !wire_same_process(team_row(team, rank)->uuid, team_row(team, other)->uuid);
    return apart;
}

tutti_result_t staged_window_address(struct staged *staged, tutti_window_t window, int rank, void **address,
                                     size_t *size)
{
    return window_address(staged->windows->team, window, rank, address, size);
}

bool staged_window_is_open(const struct staged *staged, tutti_window_t window)
{
    return staged->windows && staged->windows->team && windows_have(staged->windows->team, window);
}

bool staged_windows_any(const struct staged *staged)
{
    return staged->windows && staged->windows->team && windows_any(staged->windows->team);
}

/* ---- Calls ---- */

tutti_result_t staged_window_check(const struct staged *staged, const struct window_item *items, int count,
                                   CUstream stream, bool *captured)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (!staged->windows || !staged->windows->asks)
        return window_refuse_first();
    tutti_result_t result =
        cuda_check(staged->base.cu->StreamIsCapturing(stream, &status), "asking whether the stream is being captured");
    *captured = status != CU_STREAM_CAPTURE_STATUS_NONE;
    if (result != TUTTI_SUCCESS || !*captured)
        return result;
    if (!staged->copies)
        return window_refuse_capture();
    for (int i = 0; i < count && result == TUTTI_SUCCESS; i++)
        if (puts_moves(&items[i]))
            result = window_check_local(staged->base.device->ordinal, items[i].local);
    return result;
}

tutti_result_t staged_window_issue(struct staged *staged, const struct window_item *items, int count, CUstream stream)
{
    return asker_issue(&staged->windows->asker, items, count, stream);
}
