/* SPDX-License-Identifier: Apache-2.0 */
/* Conformance: random traffic both ways, full queues, and room again. */
#include "base/clock.h"
#include "flow.h"
#include "suite.h"

#include <stdlib.h>
#include <string.h>

static void run_flows(uint64_t seed, uint64_t total, size_t longest, bool region)
{
    struct pair pair;
    struct flow a, b;
    pair_open(&pair);
    flow_open(&a, pair.at, seed, seed + 1, total, longest, region);
    flow_open(&b, pair.bt, seed + 1, seed, total, longest, region);
    pair_until(&pair, (flow_send(&a), flow_send(&b), flow_done(&a, total) && flow_done(&b, total)));
    assert_int_equal(pair.at->lane->bytes_sent, pair.bt->lane->bytes_received);
    assert_int_equal(pair.bt->lane->bytes_sent, pair.at->lane->bytes_received);
    flow_close(&a);
    flow_close(&b);
    pair_close(&pair);
}

static void keeps_order_of_small_things(void **state)
{
    (void)state;
    run_flows(1, flow_total(20000), 3000, false);
}

static void keeps_order_of_large_things(void **state)
{
    (void)state;
    run_flows(2, flow_total(1500), 1 << 20, false);
}

static void keeps_order_from_regions(void **state)
{
    (void)state;
    run_flows(3, flow_total(1500), 1 << 20, true);
}

static void refuses_when_full_then_writable(void **state)
{
    struct pair pair;
    (void)state;
    pair_open(&pair);
    for (int round = 0; round < 3; round++) {
        uint64_t sent = 0, before = pair.bt->counts[NOTE_MESSAGE], told = pair.at->counts[NOTE_WRITABLE];
        tutti_result_t result;
        while ((result = send_pattern(pair.at, sent, under_test->max_msg, 2)) == TUTTI_SUCCESS)
            sent++;
        assert_int_equal(result, TUTTI_IN_PROGRESS);
        assert_int_equal(pair.at->counts[NOTE_WRITABLE], told); /* not from inside */
        for (int i = 0; i < 1000; i++)
            party_step(&pair.a);
        pair_until(&pair, pair.at->counts[NOTE_WRITABLE] > told);
        assert_int_equal(send_pattern(pair.at, sent++, under_test->max_msg, 2), TUTTI_SUCCESS);
        pair_until(&pair, pair.bt->counts[NOTE_MESSAGE] == before + sent);
    }
    pair_close(&pair);
}

static void queue_puts(struct pair *pair, const uint8_t *source, size_t length, uint64_t *count)
{
    struct put put = {.source = place_host(source), .length = length};
    tutti_result_t result;
    for (put.token = 0; (result = under_test->put(pair->at->lane, &put)) == TUTTI_SUCCESS; put.token++)
        ;
    assert_int_equal(result, TUTTI_IN_PROGRESS);
    *count = put.token;
}

static void puts_are_queued_then_refused(void **state)
{
    struct pair pair;
    uint64_t count, next = 0;
    size_t length = 4 << 20;
    (void)state;
    pair_open(&pair);
    uint8_t *source = calloc(1, length);
    queue_puts(&pair, source, length, &count);
    assert_true(count >= 4);
    pair_until(&pair, pair.at->counts[NOTE_SENT] == count && pair.bt->counts[NOTE_ARRIVED] == count);
    for (size_t i = 0; i < pair.at->count; i++)
        if (pair.at->notes[i].kind == NOTE_SENT)
            assert_int_equal(pair.at->notes[i].id, next++);
    pair_until(&pair, pair.at->counts[NOTE_WRITABLE] >= 1);
    free(source);
    pair_close(&pair);
}

/* What goes the other way waits meanwhile, and so does whoever wants the owner's lock. */
static void one_poll_takes_some_and_not_all(void **state)
{
    enum { LENGTH = 512 << 10, MOST = 4 << 20 };
    struct pair pair;
    uint64_t count;
    (void)state;
    pair_open(&pair);
    uint8_t *source = calloc(1, LENGTH);
    queue_puts(&pair, source, LENGTH, &count);
    for (size_t before = 0; pair.bt->counts[NOTE_ARRIVED] < count; before = pair.bt->counts[NOTE_ARRIVED]) {
        party_step(&pair.b);
        assert_true((pair.bt->counts[NOTE_ARRIVED] - before) * LENGTH <= MOST);
        party_step(&pair.a);
    }
    pair_until(&pair, pair.at->counts[NOTE_SENT] == count);
    free(source);
    pair_close(&pair);
}

/* Sends again from inside the upcall: the queue goes on. */
static void put_again(struct end *end, const struct note *note, const void *bytes)
{
    static const uint8_t source[100000];
    struct put put = {.source = place_host(source), .length = sizeof source, .token = note->id + 1};
    (void)bytes;
    if (note->kind == NOTE_SENT && note->id < 100)
        assert_int_equal(under_test->put(end->lane, &put), TUTTI_SUCCESS);
}

