/* SPDX-License-Identifier: Apache-2.0 */
/* Point-to-point: each item is one message, numbered between its two ranks in the order of issue. */
#include "engine/p2p.h"

#include "base/error.h"
#include "base/random.h"
#include "engine/queue.h"
#include "engine/transfers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEPT_ITEMS 4 /* an operation of so many is kept for the next one */

struct p2p {
    struct transfers all;
    int first; /* none before it is pending */
    struct transfer item[];
};

static struct wire_tag tag_of(const struct team *team, const struct p2p_item *item)
{
    uint32_t me = (uint32_t)team->rank, peer = (uint32_t)item->peer;
    return (struct wire_tag){.comm = team->id,
                             .seq = item->sends ? team->sent[item->peer] : team->received[item->peer],
                             .slice = WIRE_TAG_P2P,
                             .from = item->sends ? me : peer,
                             .to = item->sends ? peer : me};
}

/* Its number is used up. */
static void count_item(struct team *team, const struct p2p_item *item)
{
    if (item->sends)
        team->sent[item->peer]++;
    else
        team->received[item->peer]++;
}

static struct wire_call call_of(const struct p2p_item *item)
{
    return (struct wire_call){wire_signature(WIRE_SIGNATURE_P2P, item->type, 7, (uint32_t)mix64(item->count)), -1,
                              item->count};
}

static void fill(struct team *team, struct p2p *p2p, int index, const struct p2p_item *item)
{
    transfer_fill(&p2p->item[index], &p2p->all, item->peer, item->sends, tag_of(team, item), call_of(item), item->data,
                  item->count * type_size(item->type));
    count_item(team, item);
}

/* One thread takes what is kept, where it is; who ends an operation puts it there, where there is none. So stores do.
 */
static struct p2p *p2p_new(struct team *team, int count)
{
    struct p2p *kept = count <= KEPT_ITEMS ? atomic_load_explicit(&team->p2p_idle, memory_order_acquire) : NULL;
    int room = count <= KEPT_ITEMS ? KEPT_ITEMS : count;
    if (kept)
        atomic_store_explicit(&team->p2p_idle, NULL, memory_order_relaxed);
    struct p2p *p2p = kept ? kept : malloc(sizeof *kept + (size_t)room * sizeof kept->item[0]);
    if (!p2p)
        return NULL;
    p2p->first = 0;
    transfers_begin(&p2p->all);
    return p2p;
}

static void p2p_keep(struct team *team, struct p2p *p2p)
{
    if (p2p->all.count <= KEPT_ITEMS && !atomic_load_explicit(&team->p2p_idle, memory_order_relaxed))
        atomic_store_explicit(&team->p2p_idle, p2p, memory_order_release);
    else
        p2p_free(p2p);
}

void p2p_free(struct p2p *p2p)
{
    free(p2p);
}

/* A message that went or came without waiting. why: of a failure. */
static __attribute__((noinline, cold)) void fail_passed(struct team *team, const struct p2p_item *item,
                                                        tutti_result_t result, const char *why)
{
    char sentence[TEAM_SENTENCE];
    uint64_t issued = atomic_load(&team->issued);
    snprintf(sentence, sizeof sentence, "%s", why);
    trace_count(team->engine->trace, WIRE_COUNTER_OPERATIONS_FAILED, 1);
    atomic_store(&team->failed_from,
                 issued ? issued - 1 : 0); /* it has no place of its own: who waits for the last one hears of it */
    team_fail_transfer(team, item->peer, result, sentence);
}

static inline void record(struct team *team, const struct p2p_item *item, size_t bytes, tutti_result_t result,
                          const char *why)
{
    trace_op_passed(team->trace, ++team->p2p_seq,
                    trace_what(item->sends ? WIRE_SEND : WIRE_RECV, (int)item->type, -1, item->peer), item->count,
                    bytes, NULL, result);
    team_forget_told(team);
    if (__builtin_expect(result != TUTTI_SUCCESS, 0))
        fail_passed(team, item, result, why);
}

