/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data go by slots. A stream copies what is put into a slot, and goes on; the thread puts it from there, and gives the
 * slot back. What is got comes into a slot, for which the stream waits. Streams wait for slots, so no caller does. All
 * that has a number follows one another, as the operations of a communicator do. When the team has failed, nothing is
 * carried out any more, and streams find all words as if it had been.
 */
#include "executor/staged/asker.h"

#include "base/error.h"
#include "engine/failure.h"
#include "engine/wait.h"
#include "executor/stream/base.h"

#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#define LOOKS     500 /* for a stream, before there are naps in between */
#define SLOW_FROM (LOOKS + 20000)
#define NAP_US    50
#define SLOW_US   500
#define TOGETHER  (2 * STORE_SLOTS) /* entries that are carried out at once, at most */

/* What a stream comes to. */
struct asker_entry {
    struct list node;
    uint32_t number;
    uint32_t frees; /* slots that are free when it is over */
    bool asks;      /* the item is one; else slots are free alone */
    struct window_item item;
};

/* ---- Calls ---- */

static CUdeviceptr word_at(const struct asker *asker, const _Atomic uint32_t *word)
{
    return asker->words_device + (CUdeviceptr)((const char *)word - (const char *)asker->words);
}

static tutti_result_t stream_awaits(const struct asker *asker, CUstream stream, const _Atomic uint32_t *word,
                                    uint32_t value)
{
    return cuda_check(asker->cu->StreamWaitValue32(stream, word_at(asker, word), value, CU_STREAM_WAIT_VALUE_GEQ),
                      "waiting for what was asked of a window");
}

static tutti_result_t asker_copy(const struct asker *asker, CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                 CUstream stream)
{
    return cuda_check(asker->cu->MemcpyAsync(to, from, bytes, stream), "copying what is put or got");
}

/* The stream has come to the next number, which the entry has. */
static tutti_result_t stream_tells(struct asker *asker, const struct asker_entry *what, CUstream stream)
{
    struct asker_entry *entry = malloc(sizeof *entry);
    if (!entry)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for what is asked of a window");
    *entry = *what;
    list_init(&entry->node);
    entry->number = ++asker->numbered;
    tutti_result_t result =
        cuda_check(asker->cu->StreamWriteValue32(stream, word_at(asker, &asker->words->ready), entry->number, 0),
                   "asking for a window");
    if (result != TUTTI_SUCCESS) {
        free(entry);
        return result;
    }
    pthread_mutex_lock(&asker->lock);
    list_push(&asker->entries, &entry->node);
    pthread_cond_signal(&asker->news);
    pthread_mutex_unlock(&asker->lock);
    return TUTTI_SUCCESS;
}

/* The next slot, for which the stream waits. */
static tutti_result_t slot_take(struct asker *asker, CUstream stream, char **out)
{
    uint64_t use = asker->used++;
    *out = asker->slots + use % STORE_SLOTS * asker->piece;
    return use < STORE_SLOTS ? TUTTI_SUCCESS
                             : stream_awaits(asker, stream, &asker->words->free, (uint32_t)(use - STORE_SLOTS + 1));
}

static size_t asker_piece(const struct asker *asker, const struct window_item *item, size_t at)
{
    return item->length - at < asker->piece ? item->length - at : asker->piece;
}

static tutti_result_t asker_put(struct asker *asker, const struct window_item *item, CUstream stream)
{
    tutti_result_t result = TUTTI_SUCCESS;
    for (size_t at = 0; at < item->length && result == TUTTI_SUCCESS; at += asker->piece) {
        struct asker_entry entry = {.asks = true, .frees = 1, .item = *item};
        char *slot;
        entry.item.length = asker_piece(asker, item, at);
        entry.item.offset = item->offset + at;
        if (at + entry.item.length < item->length)
            entry.item.signal = WIRE_NO_SIGNAL; /* that of the last piece is behind all of them */
        result = slot_take(asker, stream, &slot);
        entry.item.local = slot;
        if (result == TUTTI_SUCCESS)
            result = asker_copy(asker, (CUdeviceptr)(uintptr_t)slot, device_address(item->local) + at,
                                entry.item.length, stream);
        if (result == TUTTI_SUCCESS)
            result = stream_tells(asker, &entry, stream);
    }
    return result;
}

