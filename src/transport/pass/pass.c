/* SPDX-License-Identifier: Apache-2.0 */
/* What all pass-throughs have in common: lanes over lanes, and the queue before the gate. */
#include "transport/pass/pass.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/param.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define MOST_TABLES 16

static struct pass_transport *pass_of(const struct pass_lane *lane)
{
    return (struct pass_transport *)lane->base.lane.transport;
}

/* ---- Lanes ---- */

static void pass_reap(struct lane *base)
{
    free(base);
}

static struct pass_lane *pass_lane_new(struct pass_transport *pass, uint16_t index, void *user)
{
    struct pass_lane *lane = calloc(1, sizeof *lane);
    if (!lane)
        return NULL;
    carrier_init(&lane->base, &pass->base, user);
    list_init(&lane->busy);
    list_init(&lane->queue);
    lane->index = index;
    return lane;
}

static void pass_drop(struct pass_lane *lane, struct pass_item *item)
{
    list_remove(&item->node);
    lane->count--;
    free(item);
}

static void pass_lane_close(struct lane *base)
{
    struct pass_lane *lane = (struct pass_lane *)base;
    while (!list_empty(&lane->queue))
        pass_drop(lane, list_entry(lane->queue.next, struct pass_item, node));
    list_remove(&lane->busy);
    if (lane->below)
        lane->below->ops->lane_close(lane->below);
    lane->below = NULL;
    carrier_close(&lane->base);
}

static tutti_result_t lane_open(struct transport *transport, const struct wire_process *peer, uint16_t index,
                                uint32_t epoch, uint32_t known, uint64_t session, void *user, struct lane **out)
{
    struct pass_transport *pass = (struct pass_transport *)transport;
    struct pass_lane *lane = pass_lane_new(pass, index, user);
    if (!lane)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for lane %u", index);
    tutti_result_t result =
        pass->table->under->lane_open(pass->below, peer, index, epoch, known, session, lane, &lane->below);
    if (result != TUTTI_SUCCESS) {
        free(lane);
        return result;
    }
    *out = &lane->base.lane;
    return TUTTI_SUCCESS;
}

/* ---- The queue ---- */

static tutti_result_t pass_hand_down(struct pass_lane *lane, struct pass_item *item)
{
    struct iovec part = {item->bytes, item->length};
    return item->is_put ? lane->below->ops->put(lane->below, &item->put) : lane->below->ops->msg(lane->below, &part, 1);
}

/* Lets through what may go. Returns how much that was. Upcalls from below may close the lane meanwhile. */
static int let_through(struct pass_lane *lane, uint64_t now)
{
    const struct pass_gate *gate = pass_of(lane)->table->gate;
    int done = 0;
    while (!carrier_dead(&lane->base) && !lane->blocked && !list_empty(&lane->queue)) {
        struct pass_item *item = list_entry(lane->queue.next, struct pass_item, node);
        struct pass_lane before = *lane;
        if (!gate->open(lane, item->length, now))
            break;
        list_remove(&item->node); /* its sent() may come from inside */
        tutti_result_t result = pass_hand_down(lane, item);
        if (result == TUTTI_IN_PROGRESS && !carrier_dead(&lane->base)) {
            list_push(lane->queue.next, &item->node); /* the first again */
            lane->free_at = before.free_at;
            lane->blocked = true;
            break;
        }
        free(item);
        lane->count -= lane->count > 0;
        done++;
    }
    if (list_empty(&lane->queue))
        list_remove(&lane->busy);
    return done;
}

static tutti_result_t pass_enqueue(struct pass_lane *lane, struct pass_item *item)
{
    struct pass_transport *pass = pass_of(lane);
    list_init(&item->node);
    list_push(&lane->queue, &item->node);
    lane->count++;
    if (list_empty(&lane->busy))
        list_push(&pass->busy, &lane->busy);
    if (lane->count > 1)
        return TUTTI_SUCCESS;
    transport_enter(&pass->base);
    let_through(lane, clock_ns());
    tutti_result_t result = lane->base.failing ? TUTTI_REMOTE_ERROR : TUTTI_SUCCESS;
    transport_leave(&pass->base);
    return result;
}

