/* SPDX-License-Identifier: Apache-2.0 */
/* A window is an entry in the table of regions that says where its part of a region lies. Type 1 belongs to a
 * protection domain, and a new bind replaces the one before. Type 2 belongs, once it is bound, to a queue pair, and
 * must be taken back first. Source: InfiniBand specification volume 1, section 10.6.7. */
#include "verbs/window.h"
#include "verbs/mr.h"

#include <errno.h>
#include <stdlib.h>

#define PEER_ACCESS (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)
#define TAG_MASK    0xffu /* of a key: the part that the program chooses */

struct window *window_create(struct pd *pd, enum ibv_mw_type type)
{
    struct mr empty = {.window = true};
    struct window *window = calloc(1, sizeof(*window));
    if (!window || !(window->entry = mr_enter(pd, &empty))) {
        free(window);
        errno = ENOMEM;
        return NULL;
    }
    window->ibv = (struct ibv_mw){pd->ibv.context, &pd->ibv, window->entry->ibv.rkey, window->entry->ibv.handle, type};
    window->entry->type_2 = type == IBV_MW_TYPE_2;
    return window;
}

static void unbind(struct mr *entry)
{
    if (entry->of)
        entry->of->windows--;
    entry->of = NULL;
    entry->only = 0;
    entry->ibv.length = 0;
}

void window_destroy(struct window *window)
{
    unbind(window->entry);
    mr_leave(window->entry);
    free(window->entry);
    free(window);
}

/* Whether a region lets a window give this access. */
static bool may_give(const struct mr *region, unsigned access)
{
    bool writes = access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
    return region->access & IBV_ACCESS_MW_BIND && (!writes || region->access & IBV_ACCESS_LOCAL_WRITE);
}

bool window_bind(const struct qp *qp, const struct window_bind *bind)
{
    struct pd *pd = qp_pd(qp);
    struct mr *entry = mr_of_handle(bind->handle);
    if (!entry || !entry->window || pd_base(entry->ibv.pd) != pd || (entry->ibv.rkey ^ bind->rkey) & ~TAG_MASK)
        return false;
    struct mr *region = bind->length ? mr_find(pd, bind->lkey, bind->address, bind->length, 0) : NULL;
    if ((bind->length && (!region || !may_give(region, bind->access))) || (entry->type_2 && entry->of))
        return false;
    unbind(entry);
    entry->ibv.rkey = bind->rkey;
    if (!region)
        return true;
    region->windows++;
    entry->of = region;
    entry->only = entry->type_2 ? qp->ex.qp_base.qp_num : 0;
    entry->ibv.length = bind->length;
    entry->host = region->host + (bind->address - region->iova);
    entry->iova = bind->access & IBV_ACCESS_ZERO_BASED ? 0 : bind->address;
    entry->access = (int)(bind->access & PEER_ACCESS); /* the others mean nothing to a peer */
    entry->foreign = region->foreign;
    entry->demand = region->demand;
    entry->mapping = region->mapping;
    entry->mapped = region->mapped;
    entry->memory = region->memory;
    entry->pace = region->pace;
    return true;
}

bool window_invalidate(const struct qp *qp, uint32_t rkey)
{
    struct mr *entry = mr_at(rkey);
    if (!entry || !entry->window || !entry->of || entry->ibv.rkey != rkey || entry->only != qp->ex.qp_base.qp_num)
        return false;
    unbind(entry);
    return true;
}
