/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel that waits for the job copies lengths and indices to the host. Each rank tells each other one the lengths
 * of all its splits, and which of them are for that rank. Then both ends know the same runs of rows, and these are
 * messages like others. Nothing is sent, and nothing stored, before a rank has found its own lengths and those that it
 * has heard to fit. docs/understand/dynamic.md.
 */
#include "executor/staged/dynamic.h"

#include "base/error.h"
#include "engine/executor.h"
#include "engine/failure.h"
#include "engine/wait.h"
#include "executor/staged/direct.h"
#include "executor/staged/fail.h"
#include "executor/staged/pieces.h"
#include "executor/staged/slice.h"
#include "executor/stream/lengths.h"

#include <stdlib.h>

#define TAKEN 0x80000000u /* the split is for the rank that is told */

/* What a rank tells another one. */
struct dynamic_head {
    uint64_t shape; /* the same on all ranks */
    uint32_t rows[];
};

struct dynamic_work {
    struct channel *channel;
    struct job *job;
    const struct dynamic_call *call;
    int nranks, rank;
    size_t splits, group, head;           /* splits; those of a window; bytes of a head */
    int64_t *rows, *counts, *indices;     /* this rank's, as its GPU has them */
    char *told, *heard;                   /* heads, by rank */
    int64_t *all;                         /* the lengths of all ranks, for the user */
    struct p2p_item *kept_from, *kept_to; /* what the rank keeps */
};

static struct dynamic_head *head_of(const struct dynamic_work *work, char *heads, int rank)
{
    return (struct dynamic_head *)(void *)(heads + (size_t)rank * work->head);
}

/* What a rank, which may be this one, has told this one. */
static const struct dynamic_head *head_from(const struct dynamic_work *work, int rank)
{
    return head_of(work, rank == work->rank ? work->told : work->heard, rank);
}

static tutti_result_t dynamic_no_memory(const struct dynamic_work *work)
{
    return error_set(TUTTI_SYSTEM_ERROR, "no memory for an exchange of %zu splits between %d ranks", work->splits,
                     work->nranks);
}

/* All ranks hear the same sentence. */
static tutti_result_t dynamic_refuse(const struct dynamic_work *work, int rank, enum kernel_wrong_kind what, size_t at,
                                     int64_t value)
{
    char sentence[200];
    const struct kernel_wrong wrong = {what, (uint32_t)at, (uint32_t)value, (uint32_t)((uint64_t)value >> 32)};
    lengths_describe(work->channel->team, rank, &wrong, sentence, sizeof sentence);
    return team_fail(work->channel->team, TUTTI_INVALID_USAGE, rank, sentence);
}

/* ---- This rank's lengths ---- */

static tutti_result_t dynamic_fetch(struct channel *channel, const int64_t *gpu, int64_t *host, size_t count)
{
    tutti_result_t result =
        count ? slice_copy(channel, (void *)(uintptr_t)gpu, host, count * sizeof *host, false) : TUTTI_SUCCESS;
    return result == TUTTI_SUCCESS && !channel->staged->copies
               ? cuda_check(channel->staged->base.cu->StreamSynchronize(channel->in), "reading lengths")
               : result;
}

/* *all: how many indices there are. */
static tutti_result_t count_indices(const struct dynamic_work *work, size_t *all)
{
    const size_t room = work->call->what.index_room;
    *all = 0;
    for (int rank = 0; rank < work->nranks; rank++) {
        const int64_t count = work->counts[rank];
        if (count < 0 || (uint64_t)count > room)
            return dynamic_refuse(work, work->rank, KERNEL_WRONG_LENGTH, (size_t)rank, count);
        *all += (size_t)count;
        if (*all > room)
            return dynamic_refuse(work, work->rank, KERNEL_WRONG_BLOCKS, (size_t)rank, (int64_t)*all);
    }
    return TUTTI_SUCCESS;
}

static tutti_result_t check_indices(const struct dynamic_work *work, size_t all)
{
    for (size_t i = 0; i < all; i++)
        if (work->indices[i] < 0 || (uint64_t)work->indices[i] >= work->splits)
            return dynamic_refuse(work, work->rank, KERNEL_WRONG_INDEX, i, work->indices[i]);
    return TUTTI_SUCCESS;
}

static tutti_result_t check_rows_of_splits(const struct dynamic_work *work)
{
    const uint64_t most = work->call->what.send_rows;
    uint64_t end = 0;
    for (size_t i = 0; i < work->splits; i++) {
        const int64_t rows = work->rows[i];
        if (rows < 0 || (uint64_t)rows > most)
            return dynamic_refuse(work, work->rank, KERNEL_WRONG_SPLIT, i, rows);
        end = (i % work->group ? end : 0) + (uint64_t)rows;
        if (end > most)
            return dynamic_refuse(work, work->rank, KERNEL_WRONG_SUM, i, (int64_t)end);
    }
    return TUTTI_SUCCESS;
}

