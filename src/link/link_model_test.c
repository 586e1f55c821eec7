/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The link against its model (failover_model.h): both take the same steps, on lanes that do only what the step says.
 * After each step the state of both ends, what they keep, and what is on its way must be the same. All steps of small
 * shapes, and long walks drawn from seeds. `link_model_test SEED STEPS` walks one for longer.
 */
#include "link/failover_model.h"
#include "link/link_testing_lane.h"

#include "base/param.h"
#include "base/random.h"
#include "link/lanes.h"
#include "link/message.h"
#include "link/segments.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define BIT(kind) (1u << (kind))
#define FAULTS                                                                                                         \
    (BIT(MODEL_KILL) | BIT(MODEL_ALARM) | BIT(MODEL_REFUSE) | BIT(MODEL_GIVE_UP) | BIT(MODEL_CANCEL) |                 \
     BIT(MODEL_SUSPECT))

struct pair {
    const struct model_shape *shape;
    struct model_state state;
    struct script *script;
    struct payload *send[MODEL_PAYLOADS], *recv[MODEL_PAYLOADS];
    bool cancelled[MODEL_PAYLOADS];
};

static uint64_t compared;

/* ---- From the model's numbers to the link's ---- */

static int link_lane_of(const struct model_shape *shape, int lane)
{
    return lane < shape->lanes ? lane : LINK_DATA_LANE + lane - shape->lanes;
}

static int model_lane_of(const struct model_shape *shape, int lane)
{
    return lane < LINK_DATA_LANE ? lane : lane - LINK_DATA_LANE + shape->lanes;
}

static struct link *link_at(const struct pair *pair, int side)
{
    return pair->script->side[side].link;
}

static struct script_lane *find_end(const struct pair *pair, int side, const struct model_connection *c)
{
    list_each(node, &pair->script->side[side].transport->lanes)
    {
        struct script_lane *lane = list_entry(node, struct script_lane, node);
        if (lane->index == link_lane_of(pair->shape, c->lane) && lane->epoch == c->epoch)
            return lane;
    }
    return NULL;
}

static int payload_segments; /* of each payload of the shape */

/* Segments go to the lanes in turn, as in the model: `left` tells which segment it is. */
static int pick(void *state, const struct path_lane *const *lanes, int count, const struct path_payload *payload,
                size_t length, uint64_t now)
{
    int segment = payload_segments - (int)(payload->left / SCRIPT_SEGMENT);
    for (int i = 0; i < count; i++)
        if (lanes[(segment + i) % count]->room)
            return (segment + i) % count;
    return -1;
}

static uint16_t read_message(const struct pair *pair, const struct message *message)
{
    struct wire_message head;
    uint64_t bits = 0;
    const unsigned char *bytes = message->bytes + sizeof(struct wire_sequence);
    memcpy(&head, bytes, sizeof head);
    switch (head.kind) {
    case WIRE_CREDIT:
        return MODEL_SAY(MODEL_SAYS_CREDIT, head.slot, head.tag.seq);
    case WIRE_DONE:
        return MODEL_SAY(MODEL_SAYS_DONE, head.slot, 0);
    case WIRE_HAVE:
        memcpy(&bits, bytes + sizeof head, sizeof bits);
        return MODEL_SAY(MODEL_SAYS_HAVE, head.slot, bits & 15);
    case WIRE_DOWN:
        return MODEL_SAY(MODEL_SAYS_DOWN, model_lane_of(pair->shape, head.slot), head.tag.seq);
    case WIRE_DOWN_OK:
        return MODEL_SAY(MODEL_SAYS_OK, model_lane_of(pair->shape, head.slot), head.tag.seq);
    default:
        return UINT16_MAX;
    }
}

/* Without what the model says beyond the link, for its own checks. */
static uint16_t plain(uint16_t message)
{
    switch (message >> 12) {
    case MODEL_SAYS_DONE:
        return message & 0xff00;
    case MODEL_SAYS_HAVE:
        return message & 0xff0f;
    default:
        return message;
    }
}

/* ---- Comparison ---- */

