/* SPDX-License-Identifier: Apache-2.0 */
/* Meetings of ranks that are threads of one process: what they agree on, and what each hears when they cannot. */
#include "base/clock.h"
#include "base/error.h"
#include "comm/meet.h"
#include "engine/engine_life.h"
#include "engine/team_open.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#define ID    0x123456789abcdefull
#define RANKS 12 /* the tree has three levels */

static struct rank {
    struct team *team;
    struct meeting meeting;
    pthread_t thread;
    bool is_out[RANKS], wrong;
    int late_ms, patience_ms, failures;
    bool corrects;     /* after a failure: comes again with the right list */
    bool behind_first; /* comes when the first rank's visit is over */
    _Atomic bool over;
    tutti_result_t result;
    uint64_t child;
    char sentence[TEAM_SENTENCE + 40];
} ranks[RANKS];

static struct engine *engine;
static bool right_list[RANKS]; /* a rank that corrects its list comes again with this one */

static int open_all(void **state)
{
    struct wire_process all[RANKS];
    (void)state;
    if (engine_acquire(&engine) != TUTTI_SUCCESS)
        return -1;
    for (int i = 0; i < RANKS; i++)
        all[i] = *link_domain_self(engine->links);
    for (int i = 0; i < RANKS; i++) {
        ranks[i] = (struct rank){.patience_ms = 60000};
        const struct team_config config = {
            .id = ID, .name = "met", .rank = i, .nranks = RANKS, .members.processes = all};
        if (team_open(engine, &config, &ranks[i].team) != TUTTI_SUCCESS)
            return -1;
        meeting_open(&ranks[i].meeting, ranks[i].team);
    }
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    for (int i = 0; i < RANKS; i++) {
        meeting_close(&ranks[i].meeting);
        team_close(ranks[i].team);
    }
    engine_release(engine);
    return 0;
}

static void visit_once(struct rank *rank)
{
    int members[RANKS], count = 0;
    for (int i = 0; i < RANKS; i++)
        if (!rank->is_out[i])
            members[count++] = i;
    usleep((unsigned)rank->late_ms * 1000);
    while (rank->behind_first && !atomic_load(&ranks[0].over))
        usleep(1000);
    struct meeting_call call = {members, count, rank->is_out, rank->wrong,
                                clock_deadline_ms((uint64_t)rank->patience_ms)};
    rank->result = meeting_visit(&rank->meeting, &call, &rank->child);
    snprintf(rank->sentence, sizeof rank->sentence, "%s", rank->result == TUTTI_SUCCESS ? "" : error_last());
    struct wire_abort own = rank->meeting.why;
    meeting_end(&rank->meeting, rank->result == TUTTI_SUCCESS ? NULL : &own);
    atomic_store(&rank->over, true);
}

static void *visit(void *argument)
{
    struct rank *rank = argument;
    visit_once(rank);
    while (rank->corrects && rank->result == TUTTI_INVALID_USAGE) {
        if (!strstr(rank->sentence, "excludes"))
            return NULL;
        rank->failures++;
        memcpy(rank->is_out, right_list, sizeof rank->is_out);
        rank->wrong = false;
        visit_once(rank);
    }
    return NULL;
}

/* Members `first` to `last` meet, but those that a list excludes. */
static void meet(int first, int last)
{
    for (int i = first; i < last; i++)
        if (!ranks[i].is_out[i])
            assert_int_equal(pthread_create(&ranks[i].thread, NULL, visit, &ranks[i]), 0);
    for (int i = first; i < last; i++)
        if (!ranks[i].is_out[i])
            pthread_join(ranks[i].thread, NULL);
}

static void exclude(int out)
{
    for (int i = 0; i < RANKS; i++)
        ranks[i].is_out[out] = true;
}

static void all_fail(tutti_result_t result, const char *said)
{
    for (int i = 0; i < RANKS; i++) {
        if (ranks[i].is_out[i])
            continue;
        assert_int_equal(ranks[i].result, result);
        if (!strstr(ranks[i].sentence, said))
            fail_msg("rank %d: \"%s\" does not say \"%s\"", i, ranks[i].sentence, said);
    }
}

