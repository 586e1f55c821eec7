/* SPDX-License-Identifier: Apache-2.0 */
/* Streams: whose turn it is. */
#include "engine/stream.h"

#include "base/fork.h"
#include "engine/team.h"

#include <string.h>

/* What lies in the queue of a stream that a forked child inherited is its parent's. */
static void engine_stream_take(struct tutti_stream *stream)
{
    if (stream->generation != fork_generation) {
        memset(stream, 0, sizeof *stream);
        list_init(&stream->ops);
        stream->generation = fork_generation;
    }
    lock_take(&stream->lock);
}

void stream_enter(struct tutti_stream *stream, struct op *op)
{
    engine_stream_take(stream);
    list_push(&stream->ops, &op->turn);
    lock_release(&stream->lock);
}

bool stream_turn(struct tutti_stream *stream, const struct op *op)
{
    lock_take(&stream->lock);
    bool first = stream->ops.next == &op->turn;
    lock_release(&stream->lock);
    return first;
}

void stream_leave(struct tutti_stream *stream, struct op *op, tutti_result_t result)
{
    lock_take(&stream->lock);
    list_remove(&op->turn);
    if (stream->error == TUTTI_SUCCESS)
        stream->error = result;
    lock_release(&stream->lock);
}

struct team *stream_visit(struct tutti_stream *stream, bool last, uint64_t *position)
{
    struct team *team = NULL;
    engine_stream_take(stream);
    if (!list_empty(&stream->ops)) {
        const struct op *op = list_entry(last ? stream->ops.prev : stream->ops.next, struct op, turn);
        team = op->team;
        *position = op->position + 1;
        atomic_fetch_add(&team->visitors, 1);
    }
    lock_release(&stream->lock);
    return team;
}

tutti_result_t stream_error(struct tutti_stream *stream)
{
    engine_stream_take(stream);
    tutti_result_t error = stream->error;
    stream->error = TUTTI_SUCCESS;
    lock_release(&stream->lock);
    return error;
}
