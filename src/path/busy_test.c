/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two models, with the rule of the library and what that is told. First of processes that own an interface each and all
 * send at once: what borrowing costs where nothing is idle. Interfaces serve one segment after the other. A process
 * sees what has landed, and puts more, only when it runs. Then of lanes to a far peer.
 */
#include "base/param.h"
#include "link/lane.h"
#include "link/nics.h"
#include "path/path.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define NICS    6
#define SEGMENT 524288
#define SERVES  10000 /* ns for a segment */
#define WINDOW  4     /* segments of a process under way by an interface */
#define SENDS   2000  /* segments of each process */
#define FLIGHTS (NICS * WINDOW)

enum way { OWN, BORROW, ALL };

struct worker {
    int own;
    struct path_nic nic[NICS];
    struct board_use use[NICS];
    struct link_lane lane[NICS];
    struct model_flight {
        int nic;
        uint64_t posted, comes; /* 0: there is none */
    } flight[FLIGHTS];
    uint64_t runs; /* when it does so next */
    int unsent, under_way;
};

static struct worker worker[NICS];
static uint64_t free_at[NICS], serves[NICS], seed;

static uint64_t draw(uint64_t below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (seed >> 33) % below;
}

static void worker_looks(struct worker *mine, uint64_t now)
{
    for (int nic = 0; nic < NICS; nic++) {
        struct board_sum sum = {0};
        for (struct worker *other = worker; other < worker + NICS; other++) {
            const struct board_use *use = &other->use[nic];
            if (other == mine)
                continue;
            sum.outstanding += use->outstanding;
            sum.waiting += use->waiting;
            sum.out = use->out > sum.out ? use->out : sum.out;
            sum.pace = other->own == nic ? use->pace : sum.pace;
            sum.owners += other->own == nic;
        }
        nics_note(&mine->nic[nic], &sum, now);
    }
    nics_compare(mine->nic, NICS);
}

static void worker_sees(struct worker *mine, uint64_t now)
{
    for (struct model_flight *flight = mine->flight; flight < mine->flight + FLIGHTS; flight++) {
        if (!flight->comes || flight->comes > now)
            continue;
        struct link_lane *lane = &mine->lane[flight->nic];
        bool borrows = flight->nic != mine->own;
        if (borrows)
            nics_borrowed(lane, now - flight->posted);
        nics_end(lane, SEGMENT, borrows);
        if (!borrows)
            nics_served(&mine->nic[flight->nic], SEGMENT, flight->posted, now);
        lane->view.segments--;
        mine->under_way--;
        flight->comes = 0;
    }
}

static void worker_puts(struct worker *mine, int nic, uint64_t now)
{
    struct model_flight *flight = mine->flight;
    while (flight->comes)
        flight++;
    free_at[nic] = (free_at[nic] > now ? free_at[nic] : now) + serves[nic];
    *flight = (struct model_flight){nic, now, free_at[nic]};
    if (nic == mine->own)
        nics_serves(&mine->nic[nic], now);
    nics_begin(&mine->lane[nic], SEGMENT, nic != mine->own);
    mine->lane[nic].view.segments++;
    mine->under_way++;
    mine->unsent--;
}

/* By the one of those that it may take, and that have room, with the least before it; false: there is none. */
static bool worker_sends(struct worker *mine, enum way way, uint64_t now)
{
    const struct path_payload payload = {.left = (uint64_t)mine->unsent * SEGMENT, .segment = SEGMENT};
    const struct path_lane *lanes[NICS], *out[NICS], *best = NULL;
    for (int i = 0; i < NICS; i++) {
        mine->lane[i].view.room = mine->lane[i].view.segments < WINDOW;
        lanes[i] = &mine->lane[i].view;
    }
    int count = path_borrow(lanes, NICS, &payload, SEGMENT, out);
    for (int i = 0; i < count; i++)
        if (out[i]->room && (way != OWN || out[i]->index == mine->own) && (!best || out[i]->segments < best->segments))
            best = out[i];
    if (best)
        worker_puts(mine, best->index, now);
    return best;
}

static void model_begin(enum way way, uint64_t slowest)
{
    setenv("TUTTI_BORROW", way == ALL ? "0" : "2", 1);
    param_reload();
    seed = 1;
    for (int i = 0; i < NICS; i++) {
        worker[i] = (struct worker){.own = i, .unsent = SENDS};
        free_at[i] = 0;
        serves[i] = i ? SERVES : slowest;
        for (int nic = 0; nic < NICS; nic++) {
            worker[i].nic[nic] = (struct path_nic){.own = nic == i, .use = &worker[i].use[nic]};
            worker[i].lane[nic].view =
                (struct path_lane){.index = (uint16_t)nic, .idle = true, .nic = &worker[i].nic[nic]};
        }
    }
}

/* Times as long as all segments take by all interfaces, until the last is seen. pause: ns for which a process does not
 * run, at most, whenever it has; slowest: ns for a segment of the first interface. */
static double model_run(enum way way, uint64_t pause, uint64_t slowest)
{
    uint64_t now = NS_PER_S, begun = now;
    double rate = 0;
    model_begin(way, slowest);
    for (int i = 0; i < NICS; i++)
        worker[i].runs = begun + draw(pause);
    for (;;) {
        struct worker *next = NULL;
        for (struct worker *one = worker; one < worker + NICS; one++)
            if ((one->unsent || one->under_way) && (!next || one->runs < next->runs))
                next = one;
        if (!next)
            break;
        now = next->runs;
        worker_sees(next, now);
        worker_looks(next, now);
        while (next->unsent && worker_sends(next, way, now))
            ;
        next->runs = now + 1 + draw(pause);
    }
    for (int i = 0; i < NICS; i++)
        rate += 1.0 / (double)serves[i];
    return (double)(now - begun) * rate / (NICS * SENDS);
}

