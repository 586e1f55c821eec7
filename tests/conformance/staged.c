/* SPDX-License-Identifier: Apache-2.0 */
/* Conformance: a sender with nothing else to do copies large puts ahead, for a peer that reads them where they lie. */
#include "base/clock.h"
#include "base/memory.h"
#include "base/param.h"
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define SANITIZED 1 /* address space cannot be made scarce */
#else
#define SANITIZED 0
#endif

#define PART   (512u << 10)
#define PARTS  6u
#define STAGES 2u
#define LANE   (4u << 20) /* bytes of one with stages, and a little more */
#define BEFORE 5          /* patterns: of sources when they are put, */
#define AFTER  6          /* and once they may have been copied */

struct staged {
    struct pair pair;
    uint8_t *source, *area;
};

static bool is_read_in_place(void)
{
    return strcmp(under_test->name, "shm") == 0 && param_int(PARAM_SHM_CMA) && memory_is_sealed();
}

static bool populates(void *page)
{
    return madvise(page, 1, MADV_POPULATE_READ) == 0;
}

static uint8_t *parts(void)
{
    uint8_t *memory = mmap(NULL, PARTS * PART, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    return memory;
}

static void staged_open(struct staged *staged)
{
    if (!is_read_in_place())
        skip();
    staged->source = parts();
    staged->area = parts();
    if (!populates(staged->source)) {
        printf("SKIPPED: copying ahead was NOT tested: this system has no MADV_POPULATE_READ\n");
        skip();
    }
    pair_open(&staged->pair);
    staged->pair.bt->area = staged->area;
    staged->pair.bt->area_size = PARTS * PART;
}

static void staged_close(struct staged *staged)
{
    pair_close(&staged->pair);
    munmap(staged->source, PARTS * PART);
    munmap(staged->area, PARTS * PART);
}

static void fill_part(struct staged *staged, unsigned part, unsigned pattern)
{
    fill_pattern(staged->source + part * PART, PART, pattern + 10 * part);
}

static bool has_part(const struct staged *staged, unsigned part, unsigned pattern)
{
    return has_pattern(staged->area + part * PART, PART, pattern + 10 * part);
}

static void put_part(struct staged *staged, struct end *by, unsigned part)
{
    struct put put = {
        .source = place_host(staged->source + part * PART), .length = PART, .offset = part * PART, .token = part + 1};
    fill_part(staged, part, BEFORE);
    assert_int_equal(under_test->put(by->lane, &put), TUTTI_SUCCESS);
}

/* The sender has done what it can, and the peer has not looked. */
static void copy_ahead(struct staged *staged)
{
    while (party_step(&staged->pair.a))
        ;
}

static void as_much_as_there_are_stages(void **state)
{
    struct staged staged;
    (void)state;
    staged_open(&staged);
    struct pair *pair = &staged.pair;
    int64_t least = pair->a.memory;
    for (unsigned i = 0; i < PARTS; i++)
        put_part(&staged, pair->at, i);
    copy_ahead(&staged);
    assert_int_equal(pair->a.memory - least, STAGES * PART);
    for (unsigned i = 0; i < PARTS; i++)
        fill_part(&staged, i, AFTER);
    pair_until(pair, pair->bt->counts[NOTE_ARRIVED] == PARTS && pair->at->counts[NOTE_SENT] == PARTS);
    for (unsigned i = 0; i < PARTS; i++)
        assert_true(has_part(&staged, i, i < STAGES ? BEFORE : AFTER));
    staged_close(&staged);
    assert_int_equal(pair->a.memory, 0);
}

/* The peer comes to a put of which only the end was copied. */
static void the_peer_reads_the_rest(void **state)
{
    struct staged staged;
    (void)state;
    staged_open(&staged);
    struct pair *pair = &staged.pair;
    put_part(&staged, pair->at, 0);
    assert_int_equal(party_step(&pair->a), 1);
    fill_part(&staged, 0, AFTER);
    while (party_step(&pair->b))
        ;
    assert_int_equal(pair->bt->counts[NOTE_ARRIVED], 1);
    assert_true(memcmp(staged.area, staged.source, PART / 2) == 0);
    assert_false(memcmp(staged.area, staged.source, PART) == 0);
    fill_part(&staged, 0, BEFORE);
    assert_true(memcmp(staged.area + PART - 4096, staged.source + PART - 4096, 4096) == 0);
    staged_close(&staged);
}

static void nobody_reads_what_cannot_be_read(void **state)
{
    struct staged staged;
    (void)state;
    staged_open(&staged);
    struct pair *pair = &staged.pair;
    put_part(&staged, pair->at, 0);
    put_part(&staged, pair->at, 1);
    mprotect(staged.source + PART / 2, 4096, PROT_NONE);
    copy_ahead(&staged);
    pair_until(pair, pair->at->counts[NOTE_SENT] == 1 && pair->at->counts[NOTE_UNREADABLE] == 1);
    assert_int_equal(end_last(pair->at, NOTE_UNREADABLE)->id, 1);
    assert_true(has_part(&staged, 1, BEFORE));
    staged_close(&staged);
}

/* The copy would be a signal here: so the system reads, and says where the hole is. */
static void nobody_writes_where_nothing_can_be_written(void **state)
{
    struct staged staged;
    (void)state;
    staged_open(&staged);
    struct pair *pair = &staged.pair;
    put_part(&staged, pair->at, 0);
    put_part(&staged, pair->at, 1);
    copy_ahead(&staged);
    mprotect(staged.area + PART - 4096, 4096, PROT_READ);
    pair_until(pair, pair->at->counts[NOTE_SENT] == 2);
    assert_int_equal(pair->bt->counts[NOTE_UNWRITABLE], 1);
    staged_close(&staged);
}

static void given_up_while_it_is_copied(void **state)
{
    struct staged staged;
    (void)state;
    staged_open(&staged);
    struct pair *pair = &staged.pair;
    for (unsigned i = 0; i < 3; i++)
        put_part(&staged, pair->at, i);
    assert_int_equal(party_step(&pair->a), 1);
    under_test->give_up(pair->at->lane, 1);
    munmap(staged.source, PART);
    copy_ahead(&staged);
    under_test->give_up(pair->at->lane, 2);
    pair_until(pair, pair->at->counts[NOTE_SENT] == 1);
    assert_int_equal(pair->bt->counts[NOTE_ARRIVED], 1);
    assert_true(has_part(&staged, 2, BEFORE));
    put_part(&staged, pair->at, 3);
    pair_until(pair, pair->at->counts[NOTE_SENT] == 2);
    assert_true(has_part(&staged, 3, BEFORE));
    staged_close(&staged);
}

/* Whether what went by this lane had been copied ahead. */
static bool goes_by_a_stage(struct staged *staged, struct end *from, struct end *to)
{
    size_t arrived = to->counts[NOTE_ARRIVED];
    to->area = staged->area;
    to->area_size = PARTS * PART;
    put_part(staged, from, 0);
    copy_ahead(staged);
    fill_part(staged, 0, AFTER);
    pair_until(&staged->pair, to->counts[NOTE_ARRIVED] > arrived);
    return has_part(staged, 0, BEFORE);
}

static void quiet_lanes_give_stages_back(void **state)
{
    struct staged staged;
    (void)state;
    if (is_read_in_place())
        setenv("TUTTI_SHM_MEMORY", "5M", 1);
    param_reload();
    staged_open(&staged);
    struct pair *pair = &staged.pair;
    struct end *second = end_open(&pair->a, &pair->b.self, 1, 1);
    pair_until(pair, second->counts[NOTE_UP] && end_accepted(&pair->b, 1));
    assert_true(goes_by_a_stage(&staged, pair->at, pair->bt));
    assert_false(goes_by_a_stage(&staged, second, end_accepted(&pair->b, 1)));
    uint64_t deadline = clock_deadline_ms(CONFORMANCE_PATIENCE_MS);
    while (!goes_by_a_stage(&staged, second, end_accepted(&pair->b, 1))) {
        usleep(10000);
        assert_false(clock_passed(deadline));
    }
    staged_close(&staged);
}

/* Room for one lane as it is, and for one without stages. */
static void limit_room(bool on)
{
    static struct rlimit before;
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lu", &pages), 1);
    fclose(file);
    if (!before.rlim_max)
        getrlimit(RLIMIT_AS, &before);
    struct rlimit limit = before;
    if (on)
        limit.rlim_cur = pages * 4096 + LANE + LANE / 2 + PART;
    setrlimit(RLIMIT_AS, &limit);
}

static void the_peer_has_no_room_for_stages(void **state)
{
    struct staged staged;
    (void)state;
    staged_open(&staged);
    struct pair *pair = &staged.pair;
    limit_room(!SANITIZED);
    struct end *second = end_open(&pair->a, &pair->b.self, 1, 1);
    pair_until(pair, second->counts[NOTE_UP] && end_accepted(&pair->b, 1));
    limit_room(false);
    assert_int_equal(goes_by_a_stage(&staged, second, end_accepted(&pair->b, 1)), SANITIZED);
    staged_close(&staged);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(as_much_as_there_are_stages),
    cmocka_unit_test(the_peer_reads_the_rest),
    cmocka_unit_test(nobody_reads_what_cannot_be_read),
    cmocka_unit_test(given_up_while_it_is_copied),
    cmocka_unit_test(nobody_writes_where_nothing_can_be_written),
    cmocka_unit_test(quiet_lanes_give_stages_back),
    cmocka_unit_test(the_peer_has_no_room_for_stages),
};

static int restore(void **state)
{
    (void)state;
    unsetenv("TUTTI_SHM_MEMORY");
    param_reload();
    return 0;
}
const struct group staged_group = {"staged", tests, sizeof tests / sizeof *tests, restore};
