/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In-order queue that users share between communicators: an operation starts when those issued before it have ended.
 * One whose communicator has failed ends early, and leaves from amid the queue: those before it keep their turn.
 */
#ifndef TUTTI_ENGINE_STREAM_H
#define TUTTI_ENGINE_STREAM_H

#include "base/list.h"
#include "base/lock.h"
#include "tutti/tutti.h"

#include <stdint.h>

struct op;
struct team;

struct tutti_stream {
    struct try_lock lock; /* the last that is taken */
    struct list ops;      /* those that have not ended, in the order of issue */
    _Atomic int grouped;  /* calls on it that open groups keep */
    tutti_result_t error; /* the first since it was last asked for */
    uint32_t generation;  /* fork_generation: in a child all streams are empty */
};

void stream_enter(struct tutti_stream *stream, struct op *op);
/* Is `op` the first? */
bool stream_turn(struct tutti_stream *stream, const struct op *op);
void stream_leave(struct tutti_stream *stream, struct op *op, tutti_result_t result);

/* The team whose operation is the first, or the last, and how many operations that team has completed when it has
 * ended. The team stays, even if another thread closes it, until team_leave(). NULL: the stream is idle. */
struct team *stream_visit(struct tutti_stream *stream, bool last, uint64_t *position);
/* The error, which is forgotten. */
tutti_result_t stream_error(struct tutti_stream *stream);

#endif