static void compare_lanes(const struct pair *pair, int side)
{
    const struct model_side *model = &pair->state.side[side];
    const struct link *link = link_at(pair, side);
    assert_int_equal(link->lost, model->lost);
    assert_int_equal(link->control < 0 ? 0 : model_lane_of(pair->shape, link->control) + 1, model->control);
    for (int i = 0; i < pair->shape->lanes + pair->shape->data_lanes; i++) {
        const struct model_lane *mine = &model->lane[i];
        const struct link_lane *lane = &link->lane[link_lane_of(pair->shape, i)];
        assert_int_equal(lane->state, mine->state);
        assert_int_equal(lane->pace.suspect, mine->suspect);
        if (model->lost)
            continue;
        assert_int_equal(lane->life.attempts, mine->attempts);
        assert_int_equal(lane->life.known, mine->known);
        assert_int_equal(lane->life.unconfirmed, mine->unconfirmed);
        if (mine->unconfirmed)
            assert_int_equal(lane->life.down_epoch, mine->dead_epoch);
        if (mine->state == MODEL_IS_UP || mine->state == MODEL_CONNECTING)
            assert_int_equal(lane->epoch, mine->epoch);
        if (mine->state == MODEL_IS_UP)
            assert_int_equal(lane->puts, mine->puts);
    }
}

/* What the link keeps until it knows that the peer has it; the model keeps what the peer does not have. */
static void compare_queue(const struct pair *pair, int side)
{
    const struct model_side *model = &pair->state.side[side];
    struct link *link = link_at(pair, side);
    int count = 0;
    list_each(node, &link->out.kept)
    {
        const struct message *message = list_entry(node, struct message, node);
        if (message->sequence <= link_at(pair, 1 - side)->out.received)
            continue;
        assert_true(count < model->queued);
        assert_int_equal(read_message(pair, message), plain(model->queue[count]));
        count++;
    }
    if (!model->lost) /* then nothing is kept; what has left may still arrive */
        assert_int_equal(count, model->queued);
    count = 0;
    list_each(node, &link->puts.queue)
    {
        const struct link_send *send = list_entry(node, struct link_send, node);
        assert_int_equal(send->tag.seq + 1, model->bulk[count]);
        count++;
    }
    assert_int_equal(count, model->bulks);
}

static uint8_t lane_of_in_model(const struct pair *pair, uint8_t lane_of)
{
    if (lane_of == SEGMENT_WAITS || lane_of == SEGMENT_ARRIVED)
        return lane_of ? MODEL_ARRIVED : 0;
    return (uint8_t)((model_lane_of(pair->shape, (int)segment_lane(lane_of)) + 1) |
                     (segment_is_read(lane_of) ? MODEL_READING : 0));
}

static enum model_status status_of(const struct payload *payload)
{
    assert_true(payload->done <= 1);
    if (payload->done)
        return payload->result == TUTTI_SUCCESS ? MODEL_DONE : MODEL_FAILED;
    if (payload->sends)
        return !payload->send.credited ? MODEL_WAITS : payload->send.finished ? MODEL_OVER : MODEL_ACTIVE;
    return payload->recv.credited ? MODEL_ACTIVE : MODEL_UNBEGUN;
}

static void compare_payload(const struct pair *pair, int p)
{
    const struct model_send *send = &pair->state.send[p];
    const struct model_recv *recv = &pair->state.recv[p];
    const struct link_send *mine = &pair->send[p]->send;
    assert_int_equal(status_of(pair->send[p]), send->status);
    if (send->status == MODEL_ACTIVE)
        assert_int_equal(mine->slot, send->slot);
    for (int i = 0;
         (send->status == MODEL_ACTIVE || send->status == MODEL_OVER) && i < pair->shape->payload[p].segments; i++)
        assert_int_equal(lane_of_in_model(pair, mine->lane_of[i]), send->lane_of[i]);
    if (recv->cancelled)
        return;
    assert_int_equal(status_of(pair->recv[p]), recv->status);
    if (recv->status == MODEL_DONE)
        assert_true(payload_right(pair->recv[p]));
    if (recv->status != MODEL_ACTIVE)
        return;
    assert_int_equal(pair->recv[p]->recv.slot, recv->slot);
    assert_int_equal(pair->recv[p]->recv.bitmap_few, recv->bitmap);
}

