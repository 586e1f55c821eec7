/* SPDX-License-Identifier: Apache-2.0 */
/* The transport over RDMA verbs, on the software RDMA device: devices and addresses, adapters that fail.
 */
#include "base/clock.h"
#include "base/error.h"
#include "base/param.h"
#include "soft.h"
#include "suite.h"
#include "transport/verbs/verbs.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LENGTH 100000

static const struct verbs_shared *shared_of(const struct party *party)
{
    return &((struct verbs_transport *)party->transport)->device[0].open.shared;
}

/* ---- Devices and addresses ---- */

static void refuses(const char *name, const char *value, const char *sentence)
{
    uint8_t uuid[WIRE_UUID_BYTES] = {1};
    struct party party;
    int fds = soft_fds();
    soft_set(name, value);
    bool opened = party_try_open(&party, uuid);
    soft_set(name, NULL);
    if (opened || !strstr(error_last(), sentence))
        fail_msg("%s=%s: %s", name, value, opened ? "taken" : error_last());
    assert_int_equal(soft_fds(), fds);
}

static void says_why_it_is_not_to_be_had(void **state)
{
    (void)state;
    if (!soft_here())
        skip();
    refuses("TUTTI_IB_DISABLE", "1", "TUTTI_IB_DISABLE");
    refuses("NCCL_IB_DISABLE", "1", "NCCL_IB_DISABLE");
    refuses("NCCL_IB_HCA", "mlx9", "none is wanted (TUTTI_IB_HCA=mlx9)");
    refuses("TUTTI_IB_HCA", "^soft", "none is wanted");
    refuses("NCCL_IB_GID_INDEX", "31", "TUTTI_IB_GID_INDEX=31");
}

static void takes_what_was_asked_for(void **state)
{
    char exactly[40], name[32];
    const char *const settings[][2] = {
        {"NCCL_IB_HCA", exactly}, {"NCCL_IB_HCA", "mlx,soft"}, {"NCCL_IB_GID_INDEX", "0"}, {"NCCL_IB_TC", "106"},
        {"NCCL_IB_SL", "3"},      {"NCCL_IB_RETRY_CNT", "3"},  {"NCCL_IB_TIMEOUT", "16"}};
    (void)state;
    if (!soft_here())
        skip();
    int ports = soft_ports(name);
    snprintf(exactly, sizeof exactly, "=%s:1", name);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        struct pair pair;
        soft_set(settings[i][0], settings[i][1]);
        pair_open(&pair);
        assert_int_equal(send_pattern(pair.at, 1, 100, 1), TUTTI_SUCCESS);
        pair_until(&pair, pair.bt->counts[NOTE_MESSAGE] == 1);
        pair_close(&pair);
        soft_set(settings[i][0], NULL);
    }
    soft_set("NCCL_IB_QPS_PER_CONNECTION", "3");
    struct pair pair;
    pair_open(&pair);
    assert_int_equal(under_test->lanes(pair.a.transport, &pair.b.self), 3 * ports);
    pair_close(&pair);
    soft_set("NCCL_IB_QPS_PER_CONNECTION", NULL);
}

/* The address has another place in the table: lanes that used the old one end, and the next ones find it. */
static void finds_its_address_again(void **state)
{
    struct pair pair;
    (void)state;
    if (!soft_here())
        skip();
    pair_open(&pair);
    for (int round = 1; round <= 3; round++) {
        soft_command(round % 2 ? "gid-shift 5" : "gid-shift 2");
        pair_until(&pair, pair.at->counts[NOTE_DOWN] && pair.bt->counts[NOTE_DOWN]);
        end_close(pair.at);
        end_close(pair.bt);
        pair.at = end_open(&pair.a, &pair.b.self, (uint16_t)round, 1);
        pair_until(&pair, pair.at->counts[NOTE_UP] && (pair.bt = end_accepted(&pair.b, (uint16_t)round)) != NULL);
        assert_int_equal(send_pattern(pair.at, 1, 100, 1), TUTTI_SUCCESS);
        pair_until(&pair, pair.bt->counts[NOTE_MESSAGE] == 1);
    }
    soft_command("gid-shift 0");
    pair_close(&pair);
}

/* ---- Adapters that fail ---- */

/* An adapter that goes silent ends the lane after its retries, whatever the connection says. */
static void silence_ends_a_lane(void **state)
{
    struct pair pair;
    char name[32], text[48];
    (void)state;
    if (!soft_here())
        skip();
    soft_ports(name);
    soft_set("TUTTI_IB_TIMEOUT", "12"); /* 17 ms */
    pair_open(&pair);
    soft_set("TUTTI_IB_TIMEOUT", NULL);
    snprintf(text, sizeof text, "freeze %s", name);
    soft_command(text);
    assert_int_equal(send_pattern(pair.at, 1, 100, 1), TUTTI_SUCCESS);
    pair_until(&pair, pair.at->counts[NOTE_DOWN]);
    assert_int_equal(end_last(pair.at, NOTE_DOWN)->id, TUTTI_REMOTE_ERROR);
    snprintf(text, sizeof text, "thaw %s", name);
    soft_command(text);
    end_close(pair.at);
    pair_until(&pair, pair.bt->counts[NOTE_DOWN]);
    assert_int_equal(pair.bt->counts[NOTE_MESSAGE], 0);
    pair_close(&pair);
}

