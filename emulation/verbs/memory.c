/* SPDX-License-Identifier: Apache-2.0 */
/* Memory windows, ibv_rereg_mr, parent and thread domains, advice about memory on demand. */
#include "verbs/memory.h"
#include "verbs/engine.h"
#include "verbs/fault.h"
#include "verbs/mapped.h"
#include "verbs/mr.h"
#include "verbs/post.h"
#include "verbs/window.h"

#include <errno.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

static struct ibv_mw *alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
    struct window *window = NULL;
    bool known = type == IBV_MW_TYPE_1 || type == IBV_MW_TYPE_2;
    engine_lock();
    if (!known || context_of(pd->context)->dead)
        errno = known ? EIO : EINVAL;
    else
        window = window_create((struct pd *)pd, type);
    engine_unlock();
    return window ? &window->ibv : NULL;
}

static int dealloc_mw(struct ibv_mw *mw)
{
    engine_lock();
    window_destroy((struct window *)mw);
    engine_unlock();
    return 0;
}

EXPORT int ibv_rereg_mr(struct ibv_mr *mr, int what, struct ibv_pd *pd, void *address, size_t size, int access)
{
    bool moves = what & IBV_REREG_MR_CHANGE_TRANSLATION;
    if (!what || what & ~IBV_REREG_MR_FLAGS_SUPPORTED || (moves && (!address || !size)) ||
        (what & IBV_REREG_MR_CHANGE_PD && !pd)) {
        errno = EINVAL;
        return IBV_REREG_MR_ERR_INPUT;
    }
    engine_lock();
    int err = context_of(mr->context)->dead ? EIO : fault_fails(FAULT_REGISTER) ? ENOMEM : 0;
    if (!err)
        err = mr_change((struct mr *)mr, what, (struct pd *)pd, address, size, access);
    engine_unlock();
    if (err)
        errno = err;
    return err ? IBV_REREG_MR_ERR_CMD : 0;
}

static struct ibv_td *alloc_td(struct ibv_context *context, struct ibv_td_init_attr *init)
{
    struct td *td = init->comp_mask ? NULL : calloc(1, sizeof(*td));
    if (!td) {
        errno = init->comp_mask ? EINVAL : ENOMEM;
        return NULL;
    }
    td->ibv.context = context;
    engine_lock();
    context_of(context)->objects++;
    engine_unlock();
    return &td->ibv;
}

static int dealloc_td(struct ibv_td *ibv)
{
    struct td *td = (struct td *)ibv;
    engine_lock();
    bool busy = td->users;
    if (!busy)
        context_put(context_of(ibv->context));
    engine_unlock();
    if (busy)
        return EBUSY;
    free(td);
    return 0;
}

/* Queues are in memory of the emulator's own: allocators of the program are not asked, as an adapter's need not be. */
static struct ibv_pd *alloc_parent_domain(struct ibv_context *context, struct ibv_parent_domain_init_attr *init)
{
    uint32_t known = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
    struct pd *pd = init->pd && !(init->comp_mask & ~known) ? calloc(1, sizeof(*pd)) : NULL;
    if (!pd) {
        errno = init->pd && !(init->comp_mask & ~known) ? ENOMEM : EINVAL;
        return NULL;
    }
    pd->ibv.context = context;
    list_init(&pd->node);
    pd->base = pd_base(init->pd);
    pd->thread = (struct td *)init->td;
    engine_lock();
    pd->base->users++;
    if (pd->thread)
        pd->thread->users++;
    context_of(context)->objects++;
    engine_unlock();
    return &pd->ibv;
}

static int advise(struct pd *pd, enum ibv_advise_mr_advice advice, const struct ibv_sge *part)
{
    bool writes = advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
    const struct mr *mr =
        mr_find(pd_base(&pd->ibv), part->lkey, part->addr, part->length, writes ? IBV_ACCESS_LOCAL_WRITE : 0);
    if (!mr || !mr->demand)
        return mr ? EINVAL : ENOENT;
    return advice == IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT
               ? 0
               : mapped_populate(mr->host + (part->addr - mr->iova), part->length, writes);
}

static int advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags, struct ibv_sge *list,
                     uint32_t n)
{
    int err = flags & ~(uint32_t)IBV_ADVISE_MR_FLAG_FLUSH || !n ? EINVAL : 0;
    if (advice > IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
        err = EOPNOTSUPP;
    engine_lock();
    for (uint32_t i = 0; i < n && !err; i++)
        err = advise((struct pd *)pd, advice, &list[i]);
    engine_unlock();
    return err;
}

void memory_set_ops(struct verbs_context *verbs)
{
    verbs->context.ops.alloc_mw = alloc_mw;
    verbs->context.ops.bind_mw = post_bind;
    verbs->context.ops.dealloc_mw = dealloc_mw;
    verbs->alloc_td = alloc_td;
    verbs->dealloc_td = dealloc_td;
    verbs->alloc_parent_domain = alloc_parent_domain;
    verbs->advise_mr = advise_mr;
}