/* What the queue knows of them. */
static void describe(struct op *op, struct p2p *p2p, const struct p2p_item *items, size_t bytes)
{
    op->kind = OP_P2P;
    op->p2p = p2p;
    op->call.count = items[0].count;
    op->call.type = items[0].type;
    op->call.root = p2p->all.count == 1 ? items[0].peer : -1;
    op->call.op = -1;
    op->wire_kind = p2p->all.count > 1 ? WIRE_GROUP : items[0].sends ? WIRE_SEND : WIRE_RECV;
    op->bytes = bytes;
}

/* The message rides in the ring. In line: the lone send is the shortest of all calls. */
static inline __attribute__((always_inline)) bool send_at_once(struct team *team, struct link *link,
                                                               const struct p2p_item *item, size_t length)
{
    struct wire_message head = {.tag = tag_of(team, item), .call = call_of(item)};
    tutti_result_t result = TUTTI_SUCCESS;
    if (!link_send_now(link, &head, item->data, length, &result))
        return false;
    count_item(team, item);
    calls_message(team, item->peer, true);
    record(team, item, length, result, result == TUTTI_SUCCESS ? "" : error_last());
    return true;
}

/* Looks whether it has come; if it has not, it is posted, and queued as it stands. */
static bool receive_at_once(struct team *team, struct link *link, const struct p2p_item *item, size_t length)
{
    uint64_t position = atomic_load_explicit(&team->issued, memory_order_relaxed);
    struct op *op = queue_tail(&team->queue, position, position);
    struct p2p *p2p = op ? p2p_new(team, 1) : NULL;
    if (!p2p)
        return false;
    p2p->all.count = p2p->all.pending = 1;
    struct transfer *transfer = &p2p->item[0];
    fill(team, p2p, 0, item);
    transfer->link = link;
    transfer->pending = true;
    calls_message(team, item->peer, false);
    link_expect(link, &transfer->recv);
    if (p2p->all.pending)
        engine_poll(team->engine);
    if (!link_expected(link))
        link_recv(link, &transfer->recv);
    if (!p2p->all.pending) {
        record(team, item, length, p2p->all.result, p2p->all.sentence);
        p2p_keep(team, p2p);
        return true;
    }
    op_clear(op);
    describe(op, p2p, item, length);
    op->started = true;
    op->seq = ++team->p2p_seq;
    op->trace = trace_op_begin(team->trace, op->seq, WIRE_RECV, (int)item->type, -1, item->peer, item->count, length);
    team_enqueue(team, op, NULL);
    return true;
}

/* Under the engine's lock. */
static inline __attribute__((always_inline)) bool pass_one(struct team *team, const struct p2p_item *item)
{
    struct link *link = team->link[item->peer];
    size_t length = item->count * type_size(item->type);
    return link && (item->sends ? send_at_once(team, link, item, length) : receive_at_once(team, link, item, length));
}

/* Nothing is queued before it, and the link knows the peer: then a message that can go, or has come, needs no place in
 * the queue. A failure is told by whoever waits, as that of any operation. */
static inline bool pass_at_once(struct team *team, const struct p2p_item *item)
{
    if (!team_idle(team) || !lock_try(&team->engine->lock))
        return false;
    bool passed = pass_one(team, item);
    if (!item->sends)
        engine_met(team->engine);
    lock_release(&team->engine->lock);
    if (passed && !item->sends && !team_idle(team))
        engine_notice(team->engine);
    return passed;
}

/* A group of a send and a receive, of which the send goes at once, is two calls by themselves. Returns how many items
 * are left for the queue; if that is one, the receive. */
static __attribute__((noinline)) int pass_pair(struct team *team, const struct p2p_item *send,
                                               const struct p2p_item *recv)
{
    if (!team_idle(team) || !lock_try(&team->engine->lock))
        return 2;
    int left = pass_one(team, send) ? 1 : 2;
    if (left == 1 && pass_one(team, recv))
        left = 0;
    engine_met(team->engine);
    lock_release(&team->engine->lock);
    if (!left && !team_idle(team))
        engine_notice(team->engine);
    return left;
}