/* So the one who only sends knows that the lane lives. */
static void what_is_acknowledged_has_moved(void **state)
{
    struct pair pair;
    (void)state;
    if (!soft_here())
        skip();
    pair_open(&pair);
    struct lane *from = pair.at->lane;
    uint64_t before = from->ops->moved(from);
    for (uint64_t i = 1; i <= 20; i++)
        assert_int_equal(send_pattern(pair.at, i, 1000, 1), TUTTI_SUCCESS);
    pair_until(&pair, pair.bt->counts[NOTE_MESSAGE] == 20);
    pair_until(&pair, from->ops->moved(from) - before >= 8 * 1000);
    pair_close(&pair);
}

/* An adapter that is silent for a while confirms nothing meanwhile, and then all. */
static void what_is_not_acknowledged_is_owed(void **state)
{
    struct pair pair;
    char name[32], text[48];
    (void)state;
    if (!soft_here())
        skip();
    soft_ports(name);
    soft_set("TUTTI_IB_TIMEOUT", "17"); /* 0.5 s, eight times */
    pair_open(&pair);
    soft_set("TUTTI_IB_TIMEOUT", NULL);
    struct lane *from = pair.at->lane;
    pair_until(&pair, !from->ops->owes(from));
    snprintf(text, sizeof text, "freeze %s", name);
    soft_command(text);
    for (uint64_t i = 1; i <= 3; i++)
        assert_int_equal(send_pattern(pair.at, i, 100, 1), TUTTI_SUCCESS);
    uint64_t owed = from->ops->owes(from);
    assert_true(owed);
    for (int i = 0; i < 20; i++) {
        pair_step(&pair);
        assert_int_equal(from->ops->owes(from), owed);
    }
    snprintf(text, sizeof text, "thaw %s", name);
    soft_command(text);
    pair_until(&pair, !from->ops->owes(from));
    assert_int_equal(pair.at->counts[NOTE_DOWN], 0);
    pair_until(&pair, pair.bt->counts[NOTE_MESSAGE] == 3);
    pair_close(&pair);
}

/* Packets that were late when the lane came up are no measure: later ones are quicker, and both ends go by those. */
static void the_round_trip_is_the_least_of_a_second(void **state)
{
    struct pair pair;
    (void)state;
    if (!soft_here())
        skip();
    soft_command("fault delay=1,delay-us=30000");
    pair_open(&pair);
    const uint64_t *here = &pair.at->lane->trip, *there = &pair.bt->lane->trip;
    assert_true(*here >= 30 * NS_PER_MS && *here == *there);
    soft_command("clear");
    pair_until(&pair, *here < 30 * NS_PER_MS && *here == *there);
    assert_true(*here > 0);
    assert_int_equal(pair.at->counts[NOTE_DOWN] + pair.bt->counts[NOTE_DOWN], 0);
    pair_close(&pair);
}

static void a_broken_queue_pair_ends_its_lane_alone(void **state)
{
    struct pair pair;
    char kill[64];
    (void)state;
    if (!soft_here())
        skip();
    pair_open(&pair);
    struct end *other = end_open(&pair.a, &pair.b.self, 1, 1);
    pair_until(&pair, other->counts[NOTE_UP] && end_accepted(&pair.b, 1));
    soft_command("info");
    const char *first = strstr(soft_answer, "qp 0x");
    assert_non_null(first);
    snprintf(kill, sizeof kill, "kill %.8s", first + 3);
    soft_command(kill);
    pair_until(&pair, pair.at->counts[NOTE_DOWN] + other->counts[NOTE_DOWN] == 1);
    struct end *dead = pair.at->counts[NOTE_DOWN] ? pair.at : other, *left = dead == other ? pair.at : other;
    end_close(dead);
    struct end *to = end_accepted(&pair.b, left == other ? 1 : 0);
    assert_int_equal(send_pattern(left, 1, 100, 1), TUTTI_SUCCESS);
    pair_until(&pair, to->counts[NOTE_MESSAGE] == 1);
    pair_close(&pair);
}

/* More lanes than the first completion queue has room for, and more at once than there are receives. */
static void room_for_completions_grows(void **state)
{
    enum { LANES = 30 };
    struct pair pair;
    struct end *ends[LANES];
    uint64_t sent[LANES];
    (void)state;
    if (!soft_here())
        skip();
    pair_open(&pair);
    for (uint16_t i = 0; i < LANES; i++) {
        ends[i] = end_open(&pair.a, &pair.b.self, (uint16_t)(i + 1), 1);
        pair_until(&pair, ends[i]->counts[NOTE_UP] && end_accepted(&pair.b, (uint16_t)(i + 1)));
    }
    for (int i = 0; i < LANES; i++)
        for (sent[i] = 0; send_pattern(ends[i], 1, under_test->max_msg, 1) == TUTTI_SUCCESS;)
            sent[i]++;
    for (int i = 0; i < LANES; i++) {
        pair_until(&pair, ends[i]->counts[NOTE_WRITABLE]);
        struct end *to = end_accepted(&pair.b, (uint16_t)(i + 1));
        pair_until(&pair, to->counts[NOTE_MESSAGE] == sent[i]);
        assert_int_equal(ends[i]->counts[NOTE_DOWN] + to->counts[NOTE_DOWN], 0);
    }
    assert_true(!shared_of(&pair.b)->queue || shared_of(&pair.b)->slabs > 1); /* by use */
    pair_close(&pair);
}

/* ---- Receives that lanes share ---- */

