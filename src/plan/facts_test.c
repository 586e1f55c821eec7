/* SPDX-License-Identifier: Apache-2.0 */
/* What follows from what ranks tell one another: one difference at a time. */
#include "plan/facts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define RANKS      4
#define ALL        ((1u << RANKS) - 1)
#define LINES      (1u << KERNEL_LINES)
#define PROCESSORS 132

/* GPUs that reach one another, by the process of each rank. */
struct world {
    struct facts_peer peer[RANKS];
    struct facts_settings settings;
};

static struct world world_of(const char *processes)
{
    struct world world = {.settings = {.copies = true, .copies_processes = true, .protocols = LINES}};
    for (int rank = 0; rank < RANKS; rank++) {
        world.peer[rank] = (struct facts_peer){.reaches = ALL, .whole = ALL, .processors = PROCESSORS};
        world.peer[rank].process[0] = (uint8_t)processes[rank];
    }
    return world;
}

static struct plan_facts facts(const struct world *world)
{
    return facts_of(world->peer, RANKS, &world->settings);
}

/* Letters: Loads, Copies, in Host, Apart, liNes, Zero. */
static void expect(const struct world *world, const char *letters)
{
    struct plan_facts f = facts(world);
    char got[8] = "";
    const struct {
        bool is;
        const char *letter;
    } all[] = {{f.loads, "L"}, {f.copies, "C"}, {f.in_host, "H"}, {f.apart, "A"}, {f.lines, "N"}, {f.zero, "Z"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        strcat(got, all[i].is ? all[i].letter : "");
    assert_string_equal(got, letters);
    assert_int_equal(f.nranks, RANKS);
    assert_int_equal(f.protocols, world->settings.protocols);
}

static void test_processes(void **state)
{
    (void)state;
    struct world one = world_of("aaaa"), each = world_of("abcd"), mixed = world_of("aabb"), most = world_of("aaab");
    expect(&one, "LCN");
    expect(&each, "CAN");
    expect(&mixed, "CN");
    expect(&most, "CN");
    one.settings.copies_processes = each.settings.copies_processes = mixed.settings.copies_processes = false;
    expect(&one, "LCN");
    expect(&each, "AN");
    expect(&mixed, "N");
}

/* Of ranks that share a process and others that do not, all come to one answer. */
static void test_through_scratch(void **state)
{
    (void)state;
    struct world one = world_of("aaaa"), each = world_of("abcd"), most = world_of("aaab");
    one.settings.through_scratch = each.settings.through_scratch = most.settings.through_scratch = true;
    expect(&one, "N");
    expect(&each, "CAN");
    expect(&most, "N");
}

static void test_a_rank_alone(void **state)
{
    (void)state;
    struct world world = world_of("aaaa");
    world.peer[0].reaches = world.peer[0].whole = 1;
    struct plan_facts alone = facts_of(world.peer, 1, &world.settings);
    assert_true(alone.copies && alone.apart && alone.lines && !alone.loads && !alone.in_host);
}

/* One rank's word decides for all. */
static void test_windows_in_host_memory(void **state)
{
    (void)state;
    for (int rank = 0; rank < RANKS; rank++) {
        struct world far = world_of("aaaa"), wants = far, refused = far;
        far.peer[rank].reaches = ALL & ~(1u << (rank + 1) % RANKS);
        wants.peer[rank].wants_host = 1;
        refused.peer[rank].refused = 1;
        expect(&far, "H");
        expect(&wants, "H");
        expect(&refused, "H");
    }
    struct world apart = world_of("abcd");
    apart.peer[0].wants_host = 1;
    expect(&apart, "HA");
}

static void test_lines(void **state)
{
    (void)state;
    struct world own = world_of("abcd"), broken = own, forbidden = own;
    own.peer[2].whole = ALL & ~(1u << 2); /* of its own GPU a rank says nothing */
    expect(&own, "CAN");
    broken.peer[2].whole = ALL & ~(1u << 1);
    expect(&broken, "CA");
    forbidden.settings.protocols = ~LINES;
    expect(&forbidden, "CA");
}

static void test_copies(void **state)
{
    (void)state;
    struct world few = world_of("aaaa"), none = few;
    few.peer[3].few_queues = 1;
    expect(&few, "LN");
    none.settings.copies = false;
    expect(&none, "LN");
}

/* The user wants copies wherever they can be had. */
static void test_zero(void **state)
{
    (void)state;
    struct world world = world_of("abcd");
    world.settings.copies = world.settings.copies_processes = false;
    for (int rank = 0; rank < RANKS; rank++)
        world.peer[rank].policy = TUTTI_POLICY_ZERO;
    expect(&world, "CANZ");
    world.peer[1].few_queues = 1;
    expect(&world, "ANZ");
}

static void test_room(void **state)
{
    (void)state;
    struct world world = world_of("abcd");
    world.peer[2].processors = 24;
    assert_int_equal(facts(&world).room.most, kernel_room(24, 0, 0).most);
    world.settings.blocks_least = 4;
    assert_int_equal(facts(&world).room.least, kernel_room(24, 4, 0).least);
    for (int rank = 0; rank < RANKS; rank++)
        world.peer[rank].blocks = 8;
    assert_int_equal(facts(&world).room.most, 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_processes),    cmocka_unit_test(test_through_scratch),
        cmocka_unit_test(test_a_rank_alone), cmocka_unit_test(test_windows_in_host_memory),
        cmocka_unit_test(test_lines),        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_zero),         cmocka_unit_test(test_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
