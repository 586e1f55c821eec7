/* SPDX-License-Identifier: Apache-2.0 */
/* What a link asks its path policy, and what it tells: over scripted lanes. */
#include "link/link_testing.h"
#include "link/flight.h"
#include "link/silence.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <string.h>
#include <unistd.h>

#define SEGMENT SCRIPT_SEGMENT

/* A policy of which a test sees what it was told, and says what it answers. Of side 0: that link is made first. */
static struct {
    int lanes; /* wished for; -1: not known */
    int asked; /* how often for lanes */
    uint16_t roles[LINK_MAX_LANES];
    struct path_window window;
    int pick; /* lane index; -1: in turn; -2: wait; -3: two by lane 0, then many by lane 1, then wait for lane 0 */
    lane_set credit;
    int ups, downs;
    uint32_t posted, landed[LINK_MAX_LANES];
    size_t bytes;
    uint64_t last_posted, last_landed;
} told;

static int wish(void *state, const struct path_question *question, struct path_wish *wishes)
{
    assert_int_equal(question->nics, 2);
    told.asked++;
    for (int i = 0; i < told.lanes; i++)
        wishes[i].roles = told.roles[i];
    return told.lanes;
}

static struct path_window window(void *state, const struct path_lane *lane, const struct path_payload *payload,
                                 uint64_t now)
{
    return told.window;
}

static int pick(void *state, const struct path_lane *const *lanes, int count, const struct path_payload *payload,
                size_t length, uint64_t now)
{
    int index = told.pick == -3 ? told.posted >= 2 && told.posted < 2 + LINK_LANDED : told.pick;
    if (told.pick == -1)
        return script_policy.pick(state, lanes, count, payload, length, now);
    for (int i = 0; i < count; i++)
        if (lanes[i]->index == index)
            return i;
    return -1;
}

static void posted(void *state, const struct path_lane *lane, size_t length, uint64_t now)
{
    *(uint32_t *)state += 1;
    told.posted++;
}

static void landed(void *state, const struct path_lane *lane, size_t length, uint64_t when_posted, uint64_t when)
{
    told.landed[lane->index]++;
    told.bytes += length;
    told.last_posted = when_posted;
    told.last_landed = when;
}

static void up(void *state, const struct path_lane *lane)
{
    told.ups++;
}

static void down(void *state, const struct path_lane *lane)
{
    assert_int_equal(lane->segments, 0);
    assert_int_equal(lane->outstanding, 0);
    told.downs++;
}

static lane_set credit(void *state, const struct path_payload *payload, uint64_t now)
{
    return told.credit;
}

static const struct path_policy teller = {.name = "teller",
                                          .state_bytes = sizeof(uint32_t),
                                          .lanes = wish,
                                          .window = window,
                                          .pick = pick,
                                          .posted = posted,
                                          .landed = landed,
                                          .up = up,
                                          .down = down,
                                          .credit = credit};

static struct script *start(int lanes)
{
    struct script_shape shape = {.lanes = lanes, .policy = &teller};
    memset(&told, 0, sizeof told);
    told.lanes = lanes;
    told.pick = -1;
    for (int i = 0; i < lanes; i++)
        told.roles[i] = PATH_DATA | (i ? 0 : PATH_CONTROL);
    return script_new(&shape);
}

static struct script *start_joined(int lanes)
{
    struct script *script = start(lanes);
    script_join(script);
    return script;
}

/* The same, and side 0 sends `segments` segments over the lanes. It may have `window` of them under way on each lane:
 * the receiver's credit has come. */
static struct script *start_sending(int lanes, uint32_t window, uint32_t segments, struct payload **pair)
{
    struct script *script = start_joined(lanes);
    told.window.segments = window;
    payload_pair(script, 0, 1, segments * SEGMENT, pair);
    script_act_all(script, 1, SCRIPT_DELIVER);
    return script;
}

