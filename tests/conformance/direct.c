/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conformance of transports whose hardware stores puts by a key (TRANSPORT_REGISTERS): what arrives, in which order,
 * and that nothing is read or written any more once its owner has it back.
 */
#include "base/clock.h"
#include "base/error.h"
#include "fork.h"
#include "suite.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static bool is_direct(void)
{
    return under_test->caps & TRANSPORT_REGISTERS;
}

static void stores_where_the_key_says(void **state)
{
    static const size_t sizes[] = {1, 63, 4096, 4097, 100000, KNOWN_LENGTH};
    struct pair pair;
    struct known_bytes source, target;
    (void)state;
    if (!is_direct())
        skip();
    pair_open(&pair);
    know(&pair.a, &source);
    know(&pair.b, &target);
    fill_pattern(source.bytes, KNOWN_LENGTH, 5);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t offset = (KNOWN_LENGTH - sizes[i]) / 2;
        memset(target.bytes, 0, KNOWN_LENGTH);
        assert_int_equal(put_direct(pair.at, &source, &target.remote, offset, sizes[i], i + 1), TUTTI_SUCCESS);
        pair_until(&pair, pair.at->counts[NOTE_SENT] == i + 1 && pair.bt->counts[NOTE_ARRIVED] == i + 1);
        const struct note *note = end_last(pair.bt, NOTE_ARRIVED);
        assert_int_equal(note->id, i + 1);
        assert_true(note->offset == TRANSPORT_NO_OFFSET);
        assert_int_equal(note->length, sizes[i]);
        assert_memory_equal(target.bytes + offset, source.bytes + offset, sizes[i]);
        assert_true(!offset || !target.bytes[offset - 1]);
        assert_true(offset + sizes[i] == KNOWN_LENGTH || !target.bytes[offset + sizes[i]]);
    }
    assert_int_equal(pair.bt->counts[NOTE_TARGET], 0); /* nobody was asked */
    assert_int_equal(pair.at->lane->bytes_sent, pair.bt->lane->bytes_received);
    forget(&pair.a, &source);
    forget(&pair.b, &target);
    pair_close(&pair);
}

/* With a key, without, and messages: as they were sent. */
static void keeps_order_among_all_kinds(void **state)
{
    enum { ROUNDS = 300 };
    struct pair pair;
    struct known_bytes source, target;
    uint8_t *area = calloc(1, KNOWN_LENGTH);
    size_t next = 0;
    (void)state;
    if (!is_direct()) {
        free(area);
        skip();
    }
    pair_open(&pair);
    know(&pair.a, &source);
    know(&pair.b, &target);
    pair.bt->area = area;
    pair.bt->area_size = KNOWN_LENGTH;
    for (uint64_t i = 0; i < ROUNDS; i++) {
        const struct wire_remote *remote = i % 3 == 0 ? &target.remote : NULL;
        tutti_result_t result;
        while ((result = i % 3 == 2 ? send_pattern(pair.at, i, 100 + i, 2)
                                    : put_direct(pair.at, &source, remote, 64 * i, 1 + i * 50, i)) == TUTTI_IN_PROGRESS)
            pair_step(&pair);
        assert_int_equal(result, TUTTI_SUCCESS);
    }
    pair_until(&pair, pair.bt->counts[NOTE_ARRIVED] + pair.bt->counts[NOTE_MESSAGE] == ROUNDS);
    for (size_t i = 0; i < pair.bt->count; i++) {
        const struct note *note = &pair.bt->notes[i];
        if (note->kind == NOTE_MESSAGE)
            assert_int_equal(note->length, 100 + next++);
        else if (note->kind == NOTE_ARRIVED)
            assert_int_equal(note->id, next++);
    }
    assert_int_equal(next, ROUNDS);
    pair.bt->area = NULL;
    forget(&pair.a, &source);
    forget(&pair.b, &target);
    free(area);
    pair_close(&pair);
}

/* A key that is not in force ends the lane, and nothing is stored. */
static void stores_nothing_by_a_dead_key(void **state)
{
    struct pair pair;
    struct known_bytes source, target;
    (void)state;
    if (!is_direct())
        skip();
    pair_open(&pair);
    know(&pair.a, &source);
    know(&pair.b, &target);
    memset(source.bytes, 7, KNOWN_LENGTH);
    pair.b.ops->deregister_memory(pair.b.transport, target.memory);
    target.memory = NULL;
    assert_int_equal(put_direct(pair.at, &source, &target.remote, 0, KNOWN_LENGTH, 1), TUTTI_SUCCESS);
    pair_until(&pair, pair.at->counts[NOTE_DOWN] == 1);
    assert_true(strlen(error_last()) > 0);
    assert_int_equal(pair.bt->counts[NOTE_ARRIVED], 0);
    for (size_t i = 0; i < KNOWN_LENGTH; i++)
        assert_int_equal(target.bytes[i], 0);
    end_close(pair.at);
    pair_until(&pair, pair.bt->counts[NOTE_DOWN] == 1);
    forget(&pair.a, &source);
    forget(&pair.b, &target);
    pair_close(&pair);
}

