/* SPDX-License-Identifier: Apache-2.0 */
/* Conformance: the second part of a message stays where it is, and the peer copies it from there. */
#include "base/clock.h"
#include "base/param.h"
#include "suite.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define LENGTH (100u << 10)
#define PAGE   4096u

struct lent {
    struct pair pair;
    uint8_t *source, *area;
    size_t messages; /* sent */
};

static bool may_not_read; /* what lies in other processes */

/* Stands in for the C library's. */
ssize_t process_vm_readv(pid_t pid, const struct iovec *here, unsigned long parts, const struct iovec *there,
                         unsigned long there_parts, unsigned long flags)
{
    if (!may_not_read)
        return syscall(SYS_process_vm_readv, pid, here, parts, there, there_parts, flags);
    errno = EPERM;
    return -1;
}

static bool attaches(void)
{
    char here, there = 0;
    struct iovec to = {&here, 1}, from = {&there, 1};
    return param_int(PARAM_SHM_CMA) && process_vm_readv(getpid(), &to, 1, &from, 1, 0) == 1;
}

static uint8_t *pages(void)
{
    uint8_t *memory = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    return memory;
}

static void lent_open(struct lent *lent)
{
    if (!(under_test->caps & TRANSPORT_SAME_HOST) || !attaches() || strcmp(under_test->name, "shm") != 0)
        skip();
    lent->messages = 0;
    lent->source = pages();
    lent->area = pages();
    fill_pattern(lent->source, LENGTH, 5);
    pair_open(&lent->pair);
    lent->pair.bt->area = lent->area;
    lent->pair.bt->area_size = LENGTH;
}

static void lent_close(struct lent *lent)
{
    pair_close(&lent->pair);
    munmap(lent->source, LENGTH);
    munmap(lent->area, LENGTH);
}

static tutti_result_t lend(struct lent *lent, size_t length, uint64_t token)
{
    static const char head[56] = "what it is";
    struct iovec parts[2] = {{(void *)(uintptr_t)head, sizeof head}, {lent->source, length}};
    return under_test->lend(lent->pair.at->lane, parts, token);
}

static void sends_a_message(struct lent *lent)
{
    assert_int_equal(send_pattern(lent->pair.at, 3, 100, 1), TUTTI_SUCCESS);
    lent->messages++;
}

static void says_and_passes_on(struct lent *lent, uint64_t copied)
{
    struct pair *pair = &lent->pair;
    sends_a_message(lent);
    pair_until(pair, pair->bt->counts[NOTE_MESSAGE] == lent->messages);
    assert_int_equal(pair->at->counts[NOTE_DOWN] + pair->bt->counts[NOTE_DOWN], 0);
    assert_int_equal(end_last(pair->bt, NOTE_COPIED)->id, copied);
}

static void is_copied_from_where_it_lies(void **state)
{
    struct lent lent;
    (void)state;
    lent_open(&lent);
    sends_a_message(&lent);
    assert_int_equal(lend(&lent, LENGTH, 7), TUTTI_SUCCESS);
    fill_pattern(lent.source, LENGTH, 6); /* it is not copied before the peer looks */
    party_step(&lent.pair.a);
    assert_int_equal(lent.pair.at->counts[NOTE_SENT], 0);
    says_and_passes_on(&lent, true);
    pair_until(&lent.pair, lent.pair.at->counts[NOTE_SENT] == 1);
    assert_int_equal(end_last(lent.pair.at, NOTE_SENT)->id, 7);
    assert_true(has_pattern(lent.area, LENGTH, 6));
    const struct note *said = end_last(lent.pair.bt, NOTE_LENT);
    assert_int_equal(said->id, 56);
    assert_int_equal(said->length, LENGTH);
    assert_int_equal(said[-1].kind, NOTE_MESSAGE); /* in order with messages before it, */
    assert_int_equal(said[1].kind, NOTE_COPIED);
    assert_int_equal(said[2].kind, NOTE_MESSAGE); /* and behind */
    lent_close(&lent);
}