static void finish(struct script *script, struct payload *pair[2])
{
    for (int i = 0; i < 20 && !pair[0]->done; i++) {
        script_settle(script);
        usleep(200);
        link_poll(script->side[1].domain); /* says what has landed */
    }
    assert_true(payload_pair_right(pair));
    payload_pair_free(pair);
    script_free(script);
}

static void test_told_of_each_segment(void **state)
{
    struct script *script = start_joined(2);
    struct payload *pair[2];
    assert_int_equal(told.ups, 4); /* two lanes, two ends */
    uint64_t before = clock_ns();
    payload_pair(script, 0, 1, 10 * SEGMENT - 1, pair);
    script_settle(script);
    assert_int_equal(told.posted, 10);
    assert_int_equal(told.landed[0] + told.landed[1], 10);
    assert_int_equal(told.bytes, 10 * SEGMENT - 1);
    assert_true(told.last_posted >= before && told.last_landed >= told.last_posted && told.last_landed <= clock_ns());
    struct link *link = script->side[0].link;
    assert_int_equal(link->lane[0].view.segments + link->lane[1].view.segments, 0);
    assert_int_equal(link->lane[0].view.nic->outstanding, 0);
    assert_int_equal(link->lane[0].view.nic->landed, 10 * SEGMENT - 1);
    assert_int_equal(link->lane[0].view.nic->lanes, 2);
    assert_string_equal(link->lane[0].view.nic->about.name, "script");
    assert_int_equal(link->lane[0].view.nic->about.rate, 1000);
    finish(script, pair);
}

/* A lane that has read the source has not delivered: the time is when the peer has it, also if it says so late. False:
 * this process stood still during the report by which clocks are compared, so the times say nothing. */
static bool tells_true_time(void)
{
    struct script *script = start_joined(1);
    struct payload *pair[2];
    payload_pair(script, 0, 1, 2 * SEGMENT, pair);
    assert_int_equal(script_act_all(script, 1, SCRIPT_DELIVER), 1); /* the credit */
    assert_true(script_act(script, 0, 0, SCRIPT_SENT));
    assert_true(script_act(script, 0, 0, SCRIPT_SENT));
    struct link_lane *lane = &script->side[0].link->lane[0];
    assert_int_equal(lane->puts, 0);
    assert_int_equal(told.landed[0], 0);
    assert_int_equal(lane->view.segments, 2);
    assert_int_equal(lane->view.outstanding, 2 * SEGMENT);
    usleep(5000);
    uint64_t begin = clock_ns();
    assert_true(script_act(script, 0, 0, SCRIPT_DELIVER));
    link_poll(script->side[1].domain);
    assert_true(
        script_act(script, 1, 0, SCRIPT_DELIVER)); /* its report, at once: the quickest, by which clocks are compared */
    bool quick = clock_ns() - begin < 5 * NS_PER_MS;
    assert_int_equal(told.landed[0], 1);
    assert_true(told.last_landed - told.last_posted >= 5000000);
    assert_true(script_act(script, 0, 0, SCRIPT_DELIVER));
    uint64_t arrived = clock_ns();
    usleep(20000);
    assert_true(script_act_all(script, 1, SCRIPT_DELIVER) > 0);
    assert_int_equal(told.landed[0], 2);
    assert_true(!quick || told.last_landed < arrived + 10000000);
    finish(script, pair);
    return quick;
}

static void test_true_time(void **state)
{
    (void)state;
    while (!tells_true_time())
        ;
}

static void test_window(void **state)
{
    struct payload *pair[2];
    struct script *script = start_sending(1, 1, 3, pair);
    struct link_lane *lane = &script->side[0].link->lane[0];
    for (unsigned i = 1; i <= 3; i++) {
        assert_int_equal(told.posted, i);
        assert_true(script_act(script, 0, 0, SCRIPT_SENT));
        assert_int_equal(told.posted, i); /* the peer does not have it yet */
        assert_int_equal(lane->view.segments, 1);
        assert_true(script_act(script, 0, 0, SCRIPT_DELIVER));
        link_arm(script->side[1].domain);
        link_disarm(script->side[1].domain);
        assert_true(script_act_all(script, 1, SCRIPT_DELIVER) > 0);
    }
    finish(script, pair);
}

