/* SPDX-License-Identifier: Apache-2.0 */
/* Conformance: connecting, messages, puts, and their order. */
#include "base/clock.h"
#include "suite.h"
#include "transport/shm/region.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>

static void opens_and_closes(void **state)
{
    struct party party;
    (void)state;
    party_open(&party);
    assert_int_equal(party_step(&party), 0);
    party_close(&party);
}

static void connects(void **state)
{
    struct pair pair;
    (void)state;
    pair_open(&pair);
    assert_memory_equal(&pair.bt->hello.from, &pair.a.self, sizeof pair.a.self);
    assert_int_equal(pair.bt->hello.epoch, 1);
    assert_int_equal(pair.at->counts[NOTE_UP], 1);
    pair_close(&pair);
}

/* Descriptors of this process that are connections of TCP; whatever the system's default is, those to the same host use
 * Reno. */
static void does_not_pace_what_stays_here(void **state)
{
    struct pair pair;
    int connections = 0;
    (void)state;
    pair_open(&pair);
    for (int fd = 0; fd < 1024; fd++) {
        char name[16] = "";
        struct sockaddr_storage peer;
        socklen_t size = sizeof name, length = sizeof peer;
        if (getpeername(fd, (struct sockaddr *)&peer, &length) != 0 ||
            getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &size) != 0)
            continue;
        assert_string_equal(name, "reno");
        connections++;
    }
    assert_int_equal(connections == 0, strcmp(under_test->name, "shm") == 0);
    pair_close(&pair);
}

static void reaches_only_what_it_can(void **state)
{
    struct pair pair;
    struct wire_process nobody = {.host = 1};
    (void)state;
    pair_open(&pair);
    assert_true(under_test->reach(pair.a.transport, &pair.b.self) >= 0);
    assert_true(under_test->lanes(pair.a.transport, &pair.b.self) >= 1);
    assert_true(under_test->reach(pair.a.transport, &nobody) < 0);
    pair_close(&pair);
}

/* A transport that says what has moved counts what has come. */
static void tells_what_has_moved(void **state)
{
    struct pair pair;
    (void)state;
    pair_open(&pair);
    struct lane *to = pair.bt->lane;
    uint64_t there = to->ops->moved(to);
    while (send_pattern(pair.at, 1, 1000, 1) == TUTTI_IN_PROGRESS)
        pair_step(&pair);
    pair_until(&pair, pair.bt->counts[NOTE_MESSAGE] == 1);
    uint64_t came = to->ops->moved(to) - there;
    assert_true(came >= (strcmp(under_test->name, "shm") ? 1000 : 0)); /* that one does not know */
    pair_close(&pair);
}

/* What the peer's system has is owed no longer, also where nothing more is sent. */
static void owes_what_is_not_confirmed(void **state)
{
    struct pair pair;
    (void)state;
    pair_open(&pair);
    struct lane *from = pair.at->lane;
    for (size_t i = 1; i <= 11; i++) {
        while (send_pattern(pair.at, i, 100, 1) == TUTTI_IN_PROGRESS)
            pair_step(&pair);
        pair_until(&pair, pair.bt->counts[NOTE_MESSAGE] == i);
        pair_until(&pair, !from->ops->owes(from));
    }
    pair_close(&pair);
}

static void sends_messages_of_all_sizes(void **state)
{
    struct pair pair;
    (void)state;
    pair_open(&pair);
    size_t sent = 0, step = 1, ordinary = under_test->max_msg / 269 | 1;
    for (size_t length = 1; length <= under_test->max_msg; length += step, sent++) {
        tutti_result_t result;
        int parts = (int)(1 + length % 19);
        while ((result = send_pattern(pair.at, length, length, parts)) == TUTTI_IN_PROGRESS)
            pair_step(&pair);
        assert_int_equal(result, TUTTI_SUCCESS);
        step = length < 200                                                              ? 1
               : length + ordinary > under_test->max_msg && length < under_test->max_msg ? under_test->max_msg - length
                                                                                         : ordinary;
    }
    pair_until(&pair, pair.bt->counts[NOTE_MESSAGE] == sent);
    uint8_t *expected = malloc(under_test->max_msg);
    size_t previous = 0;
    for (size_t i = 0; i < pair.bt->count; i++) {
        const struct note *note = &pair.bt->notes[i];
        if (note->kind != NOTE_MESSAGE)
            continue;
        assert_true(note->length > previous);
        previous = note->length;
        fill_pattern(expected, note->length, note->length);
        assert_int_equal(note->hash, pattern_hash(expected, note->length));
    }
    assert_int_equal(previous, under_test->max_msg);
    assert_int_equal(pair.at->lane->bytes_sent, pair.bt->lane->bytes_received);
    free(expected);
    pair_close(&pair);
}

