/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of a communicator whose ranks are threads of this process, on two hosts as they say. */
#include "engine/part.h"

#include "base/error.h"
#include "comm/comm.h"
#include "engine/collective.h"
#include "engine/engine_life.h"
#include "engine/failure.h"
#include "engine/shared.h"
#include "engine/wait.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define RANKS 6 /* three a host, in turn: 0, 2, 4 are on the first */
#define MANY  200

enum { HOSTS, RAILS };

static struct tutti_comm *comm[RANKS];
static pthread_barrier_t together;

static int make_whole(void **state)
{
    struct wire_process all[RANKS];
    pthread_barrier_init(&together, NULL, RANKS);
    for (int rank = 0; rank < RANKS; rank++) {
        struct comm_settings settings = {.rank = rank, .nranks = RANKS, .executor.device = TUTTI_HOST};
        assert_int_equal(comm_new(&settings, &comm[rank]), TUTTI_SUCCESS);
        assert_int_equal(choice_open(&comm[rank]->choices), TUTTI_SUCCESS);
        all[rank] = *link_domain_self(comm[rank]->engine->links);
        all[rank].host = 7 + (uint64_t)rank % 2;
    }
    for (int rank = 0; rank < RANKS; rank++) {
        const struct team_config config = {.id = 99,
                                           .name = "whole",
                                           .rank = rank,
                                           .nranks = RANKS,
                                           .members.processes = all,
                                           .choices = comm[rank]->choices};
        assert_int_equal(team_open(comm[rank]->engine, &config, &comm[rank]->team), TUTTI_SUCCESS);
    }
    return 0;
}

static int end_whole(void **state)
{
    for (int rank = 0; rank < RANKS; rank++)
        comm_free(comm[rank]);
    pthread_barrier_destroy(&together);
    return 0;
}

static void on_each_rank(void *(*run)(void *))
{
    pthread_t thread[RANKS];
    const char *wrong = NULL;
    void *said;
    for (int rank = 0; rank < RANKS; rank++)
        assert_int_equal(pthread_create(&thread[rank], NULL, run, comm[rank]), 0);
    for (int rank = 0; rank < RANKS; rank++) {
        pthread_join(thread[rank], &said);
        wrong = said ? said : wrong;
    }
    if (wrong)
        fail_msg("%s", wrong);
}

#define MUST(holds)                                                                                                    \
    if (!(holds))                                                                                                      \
    return (void *)#holds

static tutti_result_t sum(struct team *team, int mine, int *out)
{
    return team_do(team,
                   &(struct call){.coll = COLL_ALLREDUCE, .type = TUTTI_INT32, .count = 1, .in = &mine, .out = out});
}

static tutti_result_t make_parts(struct tutti_comm *of, struct team *part[2])
{
    int near = of->team->rank % 2, rail[2] = {of->team->rank - near, of->team->rank - near + 1};
    tutti_result_t result =
        team_part_of_level(of->team, TEAM_LEVEL_HOST, &(struct part_config){HOSTS, 0, "host"}, &part[HOSTS]);
    if (result == TUTTI_SUCCESS)
        result = share_part(of, part[HOSTS]);
    if (result == TUTTI_SUCCESS)
        result = team_part(of->team, rail, 2, &(struct part_config){RAILS, (uint32_t)rail[0], "rail"}, &part[RAILS]);
    return result == TUTTI_SUCCESS ? share_part(of, part[RAILS]) : result;
}

/* A sum within hosts, then one between them, is that of all. */
static void *two_levels(void *argument)
{
    struct tutti_comm *of = argument;
    struct team *part[2];
    int rank = of->team->rank, here, all, check;
    MUST(make_parts(of, part) == TUTTI_SUCCESS);
    MUST(!of->team->shared && part[HOSTS]->shared && !part[RAILS]->shared); /* an arena for a host's alone */
    MUST(part[HOSTS]->nranks == 3 && part[HOSTS]->rank == rank / 2 && part[RAILS]->rank == rank % 2);
    MUST(part[HOSTS]->in_whole[2] == 4 + rank % 2);
    for (int turn = 0; turn < 50; turn++) {
        MUST(sum(part[HOSTS], rank + turn, &here) == TUTTI_SUCCESS && here == 6 + 3 * (rank % 2) + 3 * turn);
        MUST(sum(part[RAILS], here, &all) == TUTTI_SUCCESS && all == 15 + 6 * turn);
        MUST(sum(of->team, rank + turn, &check) == TUTTI_SUCCESS && check == all);
    }
    pthread_barrier_wait(&together);
    for (int i = 0; i < 2; i++) {
        share_forget(part[i]);
        team_close(part[i]);
    }
    MUST(list_empty(&of->team->parts));
    return NULL;
}

static void parts_over_two_hosts(void **state)
{
    on_each_rank(two_levels);
}