/* The receiver takes so much from another lane, before it speaks, that its reports about the first one find no place
 * beside these: the sender, who waits for that lane alone, hears of it all the same. */
static void test_reports_about_every_lane(void **state)
{
    struct script *script = start_joined(2);
    struct payload *pair[2];
    struct link_lane *lane = script->side[0].link->lane;
    told.pick = -3;
    payload_pair(script, 0, 1, (LINK_LANDED + 4) * SEGMENT, pair);
    script_act_all(script, 1, SCRIPT_DELIVER); /* the credit */
    while (told.posted < 2 + LINK_LANDED)
        assert_true(script_act(script, 0, told.posted > 2, SCRIPT_SENT));
    told.window.segments = 2; /* lane 0 is full */
    while (script_act(script, 0, 0, SCRIPT_DELIVER) || script_act(script, 0, 1, SCRIPT_DELIVER))
        script_act_all(script, 0, SCRIPT_SENT);
    assert_int_equal(lane[0].view.segments, 2);
    assert_int_equal(lane[1].view.segments, LINK_LANDED);
    assert_int_equal(told.posted, 2 + LINK_LANDED);
    link_arm(script->side[1].domain);
    link_disarm(script->side[1].domain);
    assert_true(script_act_all(script, 1, SCRIPT_DELIVER) > 0);
    assert_int_equal(told.landed[0], 2);
    assert_int_equal(told.landed[1], LINK_LANDED);
    assert_int_equal(told.posted, 4 + LINK_LANDED);
    finish(script, pair);
}

static void test_wait_for_a_full_lane(void **state)
{
    struct script *script = start_joined(2);
    struct payload *pair[2];
    told.pick = 1;
    payload_pair(script, 0, 1, 6 * SEGMENT, pair);
    script_act_all(script, 1, SCRIPT_DELIVER);
    struct link *link = script->side[0].link;
    assert_int_equal(link->lane[0].puts, 0);
    assert_int_equal(link->lane[1].puts, 2); /* full: the rest waits for it */
    assert_true(script_act(script, 0, 1, SCRIPT_SENT));
    assert_int_equal(link->lane[1].puts, 2);
    assert_int_equal(link->lane[0].puts, 0);
    finish(script, pair);
}

static void test_nobody_waits_for_nothing(void **state)
{
    struct script *script = start_joined(2);
    struct payload *pair[2];
    told.pick = -2;
    payload_pair(script, 0, 1, 6 * SEGMENT, pair);
    finish(script, pair);
}

static void test_answer_comes_later(void **state)
{
    struct script *script = start(2);
    struct payload *pair[2];
    told.lanes = -1;
    script_get_link(script, 0);
    script_get_link(script, 1);
    payload_pair(script, 0, 1, 6 * SEGMENT, pair);
    script_settle(script);
    assert_int_equal(script->opened, 0);
    int asked = told.asked;
    script_tick(script, 20);
    assert_true(told.asked > asked);
    assert_int_equal(pair[1]->done, 0);
    told.lanes = 2;
    script_tick(script, 20);
    script_settle(script);
    assert_int_equal(link_lanes(script->side[0].link), 2);
    finish(script, pair);
}

/* Lane 0 is for messages, 1 for data, 2 a backup. */
static struct script *start_with_backup(void)
{
    struct script *script = start(3);
    told.roles[0] = PATH_CONTROL;
    told.roles[1] = PATH_DATA;
    told.roles[2] = PATH_BACKUP;
    script_join(script);
    return script;
}