static void what_nobody_wants_is_dropped(void **state)
{
    struct lent lent;
    (void)state;
    lent_open(&lent);
    lent.pair.bt->drop = true;
    assert_int_equal(lend(&lent, LENGTH, 7), TUTTI_SUCCESS);
    pair_until(&lent.pair, lent.pair.at->counts[NOTE_SENT] == 1);
    assert_int_equal(lent.pair.bt->counts[NOTE_COPIED], 0);
    lent_close(&lent);
}

static void short_ones_and_too_many_are_refused(void **state)
{
    struct lent lent;
    size_t taken = 0;
    (void)state;
    lent_open(&lent);
    if (param_int(PARAM_SHM_CMA_MIN) > 1)
        assert_int_equal(lend(&lent, (size_t)param_int(PARAM_SHM_CMA_MIN) - 1, 7), TUTTI_IN_PROGRESS);
    while (taken < 1000 && lend(&lent, LENGTH, 7) == TUTTI_SUCCESS)
        taken++;
    assert_in_range(taken, 1, 999);
    pair_until(&lent.pair, lent.pair.at->counts[NOTE_SENT] == taken);
    assert_int_equal(lend(&lent, LENGTH, 7), TUTTI_SUCCESS);
    lent_close(&lent);
}

static void what_is_given_up_is_not_copied(void **state)
{
    struct lent lent;
    (void)state;
    lent_open(&lent);
    assert_int_equal(lend(&lent, LENGTH, 7), TUTTI_SUCCESS);
    under_test->give_up(lent.pair.at->lane, 7);
    assert_int_equal(lend(&lent, LENGTH, 8), TUTTI_SUCCESS);
    says_and_passes_on(&lent, true);
    assert_int_equal(lent.pair.bt->counts[NOTE_COPIED], 1);
    pair_until(&lent.pair, lent.pair.at->counts[NOTE_SENT] == 1);
    assert_int_equal(end_last(lent.pair.at, NOTE_SENT)->id, 8);
    lent_close(&lent);
}

/* The receiver's owner leaves what is lent where it lies, and is asked again. */
static void left_open(struct lent *lent)
{
    lent_open(lent);
    lent->pair.bt->leaves = true;
    assert_int_equal(lend(lent, LENGTH, 7), TUTTI_SUCCESS);
    pair_until(&lent->pair, lent->pair.bt->left == 3);
    assert_int_equal(lent->pair.bt->counts[NOTE_LENT] + lent->pair.at->counts[NOTE_SENT], 0);
    fill_pattern(lent->source, LENGTH, 6);
}

static void left_close(struct lent *lent, size_t copied, uint64_t last)
{
    assert_int_equal(lent->pair.bt->counts[NOTE_COPIED], copied);
    assert_true(has_pattern(lent->area, LENGTH, 6));
    pair_until(&lent->pair, lent->pair.at->counts[NOTE_SENT] == copied);
    assert_int_equal(end_last(lent->pair.at, NOTE_SENT)->id, last);
    lent_close(lent);
}

static void waits_until_it_is_wanted(void **state)
{
    struct lent lent;
    (void)state;
    left_open(&lent);
    lent.pair.bt->leaves = false;
    says_and_passes_on(&lent, true);
    left_close(&lent, 1, 7);
}

static void waits_for_nothing_behind_it(void **state)
{
    struct lent lent;
    (void)state;
    left_open(&lent);
    says_and_passes_on(&lent, true);
    left_close(&lent, 1, 7);
}

static void what_is_given_up_does_not_wait(void **state)
{
    struct lent lent;
    (void)state;
    left_open(&lent);
    under_test->give_up(lent.pair.at->lane, 7);
    party_step(&lent.pair.b);
    assert_int_equal(lend(&lent, LENGTH, 8), TUTTI_SUCCESS);
    lent.pair.bt->leaves = false;
    says_and_passes_on(&lent, true);
    left_close(&lent, 1, 8);
}

