/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Payloads, credits and announcements that came before they were asked for. What is kept for one peer is bounded. At
 * half of TUTTI_EARLY the peer is told to hold its small payloads back until they are asked for, as it does with large
 * ones. The peer does so by itself while a quarter of TUTTI_EARLY waits to be acknowledged. So only a peer that breaks
 * this rule can reach the bound.
 */
#include "link/early.h"

#include "base/param.h"
#include "link/message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct unexpected *early_find(struct link *link, const struct wire_tag *tag, unsigned kind)
{
    if (!link->early.bytes)
        return NULL;
    list_each(node, tags_list(&link->early.arrived, tag))
    {
        struct unexpected *item = list_entry(node, struct unexpected, node);
        if (item->head.kind == kind && tags_equal(&item->head.tag, tag))
            return item;
    }
    return NULL;
}

static void early_tell(struct link *link, unsigned kind)
{
    struct wire_message head = {.kind = (uint8_t)kind};
    link->early.holding = kind == WIRE_HOLD;
    message_send(link, &head, NULL, 0);
}

static void lose(struct link *link)
{
    char why[160];
    snprintf(why, sizeof why,
             "it sent more than %zu bytes before this rank asked for them (TUTTI_EARLY); use one build on all ranks",
             link->early.most);
    link_lose(link, why);
}

struct unexpected *early_make(struct link *link, const struct wire_message *head, size_t length)
{
    size_t size = sizeof(struct unexpected) + length;
    if (size > link->early.most - link->early.bytes) {
        lose(link);
        return NULL;
    }
    struct unexpected *item = malloc(size);
    if (!item) {
        link_lose(link, "no memory to keep an early message");
        return NULL;
    }
    item->head = *head;
    item->length = length;
    return item;
}

void early_add(struct link *link, struct unexpected *item)
{
    const struct wire_message *head = &item->head;
    tags_add(&link->early.arrived, &head->tag, &item->node);
    link->early.bytes += sizeof *item + item->length;
    link->early.of_operations += head->tag.slice != WIRE_TAG_P2P;
    link->domain->kept++;
    if (!link->early.holding && head->kind == WIRE_EAGER && link->early.bytes > link->early.most / 2)
        early_tell(link, WIRE_HOLD);
}

void early_keep(struct link *link, const struct wire_message *head, const void *body, size_t length)
{
    struct unexpected *item = early_make(link, head, length);
    if (!item)
        return;
    if (length)
        memcpy(item->body, body, length);
    early_add(link, item);
}

static void unlist(struct link *link, struct unexpected *item)
{
    link->early.bytes -= sizeof *item + item->length;
    link->early.of_operations -= item->head.tag.slice != WIRE_TAG_P2P;
    link->domain->kept--;
    list_remove(&item->node);
}

static void relax(struct link *link)
{
    if (link->early.holding && link->early.bytes < link->early.most / 4)
        early_tell(link, WIRE_GO_ON);
}

void early_take(struct link *link, struct unexpected *item)
{
    unlist(link, item);
    relax(link);
}

void early_drop_all(struct link *link)
{
    struct list *node;
    while ((node = tags_any(&link->early.arrived))) {
        struct unexpected *item = list_entry(node, struct unexpected, node);
        unlist(link, item);
        free(item);
    }
}

void early_revoke(struct link *link, uint32_t slot)
{
    for (uint32_t i = 0; link->early.bytes && i <= link->early.arrived.mask; i++)
        list_each(node, &link->early.arrived.list[i])
        {
            struct unexpected *item = list_entry(node, struct unexpected, node);
            if (item->head.kind == WIRE_CREDIT && item->head.slot == slot)
                memset(item->body + offsetof(struct early_credit, memory), 0, sizeof(struct wire_remote));
        }
}

static void early_forget(struct link *link, uint64_t comm)
{
    for (uint32_t i = 0; link->early.bytes && i <= link->early.arrived.mask; i++)
        list_each_safe(node, &link->early.arrived.list[i])
        {
            struct unexpected *item = list_entry(node, struct unexpected, node);
            if (item->head.tag.comm == comm) {
                unlist(link, item);
                free(item);
            }
        }
    relax(link);
}

static bool is_left(const struct wire_message *head, uint64_t comm, uint32_t rank, uint32_t seq, bool messages)
{
    if (head->tag.comm != comm || (head->kind == WIRE_CREDIT ? head->tag.from : head->tag.to) != rank)
        return false;
    return head->tag.slice == WIRE_TAG_P2P ? messages && head->kind != WIRE_CREDIT : head->tag.seq <= seq;
}

bool link_any_left(const struct link_domain *domain)
{
    return atomic_load_explicit(&domain->kept, memory_order_relaxed) > 0;
}

bool link_find_left(const struct link_domain *domain, uint64_t comm, uint32_t rank, uint32_t seq, bool messages,
                    struct wire_message *out)
{
    list_each(node, (struct list *)&domain->links)
    {
        struct link *link = list_entry(node, struct link, node);
        size_t sought = messages ? link->early.bytes : link->early.of_operations;
        for (uint32_t i = 0; sought && i <= link->early.arrived.mask; i++)
            list_each(each, &link->early.arrived.list[i])
            {
                *out = list_entry(each, struct unexpected, node)->head;
                if (is_left(out, comm, rank, seq, messages))
                    return true;
            }
    }
    return false;
}

void link_forget_comm(struct link_domain *domain, uint64_t comm)
{
    list_each(node, &domain->links) early_forget(list_entry(node, struct link, node), comm);
}
