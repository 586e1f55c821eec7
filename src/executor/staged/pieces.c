/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends and receives in pieces, which both ends cut alike and deal to the channels alike. A slice holds a piece to and
 * from every rank with which messages are left, for any of them may wait for it: what pinned memory does not hold of
 * that lies in pageable memory. Pieces between two ranks go in the order of the messages.
 */
#include "executor/staged/internal.h"

#include "base/cpu.h"
#include "base/error.h"
#include "device/type.h"

#include <stdlib.h>
#include <string.h>

#define SMALL  65536 /* a message up to this does not wake another channel */
#define SPREAD 4     /* ranks: with so many or more, a slice holds a piece to and one from so many */

/* What one channel has to do of a job. */
struct work {
    size_t *next;           /* by item: its piece that comes next on this channel */
    size_t *turn;           /* by peer and direction: bytes of the present slice */
    struct p2p_item *items; /* of the slice that is being issued */
    struct piece *pieces;
};

static size_t piece_bytes(const struct staged *staged)
{
    size_t ranks = (size_t)staged->team->nranks;
    return staged->slice_bytes / (2 * (ranks < SPREAD ? ranks : SPREAD));
}

static size_t item_bytes(const struct p2p_item *item)
{
    return item->count * type_size(item->type);
}

/* A message of no bytes is a piece too. */
static size_t item_pieces(const struct staged *staged, const struct p2p_item *item)
{
    size_t bytes = item_bytes(item), piece = piece_bytes(staged);
    return bytes ? (bytes + piece - 1) / piece : 1;
}

/* The channel of its first piece. The others follow round by round. */
static size_t first_channel(const struct staged *staged, const struct p2p_item *item)
{
    size_t me = (size_t)staged->team->rank, peer = (size_t)item->peer;
    size_t from = item->sends ? me : peer, to = item->sends ? peer : me;
    return item_bytes(item) <= SMALL ? 0 : (5 * from + to) % (size_t)staged->channels;
}

uint32_t pieces_channels(const struct staged *staged, const struct p2p_item *items, int count)
{
    uint32_t channels = 1;
    for (int i = 0; i < count; i++) {
        size_t pieces = item_pieces(staged, &items[i]), first = first_channel(staged, &items[i]),
               all = (size_t)staged->channels;
        for (size_t k = 0; k < pieces && k < all; k++)
            channels |= 1u << ((first + k) % all);
    }
    return channels;
}

/* ---- The stages of a slice ---- */

