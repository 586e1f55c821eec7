/* SPDX-License-Identifier: Apache-2.0 */
/* Point-to-point: each item is one message, numbered between its two ranks in the order of issue. */
#include "engine/p2p.h"

#include "base/error.h"
#include "base/random.h"
#include "engine/calls.h"
#include "engine/failure.h"
#include "engine/links.h"
#include "engine/op.h"
#include "engine/progress.h"
#include "engine/queue.h"
#include "engine/transfers.h"
#include "engine/wait.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEPT_ITEMS 4 /* items; an operation of that size is kept for the next one */

/* What an operation has that a thread posts messages to; under the engine's lock. */
struct p2p_flow {
    bool open;          /* from p2p_open() to p2p_close() */
    bool started, over; /* the operation */
    bool idle;          /* the thread waits: nothing more has come to hand */
    int posted;         /* messages that have not been taken back */
    uint64_t position;
    _Atomic bool ended; /* some messages have, which the thread has not taken back */
};

struct p2p {
    struct transfers all;
    int first; /* none before it is pending */
    struct p2p_flow flow;
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

/* The item's number is used up. */
static void count_item(struct team *team, const struct p2p_item *item)
{
    if (item->sends)
        team->sent[item->peer]++;
    else
        team->received[item->peer]++;
}

static struct wire_call p2p_call_of(const struct p2p_item *item)
{
    return (struct wire_call){wire_signature(WIRE_SIGNATURE_P2P, item->type, 7, (uint32_t)mix64(item->count)), -1,
                              item->count};
}

static void fill(struct team *team, struct p2p *p2p, int index, const struct p2p_item *item)
{
    transfer_fill(&p2p->item[index], &p2p->all, item->peer, item->sends, tag_of(team, item), p2p_call_of(item),
                  item->data, item->count * type_size(item->type));
    if (!place_is_host(item->on_device))
        transfer_on_device(&p2p->item[index], item->on_device, item->data);
    count_item(team, item);
}

/* One thread takes the operation that is kept, if there is one. A thread that ends an operation puts it there, if there
 * is none. So plain stores do. */
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
    p2p->flow = (struct p2p_flow){0};
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
                 issued ? issued - 1 : 0); /* it has no place of its own: a wait for the last one hears of it */
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

/* Fills in what the queue knows of an operation. */
static void engine_p2p_describe(struct op *op, struct p2p *p2p, const struct p2p_item *items, int count, size_t bytes)
{
    op->kind = &op_p2p;
    op->p2p = p2p;
    op->call.count = items[0].count;
    op->call.type = items[0].type;
    op->call.root = count == 1 ? items[0].peer : -1;
    op->call.op = -1;
    op->wire_kind = count > 1 ? WIRE_GROUP : items[0].sends ? WIRE_SEND : WIRE_RECV;
    op->bytes = bytes;
}

/* The message rides in the ring. In line: the lone send is the shortest of all calls. */
static inline __attribute__((always_inline)) bool send_at_once(struct team *team, struct link *link,
                                                               const struct p2p_item *item, size_t length)
{
    struct wire_message head = {.tag = tag_of(team, item), .call = p2p_call_of(item)};
    tutti_result_t result = TUTTI_SUCCESS;
    if (!link_send_now(link, &head, item->data, length, &result))
        return false;
    count_item(team, item);
    calls_message(&team->calls, item->peer, true);
    record(team, item, length, result, result == TUTTI_SUCCESS ? "" : error_last());
    return true;
}

/* Looks whether the message has come. If not, the receive is posted, and queued as it stands. */
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
    calls_message(&team->calls, item->peer, false);
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
    engine_p2p_describe(op, p2p, item, 1, length);
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
 * the queue. The thread that waits tells of a failure, as with any operation. */
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

/* An operation of `items` items, at most `places` of them at a time. */
static tutti_result_t p2p_make(struct team *team, int items, int places, struct op **op, struct p2p **out)
{
    tutti_result_t result = team_place(team, false, op);
    if (result != TUTTI_SUCCESS)
        return result;
    *out = p2p_new(team, places);
    if (!*out)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for %d sends and receives", items);
    (*out)->all.count = places;
    return TUTTI_SUCCESS;
}