static uint64_t all_agree(void)
{
    uint64_t child = 0;
    for (int i = 0; i < RANKS; i++) {
        if (ranks[i].is_out[i])
            continue;
        if (ranks[i].result != TUTTI_SUCCESS)
            fail_msg("rank %d: %s", i, ranks[i].sentence);
        child = child ? child : ranks[i].child;
        assert_true(child && ranks[i].child == child);
    }
    return child;
}

static void members_get_one_number_and_a_new_one_each_time(void **state)
{
    (void)state;
    uint64_t before = 0;
    exclude(0); /* the first member is another */
    exclude(7);
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < RANKS; i++)
            ranks[i].late_ms = (i * 7 + round) % 5;
        meet(0, RANKS);
        uint64_t child = all_agree();
        assert_true(child != before);
        before = child;
    }
}

/* Where lists differ, who comes late joins the next attempt: those who heard of it come again, and all agree. */
static void meet_with_a_mistake(void)
{
    memcpy(right_list, ranks[0].is_out, sizeof right_list);
    for (int i = 0; i < RANKS; i++)
        ranks[i].corrects = true;
    meet(0, RANKS);
    all_agree();
}

static void who_has_another_list_fails_and_may_come_again(void **state)
{
    (void)state;
    exclude(11);
    ranks[3].is_out[5] = true;
    meet_with_a_mistake();
    assert_true(ranks[3].failures > 0);
}

static void who_has_a_list_that_is_none_fails_and_may_come_again(void **state)
{
    (void)state;
    ranks[4].wrong = true;
    meet_with_a_mistake();
    assert_true(ranks[4].failures > 0);
}

static void who_does_not_come_in_time_is_named(void **state)
{
    (void)state;
    for (int i = 0; i < RANKS; i++)
        ranks[i].patience_ms = 200;
    exclude(2);
    meet(0, 1);
    assert_int_equal(ranks[0].result, TUTTI_REMOTE_ERROR);
    assert_non_null(strstr(ranks[0].sentence, "rank 1 has not called tutti_comm_shrink()"));
    assert_non_null(strstr(ranks[0].sentence, "TUTTI_INIT_TIMEOUT"));
}

/* The others may not have come yet when it gives up: they hear of that when they do. */
static void who_gives_up_ends_the_visit_of_those_who_come_late(void **state)
{
    (void)state;
    ranks[0].patience_ms = 50;
    ranks[11].behind_first = true;
    meet(0, RANKS);
    all_fail(TUTTI_REMOTE_ERROR, "within TUTTI_INIT_TIMEOUT");
    ranks[0].patience_ms = 60000;
    ranks[11].behind_first = false;
    meet(0, RANKS);
    all_agree();
}

static void who_has_destroyed_the_parent_is_named(void **state)
{
    (void)state;
    meeting_close(&ranks[6].meeting);
    ranks[6].meeting.team = NULL; /* the end of the test closes it no more */
    for (int i = 0; i < RANKS; i++)
        ranks[i].is_out[6] = i == 6;
    meet(0, RANKS);
    all_fail(TUTTI_REMOTE_ERROR, "rank 6 has destroyed the communicator");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(members_get_one_number_and_a_new_one_each_time, open_all, close_all),
        cmocka_unit_test_setup_teardown(who_has_another_list_fails_and_may_come_again, open_all, close_all),
        cmocka_unit_test_setup_teardown(who_has_a_list_that_is_none_fails_and_may_come_again, open_all, close_all),
        cmocka_unit_test_setup_teardown(who_does_not_come_in_time_is_named, open_all, close_all),
        cmocka_unit_test_setup_teardown(who_gives_up_ends_the_visit_of_those_who_come_late, open_all, close_all),
        cmocka_unit_test_setup_teardown(who_has_destroyed_the_parent_is_named, open_all, close_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
