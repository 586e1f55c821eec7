/* SPDX-License-Identifier: Apache-2.0 */
/* Conformance between two processes: random traffic, sleeping and waking, and a peer that dies at any moment. */
#include "base/clock.h"
#include "flow.h"
#include "fork.h"
#include "suite.h"
#include "transport/shm/region.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct soak {
    uint64_t seed, total;
    size_t longest;
    bool region, sleeps;
};

static void pass_time(struct solo *solo, struct flow *flow, bool sleeps)
{
    if (sleeps && random_next(&flow->random) % 8 == 0)
        party_sleep(&solo->party, 1000);
    else
        party_step(&solo->party);
}

static void open_flow(struct solo *solo, struct flow *flow, const struct soak *soak, bool parent)
{
    flow_open(flow, solo->end, soak->seed + parent, soak->seed + !parent, soak->total, soak->longest, soak->region);
}

/* The parent hears of the lane later, perhaps together with what comes on it: nothing is sent before it takes notes. */
static void await_parent(struct solo *solo)
{
    char byte;
    while (recv(solo->fd, &byte, 1, MSG_DONTWAIT) != 1)
        party_step(&solo->party);
}

static void soak_body(struct solo *solo, void *context)
{
    const struct soak *soak = context;
    struct flow flow;
    char byte = 0;
    open_flow(solo, &flow, soak, false);
    await_parent(solo);
    while (!flow_done(&flow, soak->total)) {
        flow_send(&flow);
        pass_time(solo, &flow, soak->sleeps);
    }
    solo_swap(solo, &byte, &byte, 1); /* neither closes while the other waits */
    flow_close(&flow);
}

static void run_soak(const struct soak *soak)
{
    struct solo solo;
    struct flow flow;
    char byte = 0;
    uint64_t deadline = clock_deadline_ms(CONFORMANCE_PATIENCE_MS);
    pid_t child = solo_fork(&solo, soak_body, (void *)soak);
    open_flow(&solo, &flow, soak, true);
    assert_int_equal(send(solo.fd, &byte, 1, MSG_NOSIGNAL), 1);
    while (!flow_done(&flow, soak->total)) {
        flow_send(&flow);
        pass_time(&solo, &flow, soak->sleeps);
        assert_false(clock_passed(deadline));
    }
    solo_swap(&solo, &byte, &byte, 1);
    flow_close(&flow);
    solo_join(&solo, child, false);
}

static void soaks_spinning(void **state)
{
    (void)state;
    run_soak(&(struct soak){.seed = 11, .total = flow_total(20000), .longest = 100000});
    run_soak(&(struct soak){.seed = 13, .total = flow_total(1000), .longest = 4 << 20});
}

static void soaks_from_regions(void **state)
{
    (void)state;
    run_soak(&(struct soak){.seed = 21, .total = flow_total(10000), .longest = 100000, .region = true});
    run_soak(&(struct soak){.seed = 23, .total = flow_total(1000), .longest = 4 << 20, .region = true});
}

static void soaks_sleeping(void **state)
{
    (void)state;
    run_soak(&(struct soak){.seed = 31, .total = flow_total(20000), .longest = 100000, .sleeps = true});
    run_soak(&(struct soak){.seed = 33, .total = flow_total(1000), .longest = 4 << 20, .sleeps = true});
    run_soak(&(struct soak){.seed = 35, .total = flow_total(1000), .longest = 1 << 20, .sleeps = true, .region = true});
}

struct wakes {
    size_t count;
    bool child_sleeps;
};

static void dawdle(uint64_t *random)
{
    volatile uint64_t spin = random_next(random) % 300;
    while (spin)
        spin--;
}

/* Waits asleep for message `count`. A wake-up that got lost shows as a sleep of full length. */
static void await_asleep(struct solo *solo, size_t count, uint64_t *random)
{
    dawdle(random);
    while (solo->end->counts[NOTE_MESSAGE] < count) {
        uint64_t start = clock_ns();
        party_sleep(&solo->party, 20000);
        assert_true(clock_ns() - start < 20 * NS_PER_S);
    }
}

static void wake_body(struct solo *solo, void *context)
{
    const struct wakes *wakes = context;
    uint64_t random = 5;
    solo->end->quiet = true;
    for (size_t i = 1; i <= wakes->count; i++) {
        if (wakes->child_sleeps)
            await_asleep(solo, i, &random);
        while (solo->end->counts[NOTE_MESSAGE] < i)
            party_step(&solo->party);
        dawdle(&random);
        assert_int_equal(send_pattern(solo->end, i, 8, 1), TUTTI_SUCCESS);
    }
    party_until(&solo->party, solo->end->counts[NOTE_DOWN]);
}

