/* SPDX-License-Identifier: Apache-2.0 */
/* Point-to-point: each item is one message, numbered between its two ranks in the order of issue. */
#include "engine/p2p.h"

#include "base/error.h"
#include "base/random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define P2P_COLLECTIVE 15 /* in signatures */
#define KEPT_ITEMS     4  /* an operation of so many is kept for the next one */

struct p2p_transfer {
    struct p2p *p2p;
    struct link *link; /* NULL until posted */
    int peer;
    bool sends, pending;
    union {
        struct link_send send;
        struct link_recv recv;
    };
};

struct p2p {
    int count, pending;
    int first; /* none before it is pending */
    tutti_result_t result;
    int culprit;
    char sentence[160]; /* any thread may learn of a failure, another report it */
    struct p2p_transfer item[];
};

static void complete(struct p2p_transfer *item, tutti_result_t result)
{
    struct p2p *p2p = item->p2p;
    item->pending = false;
    p2p->pending--;
    if (result != TUTTI_SUCCESS && p2p->result == TUTTI_SUCCESS) {
        p2p->result = result;
        p2p->culprit = item->peer;
        team_say_transfer(item->peer, result, p2p->sentence, sizeof p2p->sentence);
    }
}

static void sent(struct link_send *send, tutti_result_t result)
{
    complete(container_of(send, struct p2p_transfer, send), result);
}

static void received(struct link_recv *recv, tutti_result_t result)
{
    complete(container_of(recv, struct p2p_transfer, recv), result);
}

static void fill(struct team *team, struct p2p_transfer *to, const struct p2p_item *from)
{
    uint32_t me = (uint32_t)team->rank, peer = (uint32_t)from->peer;
    uint32_t seq = from->sends ? team->sent[from->peer]++ : team->received[from->peer]++;
    struct wire_tag tag = {.comm = team->id,
                           .seq = seq,
                           .slice = WIRE_TAG_P2P,
                           .from = from->sends ? me : peer,
                           .to = from->sends ? peer : me};
    uint32_t signature = wire_signature(P2P_COLLECTIVE, from->type, 0, (uint32_t)mix64(from->count));
    size_t length = from->count * type_size(from->type);
    to->peer = from->peer;
    to->sends = from->sends;
    if (from->sends)
        to->send = (struct link_send){.tag = tag, .signature = signature, .data = from->data, .length = length, .done = sent};
    else
        to->recv = (struct link_recv){.tag = tag, .signature = signature, .data = from->data, .length = length, .done = received};
}

static struct p2p *p2p_new(struct team *team, int count)
{
    struct p2p *kept = count <= KEPT_ITEMS ? atomic_exchange(&team->p2p_idle, NULL) : NULL;
    int room = count <= KEPT_ITEMS ? KEPT_ITEMS : count;
    return kept ? kept : calloc(1, sizeof *kept + (size_t)room * sizeof kept->item[0]);
}

void p2p_free(struct p2p *p2p)
{
    free(p2p);
}

tutti_result_t p2p_issue(struct team *team, const struct p2p_item *items, int count, struct tutti_stream *stream)
{
    struct op *op;
    tutti_result_t result = team_place(team, &op);
    if (result != TUTTI_SUCCESS)
        return result;
    struct p2p *p2p = p2p_new(team, count);
    if (!p2p)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for %d sends and receives", count);
    size_t bytes = 0;
    p2p->count = count;
    p2p->pending = p2p->first = 0;
    p2p->result = TUTTI_SUCCESS;
    for (int i = 0; i < count; i++) {
        p2p->item[i].p2p = p2p;
        p2p->item[i].link = NULL;
        p2p->item[i].pending = false;
        fill(team, &p2p->item[i], &items[i]);
        bytes += items[i].count * type_size(items[i].type);
    }
    op->kind = OP_P2P;
    op->p2p = p2p;
    op->call = (struct call){.count = items[0].count, .type = items[0].type, .root = count == 1 ? items[0].peer : -1, .op = -1};
    op->wire_kind = count > 1 ? WIRE_GROUP : items[0].sends ? WIRE_SEND : WIRE_RECV;
    op->bytes = bytes;
    team_issue(team, op, stream);
    return TUTTI_SUCCESS;
}

static void post(struct p2p_transfer *item, struct link *link)
{
    item->link = link;
    item->pending = true;
    if (item->sends)
        link_send(link, &item->send);
    else
        link_recv(link, &item->recv);
}

/* Receives first: then a fast peer, or this rank itself, finds them posted. */
static tutti_result_t post_all(struct team *team, struct p2p *p2p, bool sends)
{
    for (int i = 0; i < p2p->count; i++) {
        struct link *link;
        if (p2p->item[i].sends != sends)
            continue;
        tutti_result_t result = team_link(team, p2p->item[i].peer, &link);
        if (result != TUTTI_SUCCESS)
            return team_fail(team, result, p2p->item[i].peer, error_last());
        post(&p2p->item[i], link);
    }
    return TUTTI_SUCCESS;
}

tutti_result_t p2p_start(struct team *team, struct op *op)
{
    op->p2p->pending = op->p2p->count;
    tutti_result_t result = post_all(team, op->p2p, false);
    return result == TUTTI_SUCCESS ? post_all(team, op->p2p, true) : result;
}

tutti_result_t p2p_step(struct team *team, struct op *op)
{
    struct p2p *p2p = op->p2p;
    if (p2p->result != TUTTI_SUCCESS)
        return team_fail(team, p2p->result, p2p->culprit, p2p->sentence);
    if (!p2p->pending)
        return TUTTI_SUCCESS;
    while (!p2p->item[p2p->first].pending)
        p2p->first++;
    op_waits(op, p2p->item[p2p->first].peer, 0, 0);
    return TUTTI_IN_PROGRESS;
}

void p2p_end(struct team *team, struct op *op)
{
    struct p2p *p2p = op->p2p;
    for (int i = 0; i < p2p->count; i++) {
        struct p2p_transfer *item = &p2p->item[i];
        if (!item->pending || !item->link)
            continue;
        if (item->sends)
            link_cancel_send(item->link, &item->send);
        else
            link_cancel_recv(item->link, &item->recv);
    }
    p2p_free(p2p->count <= KEPT_ITEMS ? atomic_exchange(&team->p2p_idle, p2p) : p2p);
    op->p2p = NULL;
}