static void compare_flight(const struct pair *pair, int side, const struct script_lane *lane,
                           const struct model_end *end)
{
    int count = 0;
    list_each(node, &lane->flight)
    {
        const struct packet *packet = list_entry(node, struct packet, node);
        assert_true(count < end->flights);
        uint8_t what = end->flight[count++];
        assert_int_equal(packet->put, what >> 7);
        struct wire_sequence sequence;
        memcpy(&sequence, packet->bytes, sizeof sequence);
        if (!packet->put)
            assert_int_equal(sequence.sequence - link_at(pair, 1 - side)->out.received, what);
        else
            assert_int_equal(packet->imm & 0xffff, what & 15);
    }
    assert_int_equal(count, end->flights);
    count = 0;
    list_each(node, &lane->sources)
    {
        const struct packet *packet = list_entry(node, struct packet, source);
        assert_int_equal(packet->imm & 0xffff, end->source[count] & 15);
        count++;
    }
    assert_int_equal(count, end->sources);
}

static void compare_connections(const struct pair *pair)
{
    int open = 0;
    for (int i = 0; i < MODEL_CONNECTIONS; i++)
        for (int side = 0; side < 2; side++) {
            const struct model_connection *c = &pair->state.connection[i];
            const struct model_end *end = &c->end[side], *other = &c->end[1 - side];
            const struct script_lane *lane = end->there ? find_end(pair, side, c) : NULL;
            if (end->there && !end->closed) {
                assert_true(lane && !lane->closed);
                assert_int_equal(lane->up, end->up);
                assert_int_equal(lane->broken, c->broken);
                open++;
            }
            if (lane && other->there && !other->closed)
                compare_flight(pair, side, lane, end);
            else
                assert_int_equal(end->flights, 0);
        }
    for (int side = 0; side < 2; side++)
        list_each(node, &pair->script->side[side].transport->lanes) open -=
            !list_entry(node, struct script_lane, node)->closed;
    assert_int_equal(open, 0);
}

/*
 * The model leaves out acknowledgements, and repetitions of what the peer has. So they arrive here at once, which must
 * change nothing, and are taken out.
 */
static bool take_out(const struct pair *pair, int side, struct script_lane *lane)
{
    list_each_safe(node, &lane->flight)
    {
        struct packet *packet = list_entry(node, struct packet, node);
        struct wire_sequence sequence;
        memcpy(&sequence, packet->bytes, sizeof sequence);
        if (packet->put || (sequence.sequence && sequence.sequence > link_at(pair, 1 - side)->out.received))
            continue;
        struct script_lane *to = lane->other;
        list_remove(&packet->node);
        if (to && to->up && !to->closed && !to->down)
            to->lane.transport->owner.message(&to->lane, packet->bytes, packet->length);
        script_packet_settle(packet);
        return true;
    }
    return false;
}

static void take_out_all(const struct pair *pair)
{
    for (int side = 0; side < 2; side++)
        list_each(node, &pair->script->side[side].transport->lanes) while (
            take_out(pair, side, list_entry(node, struct script_lane, node)));
}

static void compare(const struct pair *pair)
{
    take_out_all(pair);
    for (int side = 0; side < 2; side++) {
        compare_lanes(pair, side);
        compare_queue(pair, side);
    }
    for (int p = 0; p < pair->shape->payloads; p++)
        compare_payload(pair, p);
    compare_connections(pair);
    compared++;
}

/* ---- Steps ---- */

/* For side 1, which waits for side 0 otherwise, the link has been down for long. */
static void retry(const struct pair *pair, int side, int lane)
{
    struct link *link = link_at(pair, side);
    link->lane[lane].life.retry_at = 1;
    lane_retry(&link->lane[lane], clock_ns() + (side ? 2 * NS_PER_S : 0));
}

static void alarm_at(const struct pair *pair, int side, int lane)
{
    error_note(TUTTI_SYSTEM_ERROR, "a false alarm");
    lane_down(&link_at(pair, side)->lane[lane], TUTTI_SYSTEM_ERROR);
}

