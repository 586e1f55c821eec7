/* SPDX-License-Identifier: Apache-2.0 */
/* What rank 0 shared with ranks of this process that never took it. */
#include "base/error.h"
#include "base/random.h"
#include "comm/comm.h"
#include "engine/engine_life.h"
#include "engine/team_open.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <cmocka.h>

#define ID 0x123456789abcdefull

/* A communicator of three ranks in this process that did not get as far as sharing. */
static struct tutti_comm *half_made(int rank)
{
    struct comm_settings settings = {.rank = rank, .nranks = 3, .executor.device = TUTTI_HOST};
    struct wire_process all[3];
    struct tutti_comm *comm;
    assert_int_equal(comm_new(&settings, &comm), TUTTI_SUCCESS);
    comm->id = ID;
    for (int i = 0; i < 3; i++)
        all[i] = *link_domain_self(comm->engine->links);
    const struct team_config config = {.id = ID, .name = "half", .rank = rank, .nranks = 3, .members.processes = all};
    assert_int_equal(team_open(comm->engine, &config, &comm->team), TUTTI_SUCCESS);
    return comm;
}

static ino_t files[1024]; /* by descriptor: the number of a closed one is free for whoever opens something next */

static int put_in_table(struct engine *engine, uint64_t key)
{
    struct shared_fd *shared = malloc(sizeof *shared);
    struct stat file;
    int fd = memfd_create("shared", MFD_CLOEXEC);
    assert_non_null(shared);
    assert_in_range(fd, 0, 1023);
    assert_int_equal(fstat(fd, &file), 0);
    files[fd] = file.st_ino;
    *shared = (struct shared_fd){.key = key, .fd = fd};
    list_push(&engine->shared, &shared->node);
    return fd;
}

static bool is_open(int fd)
{
    struct stat file;
    return fstat(fd, &file) == 0 && file.st_ino == files[fd];
}

static uint64_t key(int what, int rank)
{
    return mix64(ID + (uint64_t)what) + (uint64_t)rank;
}

static void each_rank_takes_its_own_away(void **state)
{
    struct tutti_comm *comm[3] = {half_made(0), half_made(1), half_made(2)};
    struct engine *engine = comm[0]->engine;
    int arena[3], mailbox[3], other = put_in_table(engine, ID + 1);
    (void)state;
    for (int i = 1; i < 3; i++) {
        arena[i] = put_in_table(engine, key(0, i));
        mailbox[i] = put_in_table(engine, key(1, i));
    }
    comm_free(comm[0]); /* made it, and takes nothing */
    comm_free(comm[1]);
    assert_false(is_open(arena[1]) || is_open(mailbox[1]));
    assert_true(is_open(arena[2]) && is_open(mailbox[2]));
    comm[2]->team->shares_taken = 1; /* the arena that lies there is not its own */
    struct tutti_comm *last = half_made(0);
    comm_free(comm[2]);
    assert_true(is_open(arena[2]) && is_open(other));
    assert_false(is_open(mailbox[2]));
    comm_free(last);
}

/* By chance, or by a program that copies an id: never are their operations mixed. */
static void one_rank_of_a_number_is_in_a_process_once(void **state)
{
    struct tutti_comm *first = half_made(1), *second = half_made(2);
    struct wire_process self = *link_domain_self(first->engine->links), all[3] = {self, self, self};
    struct team *again;
    (void)state;
    struct team_config config = {.id = ID, .name = "again", .rank = 2, .nranks = 3, .members.processes = all};
    assert_int_equal(team_open(first->engine, &config, &again), TUTTI_INTERNAL_ERROR);
    config.rank = 0, config.nranks = 2;
    assert_int_equal(team_open(first->engine, &config, &again), TUTTI_INTERNAL_ERROR);
    config = (struct team_config){
        .id = ID + (1ull << 32), .name = "other", .rank = 2, .nranks = 3, .members.processes = all};
    assert_int_equal(team_open(first->engine, &config, &again), TUTTI_SUCCESS);
    team_close(again);
    comm_free(first);
    comm_free(second);
}

static void close_in_trouble(struct executor *executor)
{
    (void)executor;
    error_note(TUTTI_REMOTE_ERROR, "somebody else has left");
}

/* A caller that is told of a failure asks for its sentence when the communicator is gone. */
static void freeing_keeps_the_sentence_of_the_failure(void **state)
{
    struct executor executor = {.ops.close = close_in_trouble};
    struct tutti_comm *comm = half_made(0);
    (void)state;
    comm->executor = &executor;
    error_note(TUTTI_REMOTE_ERROR, "rank 1 is dead");
    comm_free(comm);
    assert_string_equal(error_last(), "rank 1 is dead");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_rank_takes_its_own_away),
                                       cmocka_unit_test(one_rank_of_a_number_is_in_a_process_once),
                                       cmocka_unit_test(freeing_keeps_the_sentence_of_the_failure)};
    setenv("TUTTI_SOCKET_IFNAME", "=lo", 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
