/* SPDX-License-Identifier: Apache-2.0 */
/* Connections of the model, what can happen to them, and what happens. */
#include "link/failover_internal.h"

#include <stdio.h>
#include <string.h>

/* ---- Connections ---- */

static bool end_is_over(const struct model_connection *c, int side)
{
    if (side != c->opener)
        return !c->accepted || c->end[side].closed;
    return c->end[side].closed && (!c->connecting || c->broken);
}

/* Forgets connections of which nothing can come any more. */
static void bury(struct model_state *state)
{
    for (int i = MODEL_CONNECTIONS - 1; i >= 0; i--) {
        struct model_connection *c = &state->connection[i];
        if (!c->there || !end_is_over(c, 0) || !end_is_over(c, 1))
            continue;
        memmove(c, c + 1, sizeof *c * (size_t)(MODEL_CONNECTIONS - 1 - i));
        memset(&state->connection[MODEL_CONNECTIONS - 1], 0, sizeof *c);
    }
}

struct model_connection *model_held(struct model_state *state, int side, int lane)
{
    const struct model_lane *mine = &state->side[side].lane[lane];
    if (mine->state != MODEL_IS_UP && mine->state != MODEL_CONNECTING)
        return NULL;
    for (int i = 0; i < MODEL_CONNECTIONS; i++) {
        struct model_connection *c = &state->connection[i];
        if (c->there && c->lane == lane && c->epoch == mine->epoch && c->end[side].there && !c->end[side].closed)
            return c;
    }
    return NULL;
}

void model_drop_flight(struct model_end *end)
{
    end->flights = 0;
    memset(end->flight, 0, sizeof end->flight);
}

static void drop_sources(struct model_end *end)
{
    end->sources = 0;
    memset(end->source, 0, sizeof end->source);
}

void model_close_end(struct model_connection *c, int side)
{
    if (!c)
        return;
    c->end[side].closed = 1;
    drop_sources(&c->end[side]);
    model_drop_flight(&c->end[1 - side]);
}

void model_break_connection(struct model_connection *c)
{
    c->broken = 1;
    model_drop_flight(&c->end[0]);
    model_drop_flight(&c->end[1]);
}

bool model_refuses(const struct model_connection *c, int side)
{
    return !c || c->broken || c->end[side].down;
}

void model_fly(struct step *step, struct model_connection *c, int side, uint8_t what)
{
    struct model_end *end = &c->end[side];
    const struct model_end *other = &c->end[1 - side];
    if (other->there && other->closed)
        return; /* it can land nowhere */
    if (end->flights == MODEL_FLIGHT)
        blame(step, "the model's bound: flight");
    else
        end->flight[end->flights++] = what;
}

void model_read(struct step *step, struct model_connection *c, int side, uint8_t put)
{
    struct model_end *end = &c->end[side];
    if (end->sources == MODEL_SEGMENTS * MODEL_PAYLOADS)
        blame(step, "the model's bound: sources");
    else
        end->source[end->sources++] = put;
}

static void take_first(uint8_t *list, uint8_t *count)
{
    memmove(list, list + 1, --*count);
    list[*count] = 0;
}

/* ---- What happens ---- */

static struct model_connection *find(struct model_state *state, struct model_action action)
{
    for (int i = 0; i < MODEL_CONNECTIONS; i++) {
        struct model_connection *c = &state->connection[i];
        if (c->there && c->lane == action.lane && c->epoch == action.epoch)
            return c;
    }
    return NULL;
}

static void act_connect(struct step *step, struct model_connection *c)
{
    int side = 1 - c->opener;
    c->accepted = 1;
    c->end[side].there = 1;
    if (c->end[c->opener].closed)
        c->connecting = 0;
    model_lanes_accepted(step, side, c);
}

static void act_down(struct step *step, struct model_connection *c, int side)
{
    c->end[side].down = 1;
    c->connecting &= side != c->opener;
    model_lane_down(step, side, c->lane);
}

static void act_up(struct step *step, struct model_connection *c)
{
    int side = c->opener;
    c->connecting = 0;
    if (c->end[1 - side].closed && !c->end[1 - side].flights) {
        act_down(step, c, side);
        return;
    }
    c->end[side].up = 1;
    model_lane_is_up(step, side, c->lane);
}

static void act_deliver(struct step *step, struct model_connection *c, int from)
{
    struct model_end *end = &c->end[from];
    uint8_t what = end->flight[0];
    take_first(end->flight, &end->flights);
    if (what & 0x80) {
        model_bulk_arrived(step, what);
        return;
    }
    if (what != 1 && !mutated(step, MODEL_NO_RESEND))
        blame(step, "a message overtakes another");
    if (what != 1)
        return;
    uint16_t message = step->state->side[from].queue[0];
    if (!mutated(step, MODEL_NO_SEQUENCE))
        model_admit(step, from);
    model_message_received(step, 1 - from, message);
}

