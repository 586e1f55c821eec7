/* SPDX-License-Identifier: Apache-2.0 */
/* Operations are put into a team's queue, and run in order. */
#ifndef TUTTI_ENGINE_PROGRESS_H
#define TUTTI_ENGINE_PROGRESS_H

#include "engine/team.h"

/* Enqueues an operation that has a number and is in the black box; nobody runs it before. */
void team_enqueue(struct team *team, struct op *op, struct tutti_stream *stream);
/* Numbers, enqueues and begins an operation, without waiting; and sees that it goes on if nobody waits. */
void team_begin(struct team *team, struct op *op, struct tutti_stream *stream);
void team_issue(struct team *team, struct op *op, struct tutti_stream *stream);

/* Runs what can be run now, for about a millisecond at most. After that it pauses, and the caller sees to other things
 * before going on. Not under the engine's lock, which it takes only for links: what takes time is done without. */
enum team_moved {
    TEAM_STILL,
    TEAM_HEARD, /* news, as a segment, and the operation at the head still waits: more may follow at once */
    TEAM_MOVED,
    TEAM_PAUSED
};
enum team_moved team_progress(struct team *team);

/* Tells the black box whom the running operation waits for; fails it if that one gives no sign of life. */
void team_note_wait(struct team *team, uint64_t now);

#endif
