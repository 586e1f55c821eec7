/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls on windows that a graph holds. A stream asks by numbers, which a replay would repeat (asker.c). The kernel of a
 * graph asks for a job instead, as for a collective. The first channel's thread carries it out, with the channel's
 * slices for data on their way, and the kernel copies between slices and the GPU's memory.
 */
#include "executor/staged/asked.h"

#include "engine/puts.h"
#include "engine/wait.h"
#include "executor/staged/asker.h"
#include "executor/staged/slice.h"

static tutti_result_t ask_and_wait(struct team *team, const struct window_item *items, int count)
{
    tutti_result_t result = puts_issue(team, items, count, NULL);
    return result == TUTTI_SUCCESS ? team_wait(team, atomic_load(&team->issued)) : result;
}

/* What lies in a slice, and then in a slot of the peer. */
static size_t asked_piece(const struct channel *channel)
{
    const struct staged *staged = channel->staged;
    return staged->slice_bytes < staged->asker->piece ? staged->slice_bytes : staged->asker->piece;
}

/* The pieces that the channel's slices hold, from byte `from` of the item on. Returns how many there are. */
static int cut_item(const struct channel *channel, const struct window_item *item, size_t from, struct window_item *out)
{
    size_t piece = asked_piece(channel);
    int count = 0;
    for (size_t at = from; count < SLICES && at < item->length; count++, at += piece) {
        out[count] = *item;
        out[count].local = channel->slice[count].memory;
        out[count].offset = item->offset + at;
        out[count].length = item->length - at < piece ? item->length - at : piece;
        if (at + piece < item->length)
            out[count].signal = WIRE_NO_SIGNAL; /* that of the last piece is behind all of them */
    }
    return count;
}

static tutti_result_t copy_pieces(struct channel *channel, const struct window_item *item,
                                  const struct window_item *pieces, int count, bool to_gpu)
{
    tutti_result_t result = TUTTI_SUCCESS;
    for (int i = 0; i < count && result == TUTTI_SUCCESS; i++)
        result = slice_copy(channel, (char *)item->local + (pieces[i].offset - item->offset), pieces[i].local,
                            pieces[i].length, to_gpu);
    return result;
}

static tutti_result_t asked_move(struct channel *channel, const struct window_item *item)
{
    struct window_item pieces[SLICES];
    tutti_result_t result = TUTTI_SUCCESS;
    for (size_t from = 0; from < item->length && result == TUTTI_SUCCESS; from += SLICES * asked_piece(channel)) {
        int count = cut_item(channel, item, from, pieces);
        if (item->call == WINDOW_PUT)
            result = copy_pieces(channel, item, pieces, count, false);
        if (result == TUTTI_SUCCESS)
            result = ask_and_wait(channel->staged->asker->team, pieces, count);
        if (result == TUTTI_SUCCESS && item->call == WINDOW_GET)
            result = copy_pieces(channel, item, pieces, count, true);
    }
    return result;
}

tutti_result_t asked_run(struct channel *channel, const struct job *job)
{
    struct asker *asker = channel->staged->asker;
    tutti_result_t result = TUTTI_SUCCESS;
    asker_settle(asker); /* what streams asked before the graph: one thread issues at a time */
    for (int turn = 0; turn < 2; turn++)
        for (int i = 0; i < job->count && result == TUTTI_SUCCESS; i++) {
            const struct window_item *item = &job->asked[i];
            if ((item->call == WINDOW_WAIT) == (turn == 1))
                result = puts_moves(item) ? asked_move(channel, item) : ask_and_wait(asker->team, item, 1);
        }
    return result;
}