/* Lanes begin with little memory: without payloads of ours to copy they have no more. */
static void a_lane_begins_with_little(void **state)
{
    struct pair pair;
    (void)state;
    if (!soft_here() || !param_int(PARAM_IB_SHARED))
        skip();
    pair_open(&pair);
    for (uint16_t i = 1; i < 20; i++)
        soft_open(&pair, i);
    struct verbs_lane *lane = (struct verbs_lane *)pair.at->lane;
    assert_int_equal(shared_of(&pair.b)->slabs, 1);
    assert_true(lane->steps == 1 && !lane->receives.memory);
    for (uint64_t i = 0; i < 8; i++)
        assert_int_equal(send_pattern(pair.at, i, 100, 1), TUTTI_SUCCESS); /* in the requests themselves */
    assert_int_equal(lane->steps, 1);
    pair_until(&pair, pair.bt->counts[NOTE_MESSAGE] == 8);
    for (uint64_t i = 0; i <= VERBS_FEW_SENDS; i++) {
        assert_int_equal(lane->steps, 1);
        assert_int_equal(send_pattern(pair.at, i, 1000, 1), TUTTI_SUCCESS);
    }
    assert_int_equal(lane->steps, 2);
    pair_until(&pair, pair.bt->counts[NOTE_MESSAGE] == 8 + VERBS_FEW_SENDS + 1);
    pair_close(&pair);
}

static int (*real_post)(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **);
static unsigned bells, rung_for;

static int count_post(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    bells++;
    for (const struct ibv_send_wr *one = wr; one; one = one->next)
        rung_for++;
    return real_post(qp, wr, bad);
}

/* Opens the pair, whose lane sends no packets but ours, and counts calls until the returned ones are as before. */
static struct ibv_context_ops *open_counted(struct pair *pair, uint8_t *area, size_t size)
{
    pair_open(pair);
    struct verbs_lane *lane = (struct verbs_lane *)pair->at->lane;
    transport_timer_clear(pair->a.transport, &lane->again);
    pair_until(pair, !lane->asked);
    pair->bt->area = area;
    pair->bt->area_size = size;
    struct ibv_context_ops *calls = &lane->qp->context->ops;
    real_post = calls->post_send;
    calls->post_send = count_post;
    bells = rung_for = 0;
    return calls;
}

/* What there is to be sent goes to the adapter by one call, however many requests it takes. */
static void requests_are_posted_together(void **state)
{
    enum { REQUESTS = 6, SIZE = REQUESTS * (VERBS_CHUNK - sizeof(struct verbs_head)) };
    static uint8_t source[SIZE], area[SIZE];
    struct pair pair;
    (void)state;
    if (!soft_here())
        skip();
    struct ibv_context_ops *calls = open_counted(&pair, area, SIZE);
    fill_pattern(source, SIZE, 1);
    const struct put put = {.source = place_host(source), .length = SIZE};
    assert_int_equal(under_test->put(pair.at->lane, &put), TUTTI_SUCCESS);
    assert_int_equal(rung_for, REQUESTS);
    assert_int_equal(bells, 1);
    pair_until(&pair, pair.bt->counts[NOTE_ARRIVED]);
    calls->post_send = real_post;
    assert_true(has_pattern(area, SIZE, 1));
    pair.bt->area = NULL;
    pair_close(&pair);
}

/* And so does what is gathered. */
static void what_is_gathered_rings_one_bell(void **state)
{
    static uint8_t source[1000], area[1000];
    struct pair pair;
    (void)state;
    if (!soft_here())
        skip();
    struct ibv_context_ops *calls = open_counted(&pair, area, sizeof area);
    fill_pattern(source, sizeof source, 1);
    under_test->gather(pair.a.transport, true);
    for (uint64_t i = 1; i <= 4; i++)
        assert_int_equal(send_pattern(pair.at, i, 100, 1), TUTTI_SUCCESS);
    const struct put put = {.source = place_host(source), .length = sizeof source};
    assert_int_equal(under_test->put(pair.at->lane, &put), TUTTI_SUCCESS);
    assert_int_equal(bells, 0);
    under_test->gather(pair.a.transport, false);
    assert_int_equal(rung_for, 5);
    assert_int_equal(bells, 1);
    calls->post_send = real_post;
    pair_until(&pair, pair.bt->counts[NOTE_MESSAGE] == 4 && pair.bt->counts[NOTE_ARRIVED]);
    assert_true(has_pattern(area, sizeof area, 1));
    pair.bt->area = NULL;
    pair_close(&pair);
}

/* More than the adapter takes at once; and a lane that is closed with what is gathered. */
static void more_is_gathered_than_there_is_room_for(void **state)
{
    struct pair pair;
    uint64_t sent = 0;
    (void)state;
    if (!soft_here())
        skip();
    pair_open(&pair);
    under_test->gather(pair.a.transport, true);
    while (send_pattern(pair.at, sent + 1, 100 + sent * 10 % 3000, 1) == TUTTI_SUCCESS)
        sent++;
    assert_true(sent > VERBS_SENDS);
    under_test->gather(pair.a.transport, false);
    pair_until(&pair, pair.bt->counts[NOTE_MESSAGE] == sent);
    under_test->gather(pair.a.transport, true);
    assert_int_equal(send_pattern(pair.at, 1, 100, 1), TUTTI_SUCCESS);
    end_close(pair.at);
    under_test->gather(pair.a.transport, false);
    pair_until(&pair, pair.bt->counts[NOTE_DOWN]);
    assert_int_equal(pair.bt->counts[NOTE_MESSAGE], sent);
    pair_close(&pair);
}