/* Is there room for a message or put of this lane? */
static tutti_result_t pass_room(struct pass_lane *lane, size_t length, struct pass_item **out)
{
    if (carrier_dead(&lane->base) || !lane->below)
        return error_note(TUTTI_REMOTE_ERROR, "lane %u is down", lane->index);
    if (lane->count >= PASS_QUEUE) {
        lane->wants_room = true;
        return TUTTI_IN_PROGRESS;
    }
    struct pass_item *item = calloc(1, sizeof *item + length);
    if (!item)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for what waits on lane %u", lane->index);
    *out = item;
    return TUTTI_SUCCESS;
}

static tutti_result_t msg(struct lane *base, const struct iovec *parts, int count)
{
    struct pass_lane *lane = (struct pass_lane *)base;
    struct pass_item *item = NULL;
    size_t length = transport_msg_length(parts, count, base->ops->max_msg), used = 0;
    tutti_result_t result = pass_room(lane, length, &item);
    if (result != TUTTI_SUCCESS)
        return result;
    if (!length) {
        free(item);
        return error_set(TUTTI_INVALID_ARGUMENT, "a message has 1 to %zu bytes", base->ops->max_msg);
    }
    for (int i = 0; i < count; used += parts[i++].iov_len)
        if (parts[i].iov_len)
            memcpy(item->bytes + used, parts[i].iov_base, parts[i].iov_len);
    item->length = length;
    base->bytes_sent += length;
    return pass_enqueue(lane, item);
}

static tutti_result_t pass_put(struct lane *base, const struct put *put)
{
    struct pass_lane *lane = (struct pass_lane *)base;
    struct pass_item *item = NULL;
    tutti_result_t result = pass_room(lane, 0, &item);
    if (result != TUTTI_SUCCESS)
        return result;
    if (!put->length || put->offset > UINT64_MAX - put->length) {
        free(item);
        return error_set(TUTTI_INVALID_ARGUMENT, "a put has at least 1 byte, and no end beyond 2^64");
    }
    item->is_put = true;
    item->put = *put;
    item->length = put->length;
    base->bytes_sent += put->length;
    return pass_enqueue(lane, item);
}

static void pass_give_up(struct lane *base, uint64_t token)
{
    struct pass_lane *lane = (struct pass_lane *)base;
    list_each_safe(node, &lane->queue)
    {
        struct pass_item *item = list_entry(node, struct pass_item, node);
        if (item->is_put && item->put.token == token) {
            pass_drop(lane, item);
            return;
        }
    }
    if (lane->below)
        lane->below->ops->give_up(lane->below, token);
}

/* ---- Upcalls from below ---- */

static bool on_accepted(void *context, struct lane *below, const struct wire_hello *hello)
{
    struct pass_transport *pass = context;
    struct pass_lane *lane = pass_lane_new(pass, hello->lane, NULL);
    if (!lane)
        return false;
    lane->below = below;
    lane->base.up = true;
    lane->base.lane.device = below->device;
    lane->base.lane.source = below->source;
    below->user = lane;
    transport_enter(&pass->base);
    bool taken = pass->base.owner.accepted(pass->base.owner.context, &lane->base.lane, hello);
    if (!taken && !lane->base.closed) {
        lane->below = NULL; /* closed by its transport */
        carrier_close(&lane->base);
    }
    transport_leave(&pass->base);
    return taken;
}

/* Around an upcall of a lane: the counters are those of the lane below. */
#define UPCALL(below, call)                                                                                            \
    do {                                                                                                               \
        struct pass_lane *lane = (below)->user;                                                                        \
        struct pass_transport *pass = pass_of(lane);                                                                   \
        lane->base.lane.bytes_received = (below)->bytes_received;                                                      \
        transport_enter(&pass->base);                                                                                  \
        if (!carrier_dead(&lane->base))                                                                                \
            pass->base.owner.call;                                                                                     \
        transport_leave(&pass->base);                                                                                  \
    } while (0)