static void refuses_bad_messages_and_puts(void **state)
{
    struct pair pair;
    uint8_t byte = 0;
    (void)state;
    pair_open(&pair);
    struct iovec empty = {&byte, 0}, whole[2] = {{&byte, 1}, {NULL, under_test->max_msg}},
                 huge[2] = {{&byte, 1}, {NULL, SIZE_MAX}};
    assert_int_equal(under_test->msg(pair.at->lane, &empty, 1), TUTTI_INVALID_ARGUMENT);
    assert_int_equal(under_test->msg(pair.at->lane, &empty, 0), TUTTI_INVALID_ARGUMENT);
    assert_int_equal(under_test->msg(pair.at->lane, whole, 2), TUTTI_INVALID_ARGUMENT);
    assert_int_equal(under_test->msg(pair.at->lane, huge, 2), TUTTI_INVALID_ARGUMENT);
    struct put none = {.source = place_host(&byte)},
               beyond = {.source = place_host(&byte), .length = 2, .offset = UINT64_MAX};
    assert_int_equal(under_test->put(pair.at->lane, &none), TUTTI_INVALID_ARGUMENT);
    assert_int_equal(under_test->put(pair.at->lane, &beyond), TUTTI_INVALID_ARGUMENT);
    assert_int_equal(send_pattern(pair.at, 1, 8, 1), TUTTI_SUCCESS); /* the lane is none the worse */
    pair_until(&pair, pair.bt->counts[NOTE_MESSAGE] == 1);
    pair_close(&pair);
}

/* Puts `length` bytes to `offset`; they arrive whole. */
static void put_once(struct pair *pair, uint8_t *source, size_t length, uint64_t offset)
{
    struct put put = {.source = place_host(source),
                      .length = length,
                      .imm = (uint32_t)length * 7,
                      .offset = offset,
                      .token = length + 1};
    size_t arrived = pair->bt->counts[NOTE_ARRIVED], sent = pair->at->counts[NOTE_SENT];
    fill_pattern(source, length, length + offset);
    assert_int_equal(under_test->put(pair->at->lane, &put), TUTTI_SUCCESS);
    pair_until(pair, pair->at->counts[NOTE_SENT] == sent + 1 && pair->bt->counts[NOTE_ARRIVED] == arrived + 1);
    assert_int_equal(end_last(pair->at, NOTE_SENT)->id, put.token);
    const struct note *note = end_last(pair->bt, NOTE_ARRIVED);
    assert_int_equal(note->id, put.imm);
    assert_int_equal(note->offset, offset);
    assert_int_equal(note->length, length);
    assert_true(has_pattern(pair->bt->area + offset, length, length + offset));
}

static void puts_of_all_sizes(void **state)
{
    static const size_t sizes[] = {1,    2,     7,     63,     64,      65,      1000,    4096,
                                   4097, 65535, 65536, 262144, 1048577, 8 << 20, 64 << 20};
    struct pair pair;
    uint64_t seed = 1;
    (void)state;
    pair_open(&pair);
    pair.bt->area_size = (64 << 20) + 4096;
    pair.bt->area = malloc(pair.bt->area_size);
    uint8_t *source = malloc(64 << 20), *shared = region_alloc(64 << 20);
    assert_non_null(shared);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int region = 0; region < 2; region++)
            put_once(&pair, region ? shared : source, sizes[i], random_next(&seed) % (pair.bt->area_size - sizes[i]));
    free(source);
    region_free(shared);
    free(pair.bt->area);
    pair.bt->area = NULL;
    pair_close(&pair);
}

