/* SPDX-License-Identifier: Apache-2.0 */
/* The master's state: loads against the bound, drawn sequences of events, faults, waves. */
#include "pathmaster/allot.h"

#include "base/error.h"
#include "base/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define EVENTS 20000
#define KEPT   4096 /* lanes that the test knows of */

struct stage {
    struct fabric fabric;
    struct paths paths;
    struct allot allot;
    uint64_t drawn;
    struct allot_event *event; /* applied so far; NULL: they are not kept */
    int events;
};

static uint64_t draw(struct stage *s, uint64_t below)
{
    return mix64(++s->drawn) % below;
}

static void stage_open(struct stage *s, const struct fabric_clos *clos)
{
    *s = (struct stage){.paths = {.label = "test", .lanes = 1, .dscp = -1}};
    assert_int_equal(fabric_from_clos(clos, &s->fabric), TUTTI_SUCCESS);
    s->paths.fabric = &s->fabric;
    assert_int_equal(paths_open(&s->paths), TUTTI_SUCCESS);
    assert_int_equal(allot_open(&s->allot, &s->paths), TUTTI_SUCCESS);
}

static void stage_close(struct stage *s)
{
    free(s->event);
    allot_close(&s->allot);
    paths_close(&s->paths);
    fabric_free(&s->fabric);
}

static bool keep(void *context, const struct allot_event *event)
{
    struct stage *s = context;
    if (s->event && s->events < EVENTS)
        s->event[s->events] = *event;
    s->events++;
    return true;
}

static void apply(struct stage *s, const struct allot_event *event)
{
    keep(s, event);
    if (allot_apply(&s->allot, event))
        fail_msg("%s", error_last());
}

static void plan(struct stage *s)
{
    do
        assert_int_equal(allot_plan(&s->allot, keep, s), TUTTI_SUCCESS);
    while (s->allot.uneven);
}

static int32_t new_owner(struct stage *s, int32_t tenant)
{
    struct allot_event event = {.kind = ALLOT_OWNER, .tenant = tenant, .owner = allot_next_owner(&s->allot)};
    uint64_t secret[2] = {mix64(++s->drawn), mix64(++s->drawn)};
    memcpy(event.secret, secret, sizeof event.secret);
    apply(s, &event);
    assert_int_equal(allot_find_owner(&s->allot, tenant, event.secret), event.owner);
    return event.owner;
}

/* ---- loads ---- */

/* Rings over hosts, one on each rail: jobs of drawn sizes whose hosts lie anywhere, until all hosts have one. */
static void give_rings(struct stage *s, uint32_t lanes)
{
    int32_t hosts = s->fabric.hosts, *host = malloc((size_t)hosts * sizeof *host);
    for (int32_t h = 0; h < hosts; h++)
        host[h] = h;
    for (int32_t h = hosts - 1; h > 0; h--) {
        int32_t other = (int32_t)draw(s, (uint64_t)h + 1), was = host[h];
        host[h] = host[other];
        host[other] = was;
    }
    for (int32_t first = 0, count; first < hosts; first += count) {
        count = 2 + (int32_t)draw(s, 30);
        count = first + count > hosts ? hosts - first : count;
        int32_t owner = new_owner(s, 0);
        uint64_t number = 0;
        for (int32_t i = 0; i < count; i++)
            for (int32_t n = 0; n < s->fabric.host[0].nics; n++)
                for (uint32_t lane = 0; lane < lanes; lane++) {
                    const struct allot_ask ask = {.owner = owner,
                                                  .number = number++,
                                                  .from = s->fabric.host[host[first + i]].nic + n,
                                                  .to = s->fabric.host[host[first + (i + 1) % count]].nic + n,
                                                  .parts = lanes};
                    struct allot_event event;
                    enum allot_answer answer = allot_ask(&s->allot, &ask, &event);
                    if (answer == ALLOT_NEW)
                        apply(s, &event);
                    else
                        assert_int_equal(answer, ALLOT_NEAR);
                }
    }
    free(host);
}