static void run_wakes(struct wakes wakes)
{
    struct solo solo;
    uint64_t random = 6;
    pid_t child = solo_fork(&solo, wake_body, &wakes);
    solo.end->quiet = true;
    for (size_t i = 1; i <= wakes.count; i++) {
        assert_int_equal(send_pattern(solo.end, i, 8, 1), TUTTI_SUCCESS);
        await_asleep(&solo, i, &random);
    }
    solo_join(&solo, child, false);
}

static void wakes_every_time(void **state)
{
    (void)state;
    run_wakes((struct wakes){flow_total(10000), true});
    run_wakes((struct wakes){flow_total(50000), false}); /* the answer comes at the moment of falling asleep */
}

static void sleeper_body(struct solo *solo, void *context)
{
    char byte = 0;
    (void)context;
    solo_swap(solo, &byte, &byte, 1);
    party_sleep(&solo->party, 50); /* the parent sleeps with a full queue */
    while (!solo->end->counts[NOTE_DOWN])
        party_sleep(&solo->party, 1000);
}

/* Room in a full queue wakes the sender; so do the end of a put, and the peer's death. */
static void wakes_for_room_and_death(void **state)
{
    struct solo solo;
    size_t length = 2 << 20;
    uint8_t *source = calloc(1, length);
    struct put put = {.source = place_host(source), .length = length};
    uint64_t count = 0, deadline = clock_deadline_ms(60000);
    char byte = 0;
    (void)state;
    pid_t child = solo_fork(&solo, sleeper_body, NULL);
    while (under_test->put(solo.end->lane, &put) == TUTTI_SUCCESS)
        count++;
    solo_swap(&solo, &byte, &byte, 1);
    while (solo.end->counts[NOTE_SENT] < count || !solo.end->counts[NOTE_WRITABLE]) {
        party_sleep(&solo.party, 60000);
        assert_false(clock_passed(deadline));
    }
    kill(child, SIGKILL);
    while (!solo.end->counts[NOTE_DOWN]) {
        party_sleep(&solo.party, 60000);
        assert_false(clock_passed(deadline));
    }
    free(source);
    solo_join(&solo, child, true);
}

/* The peer is killed at a random moment of heavy traffic: what came is right, down() comes once, nothing crashes. */
static void survives_a_killed_peer(void **state)
{
    int rounds = getenv("TUTTI_TEST_QUICK") ? 12 : 30;
    uint64_t random = 77;
    (void)state;
    for (int round = 0; round < rounds; round++) {
        struct soak soak = {.seed = 100 + (uint64_t)round,
                            .total = UINT64_MAX,
                            .longest = 1 << 20,
                            .region = round % 2,
                            .sleeps = round % 3 == 0};
        struct solo solo;
        struct flow flow;
        pid_t child = solo_fork(&solo, soak_body, &soak);
        open_flow(&solo, &flow, &soak, true);
        uint64_t at = clock_ns() + random_next(&random) % (20 * NS_PER_MS);
        bool killed = false;
        while (!solo.end->counts[NOTE_DOWN]) {
            if (!killed && clock_passed(at))
                killed = kill(child, SIGKILL) == 0;
            flow_send(&flow);
            pass_time(&solo, &flow, soak.sleeps);
        }
        assert_true(killed);
        assert_int_equal(solo.end->counts[NOTE_DOWN], 1);
        end_close(solo.end);
        flow_close(&flow);
        solo_join(&solo, child, true);
    }
}

/* A descriptor for a peer that has just died: the lane goes down as always, and no error of ours comes before. */
static void shares_nothing_with_the_dead(void **state)
{
    struct solo solo;
    (void)state;
    if (!(under_test->caps & TRANSPORT_SHARES))
        skip();
    pid_t child = solo_fork(&solo, sleeper_body, NULL);
    kill(child, SIGKILL);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
    assert_int_equal(under_test->share(solo.end->lane, 1, solo.fd), TUTTI_IN_PROGRESS);
    party_until(&solo.party, solo.end->counts[NOTE_DOWN]);
    solo_join(&solo, child, true);
}

#define FLOOD (256 << 10)

/* Puts into the same memory without end. */
static void flood_body(struct solo *solo, void *context)
{
    static const uint8_t source[FLOOD] = {1};
    struct put put = {.source = place_host(source), .length = FLOOD};
    char byte = 0;
    (void)context;
    solo_swap(solo, &byte, &byte, 1);
    while (!solo->end->counts[NOTE_DOWN]) {
        under_test->put(solo->end->lane, &put);
        party_step(&solo->party);
    }
    solo_swap(solo, &byte, &byte, 1);
}