/* ---- Two processes ---- */

static void tell_remote(struct solo *solo, const struct known_bytes *known)
{
    struct wire_remote ignored;
    solo_swap(solo, &known->remote, &ignored, sizeof ignored);
}

static void learn_remote(struct solo *solo, struct wire_remote *remote)
{
    struct wire_remote none = {0};
    solo_swap(solo, &none, remote, sizeof none);
}

static void flood_body(struct solo *solo, void *context)
{
    struct known_bytes source;
    struct wire_remote remote;
    char byte = 0;
    uint64_t token = 0;
    (void)context;
    know(&solo->party, &source);
    memset(source.bytes, 1, KNOWN_LENGTH);
    learn_remote(solo, &remote);
    while (!solo->end->counts[NOTE_DOWN]) {
        put_direct(solo->end, &source, &remote, 0, KNOWN_LENGTH, token++);
        party_step(&solo->party);
    }
    solo_swap(solo, &byte, &byte, 1);
    end_close(solo->end);
    forget(&solo->party, &source);
}

/* Closing a lane, or taking a key back, takes our memory back, whatever the peer's hardware is doing at that moment. */
static void memory_is_ours_again(void **state)
{
    uint64_t random = 8;
    (void)state;
    if (!is_direct())
        skip();
    for (int round = 0; round < 20; round++) {
        struct solo solo;
        struct known_bytes target;
        char byte = 0;
        pid_t child = solo_fork(&solo, flood_body, NULL);
        know(&solo.party, &target);
        solo.end->quiet = true;
        tell_remote(&solo, &target);
        party_until(&solo.party, solo.end->counts[NOTE_ARRIVED] >= 5);
        for (uint64_t spin = random_next(&random) % 10; spin; spin--)
            party_step(&solo.party);
        if (round % 2)
            end_close(solo.end);
        solo.party.ops->deregister_memory(solo.party.transport, target.memory);
        target.memory = NULL;
        for (size_t at = KNOWN_LENGTH; at; at -= 4096) /* against the direction of a late writer */
            memset(target.bytes + at - 4096, 0x77, 4096);
        if (round % 2 == 0)
            party_until(&solo.party, solo.end->counts[NOTE_DOWN]);
        solo_swap(&solo, &byte, &byte, 1); /* the peer has seen the end */
        for (size_t i = 0; i < KNOWN_LENGTH; i++)
            if (target.bytes[i] != 0x77)
                fail_msg("byte %zu was written after it was ours again", i);
        forget(&solo.party, &target);
        solo_join(&solo, child, false);
    }
}

static void stopped_body(struct solo *solo, void *context)
{
    struct known_bytes target;
    char byte = 0;
    (void)context;
    know(&solo->party, &target);
    tell_remote(solo, &target);
    while (!solo->end->counts[NOTE_DOWN])
        party_step(&solo->party);
    for (size_t i = 0; i < KNOWN_LENGTH; i++)
        assert_int_not_equal(target.bytes[i], 0xee);
    solo_swap(solo, &byte, &byte, 1);
    forget(&solo->party, &target);
}

/* Given up while the peer is stopped: the source is ours at once, whatever that costs the lane, and what it holds later
 * is never sent. */
static void source_is_ours_again(void **state)
{
    (void)state;
    if (!is_direct())
        skip();
    for (int round = 0; round < 10; round++) {
        struct solo solo;
        struct known_bytes source;
        struct wire_remote remote;
        char byte = 0;
        int status;
        pid_t child = solo_fork(&solo, stopped_body, NULL);
        know(&solo.party, &source);
        memset(source.bytes, 3, KNOWN_LENGTH);
        learn_remote(&solo, &remote);
        kill(child, SIGSTOP);
        assert_int_equal(waitpid(child, &status, WUNTRACED), child); /* its adapter is a thread of it */
        assert_int_equal(put_direct(solo.end, &source, &remote, 0, KNOWN_LENGTH, 9), TUTTI_SUCCESS);
        for (int i = 0; i < round; i++)
            party_step(&solo.party);
        assert_int_equal(solo.end->counts[NOTE_SENT], 0);
        under_test->give_up(solo.end->lane, 9);
        solo.party.ops->deregister_memory(solo.party.transport, source.memory);
        source.memory = NULL;
        memset(source.bytes, 0xee, KNOWN_LENGTH);
        kill(child, SIGCONT);
        party_until(&solo.party, solo.end->counts[NOTE_DOWN]);
        assert_int_equal(solo.end->counts[NOTE_SENT], 0);
        end_close(solo.end);
        solo_swap(&solo, &byte, &byte, 1);
        forget(&solo.party, &source);
        solo_join(&solo, child, false);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(stores_where_the_key_says),    cmocka_unit_test(keeps_order_among_all_kinds),
    cmocka_unit_test(stores_nothing_by_a_dead_key), cmocka_unit_test(memory_is_ours_again),
    cmocka_unit_test(source_is_ours_again),
};
const struct group direct_group = {"direct", tests, sizeof tests / sizeof *tests};