static bool act(struct pair *pair, struct model_action action)
{
    static const enum script_action happens[MODEL_KINDS] = {
        [MODEL_CONNECT] = SCRIPT_CONNECT, [MODEL_UP] = SCRIPT_UP,     [MODEL_DELIVER] = SCRIPT_DELIVER,
        [MODEL_SENT] = SCRIPT_SENT,       [MODEL_DOWN] = SCRIPT_DOWN, [MODEL_KILL] = SCRIPT_KILL,
        [MODEL_REFUSE] = SCRIPT_REFUSE};
    int lane = link_lane_of(pair->shape, action.lane);
    switch (action.kind) {
    case MODEL_RETRY:
        retry(pair, action.side, lane);
        return true;
    case MODEL_POST:
        payload_start(pair->recv[action.payload], link_at(pair, action.side));
        return true;
    case MODEL_LOSE:
    case MODEL_GIVE_UP:
        link_lose(link_at(pair, action.side), "the test says so");
        return true;
    case MODEL_SUSPECT:
    case MODEL_TRUST:
        lane_suspect(&link_at(pair, action.side)->lane[lane], action.kind == MODEL_SUSPECT);
        return true;
    case MODEL_ALARM:
    case MODEL_RETIRE:
        alarm_at(pair, action.side, lane);
        return true;
    case MODEL_CANCEL:
        payload_cancel(pair->recv[action.payload], link_at(pair, action.side));
        memset(pair->recv[action.payload]->data, 0xdd, pair->recv[action.payload]->length);
        pair->cancelled[action.payload] = true;
        return true;
    default:
        return script_act_at(pair->script, action.side, lane, action.epoch, happens[action.kind]);
    }
}

static void begin(struct pair *pair, const struct model_shape *shape)
{
    static struct path_policy policy;
    struct script_shape script = {.lanes = shape->lanes, .data_lanes = shape->data_lanes, .policy = &policy};
    policy = script_policy;
    policy.pick = pick;
    *pair = (struct pair){.shape = shape, .script = script_new(&script)};
    pair->script->unreachable = true;
    script_join(pair->script);
    payload_segments = shape->payload[0].segments;
    for (int i = 0; i < shape->payloads; i++) {
        size_t length = (size_t)shape->payload[i].segments * SCRIPT_SEGMENT;
        pair->send[i] = payload_new(true, (uint32_t)i, 7, length);
        pair->recv[i] = payload_new(false, (uint32_t)i, 7, length);
        if (shape->payload[i].after < 0)
            payload_start(pair->recv[i], link_at(pair, 1 - shape->payload[i].from));
    }
    for (int i = 0; i < shape->payloads; i++) {
        payload_start(pair->send[i], link_at(pair, shape->payload[i].from));
        pair->send[i]->send.announced = true; /* time does not pass here */
    }
    model_begin(shape, &pair->state);
    compare(pair);
}

static void end(struct pair *pair)
{
    for (int i = 0; i < pair->shape->payloads; i++) {
        if (!pair->send[i]->done)
            payload_cancel(pair->send[i], link_at(pair, pair->shape->payload[i].from));
        if (!pair->recv[i]->done && !pair->cancelled[i] && pair->state.recv[i].status != MODEL_UNBEGUN)
            payload_cancel(pair->recv[i], link_at(pair, 1 - pair->shape->payload[i].from));
        for (size_t at = 0; pair->cancelled[i] && at < pair->recv[i]->length; at++)
            assert_int_equal(pair->recv[i]->data[at], 0xdd);
    }
    for (int side = 0; side < 2; side++)
        link_lose(link_at(pair, side), "the test is over");
    script_free(pair->script);
    for (int i = 0; i < pair->shape->payloads; i++) {
        payload_free(pair->send[i]);
        payload_free(pair->recv[i]);
    }
}

/* ---- Ways ---- */

/* Follows the choices, of which only the last step is new: the others were compared before. */
static void follow(const struct model_shape *shape, const uint8_t *choices, int length)
{
    struct model_action actions[MODEL_ACTIONS];
    struct pair pair;
    begin(&pair, shape);
    for (int i = 0; i < length; i++) {
        model_actions(shape, &pair.state, actions);
        struct model_action action = actions[choices[i]];
        model_act(shape, &pair.state, action);
        assert_true(act(&pair, action));
        take_out_all(&pair);
    }
    compare(&pair);
    end(&pair);
}

