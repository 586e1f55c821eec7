/* SPDX-License-Identifier: Apache-2.0 */
/* What an end of the model does: the functions of the link that decide about failover, without what else they do. */
#include "link/failover_internal.h"

#include <string.h>

/* ---- Messages ---- */

static void transmit(struct step *step, int side, int position)
{
    int control = step->state->side[side].control - 1;
    struct model_connection *c = control < 0 ? NULL : model_held(step->state, side, control);
    if (!model_refuses(c, side))
        model_fly(step, c, side, (uint8_t)(position + 1));
}

static void message_send(struct step *step, int side, uint16_t message)
{
    struct model_side *mine = &step->state->side[side];
    if (mine->lost)
        return;
    if (mine->queued == MODEL_QUEUE) {
        blame(step, "the model's bound: queue");
        return;
    }
    mine->queue[mine->queued++] = message;
    transmit(step, side, mine->queued - 1);
}

static void message_resend(struct step *step, int side)
{
    for (int i = 0; i < step->state->side[side].queued; i++)
        transmit(step, side, i);
}

/* The peer has the first message of `side`: its repetitions would be dropped, and are forgotten here. */
uint16_t model_admit(struct step *step, int side)
{
    struct model_side *mine = &step->state->side[side];
    uint16_t message = mine->queue[0];
    mine->queued--;
    memmove(mine->queue, mine->queue + 1, mine->queued * sizeof *mine->queue);
    mine->queue[mine->queued] = 0;
    for (int i = 0; i < MODEL_CONNECTIONS; i++) {
        struct model_end *end = &step->state->connection[i].end[side];
        uint8_t kept = 0;
        for (uint8_t j = 0; j < end->flights; j++)
            if (end->flight[j] != 1)
                end->flight[kept++] = end->flight[j] & 0x80 ? end->flight[j] : end->flight[j] - 1;
        memset(end->flight + kept, 0, (size_t)(end->flights - kept));
        end->flights = kept;
    }
    return message;
}

/* ---- Segments ---- */

static bool is_reading(const struct model_shape *shape, const struct model_state *state, int payload)
{
    for (int i = 0; i < shape->payload[payload].segments; i++)
        if (state->send[payload].lane_of[i] & MODEL_READING)
            return true;
    return false;
}

static void remove_bulk(struct model_side *side, int payload)
{
    for (uint8_t i = 0; i < side->bulks; i++)
        if (side->bulk[i] == payload + 1) {
            memmove(side->bulk + i, side->bulk + i + 1, (size_t)(side->bulks - i - 1));
            side->bulk[--side->bulks] = 0;
            return;
        }
}

static void add_bulk(struct model_side *side, int payload)
{
    remove_bulk(side, payload);
    side->bulk[side->bulks++] = (uint8_t)(payload + 1);
}

static void end_send(struct step *step, int payload, enum model_status status)
{
    struct model_send *send = &step->state->send[payload];
    remove_bulk(&step->state->side[step->shape->payload[payload].from], payload);
    memset(send, 0, sizeof *send);
    send->status = (uint8_t)status;
    if (status == MODEL_DONE && step->state->recv[payload].status != MODEL_DONE)
        blame(step, "a send is done whose payload has not arrived");
    for (int i = 0; i < MODEL_CONNECTIONS; i++) {
        const struct model_end *end = &step->state->connection[i].end[step->shape->payload[payload].from];
        for (int j = 0; j < end->sources; j++)
            if ((end->source[j] >> 4 & 7) == payload)
                blame(step, "a send is over while a lane reads it");
    }
}

static uint32_t usable(const struct step *step, int side)
{
    uint32_t up = 0, data = 0, suspect = 0;
    for (int i = 0; i < lanes_of(step->shape); i++) {
        const struct model_lane *lane = &step->state->side[side].lane[i];
        bool good = lane->state == MODEL_IS_UP && (!lane->unconfirmed || mutated(step, MODEL_UNCONFIRMED_USED));
        up |= (uint32_t)good << i;
        data |= (uint32_t)(good && !is_message_lane(step->shape, i)) << i;
        suspect |= (uint32_t)lane->suspect << i;
    }
    uint32_t trusted = data & ~suspect ? data & ~suspect : up & ~suspect;
    return trusted ? trusted : data ? data : up;
}