/* As much of it as slots hold, `from` on. */
static tutti_result_t get_some(struct asker *asker, const struct window_item *item, size_t from, size_t to,
                               CUstream stream)
{
    tutti_result_t result = TUTTI_SUCCESS;
    char *slot[STORE_SLOTS];
    uint32_t pieces = 0;
    for (size_t at = from; at < to && result == TUTTI_SUCCESS; at += asker->piece, pieces++) {
        struct asker_entry entry = {.asks = true, .item = *item};
        entry.item.length = asker_piece(asker, item, at);
        entry.item.offset = item->offset + at;
        result = slot_take(asker, stream, &slot[pieces]);
        entry.item.local = slot[pieces];
        if (result == TUTTI_SUCCESS)
            result = stream_tells(asker, &entry, stream);
    }
    if (result == TUTTI_SUCCESS)
        result = stream_awaits(asker, stream, &asker->words->done, asker->numbered);
    for (uint32_t i = 0; i < pieces && result == TUTTI_SUCCESS; i++) {
        size_t at = from + i * asker->piece;
        result = asker_copy(asker, device_address(item->local) + at, (CUdeviceptr)(uintptr_t)slot[i],
                            asker_piece(asker, item, at), stream);
    }
    return result == TUTTI_SUCCESS ? stream_tells(asker, &(struct asker_entry){.frees = pieces}, stream) : result;
}

static tutti_result_t asker_get(struct asker *asker, const struct window_item *item, CUstream stream)
{
    size_t most = asker->piece * STORE_SLOTS;
    tutti_result_t result = TUTTI_SUCCESS;
    for (size_t from = 0; from < item->length && result == TUTTI_SUCCESS; from += most)
        result = get_some(asker, item, from, item->length - from < most ? item->length : from + most, stream);
    return result;
}

static tutti_result_t issue_one(struct asker *asker, const struct window_item *item, CUstream stream)
{
    bool waits = item->call == WINDOW_FLUSH || item->call == WINDOW_WAIT;
    if (item->call == WINDOW_PUT && item->length)
        return asker_put(asker, item, stream);
    if (item->call == WINDOW_GET)
        return asker_get(asker, item, stream);
    tutti_result_t result = stream_tells(asker, &(struct asker_entry){.asks = true, .item = *item}, stream);
    return result == TUTTI_SUCCESS && waits ? stream_awaits(asker, stream, &asker->words->done, asker->numbered)
                                            : result;
}

tutti_result_t asker_issue(struct asker *asker, const struct window_item *items, int count, CUstream stream)
{
    tutti_result_t result = TUTTI_SUCCESS;
    for (int turn = 0; turn < 2; turn++)
        for (int i = 0; i < count && result == TUTTI_SUCCESS; i++)
            if ((items[i].call == WINDOW_WAIT) == (turn == 1))
                result = issue_one(asker, &items[i], stream);
    return result;
}

/* ---- The thread ---- */

static bool has_reached(const struct asker *asker, const struct asker_entry *entry)
{
    uint32_t ready = atomic_load_explicit(&asker->words->ready, memory_order_acquire);
    return (int32_t)(ready - entry->number) >= 0;
}

/* Nothing wakes a thread that a stream calls. */
static void await_stream(const struct asker *asker, const struct asker_entry *entry)
{
    for (unsigned look = 0; !has_reached(asker, entry) && team_failure(asker->team) == TUTTI_SUCCESS; look++)
        if (look < LOOKS)
            sched_yield();
        else
            usleep(look < SLOW_FROM ? NAP_US : SLOW_US);
}

/* Entries from the first one on to which streams have come, and that go on at the same time; nothing goes with a wait.
 * Under the lock. */
static int take_together(struct asker *asker, struct asker_entry **out)
{
    bool failed = team_failure(asker->team) != TUTTI_SUCCESS, alone = false;
    int count = 0;
    while (count < TOGETHER && !alone && !list_empty(&asker->entries)) {
        struct asker_entry *entry = list_entry(asker->entries.next, struct asker_entry, node);
        alone = entry->asks && entry->item.call == WINDOW_WAIT;
        if (!(failed || has_reached(asker, entry)) || (alone && count))
            break;
        list_remove(&entry->node);
        out[count++] = entry;
    }
    return count;
}