static void test_backup_waits_for_its_turn(void **state)
{
    struct script *script = start_with_backup();
    struct payload *pair[2];
    struct link *link = script->side[0].link;
    payload_pair(script, 0, 1, 4 * SEGMENT, pair);
    script_settle(script);
    assert_true(payload_pair_right(pair));
    payload_pair_free(pair);
    assert_int_equal(told.landed[1], 4);
    assert_int_equal(link->control, 0);
    assert_true(script_act(script, 0, 1, SCRIPT_KILL));
    assert_true(script_act(script, 0, 1, SCRIPT_DOWN));
    assert_int_equal(told.downs, 1);
    payload_pair(script, 0, 2, 4 * SEGMENT, pair);
    script_settle(script);
    assert_int_equal(told.landed[2], 4);
    assert_int_equal(told.landed[0], 0);
    finish(script, pair);
}

/* A lane that is back takes over when it has been there for a while, and for longer if it fails again. */
static void test_backup_is_left_in_time(void **state)
{
    struct script *script = start_with_backup();
    struct payload *pair[2];
    struct link *link = script->side[0].link;
    assert_int_equal(link->usable, 2);
    for (int round = 0; round < 8; round++) {
        int calm = 500 << round < 16000 ? 500 << round : 16000;
        assert_true(script_act(script, 0, 1, SCRIPT_KILL));
        assert_true(script_act(script, 0, 1, SCRIPT_DOWN));
        script_settle(script);
        assert_int_equal(link->usable, 4);
        for (int i = 0; link->lane[1].state != LANE_UP && i < 100; i++) {
            script_tick(script, 3000);
            script_settle(script);
        }
        assert_int_equal(link->lane[1].state, LANE_UP);
        assert_int_equal(link->usable, 4);
        script_tick(script, (unsigned)calm - 100);
        assert_int_equal(link->usable, 4);
        if (round % 2) /* the next failure comes before */
            continue;
        script_tick(script, (unsigned)calm + 1);
        assert_int_equal(link->usable, 2);
    }
    payload_pair(script, 0, 1, 4 * SEGMENT, pair);
    script_settle(script);
    assert_int_equal(told.landed[2], 4);
    /* While no backup is there, it does not wait. */
    assert_true(script_act(script, 0, 2, SCRIPT_KILL));
    assert_true(script_act(script, 0, 2, SCRIPT_DOWN));
    assert_int_equal(link->usable, 2);
    finish(script, pair);
}

static void test_receiver_chooses(void **state)
{
    struct script *script = start_joined(3);
    struct payload *pair[2];
    told.credit = 1 << 2;
    payload_pair(script, 0, 1, 4 * SEGMENT, pair);
    script_settle(script);
    assert_true(payload_pair_right(pair));
    payload_pair_free(pair);
    assert_int_equal(told.landed[2], 4);
    told.credit = 1u << 9 | 1ull << 40; /* no lane that there is: then any */
    payload_pair(script, 0, 2, 4 * SEGMENT, pair);
    finish(script, pair);
    assert_int_equal(told.landed[0] + told.landed[1] + told.landed[2], 8);
}

static void test_what_was_under_way_is_forgotten(void **state)
{
    struct script *script = start_joined(2);
    struct payload *pair[2];
    payload_pair(script, 0, 1, 4 * SEGMENT, pair);
    script_act_all(script, 1, SCRIPT_DELIVER);
    struct link *link = script->side[0].link;
    assert_int_equal(link->lane[0].view.nic->outstanding, 4 * SEGMENT);
    assert_true(script_act(script, 0, 0, SCRIPT_KILL));
    assert_true(script_act(script, 0, 0, SCRIPT_DOWN));
    assert_int_equal(link->lane[1].view.nic->outstanding, 2 * SEGMENT);
    assert_int_equal(link->usable, 2);
    finish(script, pair);
}

