/* SPDX-License-Identifier: Apache-2.0 */
/* A ring of completions with a lock of its own, so that a program that polls a filled queue does not wait for the
 * engine. */
#include "verbs/cq.h"
#include "verbs/counters.h"
#include "verbs/engine.h"
#include "verbs/event.h"
#include "verbs/qp.h"

#include "base/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void guard_init(pthread_mutex_t *mutex)
{
    pthread_mutexattr_t attr;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ADAPTIVE_NP);
    pthread_mutex_init(mutex, &attr);
    pthread_mutexattr_destroy(&attr);
}

/* More than was asked, as adapters give: a power of two. */
static uint32_t room_for(uint32_t asked)
{
    uint32_t room = 4;
    while (room <= asked)
        room *= 2;
    return room;
}

struct cq *cq_create(struct rdma_context *context, uint32_t asked, struct event_channel *channel, void *cq_context)
{
    uint32_t capacity = room_for(asked);
    struct cq *cq = calloc(1, sizeof(*cq));
    if (!cq)
        return NULL;
    cq->ring = calloc(capacity, sizeof(*cq->ring));
    if (!cq->ring) {
        free(cq);
        return NULL;
    }
    cq->capacity = capacity;
    cq->ex.context = context_ibv(context);
    cq->ex.channel = channel ? &channel->ibv : NULL;
    cq->ex.cq_context = cq_context;
    cq->ex.cqe = (int)capacity;
    pthread_mutex_init(&cq->ex.mutex, NULL);
    pthread_cond_init(&cq->ex.cond, NULL);
    guard_init(&cq->guard);
    list_init(&cq->ready);
    context->objects++;
    if (channel)
        channel->users++;
    return cq;
}

void cq_destroy(struct cq *cq)
{
    struct event_channel *channel = (struct event_channel *)cq->ex.channel;
    for (; cq->pending; cq->pending--)
        event_fd_take(channel->ibv.fd, false);
    list_remove(&cq->ready);
    if (channel)
        channel->users--;
    if (cq->domain)
        cq->domain->users--;
    event_forget(context_of(cq->ex.context), cq);
    context_put(context_of(cq->ex.context));
    pthread_mutex_destroy(&cq->ex.mutex);
    pthread_cond_destroy(&cq->ex.cond);
    pthread_mutex_destroy(&cq->guard);
    free(cq->ring);
    free(cq);
}

void cq_fire(struct cq *cq)
{
    struct event_channel *channel = (struct event_channel *)cq->ex.channel;
    if (!channel)
        return;
    if (!cq->pending++)
        list_push(&channel->ready, &cq->ready);
    event_fd_post(channel->writer);
}

static void mark_user(struct qp *qp, void *arg)
{
    if (qp_ibv(qp)->send_cq == arg || qp_recv_cq(qp) == arg)
        engine_mark(qp);
}

/* What cannot be told ends the queue pairs: when they run next. */
static void overflow(struct cq *cq)
{
    count(cq_overrun);
    event_cq(cq, IBV_EVENT_CQ_ERR);
    engine_each_qp(mark_user, cq);
}

void cq_push(struct cq *cq, const struct ibv_wc *wc, bool loud)
{
    pthread_mutex_lock(&cq->guard);
    bool overrun = !cq->overrun && cq->count == cq->capacity;
    if (overrun) {
        cq->overrun = true;
    } else if (!cq->overrun) {
        struct completion *slot = &cq->ring[(cq->head + cq->count++) % cq->capacity];
        slot->wc = *wc;
        slot->time_ns = cq->extended ? clock_ns() : 0;
        slot->loud = loud || wc->status != IBV_WC_SUCCESS;
        cq->written++;
    }
    bool wake = cq->arm == ARM_ANY || (cq->arm == ARM_SOLICITED && (loud || wc->status != IBV_WC_SUCCESS));
    if (wake) {
        cq->arm = ARM_NONE;
        cq->told = cq->written;
    }
    pthread_mutex_unlock(&cq->guard);
    if (wake)
        cq_fire(cq);
    if (overrun)
        overflow(cq);
}

int cq_take(struct cq *cq, int n, struct completion *out)
{
    pthread_mutex_lock(&cq->guard);
    int taken = cq->overrun && !cq->count ? -1 : 0;
    while (taken >= 0 && taken < n && cq->count) {
        out[taken++] = cq->ring[cq->head];
        cq->head = cq->head + 1 == cq->capacity ? 0 : cq->head + 1;
        cq->count--;
    }
    pthread_mutex_unlock(&cq->guard);
    return taken;
}

void cq_purge(struct cq *cq, uint32_t qpn)
{
    pthread_mutex_lock(&cq->guard);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < cq->count; i++) {
        struct completion *from = &cq->ring[(cq->head + i) % cq->capacity];
        if (from->wc.qp_num != qpn)
            cq->ring[(cq->head + kept++) % cq->capacity] = *from;
    }
    cq->count = kept;
    pthread_mutex_unlock(&cq->guard);
}

int cq_resize(struct cq *cq, uint32_t asked)
{
    uint32_t capacity = room_for(asked);
    struct completion *ring = calloc(capacity, sizeof(*ring));
    if (!ring)
        return ENOMEM;
    pthread_mutex_lock(&cq->guard);
    int err = capacity < cq->count ? EINVAL : 0;
    struct completion *old = err ? ring : cq->ring;
    if (!err) {
        for (uint32_t i = 0; i < cq->count; i++)
            ring[i] = cq->ring[(cq->head + i) % cq->capacity];
        cq->ring = ring;
        cq->head = 0;
        cq->capacity = capacity;
        cq->ex.cqe = (int)capacity;
    }
    pthread_mutex_unlock(&cq->guard);
    free(old);
    return err;
}

/* Whether a completion came after the last event, counts, and was not polled. */
static bool holds_untold(const struct cq *cq, bool any)
{
    uint64_t untold = cq->written - cq->told;
    for (uint32_t i = untold < cq->count ? cq->count - (uint32_t)untold : 0; i < cq->count; i++)
        if (any || cq->ring[(cq->head + i) % cq->capacity].loud)
            return true;
    return false;
}

/* An mlx5 is told how far the program has polled when the program arms the queue: a completion that came before, and
 * made no event, makes one at once. One that has made an event makes no other: ib_send_lat with events relies on it. A
 * request for any completion is not weakened by a later one for solicited ones. */
bool cq_arm(struct cq *cq, bool solicited_only)
{
    pthread_mutex_lock(&cq->guard);
    bool any = !solicited_only || cq->arm == ARM_ANY, fires = holds_untold(cq, any);
    cq->arm = fires ? ARM_NONE : any ? ARM_ANY : ARM_SOLICITED;
    if (fires)
        cq->told = cq->written;
    pthread_mutex_unlock(&cq->guard);
    return fires && cq->ex.channel;
}
