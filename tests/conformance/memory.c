/* SPDX-License-Identifier: Apache-2.0 */
/* Conformance: the memory of lanes is bounded, whatever is sent, and goes to those who need it. */
#include "base/clock.h"
#include "base/param.h"
#include "suite.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LANES   24
#define LIMIT   (2 << 20)
#define MESSAGE 6000
#define AT_ONCE 32 /* messages on a lane: all lanes together more than the limit */
#define ALONE                                                                                                          \
    150000 /* bytes: nearly twice an even share of the limit, and fewer messages than the smallest ring has slots */

static void limit(const char *bytes)
{
    setenv("TUTTI_SHM_MEMORY", bytes, 1);
    param_reload();
}

/* Many lanes from a to b, and what is sent on each until it takes no more, or until they have more than all may keep.
 */
static size_t fill(struct pair *pair, struct end **ends)
{
    size_t sent = 0;
    for (uint16_t i = 0; i < LANES; i++)
        for (int n = 0; n < AT_ONCE && send_pattern(ends[i], i, MESSAGE, 2) == TUTTI_SUCCESS; n++)
            sent++;
    for (int i = 0; i < 20; i++)
        pair_step(pair);
    return sent;
}

static void open_many(struct pair *pair, struct end **ends)
{
    party_open(&pair->a);
    party_open(&pair->b);
    for (uint16_t i = 0; i < LANES; i++) {
        ends[i] = end_open(&pair->a, &pair->b.self, i, 1);
        pair_until(pair, ends[i]->counts[NOTE_UP] && end_accepted(&pair->b, i));
    }
}

static size_t received(struct pair *pair)
{
    size_t count = 0;
    for (uint16_t i = 0; i < LANES; i++)
        count += end_accepted(&pair->b, i)->counts[NOTE_MESSAGE];
    return count;
}

static bool shares_memory(void)
{
    return under_test->caps & TRANSPORT_SAME_HOST;
}

static void many_lanes_share_what_there_is(void **state)
{
    struct pair pair;
    struct end *ends[LANES];
    size_t sent = 0;
    (void)state;
    limit("2M");
    open_many(&pair, ends);
    assert_int_equal(pair.a.memory > 0, shares_memory());
    int64_t least = pair.a.memory;
    for (int round = 0; round < 30; round++) {
        sent += fill(&pair, ends);
        pair_until(&pair, received(&pair) == sent);
        assert_true(pair.a.memory <= LIMIT);
    }
    if (shares_memory())
        assert_true(pair.a.memory > least); /* what there is, is used */
    assert_true(pair.b.memory <= least);    /* it sent nothing */
    pair_close(&pair);
    assert_int_equal(pair.a.memory, 0);
    assert_int_equal(pair.b.memory, 0);
}

/* All lanes had much to send; now one has, and the others have not: they make room. */
static void quiet_lanes_make_room(void **state)
{
    struct pair pair;
    struct end *ends[LANES];
    size_t sent = 0;
    (void)state;
    if (!shares_memory())
        skip();
    limit("2M");
    open_many(&pair, ends);
    for (int round = 0; round < 10; round++) {
        sent += fill(&pair, ends);
        pair_until(&pair, received(&pair) == sent);
    }
    size_t at_once = 0;
    uint64_t deadline = clock_deadline_ms(CONFORMANCE_PATIENCE_MS);
    while (at_once * MESSAGE < ALONE) {
        for (at_once = 0; send_pattern(ends[7], 7, MESSAGE, 1) == TUTTI_SUCCESS; at_once++)
            sent++;
        pair_until(&pair, received(&pair) == sent);
        assert_true(pair.a.memory <= LIMIT);
        assert_false(clock_passed(deadline));
    }
    pair_close(&pair);
}

/* Where there is none to share, lanes have their least and all goes on. */
static void goes_on_with_the_least(void **state)
{
    struct pair pair;
    struct end *ends[LANES];
    (void)state;
    limit("0");
    open_many(&pair, ends);
    int64_t least = pair.a.memory;
    struct end *to = end_accepted(&pair.b, 3);
    to->area_size = 1 << 20;
    to->area = calloc(1, to->area_size);
    uint8_t *source = calloc(1, to->area_size);
    fill_pattern(source, to->area_size, 5);
    struct put put = {.source = place_host(source), .length = to->area_size};
    assert_int_equal(under_test->put(ends[3]->lane, &put), TUTTI_SUCCESS);
    size_t sent = fill(&pair, ends);
    pair_until(&pair, received(&pair) == sent && to->counts[NOTE_ARRIVED]);
    assert_true(has_pattern(to->area, to->area_size, 5));
    assert_int_equal(pair.a.memory, least);
    free(to->area);
    free(source);
    pair_close(&pair);
}

/* What is given back is gone from the system's books, and zero again. */
static void pages_are_given_back(void **state)
{
    size_t size = 1 << 20;
    int fd;
    void *base;
    struct stat before, after;
    (void)state;
    assert_int_equal(memory_make(size, &fd), TUTTI_SUCCESS);
    assert_int_equal(memory_map(fd, size, &base), TUTTI_SUCCESS);
    memset(base, 1, size);
    assert_int_equal(fstat(fd, &before), 0);
    memory_give_back((char *)base + size / 4, size * 3 / 4);
    assert_int_equal(fstat(fd, &after), 0);
    assert_int_equal(after.st_blocks, before.st_blocks / 4);
    assert_int_equal(((char *)base)[size / 4 - 1], 1);
    assert_int_equal(((char *)base)[size / 4], 0);
    memory_unmap(base, size);
    close(fd);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(many_lanes_share_what_there_is),
    cmocka_unit_test(quiet_lanes_make_room),
    cmocka_unit_test(goes_on_with_the_least),
    cmocka_unit_test(pages_are_given_back),
};

static int restore(void **state)
{
    (void)state;
    unsetenv("TUTTI_SHM_MEMORY");
    param_reload();
    return 0;
}
const struct group memory_group = {"memory", tests, sizeof tests / sizeof *tests, restore};
