/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All that can happen to slots, in any order: a model of two processes. The borrower has a channel that takes slots and
 * gives them back, and a thread that makes and frees the memory. On the GPU where the memory is somebody works, who
 * asks for memory, gets what there is, and may be killed; so may the borrower. A GPU has room for the slots or for what
 * its owner asks for, not for both. From each state all that may come next is tried, until no state is new. The rules
 * are those of the library. Time is what states need of it: a want is recent or old, and memory was used of late or
 * not.
 */
#include "executor/staged/relay_slots.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define STATES 65536
#define EACH   2
#define NOW    (100 * NS_PER_S)

enum owner { OWNER_RUNS, OWNER_ASKS, OWNER_HAS, OWNER_GONE };

struct world {
    struct relay_slots slots;
    enum owner owner;
    bool memory;    /* the slots have it */
    bool low, late; /* little is free; nobody has used a slot for long */
    bool dead;      /* the borrower */
};

static struct world known[STATES];
static int count;
static int made, freed, asked_back, refused; /* what was seen */

/* Of times only that counts which rules ask for. */
static struct world plain(struct world world)
{
    struct relay_slots *slots = &world.slots;
    slots->wanted = slots->wanted ? NOW : 0;
    slots->used = slots->used ? NOW : 0;
    slots->refused = slots->refused ? NOW : 0;
    if (world.dead)
        world = (struct world){.owner = world.owner, .dead = true};
    return world;
}

static void require_sound(const struct world *world)
{
    bool taken = world->slots.taken[0];
    if (world->dead)
        return;
    assert_true(!taken || world->memory); /* nobody holds a slot in memory that was given back */
    assert_true(world->memory == (world->slots.state != RELAY_NONE));
    assert_true(world->owner != OWNER_HAS || !world->memory); /* two never have the same memory */
}

static void add(struct world world)
{
    world = plain(world);
    require_sound(&world);
    for (int i = 0; i < count; i++)
        if (memcmp(&known[i], &world, sizeof world) == 0)
            return;
    assert_true(count < STATES);
    known[count++] = world;
}

/* The borrower's thread looks once. */
static void look(struct world *world, bool closed)
{
    struct relay_news news = {world->owner == OWNER_ASKS, world->low, closed};
    bool ending = world->slots.state == RELAY_ENDING;
    switch (relay_slots_next(&world->slots, &news, NOW + (world->late ? RELAY_IDLE : 0))) {
    case RELAY_MAKE:
        assert_false(news.asked || news.low || closed);
        world->memory = world->owner != OWNER_HAS;
        relay_slots_made(&world->slots, world->memory ? EACH : 0, NOW);
        made += world->memory;
        refused += !world->memory;
        break;
    case RELAY_FREE:
        assert_true(ending || news.asked || news.low || closed || world->late);
        asked_back += news.asked;
        world->memory = false;
        relay_slots_freed(&world->slots);
        freed++;
        break;
    case RELAY_STAY:
        break;
    }
}

static void borrower(const struct world *world)
{
    struct world next = *world;
    bool ending = world->slots.state == RELAY_ENDING;
    int slot = relay_slots_take(&next.slots, 0, NOW);
    assert_true(slot < 0 || (world->memory && !ending && !(world->slots.taken[0] >> slot & 1)));
    next.late = false;
    add(next);
    for (slot = 0; slot < EACH; slot++) {
        next = *world;
        if (!(world->slots.taken[0] >> slot & 1))
            continue;
        relay_slots_give(&next.slots, 0, slot, NOW);
        next.late = false;
        add(next);
    }
    next = *world;
    look(&next, false);
    add(next);
    next = *world;
    next.slots.refused = 0; /* long enough ago */
    next.late = true;
    add(next);
    next = *world;
    next.dead = true; /* the driver takes back all that it had */
    next.memory = false;
    add(next);
}

static void others(const struct world *world)
{
    struct world next = *world;
    next.owner = OWNER_GONE; /* killed: its word on the board goes with it, and its memory */
    add(next);
    next = *world;
    next.low = !world->low;
    add(next);
    next = *world;
    if (world->owner == OWNER_RUNS || world->owner == OWNER_ASKS) /* an allocation fails, and asks, where slots are */
        next.owner = world->memory ? OWNER_ASKS : OWNER_HAS;
    else
        next.owner = OWNER_RUNS;
    add(next);
}

/* From any state, once what is under way has ended: does the memory come back, to whoever asks, and at the end? */
static void require_end(struct world world, bool closed)
{
    for (int slot = 0; slot < EACH; slot++)
        if (world.slots.taken[0] >> slot & 1)
            relay_slots_give(&world.slots, 0, slot, NOW);
    if (!closed)
        world.owner = OWNER_ASKS;
    look(&world, closed);
    assert_false(world.memory);
}

static void test_all_that_can_happen(void **state)
{
    add((struct world){.owner = OWNER_RUNS});
    for (int i = 0; i < count; i++) {
        struct world world = known[i];
        others(&world);
        if (world.dead)
            continue;
        borrower(&world);
        require_end(world, true);
        require_end(world, false);
    }
    print_message("%d states; memory made %d times, refused %d, given back %d, of these %d asked for\n", count, made,
                  refused, freed, asked_back);
    assert_true(made && refused && freed && asked_back);
}

/* Times: not again at once where there was none, and given back when nobody has used it for long. */
static void test_times(void **state)
{
    struct relay_slots slots = {0};
    const struct relay_news none = {0};
    assert_int_equal(relay_slots_next(&slots, &none, NOW), RELAY_STAY); /* nobody wants one */
    assert_int_equal(relay_slots_take(&slots, 3, NOW), -1);
    assert_int_equal(relay_slots_next(&slots, &none, NOW), RELAY_MAKE);
    relay_slots_made(&slots, 0, NOW);
    assert_int_equal(relay_slots_next(&slots, &none, NOW + RELAY_AGAIN - 1), RELAY_STAY);
    assert_int_equal(relay_slots_next(&slots, &none, NOW + RELAY_AGAIN), RELAY_MAKE);
    relay_slots_made(&slots, 1, NOW);
    assert_int_equal(relay_slots_take(&slots, 3, NOW), 0);
    assert_int_equal(relay_slots_take(&slots, 3, NOW), -1); /* all are taken */
    assert_int_equal(relay_slots_take(&slots, 2, NOW), 0);  /* another channel has its own */
    relay_slots_give(&slots, 2, 0, NOW);
    assert_int_equal(relay_slots_next(&slots, &none, NOW + RELAY_IDLE - 1), RELAY_STAY);
    assert_int_equal(relay_slots_next(&slots, &none, NOW + RELAY_IDLE), RELAY_STAY); /* one is taken still */
    assert_int_equal(relay_slots_take(&slots, 2, NOW), -1);
    relay_slots_give(&slots, 3, 0, NOW + RELAY_IDLE);
    assert_int_equal(relay_slots_next(&slots, &none, NOW + RELAY_IDLE), RELAY_FREE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_that_can_happen),
        cmocka_unit_test(test_times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