/* How much of the put had come before it was known where it goes. */
static uint64_t came_before(const struct end *end, uint32_t imm)
{
    for (size_t i = 0; i < end->count; i++)
        if (end->notes[i].kind == NOTE_TARGET && end->notes[i].id == imm && end->notes[i].offset)
            return end->notes[i].offset;
    return 0;
}

/* Messages between big puts do not make TCP read much of a payload beside its target, and copy it. */
static void big_puts_go_straight_to_their_targets(void **state)
{
    enum { PUTS = 4, LENGTH = 262144 };
    struct pair pair;
    bool at_once = true;
    (void)state;
    if (strcmp(under_test->name, "tcp") != 0)
        skip();
    pair_open(&pair);
    uint8_t *source = malloc(LENGTH);
    pair.bt->area_size = LENGTH;
    pair.bt->area = malloc(LENGTH);
    fill_pattern(source, LENGTH, 1);
    for (uint32_t i = 0; i < PUTS; i++) {
        struct put put = {.source = place_host(source), .length = LENGTH, .imm = i, .token = i};
        for (; send_pattern(pair.at, i, 900, 1) == TUTTI_IN_PROGRESS; pair_step(&pair))
            at_once = false;
        for (; under_test->put(pair.at->lane, &put) == TUTTI_IN_PROGRESS; pair_step(&pair))
            at_once = false;
    }
    at_once &= pair.at->counts[NOTE_SENT] == PUTS;
    pair_until(&pair, pair.bt->counts[NOTE_ARRIVED] == PUTS && pair.at->counts[NOTE_SENT] == PUTS);
    assert_true(has_pattern(pair.bt->area, LENGTH, 1));
    for (uint32_t i = 1; at_once && i < PUTS; i++) /* else little had come when it was read */
        assert_in_range(came_before(pair.bt, i), 1, 4096);
    free(source);
    free(pair.bt->area);
    pair.bt->area = NULL;
    pair_close(&pair);
}

static void dropped_puts_arrive_too(void **state)
{
    struct pair pair;
    (void)state;
    pair_open(&pair);
    pair.bt->drop = true;
    size_t length = 5 << 20;
    uint8_t *source = calloc(1, length);
    struct put put = {.source = place_host(source), .length = length, .imm = 9, .offset = 77};
    assert_int_equal(under_test->put(pair.at->lane, &put), TUTTI_SUCCESS);
    pair_until(&pair, pair.bt->counts[NOTE_ARRIVED] == 1);
    assert_int_equal(end_last(pair.bt, NOTE_ARRIVED)->length, length);
    pair_until(&pair, send_pattern(pair.at, 3, 100, 1) == TUTTI_SUCCESS);
    pair_until(&pair, pair.bt->counts[NOTE_MESSAGE] == 1);
    free(source);
    pair_close(&pair);
}

/* A greeting says what is known of the process by then: of other transports, too, that were opened later. */
static void greets_with_all_there_is(void **state)
{
    struct pair pair;
    (void)state;
    party_open(&pair.a);
    party_open(&pair.b);
    pair.a.self.processors = 77;
    pair.at = end_open(&pair.a, &pair.b.self, 0, 1);
    pair_until(&pair, pair.at->counts[NOTE_UP] && (pair.bt = end_accepted(&pair.b, 0)));
    assert_int_equal(pair.bt->hello.from.processors, 77);
    pair_close(&pair);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(opens_and_closes),
    cmocka_unit_test(greets_with_all_there_is),
    cmocka_unit_test(connects),
    cmocka_unit_test(does_not_pace_what_stays_here),
    cmocka_unit_test(reaches_only_what_it_can),
    cmocka_unit_test(tells_what_has_moved),
    cmocka_unit_test(owes_what_is_not_confirmed),
    cmocka_unit_test(sends_messages_of_all_sizes),
    cmocka_unit_test(refuses_bad_messages_and_puts),
    cmocka_unit_test(puts_of_all_sizes),
    cmocka_unit_test(big_puts_go_straight_to_their_targets),
    cmocka_unit_test(dropped_puts_arrive_too),
};
const struct group basic_group = {"basic", tests, sizeof tests / sizeof *tests};