/* Waits, without a look at the other one, until all is acknowledged that these have sent. */
static void settle_first(struct pair *pair, const struct both *lane)
{
    uint64_t end = clock_deadline_ms(CONFORMANCE_PATIENCE_MS);
    while (under_test->owes(pair->at->lane) || under_test->owes(lane->at->lane)) {
        party_sleep(&pair->a, 1);
        assert_false(clock_passed(end));
    }
}

static const struct verbs_library *real_calls;
static struct pair *late_pair;
static struct end *late;

/* The peer goes on sending until the queue pair is no more. */
static int destroy_late(struct ibv_qp *qp)
{
    uint64_t end = clock_deadline_ms(20);
    for (uint64_t i = 0; late && i < 10; i++)
        assert_int_equal(send_pattern(late, i, 100, 1), TUTTI_SUCCESS);
    while (late && under_test->owes(late->lane) && !clock_passed(end))
        party_sleep(&late_pair->a, 1);
    late = NULL;
    return real_calls->destroy_qp(qp);
}

/* A lane ends with completions that nobody has looked at. Their receives stay with the others, again and again; what
 * has come on other lanes meanwhile comes. */
static void a_lane_that_ends_takes_no_receives_along(void **state)
{
    enum { SOME = 20 }; /* more than are looked at together */
    struct verbs_library calls;
    struct pair pair;
    (void)state;
    if (!soft_here() || !param_int(PARAM_IB_SHARED))
        skip();
    pair_open(&pair);
    struct verbs_transport *verbs = (struct verbs_transport *)pair.b.transport;
    real_calls = verbs->library;
    calls = *real_calls;
    calls.destroy_qp = destroy_late;
    verbs->library = &calls;
    late_pair = &pair;
    for (uint16_t turn = 1; turn <= 8; turn++) {
        struct both lane = soft_open(&pair, turn);
        uint64_t before = pair.bt->counts[NOTE_MESSAGE];
        for (uint64_t i = 0; i < 40 && send_pattern(lane.at, i, 4000, 1) == TUTTI_SUCCESS; i++)
            ;
        for (uint64_t i = 0; i < SOME; i++)
            assert_int_equal(send_pattern(pair.at, i, 100, 1), TUTTI_SUCCESS);
        settle_first(&pair, &lane);
        late = lane.at;
        end_close(lane.bt);
        pair_until(&pair, pair.bt->counts[NOTE_MESSAGE] == before + SOME);
        soft_drop(&pair, &lane);
    }
    assert_true(shared_of(&pair.b)->slabs <= 2);
    struct both first = {pair.at, pair.bt};
    soft_carries(&pair, &first);
    verbs->library = real_calls;
    pair_close(&pair);
}

/* Completions of a lane that has ended wait for their turn; by then its number may be another queue pair's. */
static void what_waits_of_a_lane_that_ended_is_nobodys(void **state)
{
    struct pair pair;
    (void)state;
    if (!soft_here() || !param_int(PARAM_IB_SHARED))
        skip();
    pair_open(&pair);
    struct verbs_device *device = ((struct verbs_lane *)pair.bt->lane)->device;
    struct both lane[2] = {soft_open(&pair, 1), soft_open(&pair, 2)}, first = {pair.at, pair.bt};
    uint32_t queue[2];
    for (int i = 0; i < 2; i++) {
        queue[i] = ((struct verbs_lane *)lane[i].bt->lane)->qp->qp_num;
        assert_int_equal(send_pattern(lane[i].at, 1, 100, 1), TUTTI_SUCCESS);
        settle_first(&pair, &lane[i]);
        if (i == 0)
            assert_false(under_test->arm(pair.b.transport)); /* the first one's is found while falling asleep */
    }
    assert_true(device->early_count > 0 && device->early[0].qp_num == queue[0]);
    end_close(lane[0].bt);
    assert_true(device->kept_end > 0 && device->kept[device->kept_first].qp_num == queue[1]);
    end_close(lane[1].bt);
    for (int i = 0; i < device->early_count; i++)
        assert_true(device->early[i].qp_num != queue[0]);
    for (unsigned i = device->kept_first; i < device->kept_end; i++)
        assert_true(device->kept[i].qp_num != queue[1]);
    for (int i = 0; i < 2; i++)
        soft_drop(&pair, &lane[i]);
    assert_int_equal(pair.bt->counts[NOTE_MESSAGE], 0);
    for (int i = 0; i < 2 * VERBS_SHARED_EACH; i++) /* none of the receives is missing, or there twice */
        soft_carries(&pair, &first);
    pair_close(&pair);
}

/* From here to there, and as many receives are posted as before. */
static void send_many(struct pair *pair, const struct both *lane, int count)
{
    for (int i = 0; i < count; i++) {
        soft_carries(pair, lane);
        assert_false(shared_of(&pair->b)->missing);
    }
}

