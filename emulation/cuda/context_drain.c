/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for all work of a context. */
#include "cuda/context.h"
#include "cuda/stream.h"

/* The list may change while the lock is let go: start over until nothing is left to wait for. */
void context_drain(CUcontext context)
{
    bool waited = true;
    while (waited) {
        waited = false;
        for (CUstream s = context->streams; s && !waited; s = s->next)
            if (s->last && !s->last->done) {
                stream_wait(s);
                waited = true;
            }
    }
}

/* As a driver may: no work can be handed to the context meanwhile. */
void context_hold(CUcontext context)
{
    bool alone = config_get()->block;
    while (context->held)
        state_wait();
    context->held = alone;
    context_drain(context);
    context->held = false;
    if (alone)
        state_changed();
}
