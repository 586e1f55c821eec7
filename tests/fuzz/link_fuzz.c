/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a link does with any messages, puts and events, in any order, while payloads wait, move and are given up. The
 * input is a program: each step is a byte that says what happens, and bytes that say how. The peer knows the protocol
 * and means harm; the transport keeps its contract.
 */
#include "base/param.h"
#include "link/link_testing.h"

#include <stdlib.h>
#include <string.h>

#define PAYLOADS 8
#define STEPS    400
#define LANES    3
#define KINDS    24 /* of messages: all that there are, and some that are none */

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
    const uint8_t *at;
    size_t left;
};

struct world {
    struct input in;
    struct script *script;
    struct link *link;
    struct payload *payload[PAYLOADS];
};

static uint8_t byte(struct input *in)
{
    if (!in->left)
        return 0;
    in->left--;
    return *in->at++;
}

static size_t take(struct input *in, void *out, size_t size)
{
    size_t got = size < in->left ? size : in->left;
    memset(out, 0, size);
    if (got)
        memcpy(out, in->at, got);
    in->at += got;
    in->left -= got;
    return got;
}

/* Numbers at which something changes, or any. */
static uint64_t number(struct input *in)
{
    static const uint64_t edges[] = {0,
                                     1,
                                     SCRIPT_EAGER,
                                     SCRIPT_EAGER + 1,
                                     SCRIPT_SEGMENT - 1,
                                     SCRIPT_SEGMENT,
                                     SCRIPT_SEGMENT * 2,
                                     SCRIPT_SEGMENT * 3 + 5,
                                     SCRIPT_SEGMENT * 70,
                                     16383,
                                     16384,
                                     65535,
                                     UINT32_MAX,
                                     UINT64_MAX - SCRIPT_SEGMENT,
                                     UINT64_MAX};
    uint8_t kind = byte(in) & 31;
    uint64_t any;
    if (kind < sizeof edges / sizeof *edges)
        return edges[kind];
    if (kind < 30)
        return kind - sizeof edges / sizeof *edges;
    take(in, &any, sizeof any);
    return any;
}

static void start(struct world *w)
{
    uint8_t how = byte(&w->in);
    struct payload **payload = &w->payload[how % PAYLOADS];
    size_t length = number(&w->in);
    if (*payload && !(*payload)->done)
        return;
    payload_free(*payload);
    *payload = payload_new(how & 0x80, how >> 3 & 3, how & 0x40 ? 7 : 8,
                           length < SCRIPT_SEGMENT * 80 ? length : 5 * SCRIPT_SEGMENT);
    if (how & 0x20)
        (*payload)->send.tag.slice = (*payload)->recv.tag.slice = 0; /* the tag stands first in both */
    payload_start(*payload, w->link);
}

static void give_up(struct world *w, struct payload **payload)
{
    if (*payload && !(*payload)->done) {
        payload_cancel(*payload, w->link);
        if ((*payload)->done)
            abort();
    }
    payload_free(*payload);
    *payload = NULL;
}

static size_t body(struct world *w, unsigned kind, unsigned char *out, size_t room)
{
    struct wire_credit credit = {0};
    uint64_t words[3];
    switch (kind) {
    case WIRE_CREDIT:
        credit.length = number(&w->in);
        credit.segment = number(&w->in);
        memcpy(out, &credit, sizeof credit);
        return sizeof credit;
    case WIRE_ANNOUNCE:
        words[0] = number(&w->in);
        memcpy(out, words, sizeof words[0]);
        return sizeof words[0];
    case WIRE_HAVE:
        take(&w->in, words, sizeof words);
        memcpy(out, words, sizeof words);
        return sizeof words;
    case WIRE_ABORT:
        memset(out, 'x', sizeof(struct wire_abort));
        return sizeof(struct wire_abort);
    case WIRE_CALL:
    case WIRE_ASK:
        take(&w->in, out, sizeof(struct wire_begun));
        return sizeof(struct wire_begun) + byte(&w->in) % 2;
    case WIRE_BLOCKED:
        take(&w->in, out, sizeof(struct wire_blocked));
        return sizeof(struct wire_blocked) - byte(&w->in) % 2;
    case WIRE_MEMO:
        memset(out, 'x', sizeof(struct wire_memo));
        memcpy(out, &(uint32_t){byte(&w->in) % 6}, sizeof(uint32_t));
        return sizeof(struct wire_memo) - byte(&w->in) % 2;
    case WIRE_WINDOW:
        take(&w->in, out, sizeof(struct wire_window));
        return sizeof(struct wire_window) + byte(&w->in) % 3 - 1;
    default: {
        uint64_t length = number(&w->in);
        memset(out, 1, room);
        return length < room ? length : room;
    }
    }
}

