/* SPDX-License-Identifier: Apache-2.0 */
/* RDMA devices that are taken out and come back, and lanes that go and come many times, on the software RDMA device. */
#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"
#include "soft.h"
#include "suite.h"
#include "transport/verbs/verbs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static char device[32]; /* the first one */

static bool is_here(void)
{
    return soft_here() && soft_ports(device) > 0;
}

static void tell_device(const char *verb)
{
    char text[64];
    snprintf(text, sizeof text, "%s %s", verb, device);
    soft_command(text);
}

static struct both begin(struct pair *pair)
{
    party_open(&pair->a);
    party_open(&pair->b);
    return soft_open_at_last(pair, 0);
}

static void carries(struct pair *pair, const struct both *lane)
{
    size_t before = lane->bt->counts[NOTE_MESSAGE];
    assert_int_equal(send_pattern(lane->at, 1, 1000, 1), TUTTI_SUCCESS);
    soft_until(pair, lane->bt->counts[NOTE_MESSAGE] == before + 1);
}

/* ---- Memory ---- */

/* Puts the whole source; true: it went by the key. Else it has come to `area`. */
static bool put_goes_direct(struct pair *pair, struct both *lane, struct known_bytes *source,
                            const struct known_bytes *target)
{
    static uint8_t area[KNOWN_LENGTH];
    static uint64_t token;
    size_t arrived = lane->bt->counts[NOTE_ARRIVED], asked = lane->bt->counts[NOTE_TARGET];
    fill_pattern(source->bytes, KNOWN_LENGTH, ++token);
    lane->bt->area = area;
    lane->bt->area_size = KNOWN_LENGTH;
    assert_int_equal(put_direct(lane->at, source, &target->remote, 0, KNOWN_LENGTH, token), TUTTI_SUCCESS);
    soft_until(pair, lane->bt->counts[NOTE_ARRIVED] > arrived || lane->at->counts[NOTE_DOWN]);
    assert_int_equal(lane->at->counts[NOTE_DOWN] + lane->bt->counts[NOTE_DOWN], 0);
    bool direct = lane->bt->counts[NOTE_TARGET] == asked;
    assert_true(has_pattern(direct ? target->bytes : area, KNOWN_LENGTH, token));
    return direct;
}

/* ---- Tests ---- */

/* The device's lanes end, and new ones are refused. They come up when the device is there again. Keys of before are of
 * no use any more, and do no harm. */
static void a_device_is_taken_out_and_put_back(void **state)
{
    struct known_bytes source, target, later, fresh;
    struct pair pair;
    struct lane *none;
    (void)state;
    if (!is_here())
        skip();
    struct both lane = begin(&pair);
    know(&pair.a, &source);
    know(&pair.b, &target);
    assert_true(put_goes_direct(&pair, &lane, &source, &target));
    tell_device("unplug");
    soft_drop(&pair, &lane);
    soft_until(&pair, thread_count() == 2); /* for each party one that looks for the device */
    assert_int_not_equal(under_test->lane_open(pair.a.transport, &pair.b.self, 0, 1, 0, 0, NULL, &none), TUTTI_SUCCESS);
    assert_non_null(strstr(error_last(), "is lost"));
    struct transport_memory *nowhere;
    assert_int_not_equal(under_test->register_memory(pair.a.transport, place_host(source.bytes), 1, &nowhere),
                         TUTTI_SUCCESS);
    tell_device("plug");
    lane = soft_open_at_last(&pair, 0);
    carries(&pair, &lane);
    know(&pair.a, &later);
    know(&pair.b, &fresh);
    assert_true(put_goes_direct(&pair, &lane, &later, &fresh));
    assert_false(put_goes_direct(&pair, &lane, &later, &target)); /* the receiver's old key, */
    assert_false(put_goes_direct(&pair, &lane, &source, &fresh)); /* and the sender's */
    forget(&pair.a, &source);
    forget(&pair.b, &target);
    forget(&pair.a, &later);
    forget(&pair.b, &fresh);
    pair_close(&pair);
    assert_int_equal(thread_count(), 0);
}

/* A transport is closed in good order at any time, with a thread that waits for the device. */
static void a_transport_ends_without_its_device(void **state)
{
    struct pair pair;
    (void)state;
    if (!is_here())
        skip();
    int fds = soft_fds();
    for (int round = 0; round < 4; round++) {
        struct both lane = begin(&pair);
        tell_device("unplug");
        soft_drop(&pair, &lane);
        soft_until(&pair, thread_count() == 2);
        if (round % 2)
            tell_device("plug");
        uint64_t end = clock_deadline_ms(60 * (uint64_t)round);
        soft_until(&pair, clock_passed(end));
        uint64_t began = clock_ns();
        pair_close(&pair);
        assert_true(clock_ns() - began < 3 * NS_PER_S); /* the pauses take this time */
        tell_device("plug");
        assert_int_equal(thread_count(), 0);
        assert_int_equal(soft_fds(), fds);
    }
}