/* Segments go to the usable lanes in turn, or to the next that has room. -1: none has. */
static int pick_lane(const struct step *step, int side, int segment)
{
    int lanes[MODEL_LANES], count = 0;
    uint32_t set = usable(step, side);
    for (int i = 0; i < MODEL_LANES; i++)
        if (set >> i & 1)
            lanes[count++] = i;
    for (int i = 0; i < count; i++) {
        int lane = lanes[(segment + i) % count];
        if (step->state->side[side].lane[lane].puts < step->shape->window)
            return lane;
    }
    return -1;
}

static bool put_next(struct step *step, int side, int payload)
{
    struct model_send *send = &step->state->send[payload];
    int lane = pick_lane(step, side, send->next);
    if (lane < 0)
        return false;
    struct model_connection *c = model_held(step->state, side, lane);
    send->lane_of[send->next] = (uint8_t)((lane + 1) | MODEL_READING);
    step->state->side[side].lane[lane].puts++;
    if (model_refuses(c, side))
        return false; /* it counts as put: what came of it is found out when the lane is down */
    uint8_t put = MODEL_PUT(payload, send->next);
    model_fly(step, c, side, put);
    model_read(step, c, side, put);
    return true;
}

static void bulk_start(struct step *step, int side, int slot, int payload);

/* What goes by the credit of this payload. */
static void start_next(struct step *step, int side, int slot, int payload)
{
    for (int i = 0; i < step->shape->payloads; i++)
        if (step->shape->payload[i].stands && step->shape->payload[i].after == payload &&
            step->state->send[i].status == MODEL_WAITS)
            bulk_start(step, side, slot, i);
}

void model_bulk_pump(struct step *step, int side)
{
    struct model_side *mine = &step->state->side[side];
    while (mine->bulks) {
        int payload = mine->bulk[0] - 1;
        struct model_send *send = &step->state->send[payload];
        while (send->next < step->shape->payload[payload].segments && send->lane_of[send->next])
            send->next++;
        if (send->next == step->shape->payload[payload].segments) {
            remove_bulk(mine, payload);
            if (mutated(step, MODEL_STANDS_UNDONE))
                start_next(step, side, send->slot, payload);
        } else if (!put_next(step, side, payload))
            return;
    }
}

void model_bulk_credit(struct step *step, int payload)
{
    struct model_recv *recv = &step->state->recv[payload];
    int side = 1 - step->shape->payload[payload].from;
    unsigned taken = 0;
    for (int i = 0; i < step->shape->payloads; i++)
        if (step->shape->payload[i].from != side &&
            (step->state->recv[i].status == MODEL_ACTIVE || step->state->recv[i].cancelled))
            taken |= 1u << step->state->recv[i].slot;
    recv->slot = (uint8_t)__builtin_ctz(~taken);
    recv->status = MODEL_ACTIVE;
    message_send(step, side, MODEL_SAY(MODEL_SAYS_CREDIT, recv->slot, payload));
}

/* The send that the peer knows by this slot; -1: none. */
static int sending(const struct step *step, int side, int slot)
{
    for (int i = 0; i < step->shape->payloads; i++)
        if (step->shape->payload[i].from == side && step->state->send[i].status == MODEL_ACTIVE &&
            step->state->send[i].slot == slot)
            return i;
    return -1;
}

static void bulk_start(struct step *step, int side, int slot, int payload)
{
    struct model_send *send = &step->state->send[payload];
    if (send->status != MODEL_WAITS) {
        if (send->status != MODEL_FAILED)
            blame(step, "a second credit");
        return;
    }
    send->status = MODEL_ACTIVE;
    send->slot = (uint8_t)slot;
    add_bulk(&step->state->side[side], payload);
    model_bulk_pump(step, side);
}

void model_finish_if_read(struct step *step, int payload)
{
    if (step->state->send[payload].status == MODEL_OVER && !is_reading(step->shape, step->state, payload))
        end_send(step, payload, MODEL_DONE);
}

