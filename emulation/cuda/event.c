/* SPDX-License-Identifier: Apache-2.0 */
/* Events. An event is the last operation that was recorded, so that recording anew does not disturb who waits for the
 * old one. */
#include "cuda/stream.h"

#include <stdlib.h>

void event_ref(CUevent event)
{
    event->refs++;
}

static void forget(CUevent event)
{
    op_unref(event->op);
    event->op = NULL;
    capture_unref(event->capture);
    event->capture = NULL;
    node_set_clear(&event->front);
}

void event_unref(CUevent event)
{
    if (--event->refs)
        return;
    forget(event);
    free(event);
}

/* Takes the reference. */
void event_set(CUevent event, struct stream_op *op)
{
    forget(event);
    event->op = op;
}

/* ---- As work of a stream or a graph ---- */

static bool event_clone(struct work *to, const struct work *from)
{
    event_ref(to->event);
    return true;
}

static void event_clear(struct work *work)
{
    event_unref(work->event);
}

/* The launch of their graph has dealt with both. */
const struct work_ops event_work = {.clone = event_clone, .clear = event_clear};
