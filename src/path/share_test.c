/* SPDX-License-Identifier: Apache-2.0 */
/* Windows that follow what goes through: senders with one lane each, whose segments a clock of the test takes over NICs
 * and one uplink. */
#include "base/param.h"
#include "path/share.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define SEGMENT 524288ull
#define SENDERS 4
#define DEEP    64
#define NIC     100000 /* Mbit/s */
#define US      1000ull

struct sender {
    struct path_lane lane;
    struct path_nic nic;
    struct path_share share;
    uint64_t nic_free;
    uint64_t posted[DEEP], leaves[DEEP], lands[DEEP]; /* the NIC; at the peer, and known of */
    unsigned first, count, left;
    uint64_t bytes;
    uint64_t pause; /* ns between segments of the sender, at least; 0: it posts as fast as it may */
    uint64_t next;
};

struct world {
    struct sender sender[SENDERS];
    int senders;
    double uplink; /* bytes for each ns */
    uint64_t trip, uplink_free, now, deepest;
};

/* As many segments as a lane of an adapter has without a limit, which the model does not know. */
static bool has_room_untold(const struct sender *sender)
{
    return path_share_window(&sender->share, NULL).bytes || sender->lane.segments < PATH_UNTOLD;
}

static bool may_post(const struct sender *sender, uint64_t now)
{
    struct path_window window = path_share_window(&sender->share, NULL);
    return sender->count < DEEP && now >= sender->next && (!sender->lane.untold || has_room_untold(sender)) &&
           !(window.segments && sender->lane.segments >= window.segments) &&
           !(window.bytes && sender->lane.segments && sender->lane.outstanding + SEGMENT > window.bytes);
}

static void post(struct world *world, struct sender *sender)
{
    unsigned at = (sender->first + sender->count++) % DEEP;
    uint64_t begin = sender->nic_free > world->now ? sender->nic_free : world->now;
    sender->nic_free = begin + (uint64_t)(SEGMENT / (NIC / 8000.0));
    sender->posted[at] = world->now;
    sender->leaves[at] = sender->nic_free;
    sender->lands[at] = UINT64_MAX;
    sender->lane.segments++;
    sender->lane.outstanding += SEGMENT;
    sender->next = world->now + sender->pause;
    path_share_posted(&sender->share, &sender->lane, world->now);
}

/* What has left the NIC joins the queue of the uplink. */
static void forward(struct world *world, struct sender *sender)
{
    while (sender->left < sender->count) {
        unsigned at = (sender->first + sender->left) % DEEP;
        uint64_t here = sender->leaves[at], begin = here > world->uplink_free ? here : world->uplink_free;
        if (here > world->now)
            return;
        if (begin - here > world->deepest)
            world->deepest = begin - here;
        world->uplink_free = begin + (uint64_t)(SEGMENT / world->uplink);
        sender->lands[at] = world->uplink_free + world->trip;
        sender->left++;
    }
}

static void land(struct sender *sender)
{
    unsigned at = sender->first;
    sender->first = (sender->first + 1) % DEEP;
    sender->count--;
    sender->left--;
    sender->lane.segments--;
    sender->lane.outstanding -= SEGMENT;
    sender->bytes += SEGMENT;
    path_share_landed(&sender->share, &sender->lane, SEGMENT, sender->posted[at], sender->lands[at]);
}

static void run(struct world *world, uint64_t ns)
{
    for (uint64_t end = world->now + ns; world->now < end; world->now += US)
        for (int i = 0; i < world->senders; i++) {
            struct sender *sender = &world->sender[(i + world->now / US) % (unsigned)world->senders];
            forward(world, sender);
            while (sender->count && sender->lands[sender->first] <= world->now)
                land(sender);
            while (may_post(sender, world->now))
                post(world, sender);
        }
}

/* `measured`: us, of each sender, where nobody tells a place. */
static void begin_untold(struct world *world, const uint64_t measured[SENDERS], uint64_t trip, double share)
{
    *world = (struct world){.senders = SENDERS, .trip = trip * US, .uplink = SENDERS * NIC / 8000.0 / share};
    world->now = 1000000000;
    for (int i = 0; i < SENDERS; i++) {
        struct sender *sender = &world->sender[i];
        sender->nic.about.rate = NIC;
        sender->lane = (struct path_lane){.untold = true, .trip = measured[i] * US, .nic = &sender->nic};
        path_share_begin(&sender->share, &sender->lane);
    }
}

static void begin(struct world *world, enum wire_distance distance, uint64_t trip, double share)
{
    *world = (struct world){.senders = SENDERS, .trip = trip * US, .uplink = SENDERS * NIC / 8000.0 / share};
    world->now = 1000000000;
    for (int i = 0; i < SENDERS; i++) {
        struct sender *sender = &world->sender[i];
        sender->nic.about.rate = NIC;
        sender->lane = (struct path_lane){.distance = distance, .nic = &sender->nic};
        path_share_begin(&sender->share, &sender->lane);
    }
}