static tutti_result_t enqueue(struct team *team, const struct p2p_item *items, int count, struct tutti_stream *stream)
{
    struct op *op;
    tutti_result_t result = team_place(team, false, &op);
    if (result != TUTTI_SUCCESS)
        return result;
    struct p2p *p2p = p2p_new(team, count);
    if (!p2p)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for %d sends and receives", count);
    size_t bytes = 0;
    p2p->all.count = count;
    for (int i = 0; i < count; i++) {
        fill(team, p2p, i, &items[i]);
        bytes += items[i].count * type_size(items[i].type);
    }
    describe(op, p2p, items, bytes);
    team_issue(team, op, stream);
    return TUTTI_SUCCESS;
}

/* What is not a lone message that is over at once. */
static __attribute__((noinline)) tutti_result_t issue(struct team *team, const struct p2p_item *items, int count,
                                                      struct tutti_stream *stream)
{
    if (count == 2 && !stream && items[0].sends != items[1].sends) {
        const struct p2p_item *recv = &items[items[0].sends];
        count = pass_pair(team, &items[!items[0].sends], recv);
        items = count == 1 ? recv : items;
    }
    return count ? enqueue(team, items, count, stream) : TUTTI_SUCCESS;
}

tutti_result_t p2p_issue(struct team *team, const struct p2p_item *items, int count, struct tutti_stream *stream)
{
    if (count == 1 && !stream && pass_at_once(team, items))
        return TUTTI_SUCCESS;
    return issue(team, items, count, stream);
}

/* Receives first: then a fast peer, or this rank itself, finds them posted. */
static tutti_result_t post_all(struct team *team, struct p2p *p2p, bool sends)
{
    for (struct transfer *item = p2p->item; item < p2p->item + p2p->all.count; item++) {
        struct link *link;
        if (item->sends != sends)
            continue;
        tutti_result_t result = team_link(team, item->peer, &link);
        if (result != TUTTI_SUCCESS)
            return team_fail(team, result, item->peer, error_last());
        calls_message(team, item->peer, sends);
        transfer_post(item, link);
    }
    return TUTTI_SUCCESS;
}

tutti_result_t p2p_start(struct team *team, struct op *op)
{
    op->p2p->all.pending = op->p2p->all.count;
    tutti_result_t result = post_all(team, op->p2p, false);
    return result == TUTTI_SUCCESS ? post_all(team, op->p2p, true) : result;
}

tutti_result_t p2p_step(struct team *team, struct op *op)
{
    struct p2p *p2p = op->p2p;
    if (p2p->all.result != TUTTI_SUCCESS)
        return transfers_fail(team, &p2p->all);
    if (!p2p->all.pending)
        return TUTTI_SUCCESS;
    while (!p2p->item[p2p->first].pending)
        p2p->first++;
    op_waits(op, p2p->item[p2p->first].peer, 0, 0);
    return TUTTI_IN_PROGRESS;
}

bool p2p_may_move(const struct op *op)
{
    return op->p2p->all.result != TUTTI_SUCCESS || !op->p2p->all.pending;
}

bool p2p_waits(const struct op *op)
{
    const struct p2p *p2p = op->p2p;
    return p2p->all.pending && p2p->item[p2p->first].pending;
}

void p2p_describe(const struct op *op, struct wire_message *head)
{
    const struct transfer *item = &op->p2p->item[op->p2p->first];
    head->tag.slice = WIRE_TAG_P2P;
    head->tag.round = item->sends ? item->send.tag.seq : item->recv.tag.seq;
    head->flags = !item->sends;
    head->call = item->sends ? item->send.call : item->recv.call;
}

void p2p_end(struct team *team, struct op *op)
{
    struct p2p *p2p = op->p2p;
    transfers_cancel(p2p->item, p2p->all.count);
    p2p_keep(team, p2p);
    op->p2p = NULL;
}
