/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conformance: memory of the owner that cannot be read or written ends what it is part of, and no lane, where the
 * system does the reading and writing: over TCP, and over shared memory by cross-memory attach. A device's memory is
 * refused by every lane that copies.
 */
#include "base/clock.h"
#include "base/error.h"
#include "base/param.h"
#include "suite.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#define LENGTH (3u << 20)
#define HOLE   (LENGTH / 2)
#define PAGE   4096u

static bool system_copies(void)
{
    char here, there = 0;
    struct iovec to = {&here, 1}, from = {&there, 1};
    bool attaches = param_int(PARAM_SHM_CMA) && process_vm_readv(getpid(), &to, 1, &from, 1, 0) == 1;
    return strcmp(under_test->name, "tcp") == 0 || (under_test->caps & TRANSPORT_SAME_HOST && attaches);
}

static uint8_t *with_hole(int rights)
{
    uint8_t *memory = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    fill_pattern(memory, LENGTH, 5);
    assert_int_equal(mprotect(memory + HOLE, PAGE, rights), 0);
    return memory;
}

static void open_with_area(struct pair *pair, uint8_t *area)
{
    pair_open(pair);
    pair->bt->area = area;
    pair->bt->area_size = LENGTH;
}

static void close_with_area(struct pair *pair)
{
    pair->bt->area = NULL;
    pair_close(pair);
}

static void put(struct pair *pair, const uint8_t *source, uint64_t token)
{
    struct put put = {.source = place_host(source), .length = LENGTH, .imm = (uint32_t)token, .token = token};
    tutti_result_t result;
    while ((result = under_test->put(pair->at->lane, &put)) == TUTTI_IN_PROGRESS)
        pair_step(pair);
    assert_int_equal(result, TUTTI_SUCCESS);
}

/* Bytes still pass, and no lane went down. */
static void passes_on(struct pair *pair)
{
    size_t before = pair->bt->counts[NOTE_MESSAGE];
    pair_until(pair, send_pattern(pair->at, 3, 100, 1) == TUTTI_SUCCESS);
    pair_until(pair, pair->bt->counts[NOTE_MESSAGE] == before + 1);
    assert_int_equal(pair->at->counts[NOTE_DOWN] + pair->bt->counts[NOTE_DOWN], 0);
}

/* Between two that are whole; the one in the middle never arrives, and its sender hears why. */
static void a_source_has_a_hole(void **state)
{
    struct pair pair;
    uint8_t *area = malloc(LENGTH), *good = malloc(LENGTH);
    (void)state;
    if (!system_copies()) {
        free(area);
        free(good);
        skip();
    }
    uint8_t *bad = with_hole(PROT_NONE);
    open_with_area(&pair, area);
    fill_pattern(good, LENGTH, 6);
    put(&pair, good, 1);
    put(&pair, bad, 2);
    put(&pair, good, 3);
    pair_until(&pair, pair.at->counts[NOTE_SENT] == 2 && pair.bt->counts[NOTE_ARRIVED] == 2);
    assert_int_equal(pair.at->counts[NOTE_UNREADABLE], 1);
    assert_int_equal(end_last(pair.at, NOTE_UNREADABLE)->id, 2);
    assert_int_equal(end_last(pair.bt, NOTE_ARRIVED)->id, 3);
    assert_true(has_pattern(area, LENGTH, 6));
    passes_on(&pair);
    close_with_area(&pair);
    munmap(bad, LENGTH);
    free(good);
    free(area);
}

static void a_target_has_a_hole(void **state)
{
    struct pair pair;
    uint8_t *good = malloc(LENGTH);
    (void)state;
    if (!system_copies()) {
        free(good);
        skip();
    }
    uint8_t *bad = with_hole(PROT_READ);
    open_with_area(&pair, bad);
    fill_pattern(good, LENGTH, 6);
    put(&pair, good, 1);
    pair_until(&pair, pair.at->counts[NOTE_SENT] == 1 && pair.bt->counts[NOTE_ARRIVED] == 1);
    assert_int_equal(pair.bt->counts[NOTE_UNWRITABLE], 1);
    assert_int_equal(end_last(pair.bt, NOTE_UNWRITABLE)->id, 1);
    passes_on(&pair);
    close_with_area(&pair);
    munmap(bad, LENGTH);
    free(good);
}

/* The put's frame has begun, and there is much of it left: the put does not arrive, and what comes behind it does. */
static void what_is_given_up_half_way_takes_no_lane_along(void **state)
{
    struct pair pair;
    size_t length = 64u << 20;
    uint8_t *source = calloc(1, length);
    (void)state;
    if (under_test->caps & TRANSPORT_REGISTERS) {
        free(source);
        skip();
    }
    pair_open(&pair);
    pair.bt->drop = true;
    struct put put = {.source = place_host(source), .length = length, .imm = 9, .token = 9};
    assert_int_equal(under_test->put(pair.at->lane, &put), TUTTI_SUCCESS);
    for (int i = 0; i < 3; i++)
        party_step(&pair.a);
    under_test->give_up(pair.at->lane, 9);
    free(source);
    passes_on(&pair);
    assert_int_equal(pair.at->counts[NOTE_SENT], 0);
    assert_int_equal(pair.bt->counts[NOTE_ARRIVED], 0);
    pair_close(&pair);
}

/* Nobody may touch it: the memory here has no rights, so whoever does gets a signal. */
static void a_device_is_refused(void **state)
{
    static const size_t lengths[] = {1, 5000, LENGTH};
    struct pair pair;
    uint8_t *bad = mmap(NULL, LENGTH, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *good = malloc(LENGTH);
    (void)state;
    assert_true(bad != MAP_FAILED);
    fill_pattern(good, LENGTH, 6);
    open_with_area(&pair, bad);
    pair.bt->area_device = 1;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        struct put put = {.source = {.address = bad, .device = 3}, .length = lengths[i], .token = i};
        assert_int_equal(under_test->put(pair.at->lane, &put), TUTTI_INVALID_ARGUMENT);
        assert_non_null(strstr(error_last(), "device 2"));
    }
    assert_int_equal(pair.at->counts[NOTE_SENT] + pair.at->counts[NOTE_UNREADABLE], 0);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        struct put put = {.source = place_host(good), .length = lengths[i], .imm = (uint32_t)i, .token = i};
        size_t before = pair.bt->counts[NOTE_UNWRITABLE];
        pair.bt->drop = false; /* it has not been told of this one */
        assert_int_equal(under_test->put(pair.at->lane, &put), TUTTI_SUCCESS);
        pair_until(&pair, pair.bt->counts[NOTE_ARRIVED] == i + 1 && pair.at->counts[NOTE_SENT] == i + 1);
        assert_true(pair.bt->counts[NOTE_UNWRITABLE] > before);
        assert_int_equal(end_last(pair.bt, NOTE_UNWRITABLE)->id, i);
    }
    passes_on(&pair);
    close_with_area(&pair);
    munmap(bad, LENGTH);
    free(good);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_source_has_a_hole),
    cmocka_unit_test(a_target_has_a_hole),
    cmocka_unit_test(what_is_given_up_half_way_takes_no_lane_along),
    cmocka_unit_test(a_device_is_refused),
};

const struct group unreachable_group = {"unreachable", tests, sizeof tests / sizeof *tests, NULL};