/* Memory for a piece: pinned, or of its own. */
static char *find_place(const struct staged *staged, struct slice *slice, size_t *used, size_t bytes, void **owned)
{
    size_t padded = (bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
    char *place = slice->memory + *used;
    *owned = NULL;
    if (padded > staged->slice_bytes - *used)
        return *owned = malloc(padded);
    *used += padded;
    return place;
}

/*
 * What one slice holds of the messages from one rank to another depends on these messages alone: both ends must have
 * the same in their slices, or each may wait in one slice for what the other has in its next.
 */
static bool has_turn(const struct work *work, const struct p2p_item *item, size_t bytes, size_t each)
{
    size_t *turn = &work->turn[2 * item->peer + item->sends];
    bool fits = *turn + bytes <= each;
    *turn = fits ? *turn + bytes : 2 * each; /* and nothing that comes after it */
    return fits;
}

static tutti_result_t take_pieces(struct channel *channel, const struct job *job, struct work *work,
                                  struct slice *slice)
{
    const struct staged *staged = channel->staged;
    size_t used = 0, each = piece_bytes(staged);
    slice->pieces = 0;
    memset(work->turn, 0, 2 * (size_t)staged->team->nranks * sizeof *work->turn);
    for (int i = 0; i < job->count; i++) {
        const struct p2p_item *item = &job->items[i];
        size_t pieces = item_pieces(staged, item), from = work->next[i] * each, left = item_bytes(item) - from,
               bytes = left < each ? left : each;
        if (work->next[i] >= pieces || !has_turn(work, item, bytes, each))
            continue;
        struct piece *piece = &slice->piece[slice->pieces];
        *piece = (struct piece){.item = {item->sends, item->peer, NULL, bytes, TUTTI_UINT8},
                                .gpu = (char *)item->data + from};
        piece->item.data = find_place(staged, slice, &used, bytes, &piece->owned);
        if (!piece->item.data)
            return error_set(TUTTI_SYSTEM_ERROR, "no memory for %zu bytes of sends and receives", bytes);
        slice->pieces++;
        work->next[i] += (size_t)staged->channels;
        if (work->next[i] < pieces)
            has_turn(work, item, 2 * each, each); /* later messages wait for the rest of this one */
    }
    return TUTTI_SUCCESS;
}

static tutti_result_t copy_pieces(struct channel *channel, const struct slice *slice, bool to_gpu)
{
    tutti_result_t result = TUTTI_SUCCESS;
    for (int i = 0; i < slice->pieces && result == TUTTI_SUCCESS; i++) {
        const struct piece *piece = &slice->piece[i];
        if (piece->item.sends != to_gpu && piece->item.count)
            result = slice_copy(channel, piece->gpu, piece->item.data, piece->item.count, to_gpu);
    }
    return result;
}

static void free_owned(struct slice *slice)
{
    for (int i = 0; i < slice->pieces; i++)
        free(slice->piece[i].owned);
    slice->pieces = 0;
}

static tutti_result_t take(struct channel *channel, const struct job *job, size_t step, struct slice *slice, bool *more)
{
    (void)step;
    tutti_result_t result = take_pieces(channel, job, channel->work, slice);
    *more = slice->pieces > 0;
    return result;
}

static tutti_result_t copy_in(struct channel *channel, const struct job *job, struct slice *slice)
{
    (void)job;
    return copy_pieces(channel, slice, false);
}

static tutti_result_t issue(struct channel *channel, const struct job *job, struct slice *slice)
{
    (void)job;
    for (int i = 0; i < slice->pieces; i++)
        channel->work->items[i] = slice->piece[i].item;
    return p2p_issue(channel->team, channel->work->items, slice->pieces, NULL);
}

static tutti_result_t copy_out(struct channel *channel, const struct job *job, struct slice *slice)
{
    (void)job;
    const struct staged *staged = channel->staged;
    bool owns = false;
    tutti_result_t result = copy_pieces(channel, slice, true);
    for (int i = 0; i < slice->pieces; i++)
        owns |= slice->piece[i].owned != NULL;
    if (result == TUTTI_SUCCESS && owns && !staged->copies)
        result = cuda_check(staged->cu->StreamSynchronize(channel->out), "waiting for copies from pageable memory");
    if (result == TUTTI_SUCCESS)
        free_owned(slice);
    return result;
}

/* ---- A job ---- */

static tutti_result_t set_out(struct channel *channel, const struct job *job, struct work *work)
{
    const struct staged *staged = channel->staged;
    size_t count = (size_t)job->count, channels = (size_t)staged->channels;
    *work = (struct work){.next = calloc(count, sizeof *work->next),
                          .turn = calloc(2 * (size_t)staged->team->nranks, sizeof *work->turn),
                          .items = calloc(count, sizeof *work->items),
                          .pieces = calloc(SLICES * count, sizeof *work->pieces)};
    if (!work->next || !work->turn || !work->items || !work->pieces)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for %d sends and receives", job->count);
    for (int i = 0; i < job->count; i++)
        work->next[i] = ((size_t)channel->index + channels - first_channel(staged, &job->items[i])) % channels;
    for (int i = 0; i < SLICES; i++) {
        channel->slice[i].piece = work->pieces + (size_t)i * count;
        channel->slice[i].pieces = 0;
    }
    channel->work = work;
    return TUTTI_SUCCESS;
}

tutti_result_t pieces_run(struct channel *channel, const struct job *job)
{
    static const struct stages stages = {take, copy_in, issue, copy_out};
    struct work work;
    tutti_result_t result = set_out(channel, job, &work);
    if (result == TUTTI_SUCCESS)
        result = slice_pipeline(channel, job, &stages);
    if (result != TUTTI_SUCCESS)
        channel_fail(channel, result); /* nothing reads or writes what is freed here after this */
    for (int i = 0; i < SLICES; i++) {
        free_owned(&channel->slice[i]);
        channel->slice[i].piece = NULL;
    }
    channel->work = NULL;
    free(work.next);
    free(work.turn);
    free(work.items);
    free(work.pieces);
    return result;
}
