/* SPDX-License-Identifier: Apache-2.0 */
/* What a queue pair does by itself: sends, answers, looks at its timers. */
#include "verbs/engine.h"
#include "verbs/qp.h"
#include "verbs/transport.h"
#include "verbs/wire.h"

#include <string.h>

static bool has_overrun(const struct cq *cq)
{
    return cq && cq->overrun;
}

/* An acknowledgement that waited for the program's answer leaves after it: the peer that polls for its completion has
 * the answer in its memory when it stops polling, and does not wait for it without making progress. */
void qp_run(struct qp *qp, uint64_t now)
{
    counters_are(qp->context->device->counts);
    if (qp_receives(qp) && (has_overrun((struct cq *)qp_ibv(qp)->send_cq) || has_overrun(qp_recv_cq(qp))))
        qp_fail(qp, IBV_EVENT_QP_FATAL);
    bool replying = qp->req.next != qp->req.tail;
    bool late = replying && qp->resp.ack_at;
    if (qp_receives(qp) && !late)
        responder_run(qp, now, replying);
    requester_run(qp, now);
    if (qp_receives(qp) && late)
        responder_run(qp, now, replying);
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return !a || (b && b < a) ? b : a;
}

/* What waited until then goes on. */
static uint64_t pause_timer(struct qp *qp, uint64_t until, uint64_t now)
{
    if (until && now >= until)
        engine_mark(qp);
    return now >= until ? 0 : until;
}

uint64_t qp_timer(struct qp *qp, uint64_t now)
{
    counters_are(qp->context->device->counts);
    uint64_t first = earlier(requester_timer(qp, now), responder_timer(qp, now));
    first = earlier(first, pause_timer(qp, qp->req.turn.at, now));
    first = earlier(first, pause_timer(qp, qp->resp.turn.at, now));
    return earlier(first, pause_timer(qp, qp->resp.held_until, now));
}

bool qp_in_group(const struct qp *qp, const uint8_t *address, bool v6)
{
    list_each(node, &qp->groups)
    {
        const struct multicast_group *group = list_entry(node, struct multicast_group, node);
        if (wire_gid_is_v4(&group->gid) == !v6 && !memcmp(group->gid.raw + (v6 ? 0 : 12), address, v6 ? 16 : 4))
            return true;
    }
    return false;
}