static void bulk_done(struct step *step, int side, int slot, int meant)
{
    int payload = sending(step, side, slot);
    if (payload != meant)
        blame(step, "DONE of another payload");
    if (payload < 0)
        return;
    remove_bulk(&step->state->side[side], payload);
    step->state->send[payload].status = MODEL_OVER;
    model_finish_if_read(step, payload);
    if (!mutated(step, MODEL_STANDS_UNDONE))
        start_next(step, side, slot, payload);
    model_bulk_pump(step, side);
}

static void bulk_have(struct step *step, int side, int slot, int body)
{
    int payload = sending(step, side, slot);
    if (payload < 0)
        return;
    if (payload != body >> 4)
        blame(step, "HAVE of another payload");
    struct model_send *send = &step->state->send[payload];
    for (int i = 0; i < MODEL_SEGMENTS; i++)
        if (body >> i & 1 && !(send->lane_of[i] & MODEL_READING))
            send->lane_of[i] = MODEL_ARRIVED;
}

static void bulk_say_have(struct step *step, int side)
{
    for (int slot = 0; slot < MODEL_PAYLOADS; slot++)
        for (int i = 0; i < step->shape->payloads; i++) {
            const struct model_recv *recv = &step->state->recv[i];
            bool mine = step->shape->payload[i].from != side && recv->status == MODEL_ACTIVE && recv->slot == slot;
            if (mine && recv->bitmap)
                message_send(step, side, MODEL_SAY(MODEL_SAYS_HAVE, slot, i << 4 | recv->bitmap));
        }
}

static void bulk_put_again(struct step *step, int side, int lane)
{
    for (int slot = 0; slot < MODEL_PAYLOADS; slot++) {
        int payload = sending(step, side, slot);
        bool any = false;
        for (int i = 0; payload >= 0 && i < step->shape->payload[payload].segments; i++)
            if (step->state->send[payload].lane_of[i] == lane + 1) {
                step->state->send[payload].lane_of[i] = 0;
                any = true;
            }
        if (!any)
            continue;
        step->state->send[payload].next = 0;
        struct model_side *mine = &step->state->side[side];
        if (!memchr(mine->bulk, payload + 1, sizeof mine->bulk))
            add_bulk(mine, payload);
    }
    model_bulk_pump(step, side);
}

static void bulk_lane_gone(struct step *step, int side, int lane)
{
    step->state->side[side].lane[lane].puts = 0;
    for (int p = 0; p < step->shape->payloads; p++) {
        struct model_send *send = &step->state->send[p];
        if (step->shape->payload[p].from != side)
            continue;
        for (int i = 0; i < MODEL_SEGMENTS; i++)
            if (send->lane_of[i] == ((lane + 1) | MODEL_READING))
                send->lane_of[i] = (uint8_t)(lane + 1);
        model_finish_if_read(step, p);
    }
}

/* Where the credit stands, the next payload may come from here on. */
static void park(struct step *step, int payload)
{
    for (int i = 0; i < step->shape->payloads; i++)
        if (step->shape->payload[i].stands && step->shape->payload[i].after == payload)
            step->state->recv[i] = (struct model_recv){.status = MODEL_ACTIVE, .slot = step->state->recv[payload].slot};
}

static void bulk_complete(struct step *step, int payload)
{
    struct model_recv *recv = &step->state->recv[payload];
    const struct model_payload_shape *shape = &step->shape->payload[payload];
    if (recv->bitmap + 1 < 1 << shape->segments || (shape->stands && !recv->expected))
        return;
    recv->status = MODEL_DONE;
    park(step, payload);
    message_send(step, 1 - shape->from, MODEL_SAY(MODEL_SAYS_DONE, recv->slot, payload));
    recv->slot = recv->bitmap = recv->expected = 0;
}

void model_bulk_expect(struct step *step, int payload)
{
    struct model_recv *recv = &step->state->recv[payload];
    if (recv->status == MODEL_ACTIVE) {
        recv->expected = 1;
        bulk_complete(step, payload);
    } else { /* there is no credit: the one before was given up, and so is this one */
        *recv = (struct model_recv){.status = MODEL_FAILED, .cancelled = 1};
    }
}

