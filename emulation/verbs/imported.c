/* SPDX-License-Identifier: Apache-2.0 */
/* Exported calls: protection domains and regions by their handles. What is imported stands for the first one, which
 * stays while it is used. */
#include "verbs/imported.h"
#include "verbs/engine.h"
#include "verbs/mr.h"

#include <errno.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

static struct list domains = {&domains, &domains};
static uint32_t last_handle;

void imported_enter(struct pd *pd)
{
    pd->ibv.handle = ++last_handle;
    list_push(&domains, &pd->node);
}

static struct pd *domain_of(const struct rdma_context *context, uint32_t handle)
{
    list_each(node, &domains)
    {
        struct pd *pd = list_entry(node, struct pd, node);
        if (pd->ibv.handle == handle && context_of(pd->ibv.context)->file == context->file)
            return pd;
    }
    return NULL;
}

EXPORT struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t handle)
{
    struct pd *pd = calloc(1, sizeof(*pd));
    engine_lock();
    struct pd *base = pd ? domain_of(context_of(context), handle) : NULL;
    if (base) {
        pd->ibv = (struct ibv_pd){context, handle};
        list_init(&pd->node);
        pd->base = base;
        base->users++;
        context_of(context)->objects++;
    }
    engine_unlock();
    if (base)
        return &pd->ibv;
    errno = pd ? ENOENT : ENOMEM;
    free(pd);
    return NULL;
}

/* One that regions or queue pairs still name stays as memory, and so does one that was not imported. */
EXPORT void ibv_unimport_pd(struct ibv_pd *ibv)
{
    struct pd *pd = (struct pd *)ibv;
    engine_lock();
    bool used = pd->users > 0 || !pd->base;
    if (!used) {
        pd->base->users--;
        context_put(context_of(ibv->context));
    }
    engine_unlock();
    if (!used)
        free(pd);
}

EXPORT struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t handle)
{
    struct mr *mr = calloc(1, sizeof(*mr));
    engine_lock();
    const struct mr *first = mr ? mr_of_handle(handle) : NULL;
    bool good = first && !first->window && pd_base(first->ibv.pd) == pd_base(pd);
    if (good) {
        mr->imported = true;
        mr->ibv = (struct ibv_mr){.context = pd->context, .pd = pd, .handle = handle};
        mr->ibv.lkey = first->ibv.lkey;
        mr->ibv.rkey = first->ibv.rkey;
        ((struct pd *)pd)->users++;
    }
    engine_unlock();
    if (good)
        return &mr->ibv;
    errno = mr ? ENOENT : ENOMEM;
    free(mr);
    return NULL;
}

EXPORT void ibv_unimport_mr(struct ibv_mr *ibv)
{
    if (!((const struct mr *)ibv)->imported)
        return;
    engine_lock();
    ((struct pd *)ibv->pd)->users--;
    engine_unlock();
    free(ibv);
}