static const struct model_shape shapes[] = {
    {"2 lanes", 2, 0, 1, {{0, 2, -1}}, 1, FAULTS, 2, false, MODEL_AS_IT_IS},
    {"2 lanes, both ways", 2, 0, 2, {{0, 1, -1}, {1, 1, -1}}, 1, FAULTS, 2, false, MODEL_AS_IT_IS},
    {"1 lane for data, 2 payloads", 1, 1, 2, {{0, 1, -1}, {0, 1, 0}}, 1, FAULTS, 2, false, MODEL_AS_IT_IS},
    {"1 lane for data, the other way", 1, 1, 1, {{1, 2, -1}}, 1, FAULTS, 2, false, MODEL_AS_IT_IS},
};

static void test_all_steps_of_small_shapes(void **state)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct model_result result;
        compared = 0;
        model_check(&shapes[i], 100000, follow, &result);
        assert_null(result.wrong);
        assert_true(compared > result.steps);
        print_message("%s: %llu states, all %llu steps compared\n", shapes[i].name, (unsigned long long)result.states,
                      (unsigned long long)result.steps);
    }
}

static uint64_t draws;
static bool telling;

static uint32_t draw(uint32_t below)
{
    draws = mix64(draws + 0x9e3779b97f4a7c15ull);
    return (uint32_t)(draws >> 32) % below;
}

/* One of the things that can happen; faults seldom, so that others happen between them. */
static struct model_action choose(const struct model_action *actions, int count)
{
    struct model_action action = actions[draw((uint32_t)count)];
    for (int i = 0; i < 4 && action.kind >= MODEL_FAULTS; i++)
        action = actions[draw((uint32_t)count)];
    return action;
}

static void tell(int step, struct model_action action)
{
    char text[80];
    model_print_action(action, text, sizeof text);
    if (telling)
        print_message("%d: %s\n", step, text);
}

static void walk(uint64_t seed, int steps)
{
    struct model_action actions[MODEL_ACTIONS];
    struct pair pair;
    draws = seed;
    struct model_shape shape = {.lanes = 1 + (int)draw(2),
                                .data_lanes = (int)draw(2),
                                .payloads = 2,
                                .faults = 12,
                                .kinds = FAULTS,
                                .window = 2};
    int segments = 1 + (int)draw(MODEL_SEGMENTS);
    for (int i = 0; i < 2; i++)
        shape.payload[i] = (struct model_payload_shape){(int)draw(2), segments, -1};
    if (shape.payload[0].from == shape.payload[1].from)
        shape.payload[1].after = 0;
    begin(&pair, &shape);
    for (int i = 0; i < steps; i++) {
        int count = model_actions(&shape, &pair.state, actions);
        if (!count)
            break;
        struct model_action action = choose(actions, count);
        struct model_state next = pair.state;
        const char *wrong = model_act(&shape, &next, action);
        if (wrong && !strncmp(wrong, "the model's bound", 17))
            continue;
        assert_null(wrong);
        pair.state = next;
        tell(i, action);
        assert_true(act(&pair, action));
        compare(&pair);
    }
    end(&pair);
}

static void test_walks(void **state)
{
    compared = 0;
    uint64_t seeds = getenv("TUTTI_TEST_FULL") ? 100000 : getenv("TUTTI_TEST_QUICK") ? 100 : 1500;
    for (uint64_t seed = 1; seed <= seeds; seed++)
        walk(seed, 300);
    print_message("%llu steps compared\n", (unsigned long long)compared);
    assert_true(compared > seeds * 30);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_steps_of_small_shapes), cmocka_unit_test(test_walks)};
    if (argc == 3) {
        telling = true;
        script_setup(NULL);
        walk(strtoull(argv[1], NULL, 10), atoi(argv[2]));
        return 0;
    }
    return cmocka_run_group_tests(tests, script_setup, NULL);
}