/* The fullest uplink, over the bound: the lanes that a leaf sends or gets, spread over its uplinks one by one. */
static double over_bound(const struct stage *s, uint64_t weight)
{
    const struct fabric *f = &s->fabric;
    uint64_t bound = 0, most = 0;
    for (int32_t l = 0; l < f->leaves; l++)
        for (int32_t way = 0; way < 2; way++) {
            uint64_t lanes = 0, count = (uint64_t)f->leaf[l].count;
            for (int32_t u = f->leaf[l].first + way * f->uplinks, end = u + f->leaf[l].count; u < end; u++) {
                lanes += s->allot.load[u] / weight;
                most = s->allot.load[u] > most ? s->allot.load[u] : most;
            }
            bound = (lanes + count - 1) / count > bound ? (lanes + count - 1) / count : bound;
        }
    return (double)most / (double)(bound * weight);
}

static double seconds_of(clock_t begun)
{
    return (double)(clock() - begun) / CLOCKS_PER_SEC;
}

static void study(const struct fabric_clos *clos, uint32_t lanes)
{
    struct stage s;
    uint64_t weight = (uint64_t)(clos->rate * 8e-3) / lanes;
    stage_open(&s, clos);
    clock_t begun = clock();
    give_rings(&s, lanes);
    double given = seconds_of(begun), before = over_bound(&s, weight);
    int events = s.events;
    begun = clock();
    plan(&s);
    print_message("%d GPUs, %u lanes of a NIC: %d lanes between leaves in %.2f s of a processor, %.3f of the bound; "
                  "%.3f after %d moves in %.2f s\n",
                  s.fabric.gpus, lanes, s.allot.lanes, given, before, over_bound(&s, weight), s.events - events,
                  seconds_of(begun));
    assert_true(over_bound(&s, weight) <= 1.05);
    stage_close(&s);
}

/* PATHMASTER_STUDY=1: the large ones, too. */
static void loads_are_near_the_bound(void **state)
{
    struct fabric_clos clos = {.buildings = 1,
                               .zones = 1,
                               .racks = 4,
                               .hosts = 16,
                               .gpus = 8,
                               .nics = 8,
                               .ports = 1,
                               .rail = 1,
                               .spines = 8,
                               .uplinks = 2,
                               .cores = 183,
                               .rate = 5e10,
                               .uplink = 5e10,
                               .core = 5e10,
                               .trunk = 1e15};
    bool large = getenv("PATHMASTER_STUDY");
    for (uint32_t lanes = 1; lanes <= 8; lanes *= 2)
        study(&clos, lanes);
    clos.spines = 16;
    clos.uplinks = 1;
    for (clos.racks = 64; clos.zones <= 16 && (large || clos.zones == 1); clos.zones *= 2)
        for (uint32_t lanes = 1; lanes <= (large ? 4 : 1); lanes *= 4)
            study(&clos, lanes);
}

/* ---- drawn sequences ---- */

struct known {
    int32_t owner, from, to;
    uint64_t number;
};

struct play {
    struct stage stage;
    int32_t owner[16];
    int owners, count;
    bool faults; /* some link has one */
    uint32_t *percent;
    struct known known[KEPT];
};

/* Loads are the lanes' sum; ports lead to their uplinks, and no two lanes between two NICs have one; sides are kept. */
static void check_state(const struct stage *s)
{
    const struct fabric *f = &s->fabric;
    size_t links = 2 * ((size_t)f->uplinks + (size_t)f->spines);
    uint64_t *load = calloc(links, sizeof *load);
    int32_t lanes = 0;
    for (int32_t i = 0; i < s->allot.places; i++) {
        const struct allot_lane *lane = &s->allot.lane[i];
        if (lane->owner < 0)
            continue;
        lanes++;
        struct allot_links of = allot_links(&s->allot, &lane->way);
        for (int k = 0; k < of.count; k++)
            load[of.link[k]] += lane->weight;
        const struct fabric_port *out = &f->nic[lane->from].port[lane->way.side];
        const struct fabric_port *in = &f->nic[lane->to].port[lane->way.side];
        assert_int_equal(paths_uplink(&s->paths, out->leaf, lane->port), lane->way.uplink);
        assert_int_equal(f->uplink[lane->way.down].leaf, in->leaf);
        assert_int_equal(lane->way.out < 0 ? f->uplink[lane->way.uplink].spine : lane->way.in,
                         lane->way.out < 0 ? f->uplink[lane->way.down].spine : f->uplink[lane->way.down].spine);
        for (int32_t k = 0; k < i; k++)
            assert_false(s->allot.lane[k].owner >= 0 && s->allot.lane[k].from == lane->from &&
                         s->allot.lane[k].to == lane->to && s->allot.lane[k].port == lane->port);
    }
    assert_int_equal(lanes, s->allot.lanes);
    assert_memory_equal(load, s->allot.load, links * sizeof *load);
    free(load);
}