static void gives_up(struct end *end, const struct note *note, const void *bytes)
{
    struct lent *lent = end->hook_context;
    (void)bytes;
    if (note->kind == NOTE_LENT)
        under_test->give_up(lent->pair.at->lane, 7);
}

/* What was read may be anything by then. */
static void what_is_given_up_meanwhile_does_not_count(void **state)
{
    struct lent lent;
    (void)state;
    lent_open(&lent);
    lent.pair.bt->hook = gives_up;
    lent.pair.bt->hook_context = &lent;
    assert_int_equal(lend(&lent, LENGTH, 7), TUTTI_SUCCESS);
    says_and_passes_on(&lent, false);
    assert_int_equal(lent.pair.at->counts[NOTE_SENT], 0);
    lent_close(&lent);
}

static void a_source_that_cannot_be_read_is_said(void **state)
{
    struct lent lent;
    (void)state;
    lent_open(&lent);
    assert_int_equal(mprotect(lent.source + 3 * PAGE, PAGE, PROT_NONE), 0);
    assert_int_equal(lend(&lent, LENGTH, 7), TUTTI_SUCCESS);
    says_and_passes_on(&lent, false);
    pair_until(&lent.pair, lent.pair.at->counts[NOTE_UNREADABLE] == 1);
    assert_int_equal(lent.pair.at->counts[NOTE_SENT], 0);
    lent_close(&lent);
}

/* The owner of the source sends it again in another way, as one message: it does not come as a put. */
static void a_source_that_the_peer_may_not_read_is_said(void **state)
{
    struct lent lent;
    (void)state;
    lent_open(&lent);
    may_not_read = true;
    assert_int_equal(lend(&lent, LENGTH, 7), TUTTI_SUCCESS);
    says_and_passes_on(&lent, false);
    pair_until(&lent.pair, lent.pair.at->counts[NOTE_UNREADABLE] + lent.pair.at->counts[NOTE_SENT] == 1);
    may_not_read = false;
    assert_int_equal(lent.pair.at->counts[NOTE_UNREADABLE], 1);
    assert_int_equal(end_last(lent.pair.at, NOTE_UNREADABLE)->id, 7);
    assert_int_equal(lent.pair.bt->counts[NOTE_ARRIVED], 0);
    lent_close(&lent);
}

static void a_target_that_cannot_be_written_is_the_peers(void **state)
{
    struct lent lent;
    (void)state;
    lent_open(&lent);
    assert_int_equal(mprotect(lent.area + 3 * PAGE, PAGE, PROT_READ), 0);
    assert_int_equal(lend(&lent, LENGTH, 7), TUTTI_SUCCESS);
    says_and_passes_on(&lent, false);
    pair_until(&lent.pair, lent.pair.at->counts[NOTE_SENT] == 1);
    assert_int_equal(lent.pair.at->counts[NOTE_UNREADABLE], 0);
    lent_close(&lent);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(is_copied_from_where_it_lies),
    cmocka_unit_test(what_nobody_wants_is_dropped),
    cmocka_unit_test(short_ones_and_too_many_are_refused),
    cmocka_unit_test(waits_until_it_is_wanted),
    cmocka_unit_test(waits_for_nothing_behind_it),
    cmocka_unit_test(what_is_given_up_does_not_wait),
    cmocka_unit_test(what_is_given_up_is_not_copied),
    cmocka_unit_test(what_is_given_up_meanwhile_does_not_count),
    cmocka_unit_test(a_source_that_cannot_be_read_is_said),
    cmocka_unit_test(a_source_that_the_peer_may_not_read_is_said),
    cmocka_unit_test(a_target_that_cannot_be_written_is_the_peers),
};

const struct group lent_group = {"lent", tests, sizeof tests / sizeof *tests, NULL};
