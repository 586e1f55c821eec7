/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups. tutti's own group of the thread carries the inits and the collectives; here is kept what NCCL does besides at
 * a group's end: handles that are filled, windows, communicators that end, and on host memory the wait.
 */
#include "nccl/group.h"
#include "nccl/handle.h"
#include "nccl/names.h"
#include "nccl/result.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum note_kind { NOTE_TOUCHED, NOTE_MADE, NOTE_REVOKE, NOTE_WINDOW, NOTE_REST, NOTE_FINALIZE, NOTE_DESTROY };

struct note {
    enum note_kind kind;
    struct ncclComm *handle, *window;
    void *out;        /* ncclComm_t * or ncclWindow_t * */
    group_end_fn end; /* what is done then, by who noted it */
    group_window_fn open;
};

static _Atomic uint64_t serials;
#define FEW 16 /* notes that need no memory of their own */

static _Thread_local struct {
    int depth;
    uint64_t serial;
    ncclResult_t error;
    struct note *notes; /* NULL or `few` or malloc'ed */
    size_t count, room;
    struct note few[FEW];
} group;

bool group_open(void)
{
    return group.depth > 0;
}

ncclResult_t group_note(ncclResult_t result)
{
    if (result != ncclSuccess && result != ncclInProgress && group.depth && group.error == ncclSuccess)
        group.error = result;
    return result;
}

static ncclResult_t grow(void)
{
    size_t room = group.room ? group.room * 2 : FEW;
    bool own = group.notes && group.notes != group.few;
    struct note *grown = group.room ? realloc(own ? group.notes : NULL, room * sizeof *grown) : group.few;
    if (!grown)
        return result_fail(ncclSystemError, "no memory for a group of %zu calls", room);
    if (group.room && !own)
        memcpy(grown, group.few, sizeof group.few);
    group.notes = grown;
    group.room = room;
    return ncclSuccess;
}

static ncclResult_t add(struct note note)
{
    ncclResult_t result = group.count == group.room ? grow() : ncclSuccess;
    if (result == ncclSuccess)
        group.notes[group.count++] = note;
    return result;
}

ncclResult_t group_touch(struct ncclComm *handle)
{
    if (handle->group == group.serial)
        return ncclSuccess;
    ncclResult_t result = add((struct note){.kind = NOTE_TOUCHED, .handle = handle});
    if (result != ncclSuccess)
        return result;
    handle->group = group.serial;
    handle_hold(handle);
    return ncclSuccess;
}

ncclResult_t group_made(struct ncclComm *made, ncclComm_t *out)
{
    return add((struct note){.kind = NOTE_MADE, .handle = made, .out = out});
}

ncclResult_t group_window(struct ncclComm *owner, struct ncclComm *window, ncclWindow_t *out, group_window_fn open)
{
    return add((struct note){.kind = NOTE_WINDOW, .handle = owner, .window = window, .out = out, .open = open});
}

ncclResult_t group_revoke_later(struct ncclComm *handle, group_end_fn end)
{
    ncclResult_t result = add((struct note){.kind = NOTE_REVOKE, .handle = handle, .end = end});
    if (result == ncclSuccess)
        handle_hold(handle);
    return result;
}

ncclResult_t group_rest_later(struct ncclComm *handle, group_end_fn end)
{
    ncclResult_t result = add((struct note){.kind = NOTE_REST, .handle = handle, .end = end});
    if (result == ncclSuccess)
        handle_hold(handle);
    return result;
}

ncclResult_t group_end_later(enum group_ending how, struct ncclComm *handle, group_end_fn end)
{
    return add(
        (struct note){.kind = how == GROUP_FINALIZE ? NOTE_FINALIZE : NOTE_DESTROY, .handle = handle, .end = end});
}

/* ---- The end ---- */

static ncclResult_t worse(ncclResult_t so_far, ncclResult_t next)
{
    return so_far == ncclSuccess || (so_far == ncclInProgress && next != ncclSuccess) ? next : so_far;
}

/* A communicator that tutti did not make is none. */
static ncclResult_t settle_made(const struct note *note)
{
    if (note->handle->comm)
        return ncclSuccess;
    *(ncclComm_t *)note->out = NULL;
    handle_free(note->handle);
    return ncclSuccess;
}

static ncclResult_t settle_touched(const struct note *note, bool good)
{
    struct ncclComm *handle = note->handle;
    tutti_result_t result = good && handle->host ? tutti_comm_synchronize(handle->comm) : TUTTI_SUCCESS;
    return result == TUTTI_IN_PROGRESS ? ncclSuccess : result_of(result, handle->comm);
}

static ncclResult_t settle_window(const struct note *note, bool good)
{
    ncclResult_t result = good ? note->open(note->handle, note->window) : ncclSuccess;
    *(ncclWindow_t *)note->out = good && result == ncclSuccess ? (ncclWindow_t)note->window : NULL;
    if (!good || result != ncclSuccess)
        handle_free(note->window);
    return result;
}