static void on_up(struct lane *below)
{
    struct pass_lane *above = below->user;
    above->base.up = true;
    above->base.lane.device = below->device;
    above->base.lane.source = below->source;
    UPCALL(below, up(&lane->base.lane));
}

static void on_down(struct lane *below, tutti_result_t why)
{
    struct pass_lane *lane = below->user;
    struct pass_transport *pass = pass_of(lane);
    if (carrier_dead(&lane->base))
        return;
    lane->base.down = true;
    transport_enter(&pass->base);
    pass->base.owner.down(&lane->base.lane, why);
    transport_leave(&pass->base);
}

static void on_message(struct lane *below, const void *bytes, size_t length)
{
    UPCALL(below, message(&lane->base.lane, bytes, length));
}

static struct place on_target(struct lane *below, uint32_t imm, uint64_t offset, size_t length)
{
    struct pass_lane *lane = below->user;
    struct pass_transport *pass = pass_of(lane);
    transport_enter(&pass->base);
    struct place target = {0};
    if (!carrier_dead(&lane->base))
        target = pass->base.owner.target(&lane->base.lane, imm, offset, length);
    transport_leave(&pass->base);
    return target;
}

static void on_arrived(struct lane *below, uint32_t imm, uint64_t offset, size_t length)
{
    UPCALL(below, arrived(&lane->base.lane, imm, offset, length));
}

static void on_sent(struct lane *below, uint64_t token)
{
    UPCALL(below, sent(&lane->base.lane, token));
}

static void on_writable(struct lane *below)
{
    ((struct pass_lane *)below->user)->blocked = false; /* goes on at the next poll */
}

static void on_shared(struct lane *below, uint64_t key, int fd)
{
    UPCALL(below, shared(&lane->base.lane, key, fd));
}

static int on_source(void *context, const struct transport_ops *ops, const struct wire_process *peer, unsigned device,
                     uint16_t index)
{
    struct pass_transport *pass = context;
    const struct transport_owner *owner = &pass->base.owner;
    (void)ops;
    return owner->source ? owner->source(owner->context, pass->base.ops, peer, device, index) : 0;
}

static void on_memory(void *context, int64_t bytes)
{
    struct pass_transport *pass = context;
    if (pass->base.owner.memory)
        pass->base.owner.memory(pass->base.owner.context, bytes);
}

static void on_unreadable(struct lane *below, uint64_t token)
{
    UPCALL(below, unreadable(&lane->base.lane, token));
}

static void on_unwritable(struct lane *below, uint32_t imm, uint64_t offset, size_t length)
{
    UPCALL(below, unwritable(&lane->base.lane, imm, offset, length));
}

static void on_flushed(void *context, uint64_t token)
{
    struct pass_transport *pass = context;
    transport_enter(&pass->base);
    pass->base.owner.flushed(pass->base.owner.context, token);
    transport_leave(&pass->base);
}

/* ---- The transport ---- */

static tutti_result_t pass_open(const struct transport_ops *ops, const struct transport_owner *owner,
                                struct poller *poller, struct wire_process *self, struct transport **out)
{
    const struct pass_table *table = (const struct pass_table *)ops;
    struct pass_transport *pass = calloc(1, sizeof *pass);
    if (!pass)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for transport %s", ops->name);
    const struct transport_owner between = {.context = pass,
                                            .accepted = on_accepted,
                                            .up = on_up,
                                            .down = on_down,
                                            .message = on_message,
                                            .target = on_target,
                                            .arrived = on_arrived,
                                            .sent = on_sent,
                                            .writable = on_writable,
                                            .shared = on_shared,
                                            .memory = on_memory,
                                            .source = on_source,
                                            .unreadable = owner->unreadable ? on_unreadable : NULL,
                                            .unwritable = owner->unwritable ? on_unwritable : NULL,
                                            .flushed = owner->flushed ? on_flushed : NULL};
    pass->table = table;
    pass->random = table->setting.seed;
    list_init(&pass->busy);
    tutti_result_t result = transport_init(&pass->base, ops, owner, poller, pass_reap);
    if (result == TUTTI_SUCCESS)
        result = table->under->open(table->under, &between, poller, self, &pass->below);
    if (result != TUTTI_SUCCESS) {
        transport_fini(&pass->base);
        free(pass);
        return result;
    }
    *out = &pass->base;
    return TUTTI_SUCCESS;
}

