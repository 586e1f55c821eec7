/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rounds over links whose work ends later: a backend that does each item after a random delay, in a random order. All
 * results are those of host memory, bit by bit. Ranks are threads of this process, each on a host of its own as it
 * says.
 */
#include "engine/rounds_internal.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "engine/collective.h"
#include "engine/engine_life.h"
#include "engine/failure.h"
#include "engine/team_open.h"
#include "engine/wait.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define RANKS 5
#define ITEMS 256
#define MOST  20000 /* elements */

/* ---- The backend ---- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t news;
    struct rounds_item *item[ITEMS], *running;
    int count, most;   /* at once */
    bool stop, halted; /* nothing is begun */
    uint64_t ended, turned, placed;
    pthread_t thread;
} later = {.lock = PTHREAD_MUTEX_INITIALIZER, .news = PTHREAD_COND_INITIALIZER};

static void *later_main(void *unused)
{
    uint64_t seed = 1;
    pthread_mutex_lock(&later.lock);
    while (!later.stop) {
        if (!later.count || later.halted) {
            pthread_cond_wait(&later.news, &later.lock);
            continue;
        }
        pthread_mutex_unlock(&later.lock);
        usleep((unsigned)(mix64(seed++) % 300)); /* more may come */
        pthread_mutex_lock(&later.lock);
        if (!later.count || later.halted)
            continue;
        int which = (int)(mix64(seed++) % (uint64_t)later.count);
        struct rounds_item *item = later.running = later.item[which];
        later.turned += which > 0;
        memmove(&later.item[which], &later.item[which + 1], sizeof item * (size_t)(--later.count - which));
        pthread_mutex_unlock(&later.lock);
        rounds_item_run(item);
        pthread_mutex_lock(&later.lock);
        later.running = NULL;
        later.ended++;
        rounds_item_done(item);
        pthread_cond_broadcast(&later.news);
    }
    pthread_mutex_unlock(&later.lock);
    return unused;
}

/* Some are done at once. */
static enum rounds_done later_work(struct rounds_item *item)
{
    pthread_mutex_lock(&later.lock);
    bool starts = later.count < ITEMS && (later.halted || mix64(later.ended + (uintptr_t)item->to) % 8);
    if (starts)
        later.item[later.count++] = item;
    later.most = later.count > later.most ? later.count : later.most;
    pthread_cond_broadcast(&later.news);
    pthread_mutex_unlock(&later.lock);
    if (!starts)
        rounds_item_run(item);
    return starts ? ROUNDS_STARTED : ROUNDS_DONE;
}

static void later_give_up(struct rounds_item *item)
{
    pthread_mutex_lock(&later.lock);
    for (int i = 0; i < later.count; i++)
        if (later.item[i] == item) {
            memmove(&later.item[i], &later.item[i + 1], sizeof item * (size_t)(later.count - i - 1));
            later.count--;
        }
    while (later.running == item)
        pthread_cond_wait(&later.news, &later.lock);
    pthread_mutex_unlock(&later.lock);
}

static void *later_allocate(size_t size)
{
    return malloc(size);
}

static void later_release(void *memory, size_t size)
{
    (void)size;
    free(memory);
}

static void *later_place(void *address)
{
    __atomic_fetch_add(&later.placed, 1, __ATOMIC_RELAXED);
    return address;
}

static const struct rounds_memory later_memory = {.name = "later",
                                                  .allocate = later_allocate,
                                                  .release = later_release,
                                                  .place = later_place,
                                                  .work = later_work,
                                                  .give_up = later_give_up};

/* ---- Ranks ---- */

static struct engine *engine;
static struct choice_table *choices;
static struct team *team[RANKS];

static int make_teams(void **state)
{
    struct wire_process all[RANKS];
    assert_int_equal(engine_acquire(&engine), TUTTI_SUCCESS);
    assert_int_equal(choice_open(&choices), TUTTI_SUCCESS);
    for (int rank = 0; rank < RANKS; rank++) {
        all[rank] = *link_domain_self(engine->links);
        all[rank].host = (uint64_t)rank + 1;
    }
    for (int rank = 0; rank < RANKS; rank++) {
        const struct team_config config = {
            .id = 5, .name = "later", .rank = rank, .nranks = RANKS, .members.processes = all, .choices = choices};
        assert_int_equal(team_open(engine, &config, &team[rank]), TUTTI_SUCCESS);
    }
    later.stop = later.halted = false;
    later.count = later.most = 0;
    later.ended = later.turned = later.placed = 0;
    return pthread_create(&later.thread, NULL, later_main, NULL);
}

static int end_teams(void **state)
{
    pthread_mutex_lock(&later.lock);
    later.stop = true;
    pthread_cond_broadcast(&later.news);
    pthread_mutex_unlock(&later.lock);
    pthread_join(later.thread, NULL); /* it wakes the team of an item that is over */
    for (int rank = 0; rank < RANKS; rank++)
        team_close(team[rank]);
    engine_release(engine);
    choice_close(choices);
    return 0;
}

static struct call wanted;
static float *input[RANKS], *output[RANKS];
static tutti_result_t outcome[RANKS];

static void *calls_it(void *argument)
{
    int rank = (int)(intptr_t)argument;
    struct call call = wanted;
    call.in = input[rank];
    call.out = output[rank];
    outcome[rank] = team_do(team[rank], &call);
    return NULL;
}