static ncclResult_t settle_one(const struct note *note, bool good)
{
    switch (note->kind) {
    case NOTE_MADE:
        return settle_made(note);
    case NOTE_TOUCHED:
        return settle_touched(note, good);
    case NOTE_WINDOW:
        return settle_window(note, good);
    case NOTE_FINALIZE:
        return good ? note->end(note->handle) : ncclSuccess;
    default:
        return note->end(note->handle);
    }
}

/* All notes of one kind. The rest of a group that failed is cleared away, not done. */
static ncclResult_t settle(enum note_kind kind, bool issued, ncclResult_t result)
{
    const struct note *end = group.notes + group.count;
    for (const struct note *note = group.notes; note != end; note++)
        if (note->kind == kind)
            result = worse(result, settle_one(note, issued && (result == ncclSuccess || result == ncclInProgress)));
    return result;
}

struct resting {
    const struct note *note;
    pthread_t thread;
    bool started;
    ncclResult_t result;
    char sentence[RESULT_SENTENCE];
};

static void *rest_one(void *argument)
{
    struct resting *resting = argument;
    resting->result = resting->note->end(resting->note->handle);
    result_keep(resting->sentence);
    return NULL;
}

/* Each waits for the others, which may be ranks of this very thread. */
static ncclResult_t settle_resting(bool issued, ncclResult_t result)
{
    size_t count = 0;
    bool good = issued && (result == ncclSuccess || result == ncclInProgress);
    struct resting *all = good ? calloc(group.count + 1, sizeof *all) : NULL;
    for (size_t i = 0; i < group.count; i++)
        if (group.notes[i].kind == NOTE_REST && all)
            all[count++].note = &group.notes[i];
    for (size_t i = 1; i < count; i++)
        all[i].started = pthread_create(&all[i].thread, NULL, rest_one, &all[i]) == 0;
    for (size_t i = 0; i < count; i++)
        if (!all[i].started)
            rest_one(&all[i]);
    for (size_t i = 0; i < count; i++) {
        if (all[i].started)
            pthread_join(all[i].thread, NULL);
        if (all[i].result != ncclSuccess && worse(result, all[i].result) != result)
            result_restore(all[i].sentence);
        result = worse(result, all[i].result);
    }
    if (good && !all)
        result = result_fail(ncclSystemError, "no memory for a group of %zu calls", group.count);
    free(all);
    for (size_t i = 0; i < group.count; i++)
        if (group.notes[i].kind == NOTE_REST)
            handle_leave(group.notes[i].handle);
    return result;
}

static void leave_touched(void)
{
    for (size_t i = 0; i < group.count; i++)
        if (group.notes[i].kind == NOTE_TOUCHED)
            handle_leave(group.notes[i].handle);
}

/* Ends tutti's group. */
static ncclResult_t end_outermost(bool drop, ncclResult_t error)
{
    bool issued = !drop && error == ncclSuccess;
    if (!issued)
        tutti_group_cancel();
    tutti_result_t ended = tutti_group_end();
    ncclResult_t result = issued ? result_of(ended, NULL) : error;
    result = settle(NOTE_MADE, issued, result);
    result = settle(NOTE_REVOKE, issued, result);
    result = settle(NOTE_TOUCHED, issued, result);
    leave_touched();
    result = settle(NOTE_WINDOW, issued, result);
    result = settle_resting(issued, result);
    result = settle(NOTE_FINALIZE, issued, result);
    result = settle(NOTE_DESTROY, issued, result);
    if (group.notes != group.few)
        free(group.notes);
    group.notes = NULL;
    group.count = group.room = 0;
    return result;
}

static ncclResult_t end(bool drop)
{
    if (!group.depth)
        return result_fail(ncclInvalidUsage, "a group ends that was not started");
    if (--group.depth)
        return result_of(tutti_group_end(), NULL);
    ncclResult_t error = group.error;
    group.error = ncclSuccess;
    group.serial = 0;
    return end_outermost(drop, error);
}

ncclResult_t ncclGroupStart(void)
{
    if (!group.depth++)
        group.serial = atomic_fetch_add(&serials, 1) + 1;
    return result_of(tutti_group_start(), NULL);
}
TWIN(ncclGroupStart);

ncclResult_t ncclGroupEnd(void)
{
    return end(false);
}
TWIN(ncclGroupEnd);

/* The group is dropped, as asked. The time is in microseconds. */
ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t *info)
{
    ncclResult_t result = ncclSuccess;
    double seconds = 0;
    if (!info || info->size < sizeof *info || info->magic != 0x74685283u)
        result = result_fail(ncclInvalidArgument, "ncclGroupSimulateEnd: set simInfo from NCCL_SIM_INFO_INITIALIZER");
    bool told = result == ncclSuccess && group.depth && tutti_group_estimate(&seconds) == TUTTI_SUCCESS;
    ncclResult_t ended = end(true);
    if (result == ncclSuccess && ended == ncclSuccess)
        info->estimatedTime = told ? (float)(seconds * 1e6) : NCCL_UNDEF_FLOAT;
    return result == ncclSuccess ? ended : result;
}
TWIN(ncclGroupSimulateEnd);