/* After a plan no link carries more than its share while another of its leaf is emptier by more than a lane. */
static void check_balance(const struct stage *s, uint64_t weight)
{
    const struct fabric *f = &s->fabric;
    for (int32_t l = 0; l < f->leaves; l++)
        for (int32_t way = 0; way < 2; way++) {
            const uint64_t *load = &s->allot.load[f->leaf[l].first + way * f->uplinks];
            const double *capacity = &s->allot.capacity[f->leaf[l].first + way * f->uplinks];
            uint64_t least = UINT64_MAX, most = 0, all = 0;
            for (int32_t u = 0; u < f->leaf[l].count; u++) {
                least = load[u] < least ? load[u] : least;
                most = load[u] > most ? load[u] : most;
                all += load[u];
            }
            if ((double)most > capacity[0] + 1 && most * (uint64_t)f->leaf[l].count > all)
                assert_true(most - least <= weight);
        }
}

/* A lane on a faulty link has nowhere else to go. */
static void check_faults(const struct stage *s)
{
    for (int32_t i = 0; i < s->allot.places; i++) {
        struct allot_choice choice;
        const struct allot_lane *lane = &s->allot.lane[i];
        if (lane->owner >= 0 && !allot_is_open(&s->allot, &lane->way))
            assert_int_not_equal(allot_choose(&s->allot, lane, true, -1, &choice), ALLOT_NEW);
    }
}

/* The events alone make the same state. */
static void check_replay(const struct stage *s)
{
    struct allot again;
    assert_true(s->events < EVENTS);
    assert_int_equal(allot_open(&again, &s->paths), TUTTI_SUCCESS);
    for (int i = 0; i < s->events; i++)
        assert_int_equal(allot_apply(&again, &s->event[i]), TUTTI_SUCCESS);
    assert_int_equal(again.lanes, s->allot.lanes);
    assert_int_equal(again.places, s->allot.places);
    for (int32_t i = 0; i < again.places; i++) {
        const struct allot_lane *a = &again.lane[i], *b = &s->allot.lane[i];
        assert_int_equal(a->owner, b->owner);
        if (a->owner >= 0)
            assert_true(a->number == b->number && a->port == b->port && a->wave == b->wave &&
                        memcmp(&a->way, &b->way, sizeof a->way) == 0);
    }
    allot_close(&again);
}

static void play_ask(struct play *p, bool again)
{
    struct stage *s = &p->stage;
    struct known lane = {.owner = p->owner[draw(s, (uint64_t)p->owners)], .number = mix64(++s->drawn)};
    struct allot_event event;
    lane.from = (int32_t)draw(s, (uint64_t)s->fabric.nics);
    lane.to = (int32_t)draw(s, (uint64_t)s->fabric.nics);
    if (again && p->count)
        lane = p->known[draw(s, (uint64_t)p->count)];
    else if (p->count == KEPT)
        return;
    int32_t has = allot_find_lane(&s->allot, lane.owner, lane.number);
    uint16_t port = has >= 0 ? s->allot.lane[has].port : 0;
    const struct allot_ask ask = {lane.owner, lane.number, lane.from, lane.to, 4, false, again, port};
    enum allot_answer answer = allot_ask(&s->allot, &ask, &event);
    if (answer != ALLOT_NEW)
        return;
    apply(s, &event);
    int32_t i = allot_find_lane(&s->allot, lane.owner, lane.number);
    assert_true(allot_is_open(&s->allot, &s->allot.lane[i].way));
    if (event.kind == ALLOT_GIVE)
        p->known[p->count++] = lane;
}