static void on_all_ranks(const struct rounds_memory *memory)
{
    pthread_t thread[RANKS];
    for (int rank = 0; rank < RANKS; rank++) {
        team[rank]->memory = memory;
        memset(output[rank], 0, RANKS * MOST * sizeof(float));
    }
    for (int rank = 0; rank < RANKS; rank++)
        assert_int_equal(pthread_create(&thread[rank], NULL, calls_it, (void *)(intptr_t)rank), 0);
    for (int rank = 0; rank < RANKS; rank++)
        pthread_join(thread[rank], NULL);
}

static void make_buffers(void)
{
    for (int rank = 0; rank < RANKS; rank++) {
        input[rank] = malloc(RANKS * MOST * sizeof(float));
        output[rank] = malloc(RANKS * MOST * sizeof(float));
        for (size_t i = 0; i < RANKS * MOST; i++)
            input[rank][i] = (float)(mix64(i * RANKS + (size_t)rank) % 1000) / 7;
    }
}

static void free_buffers(void)
{
    for (int rank = 0; rank < RANKS; rank++) {
        free(input[rank]);
        free(output[rank]);
    }
}

static void compare(struct call call)
{
    static float here[RANKS][RANKS * MOST];
    wanted = call;
    on_all_ranks(&rounds_host);
    for (int rank = 0; rank < RANKS; rank++) {
        assert_int_equal(outcome[rank], TUTTI_SUCCESS);
        memcpy(here[rank], output[rank], sizeof here[rank]);
    }
    on_all_ranks(&later_memory);
    assert_int_equal(later.count, 0);
    for (int rank = 0; rank < RANKS; rank++) {
        assert_int_equal(outcome[rank], TUTTI_SUCCESS);
        if (memcmp(here[rank], output[rank], sizeof here[rank]) != 0)
            fail_msg("collective %d of %zu elements: rank %d has another result", (int)call.coll, call.count, rank);
    }
}

static void the_same_results(void **state)
{
    static const size_t counts[] = {1, 999, MOST};
    make_buffers();
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (int coll = 0; coll < COLL_COUNT; coll++) {
            bool reduces = schedule_reduces((enum coll)coll);
            struct call call = {.coll = (enum coll)coll,
                                .type = TUTTI_FLOAT32,
                                .count = counts[i],
                                .op = reduces ? TUTTI_SUM : -1,
                                .root = schedule_has_root((enum coll)coll) ? 2 : 0};
            if (coll == COLL_ALLTOALLV)
                continue;
            compare(call);
            call.op = reduces && coll != COLL_SCAN ? TUTTI_AVG : call.op;
            if (call.op == TUTTI_AVG)
                compare(call);
        }
    float scalar = 3;
    struct call premul = {
        .coll = COLL_ALLREDUCE, .type = TUTTI_FLOAT32, .count = MOST, .op = TUTTI_SUM, .premul = true};
    memcpy(&premul.scalar, &scalar, sizeof scalar);
    compare(premul);
    print_message("%llu items ended later, %llu of them out of turn; up to %d at once; %llu places\n",
                  (unsigned long long)later.ended, (unsigned long long)later.turned, later.most,
                  (unsigned long long)later.placed);
    assert_true(later.ended > 100 && later.turned > 10 && later.placed > 100);
    free_buffers();
}

/* Work is under way when the team fails: the call returns, and then nothing touches its memory. */
static void a_failure_meanwhile(void **state)
{
    pthread_t thread[RANKS];
    make_buffers();
    later.halted = true;
    wanted = (struct call){.coll = COLL_ALLREDUCE, .type = TUTTI_FLOAT32, .count = MOST, .op = TUTTI_SUM};
    for (int rank = 0; rank < RANKS; rank++)
        team[rank]->memory = &later_memory;
    for (int rank = 0; rank < RANKS; rank++)
        assert_int_equal(pthread_create(&thread[rank], NULL, calls_it, (void *)(intptr_t)rank), 0);
    for (int started = 0; started == 0; usleep(100)) {
        pthread_mutex_lock(&later.lock);
        started = later.count;
        pthread_mutex_unlock(&later.lock);
    }
    team_fail(team[3], TUTTI_SYSTEM_ERROR, 3, "no more");
    for (int rank = 0; rank < RANKS; rank++) {
        pthread_join(thread[rank], NULL);
        assert_int_equal(outcome[rank], rank == 3 ? TUTTI_SYSTEM_ERROR : TUTTI_REMOTE_ERROR);
    }
    assert_int_equal(later.count, 0);
    free_buffers();
}

/* What blocks that lie together need does not grow with the ranks: a team of a hundred thousand keeps this. */
static void room_for_messages_alone(void **state)
{
    const struct shape shape = {.coll = COLL_ALLGATHER, .nranks = RANKS};
    wanted = (struct call){.coll = COLL_ALLGATHER, .type = TUTTI_FLOAT32, .count = 6, .op = -1};
    make_buffers();
    on_all_ranks(&rounds_host);
    call_fill(&wanted);
    assert_int_equal(team[0]->rounds_idle->most, team_algorithm(team[0], &wanted)->actions(&shape) + 1);
    free_buffers();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_same_results, make_teams, end_teams),
        cmocka_unit_test_setup_teardown(room_for_messages_alone, make_teams, end_teams),
        cmocka_unit_test_setup_teardown(a_failure_meanwhile, make_teams, end_teams),
    };
    setenv("TUTTI_SOCKET_IFNAME", "=lo", 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