static void model_says(const char *what, const double time[3])
{
    print_message("%s: own %.2f, borrowing %.2f, all %.2f\n", what, time[OWN], time[BORROW], time[ALL]);
}

static void model_all(const char *what, uint64_t pause, uint64_t slowest, double time[3])
{
    for (enum way way = OWN; way <= ALL; way++)
        time[way] = model_run(way, pause, slowest);
    model_says(what, time);
}

/* Nothing is idle, and processes run often enough. */
static void test_busy(void **state)
{
    double time[3];
    model_all("all run", SERVES, SERVES, time);
    assert_true(time[BORROW] < 1.03 * time[OWN] && time[BORROW] < 1.03 * time[ALL]);
}

/* Each is away for longer than its segments take. */
static void test_starved(void **state)
{
    double time[3];
    for (uint64_t pause = 10; pause <= 1000; pause *= 10) {
        model_all("starved", pause * SERVES, SERVES, time);
        assert_true(time[BORROW] < 1.03 * time[OWN]);
    }
}

/* One interface has a quarter of its rate. */
static void test_slow(void **state)
{
    double time[3];
    model_all("one is slow", SERVES, 4 * SERVES, time);
    assert_true(time[BORROW] < 1.1 * time[ALL] && time[BORROW] < 0.5 * time[OWN]);
}

/* ---- Far peers ---- */

/* A model of an interface that two lanes borrow. It sends one segment after the other, which is known to have come a
 * round trip later. Times are those that it takes for a segment. */
#define LASTS       800
#define FAR_FLIGHTS 256

struct far {
    struct path_nic nic;
    struct board_use use;
    struct link_lane lane[2];
    struct far_flight {
        uint64_t posted, comes;
        int lane;
    } flight[FAR_FLIGHTS]; /* in the order in which they come */
    unsigned first, next;
    uint64_t now, free; /* when it has sent all that was put */
};

struct far_found {
    double rate;   /* of its own, */
    unsigned most; /* segments under way, */
    double queue;  /* and of these what had not left, when one came */
};

static bool far_may(struct far *far, int lane)
{
    const struct path_payload payload = {.left = SEGMENT};
    struct path_nic own = {.own = true};
    const struct path_lane direct = {.nic = &own}, *lanes[] = {&direct, &far->lane[lane].view}, *out[2];
    return path_borrow(lanes, 2, &payload, SEGMENT, out) == 2;
}

static void far_put(struct far *far, int lane, uint64_t trip)
{
    far->free = (far->free > far->now ? far->free : far->now) + SERVES;
    far->flight[far->next++ % FAR_FLIGHTS] = (struct far_flight){far->now, far->free + trip * SERVES, lane};
    assert_true(far->next - far->first < FAR_FLIGHTS);
    nics_begin(&far->lane[lane], SEGMENT, true);
}

static void far_land(struct far *far)
{
    const struct far_flight *flight = &far->flight[far->first++ % FAR_FLIGHTS];
    far->now = flight->comes;
    nics_borrowed(&far->lane[flight->lane], far->now - flight->posted);
    nics_end(&far->lane[flight->lane], SEGMENT, true);
}

/* told: round trip, as lanes know it; 0: not at all. The first half of the time does not count. */
static struct far_found far_run(int lanes, uint64_t trip, uint64_t told)
{
    struct far far = {.nic = {.owners = 1}};
    struct far_found found = {0};
    far.nic.use = &far.use;
    for (int i = 0; i < lanes; i++)
        far.lane[i].view = (struct path_lane){.idle = true, .nic = &far.nic, .trip = told * SERVES};
    setenv("TUTTI_BORROW", "2", 1);
    param_reload();
    while (far.now < LASTS * SERVES) {
        for (int i = 0; i < lanes; i++)
            while (far_may(&far, i))
                far_put(&far, i, trip);
        found.most = far.next - far.first > found.most ? far.next - far.first : found.most;
        far_land(&far);
        double queue = far.free > far.now ? (double)(far.free - far.now) / SERVES : 0;
        bool counts = far.now > LASTS * SERVES / 2;
        found.rate += counts ? 2.0 / LASTS : 0;
        found.queue = counts && queue > found.queue ? queue : found.queue;
    }
    return found;
}

/* What is on its way does not count, so the way is filled; and what waits stays little. */
static void test_a_far_peer(void **state)
{
    for (uint64_t trip = 1; trip <= 16; trip *= 2)
        for (int lanes = 1; lanes <= 2; lanes++) {
            struct far_found true_trip = far_run(lanes, trip, trip), too_long = far_run(lanes, trip, 3 * trip);
            print_message("%d lanes, round trip %d: rate %.2f, queue %.1f; told three times as much: %.2f, %.1f\n",
                          lanes, (int)trip, true_trip.rate, true_trip.queue, too_long.rate, too_long.queue);
            assert_true(true_trip.rate >= 0.6 && true_trip.queue <= 2);
            assert_true(too_long.rate >= 0.6 && too_long.queue <= 16);
            struct far_found not_told = far_run(lanes, trip, 0);
            assert_int_equal(not_told.most, 2);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_busy),
        cmocka_unit_test(test_starved),
        cmocka_unit_test(test_slow),
        cmocka_unit_test(test_a_far_peer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