static void pass_close(struct transport *transport)
{
    struct pass_transport *pass = (struct pass_transport *)transport;
    pass->table->under->close(pass->below);
    transport_fini(transport);
    free(pass);
}

static int pass_reach(struct transport *transport, const struct wire_process *peer)
{
    struct pass_transport *pass = (struct pass_transport *)transport;
    return pass->table->under->reach(pass->below, peer);
}

static int pass_lanes(struct transport *transport, const struct wire_process *peer)
{
    struct pass_transport *pass = (struct pass_transport *)transport;
    return pass->table->under->lanes(pass->below, peer);
}

static bool pass_nic(struct transport *transport, unsigned device, struct transport_nic *out)
{
    struct pass_transport *pass = (struct pass_transport *)transport;
    return pass->table->under->nic(pass->below, device, out);
}

static void pass_announce(struct transport *transport, const void *address)
{
    struct pass_transport *pass = (struct pass_transport *)transport;
    pass->table->under->announce(pass->below, address);
}

static tutti_result_t pass_share(struct lane *base, uint64_t key, int fd)
{
    struct pass_lane *lane = (struct pass_lane *)base;
    return lane->below ? lane->below->ops->share(lane->below, key, fd) : TUTTI_REMOTE_ERROR;
}

static tutti_result_t pass_register(struct transport *transport, struct place place, size_t length,
                                    struct transport_memory **out)
{
    struct pass_transport *pass = (struct pass_transport *)transport;
    return pass->table->under->register_memory(pass->below, place, length, out);
}

static void pass_deregister(struct transport *transport, struct transport_memory *memory)
{
    struct pass_transport *pass = (struct pass_transport *)transport;
    pass->table->under->deregister_memory(pass->below, memory);
}

static void pass_gather(struct transport *transport, bool gathers)
{
    struct pass_transport *pass = (struct pass_transport *)transport;
    pass->table->under->gather(pass->below, gathers);
}

static void pass_flush(struct transport *transport, unsigned device, const struct transport_memory *memory,
                       struct place place, uint64_t token)
{
    struct pass_transport *pass = (struct pass_transport *)transport;
    pass->table->under->flush(pass->below, device, memory, place, token);
}

static void tell_room(struct pass_lane *lane)
{
    struct transport *transport = lane->base.lane.transport;
    if (!lane->wants_room || lane->count > PASS_QUEUE / 2 || carrier_dead(&lane->base))
        return;
    lane->wants_room = false;
    transport->owner.writable(&lane->base.lane);
}

static uint64_t pass_moved(struct lane *base)
{
    struct pass_lane *lane = (struct pass_lane *)base;
    return lane->below ? lane->below->ops->moved(lane->below) : 0;
}

static uint64_t pass_owes(struct lane *base)
{
    struct pass_lane *lane = (struct pass_lane *)base;
    return lane->below ? lane->below->ops->owes(lane->below) : 0;
}

static int pass_poll(struct transport *transport)
{
    struct pass_transport *pass = (struct pass_transport *)transport;
    struct list turn, *node;
    int done = pass->table->under->poll(pass->below);
    if (transport->depth)
        return done;
    transport_enter(transport);
    if (!list_empty(&pass->busy)) {
        uint64_t now = clock_ns();
        transport_take(&turn, &pass->busy);
        while ((node = list_pop(&turn))) {
            struct pass_lane *lane = list_entry(node, struct pass_lane, busy);
            list_push(&pass->busy, &lane->busy);
            done += let_through(lane, now);
            tell_room(lane);
        }
    }
    done += transport_settle(transport);
    transport_leave(transport);
    return done;
}