/* A put arrives: in a link by its slot, and only there; by an adapter wherever the sender was told to write. */
void model_bulk_arrived(struct step *step, uint8_t put)
{
    int payload = put >> 4 & 7, segment = put & 15;
    struct model_recv *recv = &step->state->recv[payload];
    if (recv->cancelled) { /* the link finds no receive in the slot; an adapter finds the key revoked */
        if (step->shape->remote && mutated(step, MODEL_NO_REVOKE))
            blame(step, "a late write: the receive was given up");
        return;
    }
    if (recv->status != MODEL_ACTIVE) {
        if (recv->status != MODEL_FAILED || step->shape->remote)
            blame(step, "a late write: the buffer was given back");
        return;
    }
    if (recv->bitmap >> segment & 1) {
        blame(step, "a segment arrives twice");
        return;
    }
    recv->bitmap |= (uint8_t)(1 << segment);
    bulk_complete(step, payload);
}

/* ---- Lanes ---- */

/* The first lane for messages that is up; of the trusted ones, or of all. */
static uint8_t first_control(const struct step *step, int side, bool trusted)
{
    const struct model_side *mine = &step->state->side[side];
    for (uint8_t i = 0; i < step->shape->lanes; i++)
        if (mine->lane[i].state == MODEL_IS_UP && !(trusted && mine->lane[i].suspect))
            return (uint8_t)(i + 1);
    return 0;
}

/* The present one stays while it is trusted, or no other is. */
static void choose_control(struct step *step, int side)
{
    struct model_side *mine = &step->state->side[side];
    uint8_t before = mine->control, trusted = first_control(step, side, true);
    bool stays = before && (!mine->lane[before - 1].suspect || !trusted);
    if (stays)
        return;
    mine->control = trusted ? trusted : first_control(step, side, false);
    if (before && mutated(step, MODEL_SUSPECT_SILENT))
        return;
    if (mine->control && !mutated(step, MODEL_NO_RESEND))
        message_resend(step, side);
}

void model_lane_is_up(struct step *step, int side, int lane)
{
    struct model_side *mine = &step->state->side[side];
    mine->lane[lane].state = MODEL_IS_UP;
    mine->lane[lane].puts = mine->lane[lane].suspect = 0;
    if (is_message_lane(step->shape, lane))
        choose_control(step, side);
    model_bulk_pump(step, side);
}

static void say_down(struct step *step, int side, int lane)
{
    struct model_lane *mine = &step->state->side[side].lane[lane];
    mine->unconfirmed = 1;
    mine->dead_epoch = mine->epoch;
    if (!mutated(step, MODEL_SAY_NOTHING))
        message_send(step, side, MODEL_SAY(MODEL_SAYS_DOWN, lane, mine->epoch));
    if (mutated(step, MODEL_NO_CONFIRMATION))
        bulk_put_again(step, side, lane);
}

void model_lane_down(struct step *step, int side, int lane)
{
    struct model_side *mine = &step->state->side[side];
    bool was_up = mine->lane[lane].state == MODEL_IS_UP;
    model_close_end(model_held(step->state, side, lane), side);
    mine->lane[lane].state = MODEL_LANE_DOWN;
    mine->lane[lane].suspect = 0;
    if (was_up)
        bulk_lane_gone(step, side, lane);
    if (mine->control == lane + 1)
        mine->control = 0;
    if (was_up)
        say_down(step, side, lane);
    if (!mine->control)
        choose_control(step, side);
}

void model_lane_suspect(struct step *step, int side, int lane, bool suspect)
{
    step->state->side[side].lane[lane].suspect = suspect;
    if (is_message_lane(step->shape, lane))
        choose_control(step, side);
    if (suspect && mutated(step, MODEL_SUSPECT_AGAIN)) {
        bulk_lane_gone(step, side, lane);
        bulk_put_again(step, side, lane);
    }
    model_bulk_pump(step, side);
}

void model_lane_retire(struct step *step, int side, int lane)
{
    struct model_connection *c = model_held(step->state, side, lane);
    struct model_end before = c ? c->end[side] : (struct model_end){0};
    model_lane_down(step, side, lane);
    if (c && mutated(step, MODEL_RETIRE_OPEN))
        c->end[side] = before;
}