static tutti_result_t enqueue(struct team *team, const struct p2p_item *items, int count, struct tutti_stream *stream)
{
    struct op *op;
    struct p2p *p2p;
    tutti_result_t result = p2p_make(team, count, count, &op, &p2p);
    if (result != TUTTI_SUCCESS)
        return result;
    size_t bytes = 0;
    p2p->all.pending = count;
    for (int i = 0; i < count; i++) {
        fill(team, p2p, i, &items[i]);
        bytes += items[i].count * type_size(items[i].type);
    }
    engine_p2p_describe(op, p2p, items, count, bytes);
    team_issue(team, op, stream);
    return TUTTI_SUCCESS;
}

/* Issues what is not a lone message that is over at once. */
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

/* Under the engine's lock. */
static tutti_result_t engine_p2p_post(struct team *team, struct transfer *item)
{
    struct link *link;
    tutti_result_t result = team_link(team, item->peer, &link);
    if (result != TUTTI_SUCCESS)
        return result;
    calls_message(&team->calls, item->peer, item->sends);
    transfer_post(item, link);
    return TUTTI_SUCCESS;
}

/* ---- Messages that come to hand one after another ---- */

tutti_result_t p2p_open(struct team *team, const struct p2p_item *whole, int items, size_t bytes, int places,
                        struct p2p **out)
{
    struct op *op;
    struct p2p *p2p;
    tutti_result_t result = p2p_make(team, items, places, &op, &p2p);
    if (result != TUTTI_SUCCESS)
        return result;
    for (int i = 0; i < places; i++)
        p2p->item[i] = (struct transfer){.of = NULL};
    p2p->flow.open = true;
    p2p->flow.position = atomic_load(&team->issued);
    engine_p2p_describe(op, p2p, whole, items, bytes);
    team_begin(team, op, NULL);
    *out = p2p;
    return TUTTI_SUCCESS;
}

void p2p_post(struct team *team, struct p2p *p2p, int place, const struct p2p_item *item)
{
    struct p2p_flow *flow = &p2p->flow;
    lock_take(&team->engine->lock);
    if (!flow->over) {
        fill(team, p2p, place, item);
        flow->posted++;
        p2p->all.pending++;
    }
    tutti_result_t result = flow->started && !flow->over ? engine_p2p_post(team, &p2p->item[place]) : TUTTI_SUCCESS;
    if (result != TUTTI_SUCCESS)
        transfers_note(&p2p->all, item->peer, result);
    engine_met(team->engine);
    lock_release(&team->engine->lock);
}

static bool has_ended(const struct p2p *p2p)
{
    return p2p->flow.posted > p2p->all.pending;
}

static bool has_news(const struct p2p *p2p)
{
    return has_ended(p2p) || p2p->all.spilling;
}

int p2p_take_spilling(struct team *team, struct p2p *p2p, int *spilling)
{
    int count = 0;
    lock_take(&team->engine->lock);
    for (int i = 0; i < p2p->all.count && p2p->all.spilling; i++) {
        struct transfer *item = &p2p->item[i];
        if (!item->of || !item->spills)
            continue;
        item->spills = false;
        p2p->all.spilling--;
        spilling[count++] = i;
    }
    lock_release(&team->engine->lock);
    return count;
}

void p2p_spilled(struct team *team, struct p2p *p2p, int place)
{
    struct transfer *item = &p2p->item[place];
    lock_take(&team->engine->lock);
    if (!p2p->flow.over && item->pending)
        link_spilled(item->link, &item->send);
    engine_met(team->engine);
    lock_release(&team->engine->lock);
}

uint64_t p2p_in_spare(const struct p2p *p2p, int place, uint64_t *segment)
{
    const struct link_recv *recv = &p2p->item[place].recv;
    *segment = recv->segment;
    return recv->spilled;
}

int p2p_take_ended(struct team *team, struct p2p *p2p, int *ended)
{
    int count = 0;
    lock_take(&team->engine->lock);
    for (int i = 0; i < p2p->all.count && has_ended(p2p); i++) {
        struct transfer *item = &p2p->item[i];
        if (!item->of || !item->link || !item->well) /* what a failure has ended: the next wait hears of it */
            continue;
        item->of = NULL;
        p2p->flow.posted--;
        ended[count++] = i;
    }
    p2p->flow.idle = false;
    atomic_store_explicit(&p2p->flow.ended, false, memory_order_relaxed);
    lock_release(&team->engine->lock);
    return count;
}