static void test_cancelled(void **state)
{
    struct script *script = start_joined(1);
    struct payload *pair[2];
    payload_pair(script, 0, 1, 4 * SEGMENT, pair);
    script_act_all(script, 1, SCRIPT_DELIVER);
    struct link_lane *lane = &script->side[0].link->lane[0];
    assert_int_equal(lane->view.segments, 2);
    payload_cancel(pair[0], script->side[0].link);
    assert_int_equal(lane->view.segments, 0);
    assert_int_equal(lane->flight.first, lane->flight.next);
    payload_cancel(pair[1], script->side[1].link);
    payload_pair_free(pair);
    script_free(script);
}

/* A report that a dying lane took with it is said on another one: nothing else would tell that the window is free. */
static void test_reports_survive_a_lane(void **state)
{
    struct script *script = start_joined(2);
    struct payload *pair[2];
    told.window.segments = 1;
    told.pick = 1;
    payload_pair(script, 0, 1, 3 * SEGMENT, pair);
    script_act_all(script, 1, SCRIPT_DELIVER); /* the credit */
    assert_int_equal(told.posted, 1);
    assert_true(script_act(script, 0, 1, SCRIPT_SENT));
    assert_true(script_act(script, 0, 1, SCRIPT_DELIVER));
    link_arm(script->side[1].domain); /* says on lane 0 what has landed */
    link_disarm(script->side[1].domain);
    assert_true(script_act(script, 0, 0, SCRIPT_KILL));
    assert_true(script_act(script, 0, 0, SCRIPT_DOWN));
    assert_true(script_act(script, 1, 0, SCRIPT_DOWN));
    assert_int_equal(told.landed[1], 0);
    finish(script, pair);
}

/* What was said before is said again later: of an earlier payload in the same slot. */
static void test_old_reports(void **state)
{
    struct script *script = start_joined(1);
    struct payload *pair[2];
    struct link *link = script->side[0].link;
    payload_pair(script, 0, 1, SEGMENT, pair);
    script_settle(script);
    assert_true(payload_pair_right(pair));
    payload_pair_free(pair);
    struct wire_landed again = script->side[1].link->reports.landed[0];
    assert_int_equal(told.landed[0], 1);
    payload_pair(script, 0, 2, SEGMENT, pair);
    script_act_all(script, 1, SCRIPT_DELIVER); /* the credit */
    assert_int_equal(link->lane[0].view.segments, 1);
    assert_int_equal(link->lane[0].flight.at[1].imm, again.imm);
    flight_hear(link, &again, sizeof again);
    assert_int_equal(link->lane[0].view.segments, 1);
    finish(script, pair);
    assert_int_equal(told.landed[0], 2);
}

/* A lane's answer says that what was sent before the question has landed: no report of it came, or none that could be
 * true. Of two puts one may be unsent, which the question may overtake. */
static void test_an_answer_instead_of_reports(void **state)
{
    for (uint32_t sent = 0; sent <= 2; sent++) {
        struct payload *pair[2];
        struct script *script = start_sending(1, 2, 5, pair);
        struct link_lane *lane = &script->side[0].link->lane[0];
        for (uint32_t i = 0; i < sent; i++)
            assert_true(script_act(script, 0, 0, SCRIPT_SENT));
        assert_int_equal(told.posted, 2);
        assert_true(silence_probe(lane, clock_ns() + 3600 * NS_PER_S));
        assert_true(silence_probe(lane, clock_ns() + 3600 * NS_PER_S)); /* one at a time */
        while (script_act(script, 0, 0, SCRIPT_DELIVER))                /* and nothing is said of what arrives */
            ;
        assert_int_equal(told.landed[0], 0);
        assert_true(script_act_all(script, 1, SCRIPT_DELIVER) > 0);
        assert_int_equal(told.landed[0], sent);
        assert_int_equal(told.posted, 2 + sent);
        finish(script, pair);
        assert_int_equal(told.landed[0], 5);
    }
}