/* Bytes of all for each ns, over `ns` ns. */
static double rate(struct world *world, uint64_t ns)
{
    uint64_t before = 0, after = 0;
    for (int i = 0; i < SENDERS; i++)
        before += world->sender[i].bytes;
    run(world, ns);
    for (int i = 0; i < SENDERS; i++)
        after += world->sender[i].bytes;
    return (double)(after - before) / (double)ns;
}

static uint64_t segments_let(const struct world *world, int sender)
{
    return world->sender[sender].share.limit / SEGMENT;
}

/* An uplink with 1/2.8 of what the NICs have: each keeps what its share fills, and the uplink is never idle. */
static void follows_the_share(void **state)
{
    static const struct {
        enum wire_distance distance;
        uint64_t trip, most;
    } ways[] = {{WIRE_DISTANCE_ZONE, 70, 3}, {WIRE_DISTANCE_BUILDING, 150, 5}, {WIRE_DISTANCE_CAMPUS, 300, 9}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct world world;
        begin(&world, ways[i].distance, ways[i].trip, 2.8);
        assert_int_equal(segments_let(&world, 0), ways[i].most);
        run(&world, US);
        assert_int_equal(segments_let(&world, 0), 2);
        run(&world, 20000 * US);
        world.deepest = 0;
        double got = rate(&world, 20000 * US);
        uint64_t queue = (uint64_t)((double)world.deepest * world.uplink);
        print_message("%llu us: %.1f%% of the uplink, deepest queue %llu KiB, windows of %llu to %llu segments\n",
                      (unsigned long long)ways[i].trip, 100 * got / world.uplink, (unsigned long long)queue >> 10,
                      (unsigned long long)segments_let(&world, 0), (unsigned long long)segments_let(&world, 3));
        assert_true(got >= 0.95 * world.uplink);
        assert_true(queue <= SENDERS * 32 * SEGMENT / 10); /* a tenth of what 32 segments each would make */
    }
}

/* The others leave: one lane has the whole uplink, which is as fast as its NIC; and they come back. */
static void grows_when_there_is_more(void **state)
{
    struct world world;
    begin(&world, WIRE_DISTANCE_CAMPUS, 300, 4);
    run(&world, 20000 * US);
    assert_true(segments_let(&world, 0) <= 5);
    world.senders = 1;
    run(&world, 10000 * US);
    assert_true(segments_let(&world, 0) >= 8);
    assert_true(rate(&world, 20000 * US) >= 0.95 * world.uplink);
    world.senders = SENDERS;
    run(&world, 20000 * US);
    for (int i = 0; i < SENDERS; i++)
        assert_true(segments_let(&world, i) <= 5);
}

/* Nor does a window shrink where the sender has no more to send, or pauses. */
static void stays_where_the_sender_is_the_limit(void **state)
{
    static const uint64_t pauses[] = {100 * US, 400 * US, 3000 * US};
    for (int i = 0; i < 3; i++) {
        struct world world;
        begin(&world, WIRE_DISTANCE_CAMPUS, 300, 1);
        run(&world, 20000 * US);
        assert_int_equal(segments_let(&world, 0), 9);
        assert_true(rate(&world, 20000 * US) >= 0.95 * world.uplink);
        for (int s = 0; s < SENDERS; s++)
            world.sender[s].pause = pauses[i];
        run(&world, 50000 * US);
        assert_int_equal(segments_let(&world, 0), 9);
    }
}

/* The way takes longer than is assumed: the least that segments took counts. */
static void longer_ways_than_assumed(void **state)
{
    struct world world;
    begin(&world, WIRE_DISTANCE_CAMPUS, 600, 2.8);
    run(&world, 40000 * US);
    assert_true(rate(&world, 40000 * US) >= 0.95 * world.uplink);
}

/* What TUTTI_WINDOWS tells stays, unless it tells the way too. */
static void as_told(void **state)
{
    struct world world;
    setenv("TUTTI_WINDOWS", "campus=9", 1);
    param_reload();
    begin(&world, WIRE_DISTANCE_CAMPUS, 300, 2.8);
    run(&world, 20000 * US);
    assert_int_equal(path_share_window(&world.sender[0].share, NULL).segments, 9);
    assert_int_equal(path_share_window(&world.sender[0].share, NULL).bytes, 0);
    setenv("TUTTI_WINDOWS", "campus=9@300", 1);
    param_reload();
    begin(&world, WIRE_DISTANCE_CAMPUS, 300, 2.8);
    run(&world, 20000 * US);
    assert_true(path_share_window(&world.sender[0].share, NULL).bytes <= 5 * SEGMENT);
    setenv("TUTTI_WINDOWS", "campus=0@300", 1);
    param_reload();
    begin(&world, WIRE_DISTANCE_CAMPUS, 300, 2.8);
    assert_int_equal(world.sender[0].share.top, 9 * SEGMENT);
    unsetenv("TUTTI_WINDOWS");
    param_reload();
}