/* Forgets lanes that the state no longer has. */
static void play_forget(struct play *p)
{
    int count = 0;
    for (int i = 0; i < p->count; i++)
        if (allot_find_lane(&p->stage.allot, p->known[i].owner, p->known[i].number) >= 0)
            p->known[count++] = p->known[i];
    p->count = count;
}

static void play_end(struct play *p)
{
    struct stage *s = &p->stage;
    if (!p->count)
        return;
    const struct known *lane = &p->known[draw(s, (uint64_t)p->count)];
    apply(s, &(struct allot_event){.kind = ALLOT_END, .owner = lane->owner, .number = lane->number});
    play_forget(p);
}

static void play_leave(struct play *p)
{
    struct stage *s = &p->stage;
    int which = (int)draw(s, (uint64_t)p->owners);
    int32_t owner = p->owner[which];
    apply(s, &(struct allot_event){.kind = ALLOT_LEAVE, .owner = owner});
    p->owner[which] = new_owner(s, which % 3);
    int count = 0;
    for (int i = 0; i < p->count; i++)
        if (p->known[i].owner != owner)
            p->known[count++] = p->known[i];
    p->count = count;
}

static void play_link(struct play *p)
{
    static const uint32_t states[] = {0, 50, 100, 100};
    struct stage *s = &p->stage;
    struct allot_event event = {.kind = ALLOT_LINK, .uplink = (int32_t)draw(s, (uint64_t)s->fabric.uplinks)};
    event.percent = p->percent[event.uplink] = states[draw(s, 4)];
    apply(s, &event);
    p->faults = false;
    for (int32_t u = 0; u < s->fabric.uplinks; u++)
        p->faults |= p->percent[u] != 100;
}

static void play_plan(struct play *p, uint64_t weight)
{
    plan(&p->stage);
    check_faults(&p->stage);
    if (!p->faults && p->stage.fabric.cores == 0)
        check_balance(&p->stage, weight);
}

static void play(const struct fabric_clos *clos, uint64_t seed, int steps, bool faults)
{
    struct play *p = calloc(1, sizeof *p);
    struct stage *s = &p->stage;
    stage_open(s, clos);
    s->event = calloc(EVENTS, sizeof *s->event);
    s->drawn = seed << 32;
    p->percent = malloc((size_t)s->fabric.uplinks * sizeof *p->percent);
    for (int32_t u = 0; u < s->fabric.uplinks; u++)
        p->percent[u] = 100;
    for (p->owners = 0; p->owners < 16; p->owners++)
        p->owner[p->owners] = new_owner(s, p->owners % 3);
    for (int step = 0; step < steps; step++) {
        uint64_t what = draw(s, 100);
        if (what < 80)
            play_ask(p, what < 10);
        else if (what < 92)
            play_end(p);
        else if (what < 94)
            play_leave(p);
        else if (what < 97)
            faults ? play_link(p) : play_end(p);
        else
            play_plan(p, (uint64_t)(clos->rate * 8e-3) * (uint64_t)clos->ports / 4);
    }
    play_plan(p, (uint64_t)(clos->rate * 8e-3) * (uint64_t)clos->ports / 4);
    check_state(s);
    check_replay(s);
    while (s->allot.lanes) /* what was given is given back */
        apply(s, &(struct allot_event){.kind = ALLOT_LEAVE, .owner = p->owner[--p->owners]});
    check_state(s);
    free(p->percent);
    stage_close(s);
    free(p);
}