/* Closing a lane takes our memory back, whatever the peer is doing at that moment. */
static void close_takes_memory_back(void **state)
{
    uint64_t random = 8;
    (void)state;
    for (int round = 0; round < 60; round++) {
        struct solo solo;
        char byte = 0;
        uint8_t *memory = round % 2 ? region_alloc(FLOOD) : malloc(FLOOD);
        assert_non_null(memory);
        pid_t child = solo_fork(&solo, flood_body, NULL);
        solo.end->area = memory;
        solo.end->area_size = FLOOD;
        solo.end->quiet = true;
        solo_swap(&solo, &byte, &byte, 1);
        party_until(&solo.party, solo.end->counts[NOTE_ARRIVED] >= 20);
        for (uint64_t spin = random_next(&random) % 10; spin; spin--)
            party_step(&solo.party);
        end_close(solo.end);
        for (size_t at = FLOOD; at; at -= 4096) /* against the direction of a late writer */
            memset(memory + at - 4096, 0x77, 4096);
        solo_swap(&solo, &byte, &byte, 1); /* the peer has seen the end */
        for (size_t i = 0; i < FLOOD; i++)
            if (memory[i] != 0x77)
                fail_msg("byte %zu was written after close", i);
        if (round % 2)
            region_free(memory);
        else
            free(memory);
        solo_join(&solo, child, false);
    }
}

/* What arrives was never changed after it had been given up. */
static void check_give_up(struct end *end, const struct note *note, const void *bytes)
{
    if (note->kind != NOTE_ARRIVED)
        return;
    const uint8_t *all = bytes;
    for (size_t i = 0; i < note->length; i++)
        assert_int_equal(all[i], (uint8_t)note->id);
}

static void give_up_body(struct solo *solo, void *context)
{
    static uint8_t area[FLOOD];
    char byte = 0;
    (void)context;
    solo->end->area = area;
    solo->end->area_size = FLOOD;
    solo->end->quiet = true;
    solo->end->hook = check_give_up;
    solo_swap(solo, &byte, &byte, 1);
    while (!solo->end->counts[NOTE_DOWN])
        party_step(&solo->party);
    solo_swap(solo, &byte, &byte, 1);
}

/* A put is given up while the peer, which may be stopped, is at any point of it: the source is ours again. */
static void give_up_one(struct solo *solo, pid_t child, uint8_t *source, uint32_t round, uint64_t *random)
{
    size_t length = 1 + random_next(random) % FLOOD;
    struct put put = {.source = place_host(source), .length = length, .imm = round % 128, .token = round};
    bool stops = round % 8 == 0;
    memset(source, (int)put.imm, length);
    party_until(&solo->party, under_test->put(solo->end->lane, &put) == TUTTI_SUCCESS);
    for (uint64_t spin = random_next(random) % 6; spin; spin--)
        party_step(&solo->party);
    if (stops)
        kill(child, SIGSTOP);
    size_t sent = solo->end->counts[NOTE_SENT];
    under_test->give_up(solo->end->lane, put.token);
    memset(source, 0xee, length);
    if (stops)
        kill(child, SIGCONT);
    for (int i = 0; i < 20; i++)
        party_step(&solo->party);
    assert_int_equal(solo->end->counts[NOTE_SENT], sent);
}

static void give_up_takes_source_back(void **state)
{
    uint64_t random = 5;
    (void)state;
    for (int region = 0; region < 2; region++) {
        struct solo solo;
        char byte = 0;
        uint8_t *source = region ? region_alloc(FLOOD) : malloc(FLOOD);
        assert_non_null(source);
        pid_t child = solo_fork(&solo, give_up_body, NULL);
        solo.end->quiet = true;
        solo_swap(&solo, &byte, &byte, 1);
        for (uint32_t round = 1; round <= 400; round++)
            give_up_one(&solo, child, source, round, &random);
        struct put last = {.source = place_host(source), .length = 4096, .imm = 0xee, .token = 1};
        memset(source, 0xee, 4096);
        size_t sent = solo.end->counts[NOTE_SENT];
        party_until(&solo.party, under_test->put(solo.end->lane, &last) == TUTTI_SUCCESS);
        party_until(&solo.party, solo.end->counts[NOTE_SENT] > sent);
        end_close(solo.end);
        solo_swap(&solo, &byte, &byte, 1);
        if (region)
            region_free(source);
        else
            free(source);
        solo_join(&solo, child, false);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(soaks_spinning),
    cmocka_unit_test(soaks_from_regions),
    cmocka_unit_test(soaks_sleeping),
    cmocka_unit_test(wakes_every_time),
    cmocka_unit_test(wakes_for_room_and_death),
    cmocka_unit_test(survives_a_killed_peer),
    cmocka_unit_test(close_takes_memory_back),
    cmocka_unit_test(give_up_takes_source_back),
    cmocka_unit_test(shares_nothing_with_the_dead),
};
const struct group process_group = {"process", tests, sizeof tests / sizeof *tests};
