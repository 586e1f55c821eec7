/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_messages apart: sends and receives that one rank groups, and its peers make one after another: none waits for one
 * that the program did not put before it. On the stand-in driver: tutti run -n 3 -- gpu_messages apart.
 *
 * gpu_messages many: the same, with many of a pair; through host memory, so with TUTTI_SHM_DISABLE=1. gpu_messages
 * everyone: all to all, in memory for more ranks than pinned memory is for. gpu_messages orders SEED MOST: many
 * messages that all ranks call in one order, and group as they please, up to MOST of a pair in a group. gpu_messages
 * stuck: calls that do not fit. gpu_messages dies: a rank does, behind half of a group. gpu_messages memory calloc:N:
 * the N-th call for memory fails. With libinject.so, -n 2.
 */
#include "data.h"
#include "gpu_rank.h"
#include "inject.h"

#include "device/cuda/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LONG      200000 /* words: many times what a direction has memory for */
#define SHORT     30
#define MANY      32   /* a group's messages of one pair that are one operation */
#define PART      5000 /* words of one of many */
#define MESSAGES  60
#define GPU_RANKS 8
#define EACH      40000 /* words of everyone's message to everyone */

static tutti_comm_t comm;
static int rank, nranks;
static const struct cuda_driver *cu;
static uint32_t *in, *out; /* of the GPU */
static uint32_t *here;
static size_t room;

static uint32_t value(int from, int to, size_t i)
{
    return (uint32_t)from * 1000003u + (uint32_t)to * 70001u + (uint32_t)i * 7u;
}

static void make_memory(size_t words)
{
    void *found[2] = {NULL, NULL};
    room = words;
    for (int i = 0; i < 2; i++)
        OK(tutti_device_mem_alloc(&found[i], words * sizeof(uint32_t)));
    in = found[0];
    out = found[1];
    here = calloc(words, sizeof *here);
    require(here != NULL, "memory");
}

static void copy(void *to, const void *from)
{
    DONE(cu->MemcpyAsync((uintptr_t)to, (uintptr_t)from, room * sizeof *here, NULL));
    DONE(cu->StreamSynchronize(NULL));
}

/* From `at` on, what this rank sends to `to`. */
static void put(size_t at, size_t words, int to)
{
    for (size_t i = 0; i < words; i++)
        here[at + i] = value(rank, to, i);
    copy(in, here);
}

static void clear(void)
{
    memset(here, 0, room * sizeof *here);
    copy(out, here);
}

static void expect(size_t at, size_t words, int from, const char *what)
{
    for (size_t i = 0; i < words; i++) {
        if (here[at + i] == value(from, rank, i))
            continue;
        fprintf(stderr, "rank %d: %s: word %zu of rank %d is %#x\n", rank, what, i, from, here[at + i]);
        exit(1);
    }
}

static void finish(void)
{
    OK(tutti_comm_synchronize(comm));
    copy(here, out);
}

static void sends(size_t at, size_t words, int to)
{
    OK(tutti_send(in + at, words, TUTTI_UINT32, to, comm, NULL));
}

static void receives(size_t at, size_t words, int from)
{
    OK(tutti_recv(out + at, words, TUTTI_UINT32, from, comm, NULL));
}

/* ---- Of three ranks, the first of which has a group ---- */

/* A peer sends only when it has received all. */
static void answer_behind(void)
{
    int peer = 1 - rank;
    size_t mine = rank == 0 ? LONG : SHORT, theirs = rank == 0 ? SHORT : LONG;
    clear();
    put(0, mine, peer);
    if (rank == 0)
        OK(tutti_group_start());
    if (rank == 0)
        sends(0, mine, peer);
    if (rank < 2)
        receives(0, theirs, peer);
    if (rank == 1)
        sends(0, mine, peer);
    if (rank == 0)
        OK(tutti_group_end());
    finish();
    if (rank < 2)
        expect(0, theirs, peer, "an answer");
}

/* A peer receives only when another one has received all. */
static void receive_in_turn(void)
{
    clear();
    put(0, LONG, 1);
    put(LONG, LONG, 2);
    if (rank == 0) {
        OK(tutti_group_start());
        sends(0, LONG, 1);
        sends(LONG, LONG, 2);
        OK(tutti_group_end());
    } else if (rank == 1) {
        receives(LONG, SHORT, 2);
        receives(0, LONG, 0);
    } else {
        receives(0, LONG, 0);
        sends(0, SHORT, 1);
    }
    finish();
    if (rank > 0)
        expect(0, LONG, 0, "in turn");
}