static void puts_from_inside_sent(void **state)
{
    struct pair pair;
    (void)state;
    pair_open(&pair);
    pair.at->hook = put_again;
    put_again(pair.at, &(struct note){.kind = NOTE_SENT}, NULL);
    pair_until(&pair, pair.bt->counts[NOTE_ARRIVED] == 100 && pair.at->counts[NOTE_SENT] == 100);
    assert_int_equal(end_last(pair.at, NOTE_SENT)->id, 100);
    pair_close(&pair);
}

static void many_lanes(void **state)
{
    enum { LANES = 40 };
    struct pair pair;
    struct end *ends[LANES];
    (void)state;
    pair_open(&pair);
    for (uint16_t i = 0; i < LANES; i++)
        ends[i] = end_open(&pair.a, &pair.b.self, (uint16_t)(i + 1), 1);
    for (uint16_t i = 0; i < LANES; i++)
        pair_until(&pair, ends[i]->counts[NOTE_UP] && end_accepted(&pair.b, (uint16_t)(i + 1)));
    for (int round = 0; round < 50; round++)
        for (int i = 0; i < LANES; i++) {
            struct end *to = end_accepted(&pair.b, (uint16_t)(i + 1));
            size_t before = to->counts[NOTE_MESSAGE];
            assert_int_equal(send_pattern(ends[i], 1, 100, 1), TUTTI_SUCCESS);
            if (i % 7 == round % 7)
                pair_until(&pair, to->counts[NOTE_MESSAGE] > before);
        }
    for (int i = 0; i < LANES; i++)
        pair_until(&pair, end_accepted(&pair.b, (uint16_t)(i + 1))->counts[NOTE_MESSAGE] == 50);
    for (int i = 0; i < LANES; i += 2)
        end_close(ends[i]);
    for (int i = 0; i < LANES; i += 2)
        pair_until(&pair, end_accepted(&pair.b, (uint16_t)(i + 1))->counts[NOTE_DOWN] == 1);
    assert_int_equal(send_pattern(ends[1], 1, 100, 1), TUTTI_SUCCESS);
    pair_until(&pair, end_accepted(&pair.b, 2)->counts[NOTE_MESSAGE] == 51);
    pair_close(&pair);
}

static uint8_t greeting_source[3000];

/* More than a lane takes at once. */
static void speak_at_once(struct end *end, const struct note *note, const void *bytes)
{
    struct put put = {.source = place_host(greeting_source), .length = sizeof greeting_source};
    (void)bytes;
    if (note->kind != NOTE_ACCEPTED)
        return;
    for (int i = 0; i < 10; i++)
        assert_int_equal(send_pattern(end, (uint64_t)i, 300, 2), TUTTI_SUCCESS);
    assert_int_equal(under_test->put(end->lane, &put), TUTTI_SUCCESS);
    while (send_pattern(end, 99, 3000, 1) == TUTTI_SUCCESS)
        ;
}

/* What is said from inside accepted() comes whole, in order, and after up(). */
static void speaks_from_the_first_moment(void **state)
{
    struct pair pair;
    uint8_t area[sizeof greeting_source] = {0};
    (void)state;
    memset(greeting_source, 7, sizeof greeting_source);
    party_open(&pair.a);
    party_open(&pair.b);
    pair.b.greets = speak_at_once;
    pair.at = end_open(&pair.a, &pair.b.self, 0, 1);
    pair.at->area = area;
    pair.at->area_size = sizeof area;
    pair_until(&pair,
               (pair.bt = end_accepted(&pair.b, 0)) && pair.bt->counts[NOTE_WRITABLE] && pair.bt->counts[NOTE_SENT]);
    assert_int_equal(send_pattern(pair.bt, 100, 20, 1), TUTTI_SUCCESS);
    pair_until(&pair, end_last(pair.at, NOTE_MESSAGE) && end_last(pair.at, NOTE_MESSAGE)->length == 20);
    assert_int_equal(pair.at->notes[0].kind, NOTE_UP);
    for (int i = 0; i < 10; i++)
        assert_int_equal(pair.at->notes[1 + i].length, 300);
    assert_memory_equal(area, greeting_source, sizeof area);
    pair_close(&pair);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(speaks_from_the_first_moment),

    cmocka_unit_test(keeps_order_of_small_things),  cmocka_unit_test(keeps_order_of_large_things),
    cmocka_unit_test(keeps_order_from_regions),     cmocka_unit_test(refuses_when_full_then_writable),
    cmocka_unit_test(puts_are_queued_then_refused), cmocka_unit_test(one_poll_takes_some_and_not_all),
    cmocka_unit_test(puts_from_inside_sent),        cmocka_unit_test(many_lanes),
};
const struct group order_group = {"order", tests, sizeof tests / sizeof *tests};
