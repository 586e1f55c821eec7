/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Payloads from one rank of this process to another, or to itself, that are long: copied piece by piece, in polls, so
 * that nobody waits long for the engine's lock. Sends that are being copied are in domain->copies, and their receives
 * nowhere.
 */
#include "link/self.h"

#include "base/reach.h"
#include "link/refuse.h"

#define PIECE (256u << 10)

bool self_begin(struct link *link, struct link_send *send, struct link_recv *recv)
{
    if (!place_is_host(send->place) || !place_is_host(recv->place)) /* which is said without */
        return false;
    if (send->length <= PIECE || send->length != recv->length || send->call.signature != recv->call.signature)
        return false;
    list_remove(&recv->node);
    list_remove(&send->node);
    list_push(&link->domain->copies, &send->node);
    send->partner = recv;
    send->copied = 0;
    return true;
}

static void self_end(struct link_domain *domain, struct link_send *send)
{
    struct link_recv *recv = send->partner;
    list_remove(&send->node);
    send->partner = NULL;
    domain->met = true;
    recv->done(recv, TUTTI_SUCCESS);
    send->done(send, TUTTI_SUCCESS);
}

static tutti_result_t self_blame(const struct link_send *send, const struct link_recv *recv)
{
    const void *data = place_reach(send->place);
    return data && !reach_unreadable(data, send->length) ? refuse_target(recv) : refuse_source(send);
}

void self_refuse(struct link_domain *domain, struct link_send *send, struct link_recv *recv)
{
    list_remove(&send->node);
    list_remove(&recv->node);
    send->partner = NULL;
    domain->met = true;
    recv->done(recv, self_blame(send, recv));
    send->done(send, self_blame(send, recv));
}

int self_poll(struct link_domain *domain)
{
    if (list_empty(&domain->copies))
        return 0;
    struct link_send *send = list_entry(domain->copies.next, struct link_send, node);
    size_t left = send->length - send->copied, piece = left < PIECE ? left : PIECE;
    if (!reach_copy(place_reach(place_behind(send->partner->place, send->copied)),
                    place_reach(place_behind(send->place, send->copied)), piece)) {
        self_refuse(domain, send, send->partner);
        return 1;
    }
    send->copied += piece;
    if (send->copied == send->length)
        self_end(domain, send);
    return 1;
}

void self_part_send(struct link *link, struct link_send *send)
{
    if (send->partner)
        tags_add(&link->match.posted, &send->tag, &send->partner->node);
    send->partner = NULL;
}

void self_part_recv(struct link *link, const struct link_recv *recv)
{
    list_each_safe(node, &link->domain->copies)
    {
        struct link_send *send = list_entry(node, struct link_send, node);
        if (send->partner != recv)
            continue;
        send->partner = NULL;
        list_remove(&send->node);
        tags_add(&link->match.waiting, &send->tag, &send->node);
    }
}
