/* SPDX-License-Identifier: Apache-2.0 */
/* Conformance: closing in every state, also from inside upcalls; the peer's close; nothing is left behind. */
#include "base/clock.h"
#include "base/error.h"
#include "suite.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int count_fds(void)
{
    int count = 0;
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

/* Mappings of shared memory: heap and stack grow as they like. */
static int count_maps(void)
{
    char line[512];
    int count = 0;
    FILE *file = fopen("/proc/self/maps", "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file))
        count += strstr(line, "rw-s") != NULL;
    fclose(file);
    return count;
}

static void close_after(struct pair *pair, int steps)
{
    for (int i = 0; i < steps; i++)
        pair_step(pair);
}

static void close_while_connecting(void **state)
{
    struct pair pair;
    (void)state;
    for (int steps = 0; steps < 400; steps += 1 + steps / 8) {
        party_open(&pair.a);
        party_open(&pair.b);
        pair.at = end_open(&pair.a, &pair.b.self, 0, 1);
        close_after(&pair, steps);
        end_close(pair.at);
        close_after(&pair, 600);
        pair.bt = end_accepted(&pair.b, 0);
        if (pair.bt)
            pair_until(&pair, pair.bt->counts[NOTE_DOWN] == 1);
        pair_close(&pair);
    }
}

/* Closes, when what was said is at the peer, who has not looked. Sockets and rings hold it in any case. An adapter
 * drops what it has not delivered when its queue pair ends. A put with a key behind it shows that the adapter has
 * delivered it. */
static void close_heard(struct pair *pair)
{
    struct known_bytes source, target;
    if (under_test->caps & TRANSPORT_REGISTERS) {
        know(&pair->a, &source);
        know(&pair->b, &target);
        assert_int_equal(put_direct(pair->at, &source, &target.remote, 0, 1, 1), TUTTI_SUCCESS);
        party_until(&pair->a, pair->at->counts[NOTE_SENT] == 1);
    }
    end_close(pair->at);
    if (under_test->caps & TRANSPORT_REGISTERS) {
        forget(&pair->a, &source);
        forget(&pair->b, &target);
    }
}

static void peer_closes(void **state)
{
    struct pair pair;
    (void)state;
    pair_open(&pair);
    assert_int_equal(send_pattern(pair.at, 5, 1000, 1), TUTTI_SUCCESS);
    close_heard(&pair);
    pair_until(&pair, pair.bt->counts[NOTE_DOWN] == 1);
    assert_int_equal(pair.bt->counts[NOTE_MESSAGE], 1); /* what came before still counts */
    assert_true(strlen(error_last()) > 0);
    assert_int_equal(send_pattern(pair.bt, 5, 1000, 1), TUTTI_REMOTE_ERROR);
    struct put put = {.source = place_host("x"), .length = 1};
    assert_int_equal(under_test->put(pair.bt->lane, &put), TUTTI_REMOTE_ERROR);
    close_after(&pair, 1000);
    assert_int_equal(pair.bt->counts[NOTE_DOWN], 1);
    pair_close(&pair);
}

/* The peer leaves without reading all, and we speak before we look: sending finds the end first. */
static void last_words_are_heard(void **state)
{
    struct pair pair;
    (void)state;
    pair_open(&pair);
    assert_int_equal(send_pattern(pair.at, 5, 1000, 1), TUTTI_SUCCESS);
    assert_int_equal(send_pattern(pair.bt, 6, 1000, 1), TUTTI_SUCCESS);
    close_heard(&pair);
    for (int i = 0; i < 3; i++)
        send_pattern(pair.bt, 7, 1000, 1); /* whatever comes back */
    pair_until(&pair, pair.bt->counts[NOTE_DOWN] == 1);
    assert_int_equal(pair.bt->counts[NOTE_MESSAGE], 1);
    pair_close(&pair);
}

static void close_with_full_queues(void **state)
{
    struct pair pair;
    size_t length = 3 << 20;
    uint8_t *source = calloc(1, length), *area = malloc(length);
    (void)state;
    for (int steps = 0; steps < 60; steps += 7) {
        pair_open(&pair);
        pair.bt->area = area;
        pair.bt->area_size = length;
        pair.bt->quiet = true;
        struct put put = {.source = place_host(source), .length = length};
        while (under_test->put(pair.at->lane, &put) == TUTTI_SUCCESS)
            ;
        close_after(&pair, steps);
        struct end *first = steps % 2 ? pair.at : pair.bt, *second = steps % 2 ? pair.bt : pair.at;
        end_close(first);
        memset(area, 0x55, length); /* it is ours again if the receiver closed */
        pair_until(&pair, second->counts[NOTE_DOWN] == 1);
        if (first == pair.bt)
            for (size_t i = 0; i < length; i++)
                assert_int_equal(area[i], 0x55);
        pair_close(&pair);
    }
    free(source);
    free(area);
}

static enum note_kind close_on;

static void close_inside(struct end *end, const struct note *note, const void *bytes)
{
    uint8_t copy[1000];
    if (note->kind != close_on)
        return;
    end->hook = NULL;
    end_close(end);
    if (bytes && note->kind == NOTE_MESSAGE && note->length <= sizeof copy) {
        memcpy(copy, bytes, note->length); /* still valid until we return */
        assert_true(has_pattern(copy, note->length, 3));
    }
}

/* Traffic that makes each kind of upcall at both ends. */
static void provoke(struct pair *pair, const uint8_t *source, size_t length)
{
    struct put put = {.source = place_host(source), .length = length};
    for (int i = 0; i < 20; i++) {
        if (pair->at->lane)
            send_pattern(pair->at, 3, 900, 1);
        if (pair->at->lane)
            under_test->put(pair->at->lane, &put);
        if (i % 5 == 4)
            close_after(pair, 3);
    }
    while (pair->at->lane && close_on == NOTE_WRITABLE && under_test->put(pair->at->lane, &put) == TUTTI_SUCCESS)
        ;
    if (close_on == NOTE_DOWN && pair->at->lane)
        end_close(pair->at);
}

static void close_inside_each_upcall(void **state)
{
    static const enum note_kind kinds[] = {NOTE_MESSAGE, NOTE_TARGET,   NOTE_ARRIVED,
                                           NOTE_SENT,    NOTE_WRITABLE, NOTE_DOWN};
    size_t length = 300000;
    uint8_t *source = calloc(1, length);
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct pair pair;
        close_on = kinds[i];
        pair_open(&pair);
        struct end *closer = close_on == NOTE_SENT || close_on == NOTE_WRITABLE ? pair.at : pair.bt;
        closer->hook = close_inside;
        provoke(&pair, source, length);
        pair_until(&pair, !closer->lane);
        if (close_on != NOTE_DOWN)
            pair_until(&pair, (closer == pair.at ? pair.bt : pair.at)->counts[NOTE_DOWN] == 1);
        close_after(&pair, 600);
        pair_close(&pair);
    }
    free(source);
}

static struct end *refuse_end;
static void refuse_accepted(struct end *end, const struct note *note, const void *bytes)
{
    (void)bytes;
    if (note->kind == NOTE_UP) {
        refuse_end = end;
        end_close(end);
    }
}

static void close_inside_up(void **state)
{
    struct pair pair;
    (void)state;
    party_open(&pair.a);
    party_open(&pair.b);
    refuse_end = NULL;
    pair.at = end_open(&pair.a, &pair.b.self, 0, 1);
    pair.at->hook = refuse_accepted;
    pair_until(&pair, refuse_end && (pair.bt = end_accepted(&pair.b, 0)) && pair.bt->counts[NOTE_DOWN]);
    pair_close(&pair);
}

/* What the owner does not take was never up at the peer, who learns whether it may come again. */
static void not_taken(bool refuses)
{
    struct pair pair;
    party_open(&pair.a);
    party_open(&pair.b);
    pair.b.refuses = refuses;
    pair.b.declines = !refuses;
    pair.at = end_open(&pair.a, &pair.b.self, 0, 1);
    pair_until(&pair, pair.at->counts[NOTE_DOWN]);
    assert_int_equal(pair.b.count, 1);
    assert_int_equal(pair.at->counts[NOTE_UP], 0);
    assert_int_equal(end_last(pair.at, NOTE_DOWN)->id, refuses ? TUTTI_REMOTE_ERROR : TUTTI_SYSTEM_ERROR);
    pair.b.refuses = pair.b.declines = false;
    pair.at = end_open(&pair.a, &pair.b.self, 0, 2);
    pair_until(&pair, pair.at->counts[NOTE_UP] && end_accepted(&pair.b, 0));
    pair_close(&pair);
}

static void close_inside_accepted(void **state)
{
    (void)state;
    not_taken(true);
}

static void decline(void **state)
{
    (void)state;
    not_taken(false);
}

static void leaves_nothing_behind(void **state)
{
    struct pair pair;
    int fds = 0, maps = 0;
    (void)state;
    for (int round = 0; round < 20; round++) {
        pair_open(&pair);
        send_pattern(pair.at, 1, 5000, 3);
        close_after(&pair, round);
        if (round % 3 == 0)
            end_close(pair.at);
        if (round % 3 == 1)
            end_close(pair.bt);
        close_after(&pair, 300);
        pair_close(&pair);
        if (!round) {
            fds = count_fds();
            maps = count_maps();
        }
        assert_int_equal(count_fds(), fds);
        assert_int_equal(count_maps(), maps);
    }
}

static void nobody_there(void **state)
{
    struct pair pair;
    (void)state;
    party_open(&pair.a);
    party_open(&pair.b);
    struct wire_process gone = pair.b.self;
    party_close(&pair.b);
    pair.at = end_open(&pair.a, &gone, 3, 1);
    party_until(&pair.a, pair.at->counts[NOTE_DOWN] == 1);
    assert_int_equal(pair.at->counts[NOTE_UP], 0);
    assert_int_equal(end_last(pair.at, NOTE_DOWN)->id, TUTTI_REMOTE_ERROR);
    end_close(pair.at);
    pair.at = end_open(&pair.a, &gone, 3, 2);
    end_close(pair.at);
    party_close(&pair.a);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(close_while_connecting),   cmocka_unit_test(peer_closes),
    cmocka_unit_test(last_words_are_heard),     cmocka_unit_test(close_with_full_queues),
    cmocka_unit_test(close_inside_each_upcall), cmocka_unit_test(close_inside_up),
    cmocka_unit_test(close_inside_accepted),    cmocka_unit_test(decline),
    cmocka_unit_test(leaves_nothing_behind),    cmocka_unit_test(nobody_there),
};
const struct group close_group = {"close", tests, sizeof tests / sizeof *tests};