/* ---- What the owner is told ---- */

static void aborted(void *context, uint64_t comm, const struct wire_abort *abort_)
{
    (void)context;
    (void)comm;
    if (strnlen(abort_->text, sizeof abort_->text) == sizeof abort_->text)
        abort();
}

static void called(void *context, struct link *link, const struct wire_message *said, const void *body, size_t length)
{
    (void)context;
    if (said->kind != WIRE_CALL && said->kind != WIRE_ASK && said->kind != WIRE_BLOCKED)
        abort();
    link_call(link, said, body, length); /* a rank that is asked may ask back */
}

static void on_memo(void *context, struct link *link, const struct wire_tag *tag, const struct wire_memo *word)
{
    struct wire_memo answer = {.kind = WIRE_MEMO_LEAVE, .yours = word->visit};
    (void)context;
    if (word->kind == WIRE_MEMO_LEAVE && strnlen(word->why.text, sizeof word->why.text) == sizeof word->why.text)
        abort();
    link_memo(link, tag, &answer);
}

/* A rank that is asked reads all, and may ask, too. */
static void on_window(void *context, struct link *link, const struct wire_tag *tag, const void *body, size_t length)
{
    unsigned sum = 0;
    (void)context;
    for (size_t i = 0; i < length; i++)
        sum += ((const unsigned char *)body)[i];
    if (link_window(link, tag, body, sum % (length + 1)) != TUTTI_SUCCESS && !link_is_lost(link))
        abort();
}

static void listen_to(struct link_domain *domain)
{
    domain->owner.on_window = on_window;
    domain->owner.aborted = aborted;
    domain->owner.called = called;
    domain->owner.on_memo = on_memo;
}

static void say(struct world *w)
{
    unsigned char bytes[SCRIPT_SEGMENT];
    uint8_t how = byte(&w->in), what = byte(&w->in), kind = byte(&w->in) % KINDS;
    struct wire_sequence sequence = {.sequence = what & 0x10 ? 0 : w->link->out.received + 1,
                                     .received = what & 0x20 ? w->link->out.next_sequence : 0};
    struct wire_message head = {.tag = script_tag(how >> 4 & 3), .kind = kind, .call.signature = how & 0x40 ? 7 : 8};
    size_t skip = w->link->lossless ? 0 : sizeof sequence, used = skip + sizeof head;
    if (how & 0x80)
        head.tag.slice = 0;
    head.slot = what & 0x40 ? (uint16_t)number(&w->in) : what >> 2 & 3;
    if (head.kind == WIRE_DOWN || head.kind == WIRE_DOWN_OK || head.kind == WIRE_ANEW)
        head.tag.seq = what & 0x80 ? w->link->lane[head.slot % LANES].epoch : byte(&w->in);
    memcpy(bytes, &sequence, skip);
    memcpy(bytes + skip, &head, sizeof head);
    used += body(w, head.kind, bytes + used, sizeof bytes - used);
    script_say(w->script, what & 3, bytes, used);
}

static void say_anything(struct world *w)
{
    unsigned char bytes[256];
    uint8_t length = byte(&w->in);
    take(&w->in, bytes, sizeof bytes);
    script_say(w->script, byte(&w->in) % LANES, bytes, length);
}

