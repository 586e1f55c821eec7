/* SPDX-License-Identifier: Apache-2.0 */
/* Domains of extended reliable connections, and the numbers of their shared receive queues. Sources: InfiniBand
 * specification volume 1, annex A14; ibv_open_xrcd(3). */
#include "verbs/xrc.h"
#include "verbs/engine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

struct xrc_domain {
    struct list node; /* of all that a file stands for */
    const struct rdma_device *device;
    uint64_t file; /* 0: none stands for it */
    struct list queues;
    int handles;
};

static struct list domains = {&domains, &domains};
static uint32_t last_number;

static struct xrc_domain *domain_of(const struct rdma_device *device, uint64_t file)
{
    list_each(node, &domains)
    {
        struct xrc_domain *domain = list_entry(node, struct xrc_domain, node);
        if (domain->device == device && domain->file == file)
            return domain;
    }
    return NULL;
}

static struct xrc_domain *make_domain(const struct rdma_device *device, uint64_t file)
{
    struct xrc_domain *domain = calloc(1, sizeof(*domain));
    if (!domain)
        return NULL;
    domain->device = device;
    domain->file = file;
    list_init(&domain->node);
    list_init(&domain->queues);
    if (file)
        list_push(&domains, &domain->node);
    return domain;
}

/* What the kernel answers; 0: *known is the domain that is there, or NULL. */
static int check(const struct rdma_context *context, const struct ibv_xrcd_init_attr *init, uint64_t file,
                 struct xrc_domain **known)
{
    uint32_t both = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    *known = file ? domain_of(context->device, file) : NULL;
    if (context->inherited || context->dead)
        return context->inherited ? EPERM : EIO;
    if (init->comp_mask != both || init->oflags & ~(O_CREAT | O_EXCL))
        return EINVAL;
    if (init->fd != -1 && !file)
        return EBADF;
    if (!*known && !(init->oflags & O_CREAT))
        return init->fd == -1 ? EINVAL : EAGAIN;
    return *known && init->oflags & O_EXCL ? EINVAL : 0;
}

static struct ibv_xrcd *open_xrcd(struct ibv_context *ibv, struct ibv_xrcd_init_attr *init)
{
    struct rdma_context *context = context_of(ibv);
    struct xrcd *xrcd = calloc(1, sizeof(*xrcd));
    uint64_t file = init->fd == -1 ? 0 : file_of(init->fd);
    struct xrc_domain *domain = NULL;
    engine_lock();
    int err = xrcd ? check(context, init, file, &domain) : ENOMEM;
    if (!err && !domain)
        domain = make_domain(context->device, file);
    if (!err && domain) {
        xrcd->ibv.context = ibv;
        xrcd->domain = domain;
        domain->handles++;
        context->objects++;
    }
    engine_unlock();
    if (!err && domain)
        return &xrcd->ibv;
    free(xrcd);
    errno = err ? err : ENOMEM;
    return NULL;
}

static int close_xrcd(struct ibv_xrcd *ibv)
{
    struct xrcd *xrcd = (struct xrcd *)ibv;
    struct xrc_domain *domain = xrcd->domain;
    engine_lock();
    bool busy = xrcd->users, last = !busy && !--domain->handles;
    if (last)
        list_remove(&domain->node);
    if (!busy)
        context_put(context_of(ibv->context));
    engine_unlock();
    if (busy)
        return EBUSY;
    if (last)
        free(domain);
    free(xrcd);
    return 0;
}

static struct srq *in_domain(const struct xrc_domain *domain, uint32_t number)
{
    list_each(node, &domain->queues)
    {
        struct srq *srq = list_entry(node, struct srq, node);
        if (srq->number == number)
            return srq;
    }
    return NULL;
}

struct srq *xrc_find(const struct xrcd *xrcd, uint32_t number)
{
    return in_domain(xrcd->domain, number);
}

void xrc_enter(struct srq *srq, struct xrcd *xrcd, struct cq *cq)
{
    engine_lock();
    do {
        last_number = (last_number + 1) & QPN_MASK;
    } while (!last_number || in_domain(xrcd->domain, last_number));
    srq->number = last_number;
    srq->xrcd = xrcd;
    srq->cq = cq;
    xrcd->users++;
    cq->users++;
    list_push(&xrcd->domain->queues, &srq->node);
    engine_unlock();
}

static void forget(struct qp *qp, void *arg)
{
    if (qp->resp.named == arg)
        qp->resp.named = NULL;
    if (qp->resp.filling != arg)
        return;
    qp->resp.filling = NULL;
    qp->resp.have_wqe = false;
}

void xrc_leave(struct srq *srq)
{
    engine_each_qp(forget, srq);
    list_remove(&srq->node);
    srq->xrcd->users--;
    srq->cq->users--;
}

static int get_srq_num(struct ibv_srq *ibv, uint32_t *number)
{
    const struct srq *srq = (struct srq *)ibv;
    if (!srq->xrcd)
        return EINVAL;
    *number = srq->number;
    return 0;
}

void xrc_set_ops(struct verbs_context *verbs)
{
    verbs->open_xrcd = open_xrcd;
    verbs->close_xrcd = close_xrcd;
    verbs->get_srq_num = get_srq_num;
}
