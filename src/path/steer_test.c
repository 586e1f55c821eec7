/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rings of hosts across two leaves, whose uplinks carry as much as the hosts send, on a clock of the test: the
 * library's own choices of ports, pieces and lanes, with the queues of adapters and uplinks, and nothing else.
 */
#include "base/clock.h"
#include "base/param.h"
#include "base/random.h"
#include "path/dnlb.h"
#include "path/path.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOSTS   8
#define UPLINKS 8 /* of a leaf, at most */
#define LANES   8
#define PACKET  4096     /* bytes that an adapter sends of one lane before it looks at the next */
#define QUEUE   32       /* segments on a lane */
#define WAITING 4096     /* packets at an uplink */
#define SLICES  2        /* in flight */
#define NIC     0.003125 /* bytes for each ns: 25 Mbit/s */
#define SEGMENT 524288   /* the default */

struct piece {
    uint64_t posted;
    uint32_t length, unsent;
    int slice;
};

struct way {
    struct path_lane view;
    struct piece piece[QUEUE];
    unsigned first, sending, next; /* landed, sent and put up to */
    unsigned uplink;
};

struct packet {
    int host, lane;
    uint32_t length;
    bool ends; /* its piece */
};

struct uplink {
    struct packet packet[WAITING];
    unsigned first, next;
    uint64_t free_at, bytes;
};

struct host {
    void *policy_state;
    struct way lane[LANES];
    uint32_t to_put[SLICES], to_land[SLICES]; /* bytes of the step under way; none to land: it is over */
    uint32_t begun[SLICES], come[SLICES];     /* steps; from the host before */
    int turn;                                 /* lane that sent the latest packet */
    uint64_t free_at;
};

struct fabric {
    int lanes, uplinks;
    uint32_t payload; /* of a slice in a step */
    bool steered;
    uint32_t segment;
    struct path_nic nic;
    struct host host[HOSTS];
    struct uplink uplink[2 * UPLINKS];
    uint64_t now, drawn, bytes; /* bytes: landed */
};

static struct path_policy policy;

static uint64_t draw(struct fabric *f)
{
    return mix64(++f->drawn);
}

/* Each second host is at the other leaf. */
static int leaf_of(int host)
{
    return host % 2;
}

static unsigned uplink_of(struct fabric *f, int host, int lane)
{
    unsigned uplink = f->steered
                          ? dnlb_uplink((unsigned)host / 2, (unsigned)f->lanes, (unsigned)lane, (unsigned)f->uplinks)
                          : (unsigned)(draw(f) % (unsigned)f->uplinks);
    return (unsigned)(leaf_of(host) * f->uplinks) + uplink;
}

static void views_of(struct fabric *f, int host, const struct path_lane **views)
{
    for (int i = 0; i < f->lanes; i++) {
        struct way *lane = &f->host[host].lane[i];
        lane->view.room = lane->next - lane->first < QUEUE;
        views[i] = &lane->view;
    }
}

static void begin_host(struct fabric *f, int host)
{
    struct host *h = &f->host[host];
    h->policy_state = calloc(1, policy.state_bytes);
    assert_non_null(h->policy_state);
    for (int i = 0; i < f->lanes; i++) {
        h->lane[i].view = (struct path_lane){.index = (uint16_t)i, .roles = PATH_DATA, .nic = &f->nic};
        h->lane[i].uplink = uplink_of(f, host, i);
        policy.up(h->policy_state, &h->lane[i].view);
    }
}

/* ---- A host ---- */

static void put(struct fabric *f, struct host *h, struct way *lane, int slice)
{
    uint32_t length = h->to_put[slice] < f->segment ? h->to_put[slice] : f->segment;
    lane->piece[lane->next++ % QUEUE] = (struct piece){f->now, length, length, slice};
    h->to_put[slice] -= length;
    lane->view.segments++;
    lane->view.outstanding += length;
    policy.posted(h->policy_state, &lane->view, length, f->now);
}

/* The first slice that has something to put goes first. */
static void pump(struct fabric *f, int host)
{
    struct host *h = &f->host[host];
    const struct path_lane *views[LANES];
    for (int slice = 0; slice < SLICES; slice++)
        while (h->to_put[slice]) {
            uint32_t length = h->to_put[slice] < f->segment ? h->to_put[slice] : f->segment;
            const struct path_payload payload = {.left = h->to_put[slice]};
            views_of(f, host, views);
            int at = policy.pick(h->policy_state, views, f->lanes, &payload, length, f->now);
            if (at < 0 || !views[at]->room)
                return;
            put(f, h, &h->lane[at], slice);
        }
}

/* A step of a slice begins when the one before is over, here and at the host before. */
static void step(struct fabric *f, int host)
{
    struct host *h = &f->host[host];
    for (int slice = 0; slice < SLICES; slice++)
        if (!h->to_land[slice] && h->begun[slice] <= h->come[slice]) {
            h->begun[slice]++;
            h->to_put[slice] = h->to_land[slice] = f->payload;
        }
    pump(f, host);
}

