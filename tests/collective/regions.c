/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory from tutti_mem_alloc, of some ranks and of all, made before and after the communicator, freed while peers have
 * it mapped: results are right, and what is freed is let go everywhere. `tutti run -n 3 -- regions let-go`, or with
 * RANK and WORLD_SIZE set: `regions [uid NUMBER] [undumpable]`.
 */
#include "tutti/tutti.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define COUNT    (5 << 18) /* elements: 5 MiB, as nothing else here */
#define BYTES    ((size_t)COUNT * sizeof(uint32_t))
#define ROUNDS   6
#define LIVES    24
#define PATIENCE 60 /* seconds */

static tutti_comm_t comm;
static int rank, nranks;

static void need(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "rank %d: %s: %s\n", rank, what, tutti_get_last_error(comm));
    exit(1);
}

static void must(tutti_result_t result, const char *what)
{
    need(result == TUTTI_SUCCESS, what);
}

static uint32_t *own(bool shared)
{
    void *memory = NULL;
    if (shared)
        must(tutti_mem_alloc(&memory, BYTES), "tutti_mem_alloc");
    else
        memory = malloc(BYTES);
    need(memory, "no memory");
    return memory;
}

static void give_back(uint32_t *memory, bool shared)
{
    if (shared)
        must(tutti_mem_free(memory), "tutti_mem_free");
    else
        free(memory);
}

static uint32_t value(uint32_t of, uint32_t round, uint32_t i)
{
    return (of + 1) * 1000003u + round * 7919u + i * 2654435761u;
}

static void fill(uint32_t *memory, uint32_t round)
{
    for (uint32_t i = 0; i < COUNT; i++)
        memory[i] = value((uint32_t)rank, round, i);
}

static void check_sum(const uint32_t *out, uint32_t round)
{
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t sum = 0;
        for (int r = 0; r < nranks; r++)
            sum += value((uint32_t)r, round, i);
        if (out[i] == sum)
            continue;
        fprintf(stderr, "rank %d, round %u: element %u of the sum is %u, not %u\n", rank, round, i, out[i], sum);
        exit(1);
    }
}

static void check_from(const uint32_t *out, int from, uint32_t round, const char *what)
{
    for (uint32_t i = 0; i < COUNT; i++) {
        if (out[i] == value((uint32_t)from, round, i))
            continue;
        fprintf(stderr, "rank %d, round %u: element %u of the %s is %u, not %u\n", rank, round, i, what, out[i],
                value((uint32_t)from, round, i));
        exit(1);
    }
}

static void work(uint32_t *in, uint32_t *out, uint32_t round)
{
    int next = (rank + 1) % nranks, last = (rank + nranks - 1) % nranks, root = (int)round % nranks;
    fill(in, round);
    must(tutti_allreduce(in, out, COUNT, TUTTI_UINT32, TUTTI_SUM, comm, NULL), "allreduce");
    must(tutti_comm_synchronize(comm), "allreduce");
    check_sum(out, round);
    must(tutti_broadcast(in, out, COUNT, TUTTI_UINT32, root, comm, NULL), "broadcast");
    must(tutti_comm_synchronize(comm), "broadcast");
    check_from(out, root, round, "broadcast");
    must(tutti_group_start(), "group");
    must(tutti_send(in, COUNT, TUTTI_UINT32, next, comm, NULL), "send");
    must(tutti_recv(out, COUNT, TUTTI_UINT32, last, comm, NULL), "receive");
    must(tutti_group_end(), "group");
    must(tutti_comm_synchronize(comm), "exchange");
    check_from(out, last, round, "message");
}

/* Of regions: mappings of that size, one's own and peers'. */
static int mapped(void)
{
    char line[512];
    int count = 0;
    FILE *maps = fopen("/proc/self/maps", "re");
    need(maps, "no /proc/self/maps");
    while (fgets(line, sizeof line, maps)) {
        unsigned long from, to;
        count += sscanf(line, "%lx-%lx", &from, &to) == 2 && to - from == BYTES && strstr(line, "tutti");
    }
    fclose(maps);
    return count;
}

static int descriptors(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    need(folder, "no /proc/self/fd");
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

/* Without a call. */
static void await(int count, const char *what)
{
    time_t end = time(NULL) + PATIENCE;
    struct timespec pause = {0, 2000000};
    while (mapped() != count) {
        if (time(NULL) > end) {
            fprintf(stderr, "rank %d: %s: %d regions are mapped, not %d\n", rank, what, mapped(), count);
            exit(1);
        }
        nanosleep(&pause, NULL);
    }
}

/* Some come and go with other work of the library at any time. */
static void await_descriptors(int most)
{
    time_t end = time(NULL) + PATIENCE;
    struct timespec pause = {0, 2000000};
    while (descriptors() > most) {
        if (time(NULL) > end) {
            fprintf(stderr, "rank %d: %d descriptors stay open, expected at most %d\n", rank, descriptors(), most);
            exit(1);
        }
        nanosleep(&pause, NULL);
    }
}

static void all_here(void)
{
    must(tutti_barrier(comm, NULL), "barrier");
    must(tutti_comm_synchronize(comm), "barrier");
}

/* Buffers that live for one operation each, at the same address again and again. */
static void short_lives(void)
{
    for (uint32_t life = 0; life < LIVES; life++) {
        uint32_t *buffer = own(true);
        fill(buffer, life);
        must(tutti_allreduce(buffer, buffer, COUNT, TUTTI_UINT32, TUTTI_SUM, comm, NULL), "allreduce");
        must(tutti_comm_synchronize(comm), "allreduce");
        check_sum(buffer, life);
        give_back(buffer, true);
    }
}

/* Peers map what is used, and let go what is freed, however long nobody calls. */
static void let_go(void)
{
    uint32_t *in = own(true), *out = own(true);
    for (uint32_t round = 0; round < ROUNDS; round++)
        work(in, out, round);
    await(2 * nranks, "in use");
    for (uint32_t round = 0; round < ROUNDS; round++) /* read where they lie */
        work(in, out, round);
    int before = descriptors();
    short_lives();
    await(2 * nranks, "after short lives");
    await_descriptors(before);
    all_here();
    give_back(in, true);
    give_back(out, true);
    await(0, "all freed");
}

int main(int argc, char **argv)
{
    bool lets_go = argc > 1 && strcmp(argv[1], "let-go") == 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "uid") == 0 && i + 1 < argc)
            need(setgid((gid_t)atoi(argv[i + 1])) == 0 && setuid((uid_t)atoi(argv[i + 1])) == 0, "setuid");
        if (strcmp(argv[i], "undumpable") == 0)
            need(prctl(PR_SET_DUMPABLE, 0) == 0, "prctl");
    }
    uint32_t *before = own(true);
    must(tutti_comm_init_from_env(&comm, NULL), "init");
    must(tutti_comm_rank(comm, &rank), "rank");
    must(tutti_comm_count(comm, &nranks), "count");
    bool some = rank % 2 == 0; /* memory of one process only */
    uint32_t *out = own(some);
    for (uint32_t round = 0; round < ROUNDS; round++)
        work(before, out, round);
    give_back(before, true);
    give_back(out, some);
    if (lets_go) {
        await(0, "before");
        all_here();
        let_go();
    }
    all_here();
    must(tutti_comm_destroy(comm), "destroy");
    return 0;
}
