/* SPDX-License-Identifier: Apache-2.0 */
/* Registrations that are kept: of memory that is known, until it goes, or its key is revoked. */
#include "link/link_testing.h"

#include "base/known.h"
#include "base/param.h"
#include "link/registration.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SEGMENT SCRIPT_SEGMENT
#define DATA    LINK_DATA_LANE
#define ROOM    (16 * SEGMENT)

enum { SOURCE, TARGET };
static unsigned char memory[2][ROOM];
static uint64_t known[2];
static struct script *script;

static int test_setup(void **state)
{
    struct script_shape shape = {.lanes = 1, .data_lanes = 1, .registers = true};
    unsetenv("TUTTI_REGISTER");
    unsetenv("TUTTI_REGISTERED");
    script_setup(NULL);
    script = script_new(&shape);
    script_join(script);
    for (int i = 0; i < 2; i++)
        known[i] = known_add(memory[i], ROOM);
    return 0;
}

static int test_teardown(void **state)
{
    for (int i = 0; i < 2; i++)
        known_remove(known[i]);
    script_free(script);
    return 0;
}

static void set(const char *name, const char *value)
{
    setenv(name, value, 1);
    param_reload();
}

/* What was rung is heard. */
static void hear(void)
{
    for (int side = 0; side < 2; side++)
        while (poller_wait(script->side[side].poller, 0))
            ;
}

/* Side 0 sends `segments` at `place` of the known memory. */
static struct payload *sending(uint32_t seq, int segments, int place)
{
    struct payload *payload = payload_new(true, seq, 7, (size_t)segments * SEGMENT);
    payload_move(payload, memory[SOURCE] + place * SEGMENT);
    payload_start(payload, script->side[0].link);
    return payload;
}

/* And side 1 receives. */
static struct payload *receiving(uint32_t seq, int segments, int place)
{
    struct payload *payload = payload_new(false, seq, 7, (size_t)segments * SEGMENT);
    payload_move(payload, memory[TARGET] + place * SEGMENT);
    payload_start(payload, script->side[1].link);
    return payload;
}

static void transfer(uint32_t seq, int place)
{
    struct payload *pair[2];
    pair[1] = receiving(seq, 2, place);
    pair[0] = sending(seq, 2, place + 2);
    script_settle(script);
    assert_true(payload_pair_right(pair));
    payload_pair_free(pair);
}

static void test_kept_while_the_memory_lives(void **state)
{
    for (uint32_t seq = 1; seq < 10; seq++) {
        transfer(seq, (int)seq);
        assert_int_equal(script->registrations, 2);
    }
    known_remove(known[TARGET]);
    hear();
    assert_int_equal(script->registrations, 1);
    transfer(10, 0); /* the target is memory like any other now */
    assert_int_equal(script->registrations, 1);
    known_remove(known[SOURCE]);
    hear();
    assert_int_equal(script->registrations, 0);
}

/* Gone and there again at the same address: what was kept is of the old pages. */
static void test_made_anew_for_new_memory(void **state)
{
    transfer(1, 0);
    uint64_t before = known[SOURCE];
    known_remove(before);
    known[SOURCE] = known_add(memory[SOURCE], ROOM);
    transfer(2, 0);
    assert_int_not_equal(known[SOURCE], before);
    assert_int_equal(script->registrations, 3); /* nobody has heard yet */
    hear();
    assert_int_equal(script->registrations, 2);
}

/* Memory that goes while a payload is under way keeps its registration until that has ended. */
static void test_memory_goes_under_a_payload(void **state)
{
    struct payload *pair[2];
    pair[1] = receiving(1, 2, 0);
    pair[0] = sending(1, 2, 0);
    script_act_all(script, 1, SCRIPT_DELIVER);
    assert_int_equal(script->registrations, 2);
    known_remove(known[SOURCE]);
    known_remove(known[TARGET]);
    hear();
    assert_int_equal(script->registrations, 2);
    script_settle(script);
    assert_true(payload_pair_right(pair));
    assert_int_equal(script->registrations, 0);
    payload_pair_free(pair);
}

/*
 * One of three receives in the same memory is given up: its key has ended, and its memory is the user's again. The
 * others arrive nevertheless, without keys: one that was under way, and one whose credit waits for its send.
 */
static void test_revoked(void **state)
{
    struct payload *under_way[2], *waiting[2], *given_up;
    given_up = receiving(1, 2, 0);
    under_way[1] = receiving(2, 2, 2);
    waiting[1] = receiving(3, 2, 4);
    under_way[0] = sending(2, 2, 2);
    script_act_all(script, 1, SCRIPT_DELIVER);
    assert_int_equal(script->registrations, 2);
    payload_cancel(given_up, script->side[1].link);
    assert_int_equal(script->registrations, 1); /* the source's */
    script_tick(script, 10);
    script_settle(script);
    waiting[0] = sending(3, 2, 4);
    assert_null(waiting[0]->send.memory);
    script_tick(script, 2500);
    script_settle(script);
    assert_true(payload_pair_right(under_way));
    assert_true(payload_pair_right(waiting));
    assert_int_equal(script->refused, 0); /* the lanes were closed before */
    struct payload *late = sending(1, 2, 0);
    script_settle(script);
    assert_int_equal(memory[TARGET][0], 0);
    transfer(4, 6);
    assert_int_equal(script->registrations, 2); /* a new one */
    payload_cancel(late, script->side[0].link);
    payload_free(late);
    payload_free(given_up);
    payload_pair_free(under_way);
    payload_pair_free(waiting);
}