/* Any sign of life lets a lane be asked again, so that two questions may be under way: the second one's answer says
 * nothing of what was sent behind it, when a third has been asked. */
static void test_answers_that_come_late(void **state)
{
    struct payload *pair[2];
    struct script *script = start_sending(1, 2, 5, pair);
    struct link_lane *lane = &script->side[0].link->lane[0];
    for (int i = 0; i < 2; i++) {
        lane->signs.probed = 0;
        assert_true(silence_probe(lane, clock_ns() + 3600 * NS_PER_S));
    }
    assert_true(script_act_all(script, 0, SCRIPT_DELIVER) > 0);
    assert_true(script_act(script, 1, 0, SCRIPT_DELIVER)); /* the first answer */
    assert_int_equal(lane->signs.probed, 0);
    for (int i = 0; i < 2; i++)
        assert_true(script_act(script, 0, 0, SCRIPT_SENT));
    assert_true(silence_probe(lane, clock_ns() + 3600 * NS_PER_S));
    assert_true(script_act(script, 1, 0, SCRIPT_DELIVER)); /* the second one */
    assert_int_equal(told.landed[0], 0);
    while (script_act(script, 0, 0, SCRIPT_DELIVER))
        ;
    assert_true(script_act_all(script, 1, SCRIPT_DELIVER) > 0);
    assert_int_equal(told.landed[0], 2);
    finish(script, pair);
    assert_int_equal(told.landed[0], 5);
}

/* Reports of a peer that lies about what has landed, or when. */
static void test_lies(void **state)
{
    struct script *script = start_joined(1);
    struct payload *pair[2];
    payload_pair(script, 0, 1, 4 * SEGMENT, pair);
    script_act_all(script, 1, SCRIPT_DELIVER);
    struct link *link = script->side[0].link;
    struct wire_landed reports[] = {
        {.when = 1, .epoch = link->lane[0].epoch, .lane = 0, .imm = 77, .number = 1},
        {.when = UINT64_MAX, .epoch = link->lane[0].epoch, .lane = 0xffffffff, .number = 2},
        {.when = 1ull << 63, .epoch = link->lane[0].epoch, .lane = LINK_MAX_LANES, .number = 3},
        {.when = 5, .epoch = link->lane[0].epoch + 2, .lane = 0, .imm = 0, .number = 4}};
    flight_hear(link, reports, sizeof reports);
    flight_hear(link, reports, sizeof reports - 1);
    flight_hear(link, reports, 3);
    assert_int_equal(told.landed[0], 0);
    assert_int_equal(link->lane[0].view.segments, 2);
    uint64_t far = UINT64_MAX; /* in an answer */
    flight_answered(&link->lane[0], &far, sizeof far - 1);
    assert_int_equal(told.landed[0], 0);
    flight_answered(&link->lane[0], &far, sizeof far);
    assert_int_equal(told.landed[0], 2);
    assert_int_equal(link->lane[0].view.segments, link->lane[0].flight.next - link->lane[0].flight.first);
    finish(script, pair);
}

#define CASE(test) cmocka_unit_test(test)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_told_of_each_segment),
        CASE(test_true_time),
        CASE(test_window),
        CASE(test_reports_about_every_lane),
        CASE(test_wait_for_a_full_lane),
        CASE(test_nobody_waits_for_nothing),
        CASE(test_answer_comes_later),
        CASE(test_backup_waits_for_its_turn),
        CASE(test_backup_is_left_in_time),
        CASE(test_receiver_chooses),
        CASE(test_what_was_under_way_is_forgotten),
        CASE(test_cancelled),
        CASE(test_reports_survive_a_lane),
        CASE(test_old_reports),
        CASE(test_an_answer_instead_of_reports),
        CASE(test_answers_that_come_late),
        CASE(test_lies),
    };
    script_setup(NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