static void land(struct fabric *f, int host, int number)
{
    struct host *h = &f->host[host];
    struct way *lane = &h->lane[number];
    const struct piece *piece = &lane->piece[lane->first++ % QUEUE];
    int slice = piece->slice;
    lane->view.segments--;
    lane->view.outstanding -= piece->length;
    policy.landed(h->policy_state, &lane->view, piece->length, piece->posted, f->now);
    h->to_land[slice] -= piece->length;
    f->bytes += piece->length;
    int after = (host + 1) % HOSTS;
    f->host[after].come[slice] += !h->to_land[slice];
    step(f, host);
    step(f, after);
}

/* ---- Wires ---- */

/* The adapter sends a packet of the next lane that has one; it is at the leaf when its time is over. */
static void send(struct fabric *f, int host)
{
    struct host *h = &f->host[host];
    for (int i = 1; i <= f->lanes; i++) {
        int number = (h->turn + i) % f->lanes;
        struct way *lane = &h->lane[number];
        if (lane->sending == lane->next)
            continue;
        struct piece *piece = &lane->piece[lane->sending % QUEUE];
        uint32_t length = piece->unsent < PACKET ? piece->unsent : PACKET;
        struct uplink *up = &f->uplink[lane->uplink];
        piece->unsent -= length;
        lane->sending += !piece->unsent;
        assert_true(up->next - up->first < WAITING);
        up->packet[up->next++ % WAITING] = (struct packet){host, number, length, !piece->unsent};
        h->turn = number;
        h->free_at = f->now + (uint64_t)(length / NIC);
        return;
    }
}

/* What the first packet of the queue was, when it is at the other leaf. */
static void carry(struct fabric *f, struct uplink *up)
{
    struct packet packet = up->packet[up->first++ % WAITING];
    double rate = NIC * HOSTS / 2 / f->uplinks;
    up->bytes += packet.length;
    up->free_at = f->now + (uint64_t)(packet.length / rate);
    if (packet.ends)
        land(f, packet.host, packet.lane);
}

/* All that can happen now. */
static void happen(struct fabric *f)
{
    for (int i = 0; i < HOSTS; i++)
        if (f->host[i].free_at <= f->now)
            send(f, i);
    for (int i = 0; i < 2 * f->uplinks; i++)
        if (f->uplink[i].free_at <= f->now && f->uplink[i].first < f->uplink[i].next)
            carry(f, &f->uplink[i]);
}

static uint64_t next_of(const struct fabric *f)
{
    uint64_t next = UINT64_MAX;
    for (int i = 0; i < HOSTS; i++)
        if (f->host[i].free_at > f->now && f->host[i].free_at < next)
            next = f->host[i].free_at;
    for (int i = 0; i < 2 * f->uplinks; i++)
        if (f->uplink[i].free_at > f->now && f->uplink[i].free_at < next)
            next = f->uplink[i].free_at;
    return next == UINT64_MAX ? f->now + NS_PER_MS : next;
}

static void run(struct fabric *f, uint64_t ns)
{
    uint64_t end = f->now + ns;
    while (f->now < end) {
        happen(f);
        f->now = next_of(f);
    }
}

/* Of what the hosts' adapters could send. */
static double share(int uplinks, int lanes, uint32_t payload, bool steered, uint64_t seed)
{
    struct fabric *f = calloc(1, sizeof *f);
    const struct path_lane *views[LANES];
    assert_non_null(f);
    *f = (struct fabric){.lanes = lanes, .uplinks = uplinks, .payload = payload, .steered = steered, .now = NS_PER_S};
    f->nic.about.rate = 10000;
    f->drawn = seed << 32;
    for (int i = 0; i < HOSTS; i++)
        begin_host(f, i);
    views_of(f, 0, views);
    f->segment = (uint32_t)policy.segment(f->host[0].policy_state, views, lanes,
                                          &(struct path_payload){.left = payload}, SEGMENT);
    for (int i = 0; i < HOSTS; i++)
        step(f, i);
    run(f, 2 * NS_PER_S);
    uint64_t before = f->bytes;
    run(f, 6 * NS_PER_S);
    double rate = (double)(f->bytes - before) / 6e9 / HOSTS / NIC;
    for (int i = 0; i < HOSTS; i++)
        free(f->host[i].policy_state);
    free(f);
    return rate;
}

static void plan(bool steered)
{
    setenv("TUTTI_PATHS", steered ? "4:0" : "", 1);
    param_reload();
}

/* Steps of 1 MiB, in slices of one default segment, or less: all that the adapters send is carried, and more than by
 * chance. */
static void test_steered_lanes_fill_their_uplinks(void **state)
{
    static const int shapes[][2] = {{4, 2}, {4, 3}, {4, 4}, {4, 8}, {8, 2}, {8, 4}, {8, 8}}; /* uplinks, lanes */
    for (int i = 0; i < 14; i++) {
        const int *shape = shapes[i / 2];
        uint32_t payload = i % 2 ? 131072 : 524288;
        plan(true);
        double planned = share(shape[0], shape[1], payload, true, 1), ecmp = 0;
        plan(false);
        for (uint64_t seed = 1; seed <= 2; seed++)
            ecmp += share(shape[0], shape[1], payload, false, seed) / 2;
        print_message("%d uplinks, %d lanes, %u KiB: %.1f%% steered, %.1f%% by ECMP\n", shape[0], shape[1],
                      payload / 1024, 100 * planned, 100 * ecmp);
        assert_true(planned >= 0.98 && planned >= ecmp);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steered_lanes_fill_their_uplinks),
    };
    policy = path_complete(&path_stripe);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