static void model_lane_down_at_peer(struct step *step, int side, int lane, int epoch)
{
    const struct model_lane *mine = &step->state->side[side].lane[lane];
    bool open = mine->state == MODEL_IS_UP || (mine->state == MODEL_CONNECTING && !mutated(step, MODEL_OK_CONNECTING));
    if (mutated(step, MODEL_OK_BEFORE_HAVE))
        message_send(step, side, MODEL_SAY(MODEL_SAYS_OK, lane, epoch));
    if (open && mine->epoch == epoch && !mutated(step, MODEL_OK_UNCLOSED))
        model_lane_down(step, side, lane);
    if (!mutated(step, MODEL_NO_HAVE))
        bulk_say_have(step, side);
    if (!mutated(step, MODEL_OK_BEFORE_HAVE))
        message_send(step, side, MODEL_SAY(MODEL_SAYS_OK, lane, epoch));
}

static void lanes_confirmed(struct step *step, int side, int lane, int epoch)
{
    struct model_lane *mine = &step->state->side[side].lane[lane];
    if (!mine->unconfirmed || mine->dead_epoch != epoch)
        return;
    mine->unconfirmed = mine->dead_epoch = 0;
    bulk_put_again(step, side, lane);
}

void model_message_received(struct step *step, int side, uint16_t message)
{
    int a = message >> 8 & 15, b = message & 255;
    switch (message >> 12) {
    case MODEL_SAYS_CREDIT:
        bulk_start(step, side, a, b);
        break;
    case MODEL_SAYS_DONE:
        bulk_done(step, side, a, b);
        break;
    case MODEL_SAYS_HAVE:
        bulk_have(step, side, a, b);
        break;
    case MODEL_SAYS_DOWN:
        model_lane_down_at_peer(step, side, a, b);
        break;
    default:
        lanes_confirmed(step, side, a, b);
    }
}

static bool epoch_later(uint8_t epoch, uint8_t than)
{
    return (epoch & 1) == (than & 1) && epoch > than;
}

static bool welcome(const struct step *step, int side, const struct model_connection *c)
{
    const struct model_lane *lane = &step->state->side[side].lane[c->lane];
    if (lane->state == MODEL_CONNECTING)
        return side != 0;
    if (lane->state != MODEL_IS_UP)
        return true;
    return epoch_later(c->epoch, lane->epoch) || c->known == lane->epoch;
}

void model_lanes_accepted(struct step *step, int side, struct model_connection *c)
{
    struct model_lane *lane = &step->state->side[side].lane[c->lane];
    struct model_end *end = &c->end[side];
    if (step->state->side[side].lost || !welcome(step, side, c)) {
        model_close_end(c, side);
        return;
    }
    struct model_connection *old = model_held(step->state, side, c->lane);
    if (old == c)
        blame(step, "two connections of one epoch");
    if (lane->state == MODEL_IS_UP)
        model_lane_down(step, side, c->lane);
    else
        model_close_end(old, side);
    lane->epoch = lane->known = c->epoch;
    end->up = 1;
    model_lane_is_up(step, side, c->lane);
}

void model_lanes_lose(struct step *step, int side)
{
    struct model_side *mine = &step->state->side[side];
    for (int i = 0; i < lanes_of(step->shape); i++) {
        model_close_end(model_held(step->state, side, i), side);
        mine->lane[i].state = MODEL_LANE_DOWN;
    }
    for (int i = 0; i < lanes_of(step->shape); i++)
        mine->lane[i].puts = mine->lane[i].suspect = 0;
    mine->lost = 1;
    mine->control = 0;
    for (int i = 0; i < step->shape->payloads; i++) {
        struct model_recv *recv = &step->state->recv[i];
        if (step->shape->payload[i].from == side) {
            if (step->state->send[i].status < MODEL_DONE)
                end_send(step, i, step->state->send[i].status == MODEL_OVER ? MODEL_DONE : MODEL_FAILED);
        } else if (recv->status == MODEL_ACTIVE || recv->status == MODEL_WAITS) {
            *recv = (struct model_recv){.status = MODEL_FAILED};
        }
    }
}