/* What the lanes that are left cannot use at once goes when it has come back, and all of it with the last lane. */
static void receives_go_with_their_lanes(void **state)
{
    struct pair pair;
    (void)state;
    if (!soft_here() || !param_int(PARAM_IB_SHARED))
        skip();
    pair_open(&pair);
    struct both lane = {pair.at, pair.bt}, other = soft_open(&pair, 1);
    struct verbs_device *device = ((struct verbs_lane *)pair.bt->lane)->device;
    struct verbs_shared *shared = &device->open.shared;
    int regions = soft_holdings().regions;
    for (int i = 0; i < 4; i++)
        assert_int_equal(verbs_shared_grow(device->open.pd, shared), 0);
    assert_int_equal(soft_holdings().regions, regions + 4);
    end_close(other.bt);
    soft_drop(&pair, &other);
    assert_true(shared->kept == 1 && shared->slabs == 5);
    send_many(&pair, &lane, 3 * VERBS_SHARED_EACH + VERBS_SHARED_EACH / 2);
    assert_int_equal(shared->slabs, 5); /* some are still with the adapter */
    regions = soft_holdings().regions;
    assert_int_equal(verbs_shared_grow(device->open.pd, shared), 0);
    assert_true(shared->kept == 2 && shared->slabs == 5 && !shared->unposted[1]);
    send_many(&pair, &lane, 3 * VERBS_SHARED_EACH);
    assert_true(shared->kept == 2 && shared->slabs == 2 && !shared->unposted[0] && !shared->unposted[1]);
    assert_int_equal(soft_holdings().regions, regions - 3);
    end_close(lane.bt);
    soft_drop(&pair, &lane);
    pair_step(&pair);
    assert_true(shared->slabs == 0 && shared->queue);
    lane = soft_open(&pair, 2);
    send_many(&pair, &lane, 2 * VERBS_SHARED_EACH);
    assert_int_equal(shared->slabs, 1);
    pair_close(&pair);
}

/* Memory that the adapter does not give back leaves the rest as it is. */
static void a_slab_that_stays_takes_no_other_with_it(void **state)
{
    struct pair pair;
    struct verbs_shared shared = {0};
    (void)state;
    if (!soft_here() || !param_int(PARAM_IB_SHARED))
        skip();
    pair_open(&pair);
    const struct verbs_transport *verbs = (struct verbs_transport *)pair.a.transport;
    const struct verbs_parts *open = &verbs->device[0].open;
    assert_true(verbs_shared_open(verbs->library, open->context, open->pd, &shared));
    int regions = soft_holdings().regions;
    for (int i = 0; i < 3; i++)
        assert_int_equal(verbs_shared_grow(open->pd, &shared), 0);
    soft_command("fault fail-dereg=1");
    assert_int_not_equal(verbs_shared_close(&shared), 0);
    soft_command("clear");
    assert_int_equal(soft_holdings().regions, regions + 1);
    pair_close(&pair);
}

/* More than it was told of would be other lanes'. */
static void a_peer_that_takes_more_than_its_share_loses_its_lane(void **state)
{
    struct pair pair;
    (void)state;
    if (!soft_here())
        skip();
    pair_open(&pair);
    struct both other = soft_open(&pair, 1);
    transport_timer_clear(pair.a.transport, &((struct verbs_lane *)pair.at->lane)->again); /* no packets but ours */
    pair_until(&pair, !((struct verbs_lane *)pair.at->lane)->asked);
    ((struct verbs_lane *)pair.bt->lane)->granted = 2;
    for (uint64_t i = 0; i < 3; i++)
        assert_int_equal(send_pattern(pair.at, i, 100, 1), TUTTI_SUCCESS);
    pair_until(&pair, pair.bt->counts[NOTE_DOWN]);
    assert_int_equal(pair.bt->counts[NOTE_MESSAGE], 2);
    soft_carries(&pair, &other);
    pair_close(&pair);
}

/* Where the adapter has none to share, or cannot make the queue, lanes have their own. */
static void lanes_may_have_receives_of_their_own(void **state)
{
    struct pair pair;
    (void)state;
    if (!soft_here())
        skip();
    soft_command("fault fail-srq=1"); /* the first one's */
    pair_open(&pair);
    soft_command("clear");
    struct both lane = {pair.at, pair.bt};
    assert_null(shared_of(&pair.a)->queue);
    assert_non_null(((struct verbs_lane *)pair.at->lane)->receives.memory);
    soft_carries(&pair, &lane);
    lane = soft_open(&pair, 1);
    soft_carries(&pair, &lane);
    pair_close(&pair);
}

/* The eleventh lane is more than the first queue has room for: without more room there is none, and the others stay. */
static void a_queue_that_cannot_grow_refuses_a_lane(void **state)
{
    struct pair pair;
    (void)state;
    if (!soft_here())
        skip();
    soft_set("TUTTI_IB_SHARED", "0");
    pair_open(&pair);
    soft_set("TUTTI_IB_SHARED", NULL);
    struct both lane = {pair.at, pair.bt};
    for (uint16_t i = 1; i < 10; i++)
        soft_open(&pair, i);
    struct end *none = end_new(&pair.a);
    soft_command("fault fail-resize=1");
    assert_int_not_equal(under_test->lane_open(pair.a.transport, &pair.b.self, 10, 1, 0, 0, none, &none->lane),
                         TUTTI_SUCCESS);
    soft_command("clear");
    none->lane = NULL;
    assert_non_null(strstr(error_last(), "no room for the completions of 11 lanes"));
    soft_carries(&pair, &lane);
    lane = soft_open(&pair, 10);
    soft_carries(&pair, &lane);
    pair_close(&pair);
}

/* ---- Several ports ---- */

/* Runs `ip` on the network of the test, where it has two ports. */
static void ip(const char *words)
{
    char line[100];
    snprintf(line, sizeof line, "ip %s", words);
    assert_int_equal(system(line), 0);
}