/* Above TUTTI_REGISTERED bytes of one side the longest unused one goes, but none that is in use. */
static void test_limit(void **state)
{
    static unsigned char another[ROOM];
    uint64_t more = known_add(another, ROOM);
    struct payload *first[2], *second[2];
    set("TUTTI_REGISTERED", "64K"); /* ROOM */
    first[1] = receiving(1, 2, 0);
    first[0] = sending(1, 2, 0);
    second[1] = receiving(2, 2, 2);
    second[0] = payload_new(true, 2, 7, 2 * SEGMENT);
    payload_move(second[0], another);
    payload_start(second[0], script->side[0].link);
    script_act_all(script, 1, SCRIPT_DELIVER);
    script_act_all(script, 1, SCRIPT_DELIVER);
    assert_int_equal(script->registrations, 3);
    script_settle(script);
    assert_true(payload_pair_right(first) && payload_pair_right(second));
    payload_pair_free(first);
    payload_pair_free(second);
    assert_int_equal(script->registrations, 3); /* none is ended before there is need */
    transfer(3, 0);                             /* what it takes is there */
    assert_int_equal(script->registrations, 3);
    known_remove(known[SOURCE]);
    hear();
    known[SOURCE] = known_add(memory[SOURCE], ROOM);
    transfer(4, 0);
    assert_int_equal(script->registrations, 2); /* `another` gave way */
    known_remove(more);
}

/* What is larger than that is registered for each payload. */
static void test_larger_than_the_limit(void **state)
{
    set("TUTTI_REGISTERED", "32K");
    transfer(1, 0);
    assert_int_equal(script->registrations, 0);
}

/* Where no more can be registered, what nobody uses is given back, and then it can. */
static void test_no_more_to_be_had(void **state)
{
    transfer(1, 0);
    assert_int_equal(script->registrations, 2);
    struct payload *receive = payload_new(false, 2, 7, 2 * SEGMENT);
    script->fail_registrations = 1;
    payload_start(receive, script->side[1].link);
    assert_int_equal(script->registrations, 2); /* the kept target's went, a new one came */
    assert_non_null(receive->recv.memory);
    payload_cancel(receive, script->side[1].link);
    payload_free(receive);
    script_tick(script, 10);
    script_settle(script);
    script_tick(script, 2500);
    script_settle(script);
}

/* A device that was lost, and is back, knows nothing of what was registered before. */
static void test_a_device_comes_back(void **state)
{
    struct payload *pair[2];
    pair[1] = receiving(1, 2, 0);
    pair[0] = sending(1, 2, 0);
    const struct link_registration *before = pair[1]->recv.memory;
    before->memory->devices = 2; /* of which the second has no key */
    struct payload *second = receiving(2, 2, 2);
    assert_ptr_not_equal(second->recv.memory, before);
    assert_int_equal(script->registrations, 2);
    script_settle(script);
    assert_int_equal(script->registrations, 2); /* the old one went; the source's came */
    assert_true(payload_pair_right(pair));
    struct payload *other = sending(2, 2, 2);
    script_settle(script);
    assert_true(second->done && payload_right(second));
    payload_pair_free(pair);
    payload_free(second);
    payload_free(other);
}

/* TUTTI_REGISTER=pool: known memory is registered before it is used, and no other. */
static void test_pool(void **state)
{
    struct payload *pair[2];
    set("TUTTI_REGISTER", "pool");
    hear();
    assert_int_equal(script->registrations, 8); /* two pieces, at each side as source and as target */
    transfer(1, 0);
    assert_int_equal(script->registrations, 8);
    payload_pair(script, 0, 2, 2 * SEGMENT, pair);
    assert_null(pair[1]->recv.memory);
    script_settle(script);
    assert_true(payload_pair_right(pair));
    payload_pair_free(pair);
    known_remove(known[SOURCE]);
    hear();
    assert_int_equal(script->registrations, 4);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, test_setup, test_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_kept_while_the_memory_lives),
        CASE(test_made_anew_for_new_memory),
        CASE(test_memory_goes_under_a_payload),
        CASE(test_revoked),
        CASE(test_limit),
        CASE(test_larger_than_the_limit),
        CASE(test_no_more_to_be_had),
        CASE(test_a_device_comes_back),
        CASE(test_pool),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