/* A device whose calls fail is opened anew, too: nothing says that it will do better. */
static void a_broken_queue_is_made_anew(void **state)
{
    static const char *const faults[] = {"fault fail-poll=1", "fault fail-notify=1"};
    struct pair pair;
    (void)state;
    if (!is_here())
        skip();
    struct both lane = begin(&pair);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        const struct verbs_lane *at = (struct verbs_lane *)lane.at->lane, *bt = (struct verbs_lane *)lane.bt->lane;
        int before = at->device->opened + bt->device->opened;
        const struct verbs_device *devices[] = {at->device, bt->device};
        soft_command(faults[i]);
        soft_drop(&pair, &lane);
        soft_command("clear");
        lane = soft_open_at_last(&pair, 0);
        carries(&pair, &lane);
        assert_int_equal(devices[0]->opened + devices[1]->opened, before + 1);
    }
    pair_close(&pair);
}

/* ---- Many times ---- */

enum flap { FLAP_RESET, FLAP_KILL, FLAP_ADDRESS, FLAP_UNPLUG, FLAP_CLOSE, FLAPS };

static void flap(struct both *lane, enum flap how)
{
    static bool far;
    char text[64];
    switch (how) {
    case FLAP_RESET:
        shutdown(((struct verbs_lane *)lane->at->lane)->source.fd, SHUT_RDWR);
        break;
    case FLAP_KILL:
        snprintf(text, sizeof text, "kill %u", ((struct verbs_lane *)lane->bt->lane)->qp->qp_num);
        soft_command(text);
        break;
    case FLAP_ADDRESS:
        far = !far; /* each time another one */
        soft_command(far ? "gid-shift 5" : "gid-shift 2");
        break;
    case FLAP_UNPLUG:
        tell_device("unplug");
        tell_device("plug");
        break;
    default:
        end_close(lane->at);
    }
}

/* That lanes and devices of the party have for themselves. */
static int regions_of(const struct party *party)
{
    const struct verbs_transport *verbs = (struct verbs_transport *)party->transport;
    int count = 0;
    for (int i = 0; i < verbs->devices; i++)
        count += (int)verbs->device[i].open.shared.slabs;
    for (unsigned i = 0; i < verbs->places; i++)
        if (verbs->lanes[i])
            count += (int)verbs->lanes[i]->steps + (verbs->lanes[i]->receives.memory != NULL);
    return count;
}

/* TUTTI_TEST_FLAPS: how often; 1,000 take minutes. */
static void nothing_is_left_of_lanes_that_went(void **state)
{
    const char *wish = getenv("TUTTI_TEST_FLAPS");
    int most = wish ? atoi(wish) : 20, counts[FLAPS] = {0};
    uint64_t random = 11;
    struct pair pair;
    (void)state;
    if (!is_here())
        skip();
    struct soft_holdings outside = soft_holdings(), first = {0}, last;
    struct both lane = begin(&pair);
    for (int i = 0; i < most + FLAPS; i++) {
        enum flap how = i < FLAPS ? (enum flap)i : (enum flap)(random_next(&random) % FLAPS);
        if (i == FLAPS) { /* what is made once is there */
            soft_until(&pair, thread_count() == 0);
            first = soft_holdings();
        }
        flap(&lane, how);
        counts[how] += i >= FLAPS;
        soft_drop(&pair, &lane);
        lane = soft_open_at_last(&pair, 0);
        carries(&pair, &lane);
    }
    soft_until(&pair, thread_count() == 0);
    last = soft_holdings();
    printf("%d flaps (%d resets, %d queue pairs, %d addresses, %d devices, %d closings): descriptors %d -> %d, "
           "threads %d -> %d, mappings %d -> %d, queue pairs %d -> %d, regions %d -> %d\n",
           most, counts[0], counts[1], counts[2], counts[3], counts[4], first.fds, last.fds, first.threads,
           last.threads, first.mappings, last.mappings, first.pairs, last.pairs, first.regions, last.regions);
    assert_int_equal(last.fds, first.fds);
    assert_int_equal(last.threads, first.threads);
    assert_int_equal(last.pairs, outside.pairs + 2);
    assert_int_equal(last.regions, /* tests before this one may have left some: calls that fail */
                     outside.regions + regions_of(&pair.a) + regions_of(&pair.b));
    assert_in_range(regions_of(&pair.a) + regions_of(&pair.b), 2, 2 * VERBS_STEPS + 4);
#ifndef __SANITIZE_ADDRESS__ /* which maps memory of its own as it likes */
    assert_in_range(last.mappings, 0, first.mappings + 16);
#endif
    soft_command("gid-shift 0");
    pair_close(&pair);
    last = soft_holdings();
    assert_int_equal(last.fds, outside.fds);
    assert_int_equal(last.pairs, outside.pairs);
    assert_int_equal(last.regions, outside.regions);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_device_is_taken_out_and_put_back),
    cmocka_unit_test(a_transport_ends_without_its_device),
    cmocka_unit_test(a_broken_queue_is_made_anew),
    cmocka_unit_test(nothing_is_left_of_lanes_that_went),
};
const struct group lost_group = {"lost", tests, sizeof tests / sizeof *tests};