/* A peer sends only when another one has sent all. */
static void send_in_turn(void)
{
    clear();
    put(0, LONG, 0);
    if (rank == 0) {
        OK(tutti_group_start());
        receives(0, LONG, 1);
        receives(LONG, LONG, 2);
        OK(tutti_group_end());
    } else if (rank == 1) {
        receives(0, SHORT, 2);
        sends(0, LONG, 0);
    } else {
        sends(0, LONG, 0);
        sends(0, SHORT, 1);
    }
    finish();
    for (int from = 1; rank == 0 && from < 3; from++)
        expect((size_t)(from - 1) * LONG, LONG, from, "from both");
}

/* Of different lengths, some of none. */
static size_t part(int i, int from)
{
    return from == 0 ? (size_t)(i * 1237) % PART : (size_t)(i * 7) % SHORT;
}

static void many(void)
{
    int peer = 1 - rank;
    clear();
    for (size_t i = 0; i < MANY; i++)
        put(i * PART, part((int)i, rank), peer);
    if (rank == 0)
        OK(tutti_group_start());
    for (size_t i = 0; i < MANY && rank == 0; i++)
        sends(i * PART, part((int)i, 0), 1);
    for (size_t i = 0; i < MANY && rank < 2; i++)
        receives(i * PART, part((int)i, peer), peer);
    for (size_t i = 0; i < MANY && rank == 1; i++)
        sends(i * PART, part((int)i, 1), 0);
    if (rank == 0)
        OK(tutti_group_end());
    finish();
    for (size_t i = 0; i < MANY && rank < 2; i++)
        expect(i * PART, part((int)i, peer), peer, "many");
}

/* ---- Failures ---- */

static void require_failure(tutti_result_t wanted, const char *says)
{
    tutti_result_t result = tutti_comm_synchronize(comm);
    const char *sentence = tutti_get_last_error(comm);
    if (result == wanted && strstr(sentence, says))
        return;
    fprintf(stderr, "rank %d: %d, %s\n", rank, (int)result, sentence);
    exit(1);
}

/* The answer comes behind a message that nobody sends. */
static void get_stuck(void)
{
    if (rank == 0) {
        OK(tutti_group_start());
        sends(0, LONG, 1);
        receives(0, SHORT, 1);
        OK(tutti_group_end());
    }
    if (rank == 1) {
        receives(0, LONG, 0);
        receives(0, SHORT, 0);
        sends(0, SHORT, 0);
    }
    if (rank == 2)
        receives(0, SHORT, 0);
    require_failure(TUTTI_INVALID_USAGE, "go on");
}

static void lose_rank_1(void)
{
    if (rank == 0) {
        OK(tutti_group_start());
        sends(0, LONG, 1);
        receives(0, LONG, 1);
        OK(tutti_group_end());
    }
    if (rank == 1) {
        receives(0, LONG, 0);
        OK(tutti_comm_synchronize(comm));
        _exit(0);
    }
    if (rank == 2)
        receives(0, SHORT, 1);
    require_failure(TUTTI_REMOTE_ERROR, "rank 1");
}

/* Rank 0's call `what` fails, of those that the exchange makes. */
static void do_without(const char *what)
{
    if (rank == 0)
        require(inject_arm(what), "an injector");
    OK(tutti_group_start());
    tutti_send(in, LONG, TUTTI_UINT32, 1 - rank, comm, NULL);
    tutti_recv(out, LONG, TUTTI_UINT32, 1 - rank, comm, NULL);
    tutti_result_t result = tutti_group_end();
    if (result == TUTTI_SUCCESS)
        result = tutti_comm_synchronize(comm);
    unsigned long fired = rank == 0 ? inject_disarm() : 0;
    require(result == TUTTI_SUCCESS || strlen(tutti_get_last_error(comm)) > 0, "a sentence");
    require(result == TUTTI_SUCCESS || rank == 1 || fired, "success");
    if (rank == 0)
        printf("fired %lu\n", fired);
}

/* ---- All ---- */

static void tell_everyone(void)
{
    size_t counts[64], offsets[64];
    require(nranks <= 64, "few ranks");
    clear();
    for (int i = 0; i < nranks; i++) {
        counts[i] = EACH;
        offsets[i] = (size_t)i * EACH;
        put(offsets[i], EACH, i);
    }
    OK(tutti_alltoallv(in, counts, offsets, out, counts, offsets, TUTTI_UINT32, comm, NULL));
    finish();
    for (int i = 0; i < nranks; i++)
        expect(offsets[i], EACH, i, "everyone");
}