static tutti_result_t read_lengths(struct dynamic_work *work)
{
    const tutti_dynamic_t *what = &work->call->what;
    size_t all = 0;
    work->rows = malloc(work->splits * sizeof *work->rows);
    work->counts = malloc((size_t)work->nranks * sizeof *work->counts);
    if (!work->rows || !work->counts)
        return dynamic_no_memory(work);
    tutti_result_t result = dynamic_fetch(work->channel, what->split_rows, work->rows, work->splits);
    if (result == TUTTI_SUCCESS)
        result = dynamic_fetch(work->channel, what->index_counts, work->counts, (size_t)work->nranks);
    if (result == TUTTI_SUCCESS)
        result = count_indices(work, &all);
    work->indices = result == TUTTI_SUCCESS ? malloc((all + 1) * sizeof *work->indices) : NULL;
    if (result == TUTTI_SUCCESS && !work->indices)
        return dynamic_no_memory(work);
    if (result == TUTTI_SUCCESS)
        result = dynamic_fetch(work->channel, what->indices, work->indices, all);
    if (result == TUTTI_SUCCESS)
        result = check_indices(work, all);
    return result == TUTTI_SUCCESS ? check_rows_of_splits(work) : result;
}

/* ---- What ranks tell one another ---- */

static void write_heads(struct dynamic_work *work)
{
    const int64_t *index = work->indices;
    for (int rank = 0; rank < work->nranks; rank++) {
        struct dynamic_head *head = head_of(work, work->told, rank);
        head->shape = work->call->row << 16 | work->group;
        for (size_t i = 0; i < work->splits; i++)
            head->rows[i] = (uint32_t)work->rows[i];
        for (int64_t i = 0; i < work->counts[rank]; i++)
            head->rows[*index++] |= TAKEN;
    }
}

static tutti_result_t exchange_heads(struct dynamic_work *work)
{
    struct team *team = work->channel->team;
    struct p2p_item *items = calloc(2 * (size_t)work->nranks, sizeof *items);
    int count = 0;
    if (!items)
        return dynamic_no_memory(work);
    for (int i = 0; i < 2 * work->nranks; i++) {
        const int peer = i / 2;
        const bool sends = i % 2;
        if (peer != work->rank)
            items[count++] = (struct p2p_item){.sends = sends,
                                               .peer = peer,
                                               .data = head_of(work, sends ? work->told : work->heard, peer),
                                               .count = work->head,
                                               .type = TUTTI_UINT8};
    }
    tutti_result_t result = count ? p2p_issue(team, items, count, NULL) : TUTTI_SUCCESS;
    free(items);
    return result == TUTTI_SUCCESS && count ? team_wait(team, atomic_load(&team->issued)) : result;
}

/* The rows for this rank fit into its window for the other one, which may be itself. */
static tutti_result_t check_head(const struct dynamic_work *work, int rank, const struct dynamic_head *head)
{
    uint64_t end = 0;
    if (head->shape != (work->call->row << 16 | work->group))
        return dynamic_refuse(work, rank, KERNEL_WRONG_SHAPE, work->splits, 0);
    for (size_t i = 0; i < work->splits; i++) {
        end = (i % work->group ? end : 0) + (head->rows[i] & ~TAKEN);
        if ((head->rows[i] & TAKEN) && end > work->call->what.recv_rows)
            return dynamic_refuse(work, rank, KERNEL_WRONG_WINDOW, i, (int64_t)end);
    }
    return TUTTI_SUCCESS;
}

static tutti_result_t tell_and_hear(struct dynamic_work *work)
{
    work->told = calloc((size_t)work->nranks, work->head);
    work->heard = calloc((size_t)work->nranks, work->head);
    if (!work->told || !work->heard)
        return dynamic_no_memory(work);
    write_heads(work);
    tutti_result_t result = exchange_heads(work);
    for (int rank = 0; rank < work->nranks && result == TUTTI_SUCCESS; rank++)
        result = check_head(work, rank, head_from(work, rank));
    return result;
}

/* The lengths of all ranks, for the user. */
static tutti_result_t store_lengths(struct dynamic_work *work)
{
    struct channel *channel = work->channel;
    const size_t count = (size_t)work->nranks * work->splits;
    if (!work->call->what.recv_splits)
        return TUTTI_SUCCESS;
    work->all = malloc(count * sizeof *work->all);
    if (!work->all)
        return dynamic_no_memory(work);
    for (size_t i = 0; i < count; i++) {
        work->all[i] = head_from(work, (int)(i / work->splits))->rows[i % work->splits] & ~TAKEN;
    }
    tutti_result_t result =
        slice_copy(channel, work->call->what.recv_splits, work->all, count * sizeof *work->all, true);
    return result == TUTTI_SUCCESS && !channel->staged->copies
               ? cuda_check(channel->staged->base.cu->StreamSynchronize(channel->out), "storing lengths")
               : result;
}

/* ---- Runs of rows ---- */

