/* SPDX-License-Identifier: Apache-2.0 */
/* Payloads in a device's memory, which no processor may touch: what stands for it here has no rights, so whoever does
 * gets a signal. Only lanes whose hardware reaches it carry them; all others refuse them. */
#include "link/link_testing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#define SEGMENT SCRIPT_SEGMENT
#define LONG    (5 * SEGMENT)
#define DATA    LINK_DATA_LANE
#define GPU     2

/* One end of a payload of tag `seq`, of `length` bytes, on the device. */
static struct payload *on_device(bool sends, uint32_t seq, size_t length, int rights)
{
    unsigned char *memory = mmap(NULL, LONG, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    struct payload *payload = payload_new(sends, seq, 7, length);
    payload_move(payload, memory);
    if (sends)
        payload->send.place.device = GPU + 1;
    else
        payload->recv.place.device = GPU + 1;
    assert_int_equal(mprotect(memory, LONG, rights), 0);
    return payload;
}

static void free_on_device(struct payload *payload)
{
    unsigned char *memory = payload->data;
    payload_free(payload);
    munmap(memory, LONG);
}

static void assert_refused(const struct payload *payload)
{
    assert_int_equal(payload->done, 1);
    assert_int_equal(payload->result, TUTTI_INVALID_ARGUMENT);
    assert_non_null(strstr(payload->text, "memory of GPU 2"));
    assert_non_null(strstr(payload->text, payload->sends ? " to rank" : " from rank"));
}

/* The link is none the worse. */
static void assert_goes_on(struct script *script)
{
    struct payload *pair[2];
    payload_pair(script, 0, 1000, LONG, pair);
    script_settle(script);
    assert_true(payload_pair_right(pair));
    payload_pair_free(pair);
}

static void test_refused_by_lanes_that_copy(void **state)
{
    static const size_t lengths[] = {1, SCRIPT_EAGER, LONG};
    struct script *script = script_start((struct script_shape){.lanes = 2});
    for (uint32_t i = 0; i < 6; i++) {
        bool sends = i % 2;
        struct payload *mine = on_device(sends, i, lengths[i / 2], PROT_NONE);
        struct payload *other = payload_new(!sends, i, 7, lengths[i / 2]);
        payload_start(other, script->side[0].link);
        payload_start(mine, script->side[1].link);
        script_settle(script);
        assert_refused(mine);
        payload_cancel(other, script->side[0].link);
        free_on_device(mine);
        payload_free(other);
    }
    assert_goes_on(script);
    script_free(script);
}

static void test_refused_within_a_process(void **state)
{
    static const size_t lengths[] = {1, LONG};
    struct script *script = script_start((struct script_shape){.lanes = 1});
    struct link *self;
    assert_int_equal(link_get(script->side[0].domain, &script->side[0].self, 0, &self), TUTTI_SUCCESS);
    for (uint32_t i = 0; i < 4; i++) {
        bool sends = i % 2;
        struct payload *mine = on_device(sends, i, lengths[i / 2], PROT_NONE);
        struct payload *other = payload_new(!sends, i, 7, lengths[i / 2]);
        payload_start(i / 2 ? mine : other, self);
        payload_start(i / 2 ? other : mine, self);
        for (int polls = 0; polls < 4; polls++)
            link_poll(script->side[0].domain);
        assert_refused(mine);
        assert_int_equal(other->done, 1);
        free_on_device(mine);
        payload_free(other);
    }
    script_free(script);
}

static struct script *start_registering(void)
{
    return script_start((struct script_shape){.lanes = 1, .data_lanes = 1, .registers = true});
}

/* The script's hardware has rights of its own: it is the process here. */
static void test_carried_by_hardware(void **state)
{
    struct script *script = start_registering();
    struct payload *pair[2] = {on_device(true, 1, LONG, PROT_READ), on_device(false, 1, LONG, PROT_READ | PROT_WRITE)};
    payload_start(pair[1], script->side[1].link);
    payload_start(pair[0], script->side[0].link);
    script_settle(script);
    assert_true(payload_pair_right(pair));
    free_on_device(pair[0]);
    free_on_device(pair[1]);
    script_free(script);
}

/* The lanes of hardware go down, and those that stand in for them copy. */
static void test_refused_by_lanes_that_stand_in(void **state)
{
    struct script *script = start_registering();
    struct payload *send = on_device(true, 1, LONG, PROT_READ), *recv = payload_new(false, 1, 7, LONG);
    payload_start(recv, script->side[1].link);
    payload_start(send, script->side[0].link);
    script_act_all(script, 1, SCRIPT_DELIVER); /* the credit: puts are under way */
    assert_int_equal(send->done, 0);
    for (int side = 0; side < 2; side++)
        script_act(script, side, DATA, SCRIPT_KILL);
    for (int side = 0; side < 2; side++)
        assert_true(script_act(script, side, DATA, SCRIPT_DOWN));
    for (int i = 0; i < 10 && !send->done; i++) {
        script_act(script, 0, 0, SCRIPT_DELIVER);
        script_act(script, 1, 0, SCRIPT_DELIVER);
    }
    assert_refused(send);
    payload_cancel(recv, script->side[1].link);
    free_on_device(send);
    payload_free(recv);
    assert_goes_on(script);
    script_free(script);
}

/* ---- With host memory to spare ---- */

static struct payload *spills[8]; /* sends that are to go from there */
static int spill_count;

static void on_spill(struct link_send *send)
{
    assert_true(spill_count < 8);
    spills[spill_count++] = container_of(send, struct payload, send);
}

static struct payload *with_spare(bool sends, uint32_t seq, size_t length)
{
    struct payload *payload = on_device(sends, seq, length, PROT_NONE);
    void *spare = calloc(1, length);
    assert_non_null(spare);
    if (sends) {
        payload->send.spare = spare;
        payload->send.spill = on_spill;
    } else {
        payload->recv.spare = spare;
    }
    return payload;
}

static void free_with_spare(struct payload *payload)
{
    free(payload->sends ? payload->send.spare : payload->recv.spare);
    free_on_device(payload);
}

/* As the device, or its adapter, does. */
static void let(const struct payload *payload, int rights)
{
    assert_int_equal(mprotect(payload->data, LONG, rights), 0);
}

/* Copies what was asked for, as the caller of link_send(). */
static int copy_spills(struct link *link)
{
    int count = spill_count;
    spill_count = 0;
    for (int i = 0; i < count; i++) {
        let(spills[i], PROT_READ);
        memcpy(spills[i]->send.spare, spills[i]->data, spills[i]->length);
        let(spills[i], PROT_NONE);
        link_spilled(link, &spills[i]->send);
    }
    return count;
}

/* Returns the segments that came to the spare memory. */
static uint64_t copy_received(struct payload *payload)
{
    uint64_t spilled = payload->recv.spilled;
    size_t segment = payload->recv.segment;
    let(payload, PROT_READ | PROT_WRITE);
    for (uint64_t left = spilled; left; left &= left - 1) {
        size_t from = (size_t)__builtin_ctzll(left) * segment, rest = payload->length - from;
        memcpy(payload->data + from, (char *)payload->recv.spare + from, rest < segment ? rest : segment);
    }
    return spilled;
}

static void test_spare_where_lanes_copy(void **state)
{
    static const size_t lengths[] = {1, SCRIPT_EAGER, LONG};
    for (int within = 0; within < 2; within++) {
        struct script *script = script_start((struct script_shape){.lanes = 2});
        struct link *self, *from = script->side[0].link, *to = script->side[1].link;
        assert_int_equal(link_get(script->side[0].domain, &script->side[0].self, 0, &self), TUTTI_SUCCESS);
        for (uint32_t i = 0; i < 6; i++) {
            struct payload *pair[2] = {with_spare(true, i, lengths[i / 2]), with_spare(false, i, lengths[i / 2])};
            payload_start(pair[i % 2], within ? self : i % 2 ? to : from);
            payload_start(pair[1 - i % 2], within ? self : i % 2 ? from : to);
            assert_int_equal(copy_spills(within ? self : from), 1);
            script_settle(script);
            for (int polls = 0; polls < 4; polls++)
                link_poll(script->side[0].domain);
            assert_int_not_equal(copy_received(pair[1]), 0);
            assert_true(payload_pair_right(pair));
            free_with_spare(pair[0]);
            free_with_spare(pair[1]);
        }
        script_free(script);
    }
}

static void give_rights(struct payload *pair[2])
{
    let(pair[0], PROT_READ);
    let(pair[1], PROT_READ | PROT_WRITE);
}

static void lose_data_lane(struct script *script, int index)
{
    script_act(script, 0, index, SCRIPT_KILL);
    script_act(script, 1, index, SCRIPT_KILL);
    for (int side = 0; side < 2; side++)
        assert_true(script_act(script, side, index, SCRIPT_DOWN));
}

/* What has not arrived goes on by way of the spare memory, and the rest lies where it was stored. */
static void test_spare_when_the_last_lane_dies(void **state)
{
    struct script *script = start_registering();
    struct payload *pair[2] = {with_spare(true, 1, LONG), with_spare(false, 1, LONG)};
    give_rights(pair);
    payload_start(pair[1], script->side[1].link);
    payload_start(pair[0], script->side[0].link);
    script_act_all(script, 1, SCRIPT_DELIVER);
    assert_true(script_act(script, 0, DATA, SCRIPT_DELIVER)); /* one segment */
    assert_true(script_act(script, 0, DATA, SCRIPT_PART));    /* and a half */
    lose_data_lane(script, DATA);
    for (int i = 0; i < 10 && !spill_count; i++) {
        script_act(script, 0, 0, SCRIPT_DELIVER);
        script_act(script, 1, 0, SCRIPT_DELIVER);
    }
    let(pair[1], PROT_NONE); /* nobody stores there any more */
    assert_int_equal(pair[0]->done, 0);
    assert_int_equal(copy_spills(script->side[0].link), 1);
    script_settle(script);
    assert_int_equal(copy_received(pair[1]), 0x1e);
    assert_true(payload_pair_right(pair));
    free_with_spare(pair[0]);
    free_with_spare(pair[1]);
    assert_goes_on(script);
    script_free(script);
}

/* One end cannot register, or its peer cannot: it alone copies. */
static void test_spare_at_one_end(void **state)
{
    for (int end = 0; end < 2; end++) {
        struct script *script = start_registering();
        struct payload *pair[2] = {with_spare(true, 1, LONG), with_spare(false, 1, LONG)};
        give_rights(pair);
        script->fail_registrations = end ? 1 : 0;
        payload_start(pair[1], script->side[1].link);
        script->fail_registrations = end ? 0 : 1;
        payload_start(pair[0], script->side[0].link);
        script_act_all(script, 1, SCRIPT_DELIVER);
        assert_int_equal(copy_spills(script->side[0].link), 1);
        let(pair[1], PROT_NONE);
        script_settle(script);
        assert_int_equal(copy_received(pair[1]), 0x1f);
        assert_true(payload_pair_right(pair));
        free_with_spare(pair[0]);
        free_with_spare(pair[1]);
        script_free(script);
    }
}

static struct script *start_posted(int data_lanes)
{
    return script_start((struct script_shape){.lanes = 1, .data_lanes = data_lanes, .registers = true, .posted = true});
}

/* Nothing is there before the flush, and nobody says so. */
static void test_flush(void **state)
{
    struct script *script = start_posted(1);
    struct payload *pair[2] = {with_spare(true, 1, LONG), with_spare(false, 1, LONG)};
    give_rights(pair);
    script->hold_flushes = true;
    payload_start(pair[1], script->side[1].link);
    payload_start(pair[0], script->side[0].link);
    script_settle(script);
    assert_int_equal(pair[0]->done + pair[1]->done, 0);
    assert_false(payload_right(pair[1]));
    assert_true(script_flush(script, 1));
    assert_false(script_flush(script, 1));
    assert_int_equal(pair[1]->done, 1);
    assert_int_equal(copy_received(pair[1]), 0);
    script_settle(script);
    assert_true(payload_pair_right(pair));
    free_with_spare(pair[0]);
    free_with_spare(pair[1]);
    script_free(script);
}

/* What a lane has stored comes again when the lane ends before the flush: also if the other lane's end had made the
 * receiver say what it has. */
static void test_lane_ends_before_flush(void **state)
{
    for (int both = 0; both < 2; both++) {
        struct script *script = start_posted(2);
        struct payload *pair[2] = {with_spare(true, 1, LONG), with_spare(false, 1, LONG)};
        give_rights(pair);
        script->hold_flushes = true;
        payload_start(pair[1], script->side[1].link);
        payload_start(pair[0], script->side[0].link);
        for (int i = 0; i < 20; i++) {
            script_act(script, 1, 0, SCRIPT_DELIVER);
            for (int lane = DATA; lane < DATA + 2; lane++) {
                script_act(script, 0, lane, SCRIPT_DELIVER);
                script_act(script, 0, lane, SCRIPT_SENT);
            }
        }
        assert_int_equal(pair[1]->recv.arrived, 5);
        assert_int_equal(pair[1]->done, 0);
        script_drop_held(script); /* a port that is reset */
        lose_data_lane(script, DATA);
        if (both)
            script_settle(script);
        if (both)
            lose_data_lane(script, DATA + 1);
        for (int i = 0; i < 5; i++) {
            script_settle(script);
            copy_spills(script->side[0].link);
        }
        script_drop_held(script);
        assert_int_equal(pair[1]->done, both);
        if (both)
            assert_int_equal(copy_received(pair[1]), 0x1f);
        assert_true(!both || payload_pair_right(pair));
        payload_cancel(pair[1], script->side[1].link);
        payload_cancel(pair[0], script->side[0].link);
        free_with_spare(pair[0]);
        free_with_spare(pair[1]);
        assert_goes_on(script);
        script_free(script);
    }
}

/* Nobody finds them when they are asked for later. */
static void test_cancelled_while_it_waits(void **state)
{
    struct script *script = start_posted(1);
    struct payload *pair[2] = {with_spare(true, 1, LONG), with_spare(false, 1, LONG)};
    give_rights(pair);
    script->hold_flushes = true;
    payload_start(pair[1], script->side[1].link);
    payload_start(pair[0], script->side[0].link);
    script_settle(script);
    assert_false(list_empty(&script->flushes[1]));
    payload_cancel(pair[1], script->side[1].link);
    payload_cancel(pair[0], script->side[0].link);
    assert_true(script_flush(script, 1));
    free_with_spare(pair[0]);
    free_with_spare(pair[1]);
    struct payload *send = with_spare(true, 2, 1);
    payload_start(send, script->side[0].link);
    assert_int_equal(spill_count, 1);
    spill_count = 0;
    payload_cancel(send, script->side[0].link);
    free_with_spare(send);
    script->hold_flushes = false;
    assert_goes_on(script);
    script_free(script);
}

/* A place names the life of its memory: what lies there by now is other memory, and has no registration. */
static void test_another_life(void **state)
{
    struct script *script = start_registering();
    static unsigned char memory[LONG];
    uint64_t first = known_add(memory, sizeof memory);
    known_remove(first);
    uint64_t second = known_add(memory, sizeof memory);
    for (uint32_t i = 0; i < 2; i++) {
        struct payload *send = payload_new(true, i, 7, LONG), *recv = payload_new(false, i, 7, LONG);
        payload_move(recv, memory);
        recv->recv.place.life = i ? second : first;
        payload_start(recv, script->side[1].link);
        payload_start(send, script->side[0].link);
        assert_int_equal(recv->recv.memory != NULL, i);
        script_settle(script);
        assert_true(payload_pair_right((struct payload *[]){send, recv}));
        payload_free(send);
        payload_free(recv);
    }
    known_remove(second);
    script_free(script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused_by_lanes_that_copy),
        cmocka_unit_test(test_refused_within_a_process),
        cmocka_unit_test(test_carried_by_hardware),
        cmocka_unit_test(test_refused_by_lanes_that_stand_in),
        cmocka_unit_test(test_spare_where_lanes_copy),
        cmocka_unit_test(test_spare_when_the_last_lane_dies),
        cmocka_unit_test(test_spare_at_one_end),
        cmocka_unit_test(test_flush),
        cmocka_unit_test(test_lane_ends_before_flush),
        cmocka_unit_test(test_cancelled_while_it_waits),
        cmocka_unit_test(test_another_life),
    };
    return cmocka_run_group_tests(tests, script_setup, NULL);
}