static void act_sent(struct step *step, struct model_connection *c, int side)
{
    struct model_end *end = &c->end[side];
    int payload = end->source[0] >> 4 & 7, segment = end->source[0] & 15;
    take_first(end->source, &end->sources);
    step->state->side[side].lane[c->lane].puts--;
    step->state->send[payload].lane_of[segment] &= (uint8_t)~MODEL_READING;
    model_finish_if_read(step, payload);
    model_bulk_pump(step, side);
}

static void act_retry(struct step *step, int side, int lane)
{
    struct model_lane *mine = &step->state->side[side].lane[lane];
    struct model_connection *c = step->state->connection;
    while (c < step->state->connection + MODEL_CONNECTIONS && c->there)
        c++;
    if (c == step->state->connection + MODEL_CONNECTIONS) {
        blame(step, "the model's bound: connections");
        return;
    }
    mine->epoch = (uint8_t)(++mine->attempts << 1 | side);
    mine->state = MODEL_CONNECTING;
    *c = (struct model_connection){.there = 1,
                                   .lane = (uint8_t)lane,
                                   .opener = (uint8_t)side,
                                   .epoch = mine->epoch,
                                   .known = mine->known,
                                   .connecting = 1};
    c->end[side].there = 1;
}

static void act_post(struct step *step, int payload)
{
    if (step->state->side[1 - step->shape->payload[payload].from].lost)
        step->state->recv[payload].status = MODEL_FAILED;
    else if (step->shape->payload[payload].stands)
        model_bulk_expect(step, payload);
    else
        model_bulk_credit(step, payload);
}

static void apply(struct step *step, struct model_action action)
{
    struct model_connection *c = find(step->state, action);
    switch (action.kind) {
    case MODEL_CONNECT:
        act_connect(step, c);
        break;
    case MODEL_UP:
        act_up(step, c);
        break;
    case MODEL_DELIVER:
        act_deliver(step, c, action.side);
        break;
    case MODEL_SENT:
        act_sent(step, c, action.side);
        break;
    case MODEL_DOWN:
    case MODEL_REFUSE:
        act_down(step, c, action.side);
        break;
    case MODEL_RETRY:
        act_retry(step, action.side, action.lane);
        break;
    case MODEL_POST:
        act_post(step, action.payload);
        break;
    case MODEL_LOSE:
    case MODEL_GIVE_UP:
        model_lanes_lose(step, action.side);
        break;
    case MODEL_KILL:
        model_break_connection(c);
        break;
    case MODEL_ALARM:
        model_lane_down(step, action.side, action.lane);
        break;
    case MODEL_SUSPECT:
    case MODEL_TRUST:
        model_lane_suspect(step, action.side, action.lane, action.kind == MODEL_SUSPECT);
        break;
    case MODEL_RETIRE:
        model_lane_retire(step, action.side, action.lane);
        break;
    case MODEL_CANCEL:
        step->state->recv[action.payload] =
            (struct model_recv){.status = MODEL_FAILED, .cancelled = 1, .slot = step->state->recv[action.payload].slot};
        break;
    }
}

const char *model_act(const struct model_shape *shape, struct model_state *state, struct model_action action)
{
    struct step step = {.shape = shape, .state = state};
    state->faults -= action.kind >= MODEL_FAULTS;
    apply(&step, action);
    bury(state);
    return step.wrong;
}

/* ---- What can happen ---- */

struct menu {
    const struct model_shape *shape;
    const struct model_state *state;
    struct model_action *actions;
    int count;
};

static void offer(struct menu *menu, bool possible, enum model_kind kind, int side, int lane, int epoch, int payload)
{
    bool paid = kind < MODEL_FAULTS || (menu->state->faults && menu->shape->kinds >> kind & 1);
    if (possible && paid && menu->count < MODEL_ACTIONS)
        menu->actions[menu->count++] =
            (struct model_action){(uint8_t)kind, (uint8_t)side, (uint8_t)lane, (uint8_t)epoch, (uint8_t)payload};
}

static void offer_connection(struct menu *menu, const struct model_connection *c)
{
    const struct model_end *opener = &c->end[c->opener];
    bool open = c->connecting && !c->broken;
    offer(menu, open && !c->accepted, MODEL_CONNECT, c->opener, c->lane, c->epoch, 0);
    offer(menu, open && c->accepted && !opener->closed, MODEL_UP, c->opener, c->lane, c->epoch, 0);
    offer(menu, open && !c->accepted && !opener->closed, MODEL_REFUSE, c->opener, c->lane, c->epoch, 0);
    offer(menu, !c->broken, MODEL_KILL, c->opener, c->lane, c->epoch, 0);
    for (int side = 0; side < 2; side++) {
        const struct model_end *end = &c->end[side], *other = &c->end[1 - side];
        bool lands = end->flights && other->up && !other->closed && !other->down;
        bool down = c->broken || (other->there && other->closed);
        offer(menu, lands, MODEL_DELIVER, side, c->lane, c->epoch, 0);
        offer(menu, end->sources && !end->closed && !end->down, MODEL_SENT, side, c->lane, c->epoch, 0);
        offer(menu, end->there && !end->closed && !end->down && down, MODEL_DOWN, side, c->lane, c->epoch, 0);
    }
}