/* Splits that follow one another in a window are one run, on both ends. stride: rows from one window to the next. like:
 * what an item is but for its memory; out: NULL: they are only counted. Returns how many there are. */
static int list_runs(const struct dynamic_work *work, const uint32_t *rows, size_t stride, struct p2p_item like,
                     struct p2p_item *out)
{
    const size_t row = work->call->row;
    uint64_t at = 0;
    bool goes_on = false;
    int runs = 0;
    for (size_t i = 0; i < work->splits; i++) {
        const uint64_t some = rows[i] & ~TAKEN;
        const bool first = i % work->group == 0, taken = (rows[i] & TAKEN) && some;
        at = first ? 0 : at;
        goes_on = goes_on && !first;
        if (taken && !goes_on && out) {
            out[runs] = like;
            out[runs].data = (char *)like.data + (i / work->group * stride + at) * row;
        }
        runs += taken && !goes_on;
        if (taken && out)
            out[runs - 1].count += some * row;
        goes_on = taken || (goes_on && !some);
        at += some;
    }
    return runs;
}

/* Of one rank and way. */
static int list_messages(const struct dynamic_work *work, int rank, bool sends, struct p2p_item *out)
{
    const struct dynamic_call *call = work->call;
    struct p2p_item like = {.sends = sends, .peer = rank, .type = TUTTI_UINT8};
    if (sends) {
        like.data = (void *)(uintptr_t)call->in;
        return list_runs(work, head_of(work, work->told, rank)->rows, call->what.send_rows, like, out);
    }
    like.data = (char *)call->out + (size_t)rank * call->what.recv_stride * call->row;
    return list_runs(work, head_from(work, rank)->rows, 0, like, out);
}

static int list_all(const struct dynamic_work *work, struct p2p_item *out)
{
    int count = 0;
    for (int i = 0; i < 2 * work->nranks; i++)
        if (i / 2 != work->rank)
            count += list_messages(work, i / 2, i % 2, out ? out + count : NULL);
    return count;
}

/* Without the host's memory. */
static tutti_result_t copy_kept(struct dynamic_work *work)
{
    tutti_result_t result = TUTTI_SUCCESS;
    const int runs = list_messages(work, work->rank, true, NULL);
    work->kept_from = calloc((size_t)runs + 1, sizeof *work->kept_from);
    work->kept_to = calloc((size_t)runs + 1, sizeof *work->kept_to);
    if (!work->kept_from || !work->kept_to)
        return dynamic_no_memory(work);
    list_messages(work, work->rank, true, work->kept_from);
    list_messages(work, work->rank, false, work->kept_to);
    for (int i = 0; i < runs && result == TUTTI_SUCCESS; i++)
        result = slice_move(work->channel, work->kept_to[i].data, work->kept_from[i].data, work->kept_to[i].count);
    return result;
}

/* What adapters read and write by themselves. */
static void dynamic_find_places(const struct dynamic_work *work)
{
    for (int i = 0; i < work->job->count; i++) {
        struct p2p_item *item = &work->job->items[i];
        const char *begin = item->sends ? work->call->in : work->call->out;
        item->on_device =
            direct_piece(work->job->memory[item->sends], (size_t)((char *)item->data - begin), item->count);
    }
}

static tutti_result_t make_messages(struct dynamic_work *work)
{
    struct job *job = work->job;
    job->count = list_all(work, NULL);
    job->items = calloc((size_t)job->count + 1, sizeof *job->items);
    if (!job->items)
        return dynamic_no_memory(work);
    list_all(work, job->items);
    dynamic_find_places(work);
    job->channels = pieces_channels(work->channel->staged, job->items, job->count);
    return TUTTI_SUCCESS;
}

tutti_result_t dynamic_prepare(struct channel *first, struct job *job)
{
    const struct dynamic_call *call = job->dynamic;
    struct dynamic_work work = {.channel = first,
                                .job = job,
                                .call = call,
                                .nranks = first->team->nranks,
                                .rank = first->team->rank,
                                .splits = (size_t)call->what.splits,
                                .group = (size_t)(call->what.splits / call->what.windows)};
    work.head = sizeof(struct dynamic_head) + (work.splits + work.splits % 2) * sizeof(uint32_t); /* aligned */
    tutti_result_t result = read_lengths(&work);
    if (result == TUTTI_SUCCESS)
        result = tell_and_hear(&work);
    if (result == TUTTI_SUCCESS)
        result = store_lengths(&work);
    if (result == TUTTI_SUCCESS)
        result = copy_kept(&work);
    if (result == TUTTI_SUCCESS)
        result = make_messages(&work);
    if (result != TUTTI_SUCCESS)
        channel_fail(first, result); /* nothing comes to what is freed here after this */
    free(work.rows);
    free(work.counts);
    free(work.indices);
    free(work.told);
    free(work.heard);
    free(work.all);
    free(work.kept_from);
    free(work.kept_to);
    return result;
}
