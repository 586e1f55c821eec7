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
        cmocka_unit_test(test_another_life),
    };
    return cmocka_run_group_tests(tests, script_setup, NULL);
}