static void throw(struct world * w)
{
    uint8_t how = byte(&w->in), where = byte(&w->in);
    uint32_t segment = where & 15;
    uint64_t offset = segment * (uint64_t)SCRIPT_SEGMENT, length = SCRIPT_SEGMENT;
    if (how & 0x80)
        offset = number(&w->in);
    if (how & 0x40)
        length = number(&w->in) % (4 * SCRIPT_SEGMENT);
    script_throw(w->script, how & 3, (uint32_t)(how >> 2 & 7) << 16 | segment, offset, length, !(where & 0x80));
}

static void change_manners(struct world *w)
{
    uint8_t how = byte(&w->in);
    w->script->sent_at_once = how & 1;
    w->script->down_inside = how & 2;
    w->script->newest = how & 4;
    w->script->fail_opens = how >> 4 & 3;
    if (how & 8)
        link_forget_comm(w->script->side[0].domain, 1);
}

static void tell_others(struct world *w)
{
    struct wire_abort abort = {.culprit = 1, .text = "the fuzzer"};
    link_abort(w->link, 1, &abort);
}

static void act(struct world *w, bool lanes_die)
{
    static const enum script_action kind[] = {SCRIPT_CONNECT, SCRIPT_REFUSE, SCRIPT_UP,   SCRIPT_DELIVER,
                                              SCRIPT_SENT,    SCRIPT_FULL,   SCRIPT_ROOM, SCRIPT_SENT};
    uint8_t how = byte(&w->in);
    int lane = how % 4;
    enum script_action action = kind[how >> 2 & 7];
    if (lanes_die)
        action = how & 0x10 ? SCRIPT_KILL : SCRIPT_DOWN;
    script_act(w->script, 0, lane, action);
}

static void step(struct world *w)
{
    static const uint64_t times[] = {0, 150, 2500, 6000};
    uint8_t what = byte(&w->in);
    switch (what & 15) {
    case 0:
    case 1:
    case 2:
        start(w);
        break;
    case 3:
        give_up(w, &w->payload[what >> 4 & 7]);
        break;
    case 4:
        script_dial(w->script, what >> 4 & 3, byte(&w->in));
        break;
    case 5:
    case 6:
    case 7:
        say(w);
        break;
    case 8:
        say_anything(w);
        break;
    case 9:
    case 10:
        throw(w);
        break;
    case 11:
        act(w, true);
        break;
    case 12:
        script_tick(w->script, times[what >> 4 & 3]);
        break;
    case 13:
        change_manners(w);
        break;
    case 14:
        tell_others(w);
        break;
    default:
        act(w, false);
        break;
    }
}

static void check(const struct world *w)
{
    struct link *link = w->link;
    for (int i = 0; i < PAYLOADS; i++)
        if (w->payload[i] && (w->payload[i]->done > 1 || (link->lost && !w->payload[i]->done)))
            abort();
    if (link->lost &&
        (tags_any(&link->match.waiting) || !list_empty(&link->puts.queue) || !list_empty(&link->out.kept)))
        abort();
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    script_setup(NULL);
    setenv("TUTTI_PROBE_AFTER", "1s", 1);
    param_reload();
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct world w = {.in = {data, size}};
    uint8_t how = byte(&w.in);
    struct script_shape shape = {.caps = how & 1 ? TRANSPORT_LOSSLESS : 0, .lanes = 1 + how / 2 % LANES, .alone = true};
    w.script = script_new(&shape);
    if (how & 0x80)
        for (int i = 0; i < shape.lanes; i++)
            script_dial(w.script, i, 0);
    script_get_link(w.script, 0);
    w.link = w.script->side[0].link;
    w.link->early.most = 30000;
    listen_to(w.script->side[0].domain);
    for (int i = 0; i < STEPS && w.in.left; i++) {
        step(&w);
        check(&w);
    }
    for (int i = 0; i < PAYLOADS; i++)
        give_up(&w, &w.payload[i]);
    script_free(w.script);
    return 0;
}