static bool has_two_ports(void)
{
    char name[32];
    return soft_here() && soft_ports(name) == 2 && strcmp(name, "soft_v0") == 0;
}

static void lanes_go_by_the_ports_in_turn(void **state)
{
    static const char *const names[] = {"soft_v0", "soft_v1"};
    struct transport_nic about;
    struct pair pair;
    (void)state;
    if (!has_two_ports())
        skip();
    pair_open(&pair);
    for (unsigned i = 0; i < 2; i++) {
        struct both lane = soft_open(&pair, (uint16_t)(8 + i));
        assert_int_equal(lane.at->lane->device, i);
        assert_int_equal(lane.bt->lane->device, i);
        assert_true(under_test->nic(pair.a.transport, i, &about));
        assert_string_equal(about.name, names[i]);
        assert_true(about.port == 1 && about.rate >= 1000);
        assert_int_equal(pair.b.self.verbs[i].bytes[2], i); /* 10.84.i.1 */
        soft_carries(&pair, &lane);
    }
    assert_false(under_test->nic(pair.a.transport, 2, &about));
    assert_int_equal(pair.a.self.verbs[2].family, 0);
    pair_close(&pair);
}

static void a_peer_may_have_fewer_ports(void **state)
{
    const uint8_t uuids[2][WIRE_UUID_BYTES] = {{1}, {2}};
    struct pair pair = {0};
    (void)state;
    if (!has_two_ports())
        skip();
    party_open_as(&pair.a, uuids[0]);
    soft_set("TUTTI_IB_HCA", "soft_v1");
    party_open_as(&pair.b, uuids[1]);
    soft_set("TUTTI_IB_HCA", NULL);
    assert_int_equal(under_test->lanes(pair.a.transport, &pair.b.self), 2);
    assert_int_equal(under_test->lanes(pair.b.transport, &pair.a.self), 2);
    struct both lane = soft_open(&pair, 1);
    assert_int_equal(lane.at->lane->device, 1);
    assert_int_equal(lane.bt->lane->device, 0);
    soft_carries(&pair, &lane);
    /* The two devices of this network do not reach each other, though TCP does: a lane between them is up at neither
     * end. */
    soft_set("TUTTI_IB_TIMEOUT", "12"); /* 17 ms */
    struct end *nowhere = end_open(&pair.a, &pair.b.self, 0, 1);
    soft_set("TUTTI_IB_TIMEOUT", NULL);
    pair_until(&pair, nowhere->counts[NOTE_DOWN]);
    assert_int_equal(end_last(nowhere, NOTE_DOWN)->id, TUTTI_SYSTEM_ERROR);
    assert_int_equal(nowhere->counts[NOTE_UP], 0);
    assert_null(end_accepted(&pair.b, 0));
    soft_carries(&pair, &lane);
    pair_close(&pair);
}

/* The port's lanes end at once and do not go to the other port; they are there again when the port is. */
static void a_port_goes_down_and_comes_back(void **state)
{
    struct pair pair;
    (void)state;
    if (!has_two_ports())
        skip();
    pair_open(&pair);
    struct both first = soft_open(&pair, 8), second = soft_open(&pair, 9);
    uint64_t begin = clock_ns();
    ip("link set v1 down");
    pair_until(&pair, second.at->counts[NOTE_DOWN] && second.bt->counts[NOTE_DOWN]);
    assert_true(clock_ns() - begin < 3 * NS_PER_S); /* its retries would last for 8.6 s */
    end_close(second.at);
    end_close(second.bt);
    struct end *none = end_new(&pair.a);
    assert_int_not_equal(under_test->lane_open(pair.a.transport, &pair.b.self, 9, 1, 0, 0, none, &none->lane),
                         TUTTI_SUCCESS);
    assert_non_null(strstr(error_last(), "soft_v1:1 is down"));
    soft_carries(&pair, &first);
    ip("link set v1 up");
    struct lane *again = NULL;
    while (under_test->lane_open(pair.a.transport, &pair.b.self, 9, 2, 0, 0, none, &again) != TUTTI_SUCCESS)
        pair_step(&pair);
    none->lane = again;
    pair_until(&pair, none->counts[NOTE_UP] && (second.bt = end_accepted(&pair.b, 9)) != NULL);
    second.at = none;
    soft_carries(&pair, &second);
    assert_int_equal(first.at->counts[NOTE_DOWN] + first.bt->counts[NOTE_DOWN], 0);
    pair_close(&pair);
}

/* As where a service takes the address from an interface that has lost its carrier: lanes that are tried meanwhile must
 * not stay with another one. */
static void a_port_goes_back_to_its_address(void **state)
{
    struct pair pair;
    (void)state;
    if (!has_two_ports())
        skip();
    pair_open(&pair);
    struct both lane = soft_open(&pair, 9);
    const struct verbs_device *device = ((struct verbs_lane *)lane.at->lane)->device;
    const union ibv_gid before = device->gid.gid;
    ip("address add 10.84.9.1/24 dev v1");
    ip("address delete 10.84.1.1/24 dev v1");
    pair_until(&pair, lane.at->counts[NOTE_DOWN] && lane.bt->counts[NOTE_DOWN]);
    end_close(lane.at);
    end_close(lane.bt);
    uint64_t end = clock_ns() + 10 * NS_PER_S;
    for (int round = 0; round < 2 || memcmp(&device->gid.gid, &before, sizeof before) != 0; round++) {
        struct end *tried = end_new(&pair.a);
        if (under_test->lane_open(pair.a.transport, &pair.b.self, 9, 2, 0, 0, tried, &tried->lane) == TUTTI_SUCCESS)
            end_close(tried);
        tried->lane = NULL;
        pair.a.count--;
        free(tried);
        if (round == 0)
            ip("address add 10.84.1.1/24 dev v1");
        assert_true(clock_ns() < end);
        pair_step(&pair);
    }
    lane = soft_open(&pair, 9);
    soft_carries(&pair, &lane);
    pair_close(&pair);
}

