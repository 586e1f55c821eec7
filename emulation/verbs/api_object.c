/* SPDX-License-Identifier: Apache-2.0 */
/* Exported calls: protection domains, memory regions, completion queues and channels. */
#include "verbs/cq.h"
#include "verbs/engine.h"
#include "verbs/event.h"
#include "verbs/fault.h"
#include "verbs/imported.h"
#include "verbs/mr.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#undef ibv_reg_mr
#undef ibv_reg_mr_iova
#define EXPORT __attribute__((visibility("default")))

EXPORT struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
    bool dead = context_of(context)->dead;
    struct pd *pd = dead || fault_fails_unlocked(FAULT_DOMAIN) ? NULL : calloc(1, sizeof(*pd));
    if (!pd) {
        errno = dead ? EIO : ENOMEM;
        return NULL;
    }
    pd->ibv.context = context;
    engine_lock();
    imported_enter(pd);
    context_of(context)->objects++;
    engine_unlock();
    return &pd->ibv;
}

EXPORT int ibv_dealloc_pd(struct ibv_pd *ibv)
{
    struct pd *pd = (struct pd *)ibv;
    engine_lock();
    int err = fault_keeps(FAULT_END_DOMAIN, pd) ? EIO : pd->users > 0 ? EBUSY : 0;
    if (!err && pd->base)
        pd->base->users--;
    if (!err && pd->thread)
        pd->thread->users--;
    if (!err) {
        list_remove(&pd->node);
        context_put(context_of(ibv->context));
    }
    engine_unlock();
    if (err)
        return err;
    free(pd);
    return 0;
}

/* With the engine's lock; false: errno. */
static bool may_register(struct ibv_pd *pd)
{
    bool dead = context_of(pd->context)->dead, may = !dead && !fault_fails(FAULT_REGISTER);
    if (!may)
        errno = dead ? EIO : ENOMEM;
    return may;
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *address, size_t size, uint64_t iova, unsigned access)
{
    struct mr *mr = NULL;
    engine_lock();
    if (may_register(pd))
        mr = mr_register((struct pd *)pd, address, size, iova, (int)access);
    engine_unlock();
    return mr ? &mr->ibv : NULL;
}

EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *address, size_t size, int access)
{
    return reg_mr(pd, address, size, (uintptr_t)address, (unsigned)access);
}

EXPORT struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *address, size_t size, uint64_t iova, int access)
{
    return reg_mr(pd, address, size, iova, (unsigned)access);
}

EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *address, size_t size, uint64_t iova, unsigned access)
{
    return reg_mr(pd, address, size, iova, access);
}

EXPORT struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t size, uint64_t iova, int fd,
                                        int access)
{
    struct mr *mr = NULL;
    engine_lock();
    if (may_register(pd))
        mr = mr_register_dmabuf((struct pd *)pd, offset, size, iova, fd, access);
    engine_unlock();
    return mr ? &mr->ibv : NULL;
}

EXPORT int ibv_dereg_mr(struct ibv_mr *mr)
{
    engine_lock();
    int err = fault_fails(FAULT_DEREGISTER) ? EIO : mr_deregister((struct mr *)mr);
    engine_unlock();
    return err;
}

EXPORT struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
    bool dead = context_of(context)->dead;
    struct event_channel *channel = dead || fault_fails_unlocked(FAULT_CHANNEL) ? NULL : calloc(1, sizeof(*channel));
    if (!channel) {
        errno = dead ? EIO : ENOMEM;
        return NULL;
    }
    channel->ibv.context = context;
    channel->ibv.fd = event_fd_open(&channel->writer);
    list_init(&channel->ready);
    if (channel->ibv.fd < 0) {
        free(channel);
        return NULL;
    }
    engine_lock();
    context_of(context)->objects++;
    engine_unlock();
    return &channel->ibv;
}

EXPORT int ibv_destroy_comp_channel(struct ibv_comp_channel *ibv)
{
    struct event_channel *channel = (struct event_channel *)ibv;
    engine_lock();
    int err = fault_keeps(FAULT_END_CHANNEL, channel) ? EIO : channel->users > 0 ? EBUSY : 0;
    if (!err)
        context_put(context_of(ibv->context));
    engine_unlock();
    if (err)
        return err;
    close(ibv->fd);
    close(channel->writer);
    free(channel);
    return 0;
}

EXPORT struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
                                    struct ibv_comp_channel *channel, int vector)
{
    if (cqe < 1 || cqe > MAX_CQE || vector < 0 || vector >= context->num_comp_vectors) {
        errno = EINVAL;
        return NULL;
    }
    engine_lock();
    bool dead = context_of(context)->dead, fails = dead || fault_fails(FAULT_COMPLETION_QUEUE);
    struct cq *cq =
        fails ? NULL : cq_create(context_of(context), (uint32_t)cqe, (struct event_channel *)channel, cq_context);
    if (!cq)
        errno = dead ? EIO : ENOMEM;
    engine_unlock();
    return (struct ibv_cq *)(cq ? &cq->ex : NULL);
}

EXPORT int ibv_resize_cq(struct ibv_cq *ibv, int cqe)
{
    if (cqe < 1 || cqe > MAX_CQE)
        return EINVAL;
    engine_lock();
    bool dead = context_of(ibv->context)->dead;
    int err = dead ? EIO : fault_fails(FAULT_RESIZE) ? ENOMEM : cq_resize((struct cq *)ibv, (uint32_t)cqe);
    engine_unlock();
    return err;
}

/* Waits, as the manual says, until every event that was taken is acknowledged. */
EXPORT int ibv_destroy_cq(struct ibv_cq *ibv)
{
    struct cq *cq = (struct cq *)ibv;
    engine_lock();
    int err = fault_keeps(FAULT_END_COMPLETION_QUEUE, cq) ? EIO : cq->users > 0 ? EBUSY : 0;
    uint32_t reported = cq->reported, async = cq->async_reported;
    engine_unlock();
    if (err)
        return err;
    event_wait(&ibv->mutex, &ibv->cond, &ibv->comp_events_completed, reported);
    event_wait(&ibv->mutex, &ibv->cond, &ibv->async_events_completed, async);
    engine_lock();
    cq_destroy(cq);
    engine_unlock();
    return 0;
}

EXPORT int ibv_get_cq_event(struct ibv_comp_channel *ibv, struct ibv_cq **out, void **cq_context)
{
    struct event_channel *channel = (struct event_channel *)ibv;
    struct cq *cq = NULL;
    if (fault_fails_unlocked(FAULT_COMPLETION_EVENT)) {
        errno = EIO;
        return -1;
    }
    while (!cq) {
        if (event_fd_take(ibv->fd, true))
            return -1;
        engine_lock();
        struct list *node = list_pop(&channel->ready);
        cq = node ? list_entry(node, struct cq, ready) : NULL; /* NULL: its queue was destroyed meanwhile */
        if (cq) {
            cq->reported++;
            if (--cq->pending)
                list_push(&channel->ready, &cq->ready);
        }
        engine_unlock();
    }
    *out = (struct ibv_cq *)&cq->ex;
    *cq_context = cq->ex.cq_context;
    return 0;
}

EXPORT void ibv_ack_cq_events(struct ibv_cq *cq, unsigned n)
{
    if (!n)
        return;
    pthread_mutex_lock(&cq->mutex);
    cq->comp_events_completed += n;
    pthread_cond_signal(&cq->cond);
    pthread_mutex_unlock(&cq->mutex);
}