/* The receiver cuts the segments, by its own interface: two may be under way, however long they are. */
static void longer_segments_than_ours(void **state)
{
    struct world world;
    begin(&world, WIRE_DISTANCE_RACK, 10, 1);
    const struct path_share *share = &world.sender[0].share;
    const struct path_payload longer = {.segment = 8 * SEGMENT}, shorter = {.segment = SEGMENT / 8};
    assert_int_equal(path_share_window(share, NULL).bytes, 2 * SEGMENT);
    assert_int_equal(path_share_window(share, &shorter).bytes, 2 * SEGMENT);
    assert_int_equal(path_share_window(share, &longer).bytes, 16 * SEGMENT);
    setenv("TUTTI_WINDOWS", "rack=0/2M@10", 1); /* what is told stays */
    param_reload();
    begin(&world, WIRE_DISTANCE_RACK, 10, 1);
    assert_int_equal(path_share_window(share, &longer).bytes, 2 << 20);
    unsetenv("TUTTI_WINDOWS");
    param_reload();
}

/* ---- Where nobody tells a place ---- */

/* The rates of the senders are apart by this part of the greatest. */
static double apart(struct world *world, uint64_t ns)
{
    uint64_t before[SENDERS], least = UINT64_MAX, most = 0;
    for (int i = 0; i < SENDERS; i++)
        before[i] = world->sender[i].bytes;
    run(world, ns);
    for (int i = 0; i < SENDERS; i++) {
        uint64_t here = world->sender[i].bytes - before[i];
        least = here < least ? here : least;
        most = here > most ? here : most;
    }
    return most ? 1 - (double)least / (double)most : 1;
}

/* Four segments take 168 us to send, and 342 us to arrive: they are half of the rate. */
static void far_ways_are_filled(void **state)
{
    static const uint64_t trips[] = {300, 300, 300, 300};
    struct world world;
    begin_untold(&world, trips, 300, 1);
    assert_int_equal(segments_let(&world, 0), 9);
    run(&world, 20000 * US);
    assert_true(rate(&world, 20000 * US) >= 0.95 * world.uplink);
}

/* Lanes that came up while a link was busy, or their host, believe that they are far. They share the link with those
 * that know better. */
static void wrong_round_trips_take_no_rate(void **state)
{
    static const uint64_t trips[][SENDERS] = {
        {10, 10, 10, 10}, {10, 60, 250, 550}, {550, 10, 10, 10}, {300, 600, 600, 300}, {900, 10, 300, 590}};
    static const double shares[] = {1.2, 1.5, 2, 4};
    for (size_t i = 0; i < sizeof trips / sizeof *trips * 4; i++) {
        struct world world;
        begin_untold(&world, trips[i / 4], 10, shares[i % 4]);
        world.senders = (int)(i % 3) + 2; /* first: the others come to a busy link */
        run(&world, 20000 * US);
        world.senders = SENDERS;
        run(&world, 20000 * US);
        double got = rate(&world, 20000 * US), spread = apart(&world, 50000 * US);
        print_message("%zu, %.1f:1: %.1f%% of the uplink, %.0f%% apart, windows of %llu %llu %llu %llu segments\n",
                      i / 4, shares[i % 4], 100 * got / world.uplink, 100 * spread,
                      (unsigned long long)segments_let(&world, 0), (unsigned long long)segments_let(&world, 1),
                      (unsigned long long)segments_let(&world, 2), (unsigned long long)segments_let(&world, 3));
        assert_true(got >= 0.95 * world.uplink && spread <= 0.25);
    }
}

/* A lane is measured again while it is in use. */
static void round_trips_that_become_shorter(void **state)
{
    static const uint64_t far[] = {550, 900, 900, 550};
    struct world world;
    begin_untold(&world, far, 10, 2);
    run(&world, 20000 * US);
    assert_true(segments_let(&world, 0) >= PATH_UNTOLD && !segments_let(&world, 1));
    world.sender[0].lane.trip = world.sender[1].lane.trip = 10 * US;
    world.sender[2].lane.trip = 300 * US;
    run(&world, 20000 * US);
    assert_int_equal(path_share_window(&world.sender[0].share, NULL).bytes, 0); /* as near as can be */
    assert_int_equal(path_share_window(&world.sender[1].share, NULL).bytes, 0);
    assert_int_equal(segments_let(&world, 2), PATH_UNTOLD);
    assert_true(apart(&world, 50000 * US) <= 0.25);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows_the_share),
        cmocka_unit_test(grows_when_there_is_more),
        cmocka_unit_test(stays_where_the_sender_is_the_limit),
        cmocka_unit_test(longer_ways_than_assumed),
        cmocka_unit_test(as_told),
        cmocka_unit_test(longer_segments_than_ours),
        cmocka_unit_test(far_ways_are_filled),
        cmocka_unit_test(wrong_round_trips_take_no_rate),
        cmocka_unit_test(round_trips_that_become_shorter),
    };
    setenv("TUTTI_SEGMENT", "512K", 1);
    unsetenv("TUTTI_WINDOWS");
    param_reload();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