/* The peer's port goes down, or the device is taken out, at any point of a lane's beginning: it ends, and the other
 * port does not care. */
static void a_port_goes_while_a_lane_connects(void **state)
{
    struct pair pair;
    (void)state;
    if (!has_two_ports())
        skip();
    soft_set("TUTTI_TIMEOUT", "2s");
    pair_open(&pair);
    struct both first = soft_open(&pair, 8);
    for (uint16_t steps = 0; steps < 8; steps++) {
        struct end *begun = end_open(&pair.a, &pair.b.self, 9, (uint32_t)steps + 1);
        for (int i = 0; i < steps; i++)
            pair_step(&pair);
        ip(steps == 7 ? "link delete v1" : "link set v1 down");
        pair_until(&pair, begun->counts[NOTE_DOWN]);
        end_close(begun);
        struct end *other = end_accepted(&pair.b, 9);
        if (other)
            pair_until(&pair, other->counts[NOTE_DOWN]);
        if (other)
            end_close(other);
        if (steps < 7)
            ip("link set v1 up");
        struct lane *probe = NULL;
        struct end *up = end_new(&pair.a);
        while (steps < 7 &&
               under_test->lane_open(pair.a.transport, &pair.b.self, 11, 1, 0, 0, up, &probe) != TUTTI_SUCCESS)
            pair_step(&pair);
        if (probe)
            probe->ops->lane_close(probe);
    }
    soft_carries(&pair, &first);
    pair_close(&pair);
    soft_set("TUTTI_TIMEOUT", NULL);
}

/* ---- Source ports ---- */

static uint16_t asked_for;
static int later; /* how often it is not known yet, at */
static const struct wire_process *later_to;

static int on_source(void *context, const struct transport_ops *ops, const struct wire_process *peer, unsigned device,
                     uint16_t index)
{
    assert_ptr_equal(ops, under_test);
    if (later && memcmp(peer->uuid, later_to->uuid, sizeof peer->uuid) == 0 && later--)
        return -1;
    return (uint16_t)(asked_for ? asked_for + device + index : 0);
}

/* How many queue pairs of this process send from the port? */
static int count_sources(unsigned port)
{
    char text[32];
    int count = 0;
    soft_command("info");
    snprintf(text, sizeof text, "sport %u ", port);
    for (const char *at = soft_answer; (at = strstr(at, text)); at++)
        count++;
    return count;
}

static void lanes_send_from_the_port_that_is_asked_for(void **state)
{
    static const uint16_t ports[] = {0xc000, 0xc001, 0xd555, 0xfffe};
    struct pair pair;
    (void)state;
    if (!soft_here())
        skip();
    for (size_t i = 0; i < sizeof ports / sizeof *ports; i++) {
        party_open(&pair.a);
        party_open(&pair.b);
        ((struct transport *)pair.a.transport)->owner.source = on_source;
        ((struct transport *)pair.b.transport)->owner.source = on_source;
        asked_for = ports[i];
        struct both lane = soft_open(&pair, 0);
        assert_int_equal(lane.at->lane->source, ports[i]);
        assert_int_equal(lane.bt->lane->source, ports[i]);
        assert_int_equal(count_sources(ports[i]), 2);
        soft_carries(&pair, &lane);
        asked_for = 0;
        assert_int_equal(soft_open(&pair, 1).at->lane->source, 0);
        pair_close(&pair);
    }
}

/* The side that begins waits without a queue pair. The side that accepts declines, and the peer tries again: as often
 * as it takes. */
static void a_port_that_is_not_known_yet(void **state)
{
    struct pair pair;
    (void)state;
    if (!soft_here())
        skip();
    party_open(&pair.a);
    party_open(&pair.b);
    ((struct transport *)pair.a.transport)->owner.source = on_source;
    ((struct transport *)pair.b.transport)->owner.source = on_source;
    asked_for = 0xc000;
    struct end *first = end_new(&pair.a);
    later_to = &pair.b.self;
    later = 1;
    assert_int_equal(under_test->lane_open(pair.a.transport, &pair.b.self, 0, 1, 0, 0, first, &first->lane),
                     TUTTI_IN_PROGRESS);
    assert_int_equal(count_sources(0xc000), 0);
    later_to = &pair.a.self;
    later = 2;
    for (int i = 0; i < 2; i++) {
        struct end *declined = end_open(&pair.a, &pair.b.self, 0, 1);
        pair_until(&pair, declined->counts[NOTE_DOWN]);
        assert_null(end_accepted(&pair.b, 0));
        assert_int_equal(later, 1 - i);
        end_close(declined);
    }
    struct both lane = soft_open(&pair, 0);
    assert_int_equal(lane.at->lane->source, 0xc000);
    assert_int_equal(lane.bt->lane->source, 0xc000);
    soft_carries(&pair, &lane);
    asked_for = 0;
    pair_close(&pair);
}