tutti_result_t p2p_await(struct team *team, struct p2p *p2p)
{
    lock_take(&team->engine->lock);
    p2p->flow.idle = true;
    lock_release(&team->engine->lock);
    return team_wait_or(team, p2p->flow.position + 1, &p2p->flow.ended);
}

void p2p_close(struct team *team, struct p2p *p2p)
{
    uint64_t position = p2p->flow.position;
    lock_take(&team->engine->lock);
    bool over = p2p->flow.over;
    p2p->flow.open = false;
    lock_release(&team->engine->lock);
    if (over)
        p2p_free(p2p);
    else
        team_wait(team, position + 1);
}

/* ---- Under the team's and the engine's locks ---- */

/* Receives first: then a fast peer, or this rank itself, finds them posted. */
static tutti_result_t post_all(struct team *team, struct p2p *p2p, bool sends)
{
    for (struct transfer *item = p2p->item; item < p2p->item + p2p->all.count; item++) {
        tutti_result_t result = item->of && item->sends == sends ? engine_p2p_post(team, item) : TUTTI_SUCCESS;
        if (result != TUTTI_SUCCESS)
            return team_fail(team, result, item->peer, error_last());
    }
    return TUTTI_SUCCESS;
}

static tutti_result_t p2p_start(struct team *team, struct op *op)
{
    op->p2p->flow.started = true;
    tutti_result_t result = post_all(team, op->p2p, false);
    return result == TUTTI_SUCCESS ? post_all(team, op->p2p, true) : result;
}

/* The operation's thread could post what this rank's peers wait for: nobody keeps it from that. */
static bool is_busy(const struct p2p *p2p)
{
    return p2p->flow.open && (!p2p->flow.idle || has_news(p2p) || !p2p->all.pending);
}

static uint32_t number_of(const struct transfer *item)
{
    return item->sends ? item->send.tag.seq : item->recv.tag.seq;
}

static void wait_for_first(struct op *op)
{
    struct p2p *p2p = op->p2p;
    p2p->first = p2p->flow.open ? 0 : p2p->first;
    while (!p2p->item[p2p->first].pending)
        p2p->first++;
    op_waits(op, p2p->item[p2p->first].peer, number_of(&p2p->item[p2p->first]), 0);
}

static tutti_result_t p2p_step(struct team *team, struct op *op)
{
    struct p2p *p2p = op->p2p;
    if (p2p->all.result != TUTTI_SUCCESS)
        return transfers_fail(team, &p2p->all);
    if (!p2p->all.pending && !p2p->flow.open)
        return TUTTI_SUCCESS;
    if (p2p->flow.open && has_news(p2p))
        atomic_store_explicit(&p2p->flow.ended, true, memory_order_release);
    if (is_busy(p2p))
        op_waits(op, -1, 0, 0);
    else
        wait_for_first(op);
    return TUTTI_IN_PROGRESS;
}

static bool p2p_may_move(const struct op *op)
{
    const struct p2p *p2p = op->p2p;
    bool news = p2p->flow.open ? p2p->flow.idle && has_news(p2p) : !p2p->all.pending;
    return p2p->all.result != TUTTI_SUCCESS || news;
}

static bool p2p_waits(const struct op *op)
{
    const struct p2p *p2p = op->p2p;
    return p2p->all.pending && p2p->item[p2p->first].pending && !is_busy(p2p);
}

static void p2p_describe(const struct op *op, struct wire_message *head)
{
    const struct transfer *item = &op->p2p->item[op->p2p->first];
    head->tag.slice = WIRE_TAG_P2P;
    head->tag.round = number_of(item);
    head->flags = !item->sends;
    head->call = item->sends ? item->send.call : item->recv.call;
}

static void p2p_end(struct team *team, struct op *op)
{
    struct p2p *p2p = op->p2p;
    transfers_cancel(p2p->item, p2p->all.count);
    p2p->flow.over = true;
    if (!p2p->flow.open) /* else its thread still has it */
        p2p_keep(team, p2p);
    op->p2p = NULL;
}

const struct op_kind op_p2p = {.needs_links = true,
                               .start = p2p_start,
                               .step = p2p_step,
                               .may_move = p2p_may_move,
                               .end = p2p_end,
                               .waits = p2p_waits,
                               .describe = p2p_describe};