/* Rank 3 notices something in its host's part; all hear, whatever they wait in. */
static void *fails(void *argument)
{
    struct tutti_comm *of = argument;
    struct team *part[2];
    int rank = of->team->rank, out;
    tutti_result_t result = TUTTI_SUCCESS;
    MUST(make_parts(of, part) == TUTTI_SUCCESS);
    pthread_barrier_wait(&together);
    if (rank == 3)
        result = team_fail(part[HOSTS], TUTTI_SYSTEM_ERROR, part[HOSTS]->rank, "rank 3 is out of paper");
    while (result == TUTTI_SUCCESS)
        result = sum(rank < 2 ? of->team : rank == 5 ? part[HOSTS] : part[RAILS], 1, &out);
    MUST(result == (rank == 3 ? TUTTI_SYSTEM_ERROR : TUTTI_REMOTE_ERROR));
    MUST(strstr(error_last(), "rank 3 is out of paper"));
    char me[20];
    snprintf(me, sizeof me, "rank %d: ", rank);
    MUST(strncmp(error_last(), me, strlen(me)) == 0); /* by its number in the whole */
    pthread_barrier_wait(&together);
    for (int i = 0; i < 2; i++) {
        MUST(team_failure(part[i]) == result && sum(part[i], 1, &out) == result);
        MUST(part[i]->cause.culprit == 3);
    }
    MUST(team_failure(of->team) == result && of->team->cause.culprit == 3);
    struct team *late; /* fails as soon as it is there */
    MUST(team_part_of_level(of->team, TEAM_LEVEL_HOST, &(struct part_config){7, 0, "late"}, &late) == TUTTI_SUCCESS);
    MUST(team_failure(late) == result);
    pthread_barrier_wait(&together);
    team_close(late);
    for (int i = 0; i < 2; i++)
        team_close(part[i]);
    return NULL;
}

static void a_failure_is_that_of_all(void **state)
{
    on_each_rank(fails);
}

/* The black box has 128 places. */
static void *makes_many(void *argument)
{
    struct tutti_comm *of = argument;
    static struct team *part[RANKS][MANY];
    int rank = of->team->rank, out;
    MUST(of->team->trace);
    for (uint32_t i = 0; i < MANY; i++) {
        MUST(team_part_of_level(of->team, TEAM_LEVEL_HOST, &(struct part_config){i, 0, "many"}, &part[rank][i]) ==
             TUTTI_SUCCESS);
        MUST(!part[rank][i]->trace && (i == 0 || part[rank][i]->id != part[rank][i - 1]->id));
    }
    pthread_barrier_wait(&together);
    for (int i = 0; i < MANY; i++)
        MUST(sum(part[rank][i], i, &out) == TUTTI_SUCCESS && out == 3 * i);
    uint64_t id = part[rank][0]->id;
    pthread_barrier_wait(&together);
    for (int i = 0; i < MANY; i++)
        team_close(part[rank][i]);
    MUST(sum(of->team, 1, &out) == TUTTI_SUCCESS);
    struct team *again; /* what was said in the first is not for this one */
    MUST(team_part_of_level(of->team, TEAM_LEVEL_HOST, &(struct part_config){0, 0, "many"}, &again) == TUTTI_SUCCESS);
    MUST(again->id != id);
    MUST(sum(again, 2, &out) == TUTTI_SUCCESS && out == 6);
    pthread_barrier_wait(&together);
    team_close(again);
    return NULL;
}

static void two_hundred_parts(void **state)
{
    on_each_rank(makes_many);
}

/* When the whole has failed its collectives up to its limit go on, and those of its parts that belong to them. */
static void what_goes_on(void **state)
{
    struct team *whole = comm[0]->team, *part;
    const struct op_kind counted = {.counted = true};
    struct op op = {.kind = &counted, .seq = 7, .whole_seq = 5};
    assert_int_equal(team_part_of_level(whole, TEAM_LEVEL_HOST, &(struct part_config){HOSTS, 0, "host"}, &part),
                     TUTTI_SUCCESS);
    atomic_store(&whole->limit, 5);
    assert_true(team_allows(part, &op));
    op.whole_seq = 6;
    assert_false(team_allows(part, &op));
    op.whole_seq = TEAM_NO_SEQ;
    assert_false(team_allows(part, &op));
    atomic_store(&part->seq, 7);
    atomic_store(&whole->seq, 5);
    assert_true(team_takes_collective(part));
    atomic_store(&whole->finished, 5); /* none is under way */
    assert_false(team_takes_collective(part));
    atomic_store(&whole->seq, 6);
    assert_false(team_takes_collective(part));
    atomic_store(&whole->seq, 0);
    atomic_store(&whole->finished, 0);
    atomic_store(&whole->limit, UINT32_MAX);
    team_close(part);
}

static void none_of_that_kind(void **state)
{
    struct team *whole = comm[0]->team, *part, *inner;
    const struct part_config config = {HOSTS, 0, "odd"};
    assert_int_equal(team_part(whole, (int[]){1, 2}, 2, &config, &part), TUTTI_INTERNAL_ERROR); /* not this rank */
    assert_int_equal(team_part(whole, (int[]){0, RANKS}, 2, &config, &part), TUTTI_INTERNAL_ERROR);
    assert_int_equal(team_part(whole, (int[]){0, 2}, 2, &config, &part), TUTTI_SUCCESS);
    assert_int_equal(team_part(part, (int[]){0}, 1, &config, &inner), TUTTI_INTERNAL_ERROR);
    team_close(part);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(parts_over_two_hosts, make_whole, end_whole),
        cmocka_unit_test_setup_teardown(a_failure_is_that_of_all, make_whole, end_whole),
        cmocka_unit_test_setup_teardown(two_hundred_parts, make_whole, end_whole),
        cmocka_unit_test_setup_teardown(what_goes_on, make_whole, end_whole),
        cmocka_unit_test_setup_teardown(none_of_that_kind, make_whole, end_whole),
    };
    setenv("TUTTI_SOCKET_IFNAME", "=lo", 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
