/* SPDX-License-Identifier: Apache-2.0 */
/* Pointers to the buffers of many peers at once, and what becomes of them; whose memory cross-memory attach reads. */
#include "engine/shared_peer.h"

#include "base/memory.h"
#include "engine/arena.h"

#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#define RANKS 80
#define BYTES 4096

static struct roster_row *process; /* the last is this process */
static struct team team = {.rank = RANKS, .nranks = RANKS + 1};
static struct shm_import *import[RANKS];

static struct region_pair pair_of(int rank)
{
    struct region_pair who;
    memcpy(who.owner, process[rank].uuid, sizeof who.owner);
    memcpy(who.mapper, process[RANKS].uuid, sizeof who.mapper);
    return who;
}

/* A rank that waits looks on at a peer that runs, unless the peer waits for a rank that does not run. */
static void a_peer_that_waits_cannot_answer(void **state)
{
    struct arena arena;
    cpu_set_t here;
    int fd, place = sched_getcpu();
    (void)state;
    CPU_ZERO(&here);
    CPU_SET(place, &here);
    assert_int_equal(sched_setaffinity(0, sizeof here, &here), 0);
    assert_int_equal(arena_create(4, &fd), TUTTI_SUCCESS);
    assert_int_equal(arena_map(&arena, fd, 4), TUTTI_SUCCESS);
    close(fd);
    assert_false(arena_is_running(&arena, 0, 1)); /* nobody has said so */
    arena_say_running(&arena, 1, -1);
    assert_true(arena_is_running(&arena, 0, 1));
    arena_say_running(&arena, 1, 0);
    assert_true(arena_is_running(&arena, 0, 1));
    arena_say_running(&arena, 1, 2);
    assert_false(arena_is_running(&arena, 0, 1));
    int other = (place + 1) % ARENA_PROCESSORS;
    arena.ranks[2].processor = other + 1;
    arena.head->running[other] = 3;
    assert_true(arena_is_running(&arena, 0, 1)); /* 2 works there */
    arena.ranks[2].awaited = 3 + 1;
    assert_false(arena_is_running(&arena, 0, 1));
    arena.ranks[2].awaited = 1 + 1; /* 1 and 2 wait for each other: not for ever */
    assert_false(arena_is_running(&arena, 0, 1));
    arena_say_running(&arena, 3, -1); /* runs where 1 was */
    assert_false(arena_is_running(&arena, 0, 1));
    arena_unmap(&arena);
}

/* Each rank has one region, and 5 is its id: ids are the owner's own. */
static void import_all(void)
{
    for (int rank = 0; rank <= RANKS; rank++)
        memset(process[rank].uuid, rank + 1, sizeof process[rank].uuid);
    for (int rank = 0; rank < RANKS; rank++) {
        struct region_pair who = pair_of(rank);
        unsigned char first = (unsigned char)(rank + 1);
        int fd;
        assert_int_equal(memory_make(BYTES, &fd), TUTTI_SUCCESS);
        assert_int_equal(pwrite(fd, &first, 1, BYTES - 1), 1);
        import[rank] = import_add(&who, 5, BYTES, fd);
        assert_non_null(import[rank]);
    }
}

/* A reduction of all ranks' blocks holds a pointer to each, also to what is freed meanwhile, until it ends and no
 * longer. */
static void pointers_to_all_peers_stay(void **state)
{
    struct peer_memory memory;
    struct slot_place place = {.in = 1, .in_region = 5};
    const unsigned char *seen[RANKS];
    (void)state;
    import_all();
    assert_true(peer_memory_open(&memory, RANKS + 1));
    for (int rank = 0; rank < RANKS; rank++) {
        seen[rank] = peer_pointer(&team, &memory, rank, &place, true, 0, BYTES);
        assert_non_null(seen[rank]);
        assert_ptr_equal(peer_pointer(&team, &memory, rank, &place, true, 1, BYTES - 1), seen[rank] + 1);
        assert_null(peer_pointer(&team, &memory, rank, &place, true, 1, BYTES));
    }
    for (int rank = 0; rank < RANKS; rank++)
        import_drop(import[rank]);
    assert_int_equal(import_bytes(), RANKS * BYTES);
    for (int rank = 0; rank < RANKS; rank++)
        assert_int_equal(seen[rank][BYTES - 1], rank + 1);
    peer_memory_let_go(&memory);
    assert_int_equal(import_bytes(), 0);
    assert_null(peer_pointer(&team, &memory, 0, &place, true, 0, BYTES));
    assert_false(peer_read(&memory, 0, &place, true, 0, &(char){0}, 1));
    assert_int_equal(errno, ENOENT);
    peer_memory_close(&memory);
}

/* The same address and pid in a process that did not show its word: a pid that means another one here. */
static void attaches_to_the_process_that_is_meant(void **state)
{
    struct peer_memory memory;
    struct arena_rank shown = {0};
    uint64_t *value = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), seen = 0;
    int ends[2];
    (void)state;
    assert_true(peer_memory_open(&memory, RANKS + 1));
    assert_int_equal(pipe(ends), 0);
    *value = 1;
    pid_t child = fork();
    if (child == 0) {
        *value = 2;
        peer_introduce(&shown);
        assert_int_equal(write(ends[1], &shown, sizeof shown), sizeof shown);
        pause();
    }
    assert_int_equal(read(ends[0], &shown, sizeof shown), sizeof shown);
    struct slot_place place = {.in = (uintptr_t)value};
    bool works = peer_try_attach(&memory, 0, &shown);
    if (works) {
        assert_true(peer_read(&memory, 0, &place, true, 0, &seen, sizeof seen));
        assert_int_equal(seen, 2);
        memory.attach[0].pid = getpid(); /* as if that number had been given out again */
        assert_false(peer_read(&memory, 0, &place, true, 0, &seen, sizeof seen));
        assert_int_equal(*value, 1);
        shown.pid_namespace++;
        assert_false(peer_try_attach(&memory, 0, &shown));
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    assert_false(peer_read(&memory, 0, &place, true, 0, &seen, sizeof seen));
    peer_memory_close(&memory);
    munmap(value, BYTES);
    close(ends[0]);
    close(ends[1]);
    if (!works)
        skip();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(pointers_to_all_peers_stay),
                                       cmocka_unit_test(a_peer_that_waits_cannot_answer),
                                       cmocka_unit_test(attaches_to_the_process_that_is_meant)};
    struct roster *all = calloc(1, sizeof *all + (RANKS + 1) * sizeof *all->row);
    if (!all)
        return 1;
    process = all->row;
    team.roster = all;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(all);
    return failed;
}