static const struct fabric_clos drawn_on[] = {
    {.buildings = 1,
     .zones = 1,
     .racks = 3,
     .hosts = 4,
     .gpus = 1,
     .nics = 1,
     .ports = 1,
     .spines = 4,
     .uplinks = 1,
     .rate = 1e9,
     .uplink = 1e9},
    {.buildings = 1,
     .zones = 1,
     .racks = 3,
     .hosts = 4,
     .gpus = 2,
     .nics = 2,
     .ports = 2,
     .spines = 2,
     .uplinks = 2,
     .rate = 1e9,
     .uplink = 2e9},
    {.buildings = 2,
     .zones = 2,
     .racks = 2,
     .hosts = 4,
     .gpus = 2,
     .nics = 2,
     .ports = 1,
     .rail = 1,
     .spines = 3,
     .uplinks = 1,
     .cores = 2,
     .rate = 1e9,
     .uplink = 1e9,
     .core = 1e9,
     .trunk = 1e10},
};

static void drawn_sequences_keep_the_rules(void **state)
{
    for (uint64_t seed = 1; seed <= 24; seed++)
        play(&drawn_on[seed % 3], seed, 600, seed % 2);
}

/* Eight jobs of two hosts fill all uplinks. Their lanes for messages, which come where they like, move nothing. */
static void lanes_for_messages_move_no_lane(void **state)
{
    struct fabric_clos clos = drawn_on[0];
    struct stage s;
    clos.racks = 2;
    clos.hosts = clos.spines = 8;
    stage_open(&s, &clos);
    int32_t owner = new_owner(&s, 0);
    for (uint64_t lane = 0; lane < 8 * 6; lane++) {
        int32_t job = (int32_t)(lane % 8), back = (int32_t)(lane / 8) % 2;
        const struct allot_ask ask = {.owner = owner,
                                      .number = lane,
                                      .from = job + 8 * back,
                                      .to = job + 8 * !back,
                                      .parts = 2,
                                      .idle = lane >= 8 * 4};
        struct allot_event event;
        assert_int_equal(allot_ask(&s.allot, &ask, &event), ALLOT_NEW);
        if (ask.idle) { /* all by one uplink, so that it is the fullest */
            const struct fabric_leaf *leaf = &s.fabric.leaf[s.fabric.nic[ask.from].port[0].leaf];
            struct allot_way way;
            assert_true(allot_way(&s.allot, ask.from, ask.to, 0, leaf->first, &way));
            event.uplink = way.uplink;
            event.port = allot_port(&s.allot, ask.from, ask.to, way.uplink);
        }
        apply(&s, &event);
    }
    int events = s.events;
    plan(&s);
    assert_int_equal(s.events, events);
    stage_close(&s);
}

/* A link fails, and a plan moves its lanes. One that failed there asks again: it keeps what the plan gave. One that
 * fails where it is takes another way, and the next plan evens that out. */
static void lanes_that_fail_are_moved_once(void **state)
{
    struct fabric_clos clos = drawn_on[0];
    struct stage s;
    struct allot_event event;
    clos.racks = 2;
    clos.hosts = clos.spines = 8;
    stage_open(&s, &clos);
    struct allot_ask ask = {.owner = new_owner(&s, 0), .parts = 2};
    for (uint64_t lane = 0; lane < 16; lane++) {
        ask.number = lane;
        ask.from = (int32_t)(lane % 8);
        ask.to = ask.from + 8;
        assert_int_equal(allot_ask(&s.allot, &ask, &event), ALLOT_NEW);
        apply(&s, &event);
    }
    const struct allot_lane *last = &s.allot.lane[allot_find_lane(&s.allot, ask.owner, ask.number)];
    ask.again = true;
    ask.port = last->port;
    apply(&s, &(struct allot_event){.kind = ALLOT_LINK, .uplink = last->way.uplink});
    plan(&s);
    assert_int_not_equal(last->port, ask.port);
    assert_int_equal(allot_ask(&s.allot, &ask, &event), ALLOT_KNOWN);
    ask.port = last->port;
    assert_int_equal(allot_ask(&s.allot, &ask, &event), ALLOT_NEW);
    apply(&s, &event);
    assert_true(s.allot.uneven);
    stage_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loads_are_near_the_bound),
        cmocka_unit_test(drawn_sequences_keep_the_rules),
        cmocka_unit_test(lanes_for_messages_move_no_lane),
        cmocka_unit_test(lanes_that_fail_are_moved_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
