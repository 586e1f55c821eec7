/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two ranks in different calls may wait for messages that the other never sends. So a transfer that has waited long
 * asks whether what came instead, for the same operation, is of another call.
 */
#include "link/strays.h"

#include "link/early.h"
#include "link/incoming.h"
#include "link/outgoing.h"
#include "link/refuse.h"

#include <string.h>

#define STRAYS_EVERY (100 * NS_PER_MS)

/* Something of another call has come for the operation that `tag` belongs to. */
static const struct unexpected *strays_find_on(const struct link *link, const struct wire_tag *tag, uint32_t signature)
{
    if (!link->early.of_operations)
        return NULL;
    tags_each(node, &link->early.arrived)
    {
        const struct unexpected *item = list_entry(node, struct unexpected, node);
        if (tags_same_operation(&item->head.tag, tag) && item->head.call.signature != signature)
            return item;
    }
    return NULL;
}

/* From any peer: a rank in another call may send to others than its peers there. */
static const struct unexpected *strays_find(const struct link *link, const struct wire_tag *tag, uint32_t signature)
{
    const struct unexpected *item = NULL;
    if (tag->slice == WIRE_TAG_P2P)
        return NULL;
    for (struct list *node = link->domain->links.next; node != &link->domain->links && !item; node = node->next)
        item = strays_find_on(list_entry(node, struct link, node), tag, signature);
    return item;
}

/* Of the payload that an early message is, announces or asks for. */
static size_t strays_length(const struct unexpected *item)
{
    struct wire_credit credit = {.length = item->length};
    if (item->head.kind == WIRE_CREDIT)
        memcpy(&credit, item->body, sizeof credit);
    else if (item->head.kind == WIRE_ANNOUNCE)
        memcpy(&credit.length, item->body, sizeof credit.length);
    return credit.length;
}

static tutti_result_t strays_refuse(const struct wire_call *mine, size_t length, const struct unexpected *item)
{
    const struct wire_tag *tag = &item->head.tag;
    return refuse_call(tag, mine, length, &item->head.call, strays_length(item),
                       item->head.kind == WIRE_CREDIT ? tag->to : tag->from);
}

static bool strays_fail_recv(struct link *link)
{
    tags_each(node, &link->match.posted)
    {
        struct link_recv *recv = list_entry(node, struct link_recv, node);
        const struct unexpected *item = strays_find(link, &recv->tag, recv->call.signature);
        if (!item)
            continue;
        incoming_finish(link, recv, strays_refuse(&recv->call, recv->length, item));
        return true;
    }
    return false;
}

static bool strays_fail_send(struct link *link)
{
    tags_each(node, &link->match.waiting)
    {
        struct link_send *send = list_entry(node, struct link_send, node);
        const struct unexpected *item = strays_find(link, &send->tag, send->call.signature);
        if (!item)
            continue;
        tutti_result_t result = strays_refuse(&send->call, send->length, item);
        list_remove(&send->node);
        outgoing_release(link, send);
        send->done(send, result);
        return true;
    }
    return false;
}

void strays_look(struct link *link, uint64_t now)
{
    if (now - link->match.looked < STRAYS_EVERY)
        return;
    link->match.looked = now;
    while (strays_fail_recv(link) || strays_fail_send(link))
        ; /* done() may change the lists: the search begins anew */
}