static bool pass_arm(struct transport *transport)
{
    struct pass_transport *pass = (struct pass_transport *)transport;
    if (!list_empty(&pass->busy) || !list_empty(&transport->failing)) /* no bell rings for them: look again */
        return false;
    transport->armed = true;
    return pass->table->under->arm(pass->below);
}

static void pass_disarm(struct transport *transport)
{
    struct pass_transport *pass = (struct pass_transport *)transport;
    transport->armed = false;
    pass->table->under->disarm(pass->below);
}

/* ---- Tables ---- */

static void pass_fill(struct pass_table *table, const struct transport_ops *under)
{
    table->under = under;
    table->ops = *under;
    table->ops.open = pass_open;
    table->ops.close = pass_close;
    table->ops.reach = pass_reach;
    table->ops.lanes = pass_lanes;
    table->ops.nic = pass_nic;
    table->ops.lane_open = lane_open;
    table->ops.lane_close = pass_lane_close;
    table->ops.msg = msg;
    table->ops.put = pass_put;
    table->ops.lend = NULL;
    table->ops.gather = under->gather ? pass_gather : NULL;
    table->ops.give_up = pass_give_up;
    table->ops.register_memory = pass_register;
    table->ops.deregister_memory = pass_deregister;
    table->ops.flush = pass_flush;
    table->ops.announce = pass_announce;
    table->ops.share = pass_share;
    table->ops.moved = pass_moved;
    table->ops.owes = pass_owes;
    table->ops.poll = pass_poll;
    table->ops.arm = pass_arm;
    table->ops.disarm = pass_disarm;
}

/* "NAME=SETTING" over `under`. */
static const struct transport_ops *one_over(const struct transport_ops *under, const char *text)
{
    static const struct pass_gate *const gates[] = {&pass_throttle, &pass_faults};
    static struct pass_table tables[MOST_TABLES];
    static int count;
    struct pass_table made = {.under = under};
    size_t name = strcspn(text, "=");
    for (size_t i = 0; i < sizeof gates / sizeof *gates; i++)
        if (strlen(gates[i]->name) == name && memcmp(gates[i]->name, text, name) == 0)
            made.gate = gates[i];
    if (!made.gate || !text[name] || !made.gate->parse(text + name + 1, &made.setting)) {
        error_set(TUTTI_INVALID_USAGE, "TUTTI_PASS: \"%s\" is none of throttle=RATE[/RATE...] and faults=HOLD/END/SEED",
                  text);
        return NULL;
    }
    for (int i = 0; i < count; i++)
        if (tables[i].under == under && tables[i].gate == made.gate &&
            !memcmp(&tables[i].setting, &made.setting, sizeof made.setting))
            return &tables[i].ops;
    if (count == MOST_TABLES) {
        error_set(TUTTI_INVALID_USAGE, "TUTTI_PASS: more than %d pass-throughs", MOST_TABLES);
        return NULL;
    }
    made.ops = (struct transport_ops){0};
    tables[count] = made;
    pass_fill(&tables[count], under);
    return &tables[count++].ops;
}

const struct transport_ops *pass_over(const struct transport_ops *ops)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    char text[256], *rest = NULL;
    const char *asked = param_string(PARAM_PASS);
    if (!*asked)
        return ops;
    if (strlen(asked) >= sizeof text) {
        error_set(TUTTI_INVALID_USAGE, "TUTTI_PASS is longer than %zu characters", sizeof text - 1);
        return NULL;
    }
    memcpy(text, asked, strlen(asked) + 1);
    pthread_mutex_lock(&lock);
    for (char *word = strtok_r(text, ";", &rest); word && ops; word = strtok_r(NULL, ";", &rest))
        ops = one_over(ops, word);
    pthread_mutex_unlock(&lock);
    return ops;
}