static void ask_all(struct asker *asker, struct asker_entry **entries, int count)
{
    struct window_item items[TOGETHER];
    int asks = 0;
    for (int i = 0; i < count; i++)
        if (entries[i]->asks)
            items[asks++] = entries[i]->item;
    if (!asks || team_failure(asker->team) != TUTTI_SUCCESS)
        return;
    tutti_result_t result = puts_issue(asker->team, items, asks, NULL);
    if (result == TUTTI_SUCCESS)
        result = team_wait(asker->team, atomic_load(&asker->team->issued));
    if (result != TUTTI_SUCCESS && team_failure(asker->team) == TUTTI_SUCCESS)
        team_fail(asker->team, result, asker->team->rank, error_last());
}

static void tell_over(struct asker *asker, struct asker_entry **entries, int count)
{
    uint32_t frees = 0, last = entries[count - 1]->number;
    for (int i = 0; i < count; i++) {
        frees += entries[i]->frees;
        free(entries[i]);
    }
    atomic_fetch_add(&asker->words->free, frees);
    atomic_store_explicit(&asker->words->done, last, memory_order_release);
}

static void *asker_work(void *argument)
{
    struct asker *asker = argument;
    struct asker_entry *entries[TOGETHER];
    pthread_mutex_lock(&asker->lock);
    while (!asker->ends || !list_empty(&asker->entries)) {
        if (list_empty(&asker->entries)) {
            pthread_cond_broadcast(&asker->quiet);
            pthread_cond_wait(&asker->news, &asker->lock);
            continue;
        }
        const struct asker_entry *first = list_entry(asker->entries.next, struct asker_entry, node);
        pthread_mutex_unlock(&asker->lock);
        await_stream(asker, first);
        pthread_mutex_lock(&asker->lock);
        int count = take_together(asker, entries);
        asker->busy = count > 0;
        pthread_mutex_unlock(&asker->lock);
        if (count) {
            ask_all(asker, entries, count);
            tell_over(asker, entries, count);
        }
        pthread_mutex_lock(&asker->lock);
        asker->busy = false;
    }
    pthread_cond_broadcast(&asker->quiet);
    pthread_mutex_unlock(&asker->lock);
    return NULL;
}

void asker_drain(struct asker *asker)
{
    pthread_mutex_lock(&asker->lock);
    while (asker->busy || !list_empty(&asker->entries))
        pthread_cond_wait(&asker->quiet, &asker->lock);
    pthread_mutex_unlock(&asker->lock);
}

bool asker_is_through(void *asker_)
{
    struct asker *asker = asker_;
    if (pthread_mutex_trylock(&asker->lock) != 0)
        return false;
    bool through = !asker->busy && (list_empty(&asker->entries) ||
                                    !has_reached(asker, list_entry(asker->entries.next, struct asker_entry, node)));
    pthread_mutex_unlock(&asker->lock);
    return through;
}

void asker_settle(struct asker *asker)
{
    while (!asker_is_through(asker))
        usleep(NAP_US);
}

/* ---- Life ---- */

tutti_result_t asker_open(struct asker *asker, struct team *team, struct asker_words *words, char *slots, size_t piece)
{
    *asker = (struct asker){.team = team, .words = words, .slots = slots, .piece = piece};
    list_init(&asker->entries);
    pthread_mutex_init(&asker->lock, NULL);
    pthread_cond_init(&asker->news, NULL);
    pthread_cond_init(&asker->quiet, NULL);
    tutti_result_t result = cuda_driver(&asker->cu);
    if (result == TUTTI_SUCCESS)
        result = cuda_check(asker->cu->MemHostGetDevicePointer(&asker->words_device, words, 0),
                            "finding a word's device address");
    return result == TUTTI_SUCCESS ? thread_start(&asker->thread, "tutti-asker", asker_work, asker) : result;
}

void asker_close(struct asker *asker)
{
    pthread_mutex_lock(&asker->lock);
    asker->ends = true;
    pthread_cond_signal(&asker->news);
    pthread_mutex_unlock(&asker->lock);
    thread_end(&asker->thread);
    pthread_cond_destroy(&asker->quiet);
    pthread_cond_destroy(&asker->news);
    pthread_mutex_destroy(&asker->lock);
}
