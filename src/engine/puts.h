/* SPDX-License-Identifier: Apache-2.0 */
/* Puts, gets, signals and waits for them: what this rank asks of the windows of others. */
#ifndef TUTTI_ENGINE_PUTS_H
#define TUTTI_ENGINE_PUTS_H

#include "engine/team.h"
#include "engine/windows.h"
#include "wire/blackbox.h"

struct puts;

enum window_call { WINDOW_PUT, WINDOW_SIGNAL, WINDOW_GET, WINDOW_FLUSH, WINDOW_WAIT };

struct window_item {
    enum window_call call;
    int peer;
    struct tutti_window *window;
    void *local;
    size_t length; /* of a put or get, in bytes; of a wait, in signals */
    uint64_t offset;
    uint32_t signal; /* of a put or signal, that is raised behind it; of a wait. WIRE_NO_SIGNAL: none */
};

/* Are there bytes to move? */
static inline bool puts_moves(const struct window_item *item)
{
    return (item->call == WINDOW_PUT || item->call == WINDOW_GET) && item->length;
}

/* As which they stand in the black box. */
enum wire_collective puts_kind(const struct window_item *items, int count);

/* What is kept of an operation; may be NULL. */
void puts_free(struct puts *puts);
/* Enqueues them as one operation: what is asked of one peer is asked in this order; then come the waits. */
tutti_result_t puts_issue(struct team *team, const struct window_item *items, int count, struct tutti_stream *stream);

#endif