/* Is another lane to the peer up, which this side trusts? */
static bool others_go_on(const struct menu *menu, const struct model_side *mine, int lane)
{
    for (int i = 0; i < lanes_of(menu->shape); i++)
        if (i != lane && mine->lane[i].state == MODEL_IS_UP && !mine->lane[i].suspect)
            return true;
    return false;
}

static void offer_side(struct menu *menu, int side)
{
    const struct model_side *mine = &menu->state->side[side];
    for (int i = 0; i < lanes_of(menu->shape); i++) {
        bool up = mine->lane[i].state == MODEL_IS_UP, suspect = mine->lane[i].suspect;
        bool ahead = others_go_on(menu, mine, i);
        offer(menu, up && suspect, MODEL_TRUST, side, i, mine->lane[i].epoch, 0);
        offer(menu, up && suspect && ahead, MODEL_RETIRE, side, i, mine->lane[i].epoch, 0);
        offer(menu, up && !suspect && ahead, MODEL_SUSPECT, side, i, mine->lane[i].epoch, 0);
        bool tries = side == 0 || !mine->control; /* the other waits for side 0, unless no lane for messages is left */
        offer(menu, !mine->lost && mine->lane[i].state == MODEL_LANE_DOWN && tries, MODEL_RETRY, side, i, 0, 0);
        offer(menu, mine->lane[i].state == MODEL_IS_UP, MODEL_ALARM, side, i, mine->lane[i].epoch, 0);
    }
    bool down = !mine->lost && !mine->control;
    offer(menu, down && menu->state->side[1 - side].lost, MODEL_LOSE, side, 0, 0, 0);
    offer(menu, down && !menu->state->side[1 - side].lost, MODEL_GIVE_UP, side, 0, 0, 0);
}

int model_actions(const struct model_shape *shape, const struct model_state *state,
                  struct model_action actions[MODEL_ACTIONS])
{
    struct menu menu = {shape, state, actions, 0};
    for (int i = 0; i < MODEL_CONNECTIONS; i++)
        if (state->connection[i].there)
            offer_connection(&menu, &state->connection[i]);
    for (int side = 0; side < 2; side++)
        offer_side(&menu, side);
    for (int i = 0; i < shape->payloads; i++) {
        int after = shape->payload[i].after, to = 1 - shape->payload[i].from;
        bool due = state->recv[i].status == MODEL_UNBEGUN && (after < 0 || state->recv[after].status >= MODEL_DONE);
        due |= shape->payload[i].stands && state->recv[i].status == MODEL_ACTIVE && !state->recv[i].expected;
        offer(&menu, due, MODEL_POST, to, 0, 0, i);
        offer(&menu, state->recv[i].status == MODEL_ACTIVE, MODEL_CANCEL, to, 0, 0, i);
    }
    return menu.count;
}

void model_begin(const struct model_shape *shape, struct model_state *state)
{
    struct step step = {.shape = shape, .state = state};
    memset(state, 0, sizeof *state);
    state->faults = (uint8_t)shape->faults;
    for (int i = 0; i < lanes_of(shape); i++) {
        struct model_connection *c = &state->connection[i];
        *c = (struct model_connection){.there = 1, .lane = (uint8_t)i, .epoch = 2, .accepted = 1};
        c->end[0].there = c->end[1].there = c->end[0].up = c->end[1].up = 1;
        state->side[0].lane[i] = (struct model_lane){.state = MODEL_IS_UP, .epoch = 2, .attempts = 1};
        state->side[1].lane[i] = (struct model_lane){.state = MODEL_IS_UP, .epoch = 2, .known = 2};
    }
    state->side[0].control = state->side[1].control = 1;
    for (int i = 0; i < shape->payloads; i++) {
        state->send[i].status = MODEL_WAITS;
        if (shape->payload[i].after < 0)
            model_bulk_credit(&step, i);
    }
}

bool model_over(const struct model_shape *shape, const struct model_state *state)
{
    for (int i = 0; i < shape->payloads; i++) {
        bool given_up = state->recv[i].cancelled; /* its sender learns by other ways */
        if (state->recv[i].status < MODEL_DONE || (state->send[i].status < MODEL_DONE && !given_up))
            return false;
    }
    return true;
}

void model_print_action(struct model_action action, char *out, size_t size)
{
    static const char *const names[MODEL_KINDS] = {
        [MODEL_CONNECT] = "connect", [MODEL_UP] = "up",         [MODEL_DELIVER] = "deliver",
        [MODEL_SENT] = "sent",       [MODEL_DOWN] = "down",     [MODEL_RETRY] = "retry",
        [MODEL_POST] = "post",       [MODEL_LOSE] = "lose",     [MODEL_TRUST] = "trust",
        [MODEL_RETIRE] = "retire",   [MODEL_KILL] = "kill",     [MODEL_ALARM] = "alarm",
        [MODEL_REFUSE] = "refuse",   [MODEL_CANCEL] = "cancel", [MODEL_SUSPECT] = "suspect",
        [MODEL_GIVE_UP] = "give up"};
    snprintf(out, size, "%s side %u lane %u epoch %u payload %u", names[action.kind], action.side, action.lane,
             action.epoch, action.payload);
}