/* ---- Any order ---- */

struct message {
    int from, to;
    size_t words, at;
};

static void plan_messages(uint64_t seed, struct message *list)
{
    static const size_t lengths[] = {0, 1, 25, 300, 3000, 20000, 70000};
    size_t at = 0;
    for (uint64_t i = 0; i < MESSAGES; i++) {
        struct message *message = &list[i];
        uint64_t bits = data_hash(seed, i);
        message->from = (int)(bits % (uint64_t)nranks);
        message->to = (message->from + 1 + (int)(bits / 100 % (uint64_t)(nranks - 1))) % nranks;
        message->words = lengths[bits / 10000 % 7];
        message->at = at;
        at += message->words;
    }
    room = at + 1;
}

static void call_in_groups(const struct message *list, uint64_t seed, int most)
{
    int called[2][GPU_RANKS] = {{0}}; /* of the group, by way and peer */
    bool grouped = false;
    for (uint64_t i = 0; i < MESSAGES; i++) {
        const struct message *message = &list[i];
        bool is_sent = message->from == rank;
        int *of_pair = &called[is_sent][is_sent ? message->to : message->from];
        uint64_t bits = data_hash(seed + (uint64_t)rank, i);
        if (!is_sent && message->to != rank)
            continue;
        if (grouped && (*of_pair == most || bits % 4 == 0)) {
            OK(tutti_group_end());
            grouped = false;
        }
        if (!grouped && bits / 4 % 3) {
            memset(called, 0, sizeof called);
            OK(tutti_group_start());
            grouped = true;
        }
        ++*of_pair;
        if (is_sent)
            sends(message->at, message->words, message->to);
        else
            receives(message->at, message->words, message->from);
    }
    if (grouped)
        OK(tutti_group_end());
}

static void call_in_order(uint64_t seed, int most)
{
    struct message list[MESSAGES];
    require(nranks > 1 && nranks <= GPU_RANKS, "some ranks");
    plan_messages(seed, list);
    make_memory(room);
    for (uint64_t round = 0; round < 3; round++) {
        clear();
        for (int i = 0; i < MESSAGES; i++)
            for (size_t k = 0; k < list[i].words; k++)
                here[list[i].at + k] = value(list[i].from, list[i].to, k);
        copy(in, here);
        call_in_groups(list, seed + 100 * round, most);
        finish();
        for (int i = 0; i < MESSAGES; i++)
            if (list[i].to == rank)
                expect(list[i].at, list[i].words, list[i].from, "a message in order");
        usleep(20000); /* in which peers may map the buffers */
    }
}

/* In the later rounds peers have mapped the buffers. */
static void keep_apart(void)
{
    for (int round = 0; round < 4; round++) {
        answer_behind();
        receive_in_turn();
        send_in_turn();
        usleep(50000);
    }
    require(!getenv("TUTTI_COPY_FROM") || logged(" from buffer to buffer", NULL, 0) > 0, "copies");
}

int main(int argc, char **argv)
{
    const char *local_rank = getenv("TUTTI_LOCAL_RANK"), *what = argc > 1 ? argv[1] : "";
    if (!local_rank)
        return 2;
    if (strcmp(what, "apart") == 0)
        log_open("trace");
    OK(cuda_driver(&cu));
    DONE(cu->Init(0));
    gpu_select(atoi(local_rank));
    gpu_join(&comm, &rank, &nranks);
    bool everyone = strcmp(what, "everyone") == 0, stuck = strcmp(what, "stuck") == 0, dies = strcmp(what, "dies") == 0;
    bool ordered = argc > 3;
    if (!ordered)
        make_memory(everyone ? (size_t)nranks * EACH : 2 * LONG);
    if (ordered)
        call_in_order(strtoull(argv[2], NULL, 10), atoi(argv[3]));
    else if (everyone)
        tell_everyone();
    else if (stuck)
        get_stuck();
    else if (dies)
        lose_rank_1();
    else if (argc > 2)
        do_without(argv[2]);
    else if (strcmp(what, "many") == 0)
        many();
    else
        keep_apart();
    OK(stuck || dies || argc == 3 ? tutti_comm_abort(comm) : tutti_comm_destroy(comm));
    free(here);
    return 0;
}