/* Where the adapter has a library of its own, that is asked, too. */
static void the_adapters_library_sets_the_port(void **state)
{
    char path[512];
    struct pair pair;
    (void)state;
    if (!soft_here())
        skip();
    const char *verbs = param_string(PARAM_IBVERBS_LIBRARY), *folder = strrchr(verbs, '/');
    snprintf(path, sizeof path, "%.*s/libmlx5.so.1", folder ? (int)(folder - verbs) : 1, folder ? verbs : ".");
    pair_open(&pair);
    struct verbs_lane *lane = (struct verbs_lane *)pair.at->lane;
    assert_false(verbs_set_source(lane->qp, 0xd123));
    void *library = dlopen(path, RTLD_NOW);
    assert_non_null(library);
    assert_false(verbs_set_source(lane->qp, 0));
    assert_true(verbs_set_source(lane->qp, 0xd123));
    assert_int_equal(count_sources(0xd123), 1);
    dlclose(library);
    pair_close(&pair);
}

/* ---- A peer that breaks the rules ---- */

/* A send of the lane's queue pair that our own code would not make. */
static void send_raw(struct end *end, uint64_t *random)
{
    static const uint64_t lengths[] = {0, 1, 100, VERBS_MAX_MSG, 1 << 20, UINT64_MAX};
    struct verbs_lane *lane = (struct verbs_lane *)end->lane;
    size_t size = random_next(random) % (random_next(random) % 4 ? 200 : VERBS_CHUNK + 1);
    struct verbs_head *head = (struct verbs_head *)verbs_send_chunk(lane, 0);
    fill_pattern(head, VERBS_CHUNK, random_next(random));
    head->type = (uint32_t)random_next(random) % 5;
    head->room = random_next(random) % 8 ? 0 : (uint32_t)random_next(random) % 100;
    head->length =
        random_next(random) % 2 && size > sizeof *head ? size - sizeof *head : lengths[random_next(random) % 6];
    head->offset = random_next(random) % 4 ? random_next(random) % LENGTH : UINT64_MAX - random_next(random) % 200;
    struct ibv_sge sge = {(uintptr_t)head, (uint32_t)size, lane->sends[0].registered->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
    assert_int_equal(lane->qp->context->ops.post_send(lane->qp, &wr, &bad), 0);
}

/* What it sends lands where its owner says, or ends the lane. */
static void garbage_does_no_harm(void **state)
{
    static uint8_t area[LENGTH];
    uint64_t random = 4;
    int ended = 0;
    (void)state;
    if (!soft_here())
        skip();
    for (int round = 0; round < 60; round++) {
        struct pair pair;
        pair_open(&pair);
        pair.bt->area = area;
        pair.bt->area_size = LENGTH;
        pair.bt->drop = round % 2;
        for (int i = 0; i < 20 && !pair.at->counts[NOTE_DOWN] && !pair.bt->counts[NOTE_DOWN]; i++) {
            send_raw(pair.at, &random);
            for (int steps = 0; steps < 5; steps++)
                pair_step(&pair);
        }
        ended += pair.bt->counts[NOTE_DOWN] == 1;
        pair_close(&pair);
    }
    assert_true(ended > 30);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(says_why_it_is_not_to_be_had),
    cmocka_unit_test(takes_what_was_asked_for),
    cmocka_unit_test(finds_its_address_again),
    cmocka_unit_test(silence_ends_a_lane),
    cmocka_unit_test(what_is_acknowledged_has_moved),
    cmocka_unit_test(what_is_not_acknowledged_is_owed),
    cmocka_unit_test(the_round_trip_is_the_least_of_a_second),
    cmocka_unit_test(a_broken_queue_pair_ends_its_lane_alone),
    cmocka_unit_test(room_for_completions_grows),
    cmocka_unit_test(a_queue_that_cannot_grow_refuses_a_lane),
    cmocka_unit_test(a_lane_begins_with_little),
    cmocka_unit_test(requests_are_posted_together),
    cmocka_unit_test(what_is_gathered_rings_one_bell),
    cmocka_unit_test(more_is_gathered_than_there_is_room_for),
    cmocka_unit_test(a_lane_that_ends_takes_no_receives_along),
    cmocka_unit_test(what_waits_of_a_lane_that_ended_is_nobodys),
    cmocka_unit_test(receives_go_with_their_lanes),
    cmocka_unit_test(a_slab_that_stays_takes_no_other_with_it),
    cmocka_unit_test(a_peer_that_takes_more_than_its_share_loses_its_lane),
    cmocka_unit_test(lanes_may_have_receives_of_their_own),
    cmocka_unit_test(lanes_send_from_the_port_that_is_asked_for),
    cmocka_unit_test(a_port_that_is_not_known_yet),
    cmocka_unit_test(the_adapters_library_sets_the_port),
    cmocka_unit_test(garbage_does_no_harm),
};
const struct group verbs_group = {"verbs", tests, sizeof tests / sizeof *tests};

static const struct CMUnitTest of_ports[] = {
    cmocka_unit_test(lanes_go_by_the_ports_in_turn),     cmocka_unit_test(a_peer_may_have_fewer_ports),
    cmocka_unit_test(a_port_goes_down_and_comes_back),   cmocka_unit_test(a_port_goes_back_to_its_address),
    cmocka_unit_test(a_port_goes_while_a_lane_connects), /* the last one: then there is one port */
};
const struct group ports_group = {"ports", of_ports, sizeof of_ports / sizeof *of_ports};
