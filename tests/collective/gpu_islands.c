/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_islands bytes: what GPUs of several hosts stage is what their rails carry, and no more; over RDMA if there is a
 * library for it. gpu_islands aborts, or dies: the last rank does, while all others are in a collective; ranks of its
 * island wait for it there, others on a rail. All say that it was that rank. gpu_islands fails: a copy between two
 * steps fails on one rank, by TUTTI_EMULATED_FAULT there; nobody waits for it. On the stand-in driver, as many ranks on
 * each host: TUTTI_HOSTID.
 *
 * gpu_islands unlike: the same as bytes with three ranks on one host and two on the other, and results are looked at.
 *
 * gpu_islands near: each goes by the adapter that is nearest to its GPU, by places that the stand-ins give.
 *
 * gpu_islands direct: adapters read and write the GPUs' memory by themselves, and nothing is staged but what is
 * reduced. gpu_islands apart: the same with a rank on each of four hosts. gpu_islands cut: the same, while all adapters
 * of a rank are taken out and come back. gpu_islands halfway: the last rank dies. All with TUTTI_STAGE_SLICE=64K,
 * TUTTI_DMABUF_FROM=4K.
 */
#include "box.h"
#include "gpu_rank.h"

#include "device/cuda/driver.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORDS  240000 /* of each rank's vector, or of all blocks: a multiple of the ranks */
#define HOSTS  2
#define ROUNDS 60 /* at most, until what a busy machine may hinder has been seen */
#define CUTS   4  /* rounds in which adapters go, at least */

static tutti_comm_t comm;
static int rank, nranks;
static const struct cuda_driver *cu;
static uint32_t *in, *out;

static void settle(void)
{
    OK(tutti_comm_synchronize(comm));
}

/* This rank has staged `words` words since the last look. */
static void require_staged(const char *what, size_t words)
{
    static uint64_t before;
    settle();
    uint64_t now = box_counter(WIRE_COUNTER_STAGED_BYTES), staged = now - before;
    before = now;
    if (staged == words * sizeof(uint32_t))
        return;
    fprintf(stderr, "rank %d: %s: %" PRIu64 " bytes were staged, not %zu\n", rank, what, staged,
            words * sizeof(uint32_t));
    exit(1);
}

static void to_neighbour(int distance)
{
    OK(tutti_group_start());
    OK(tutti_send(in, WORDS, TUTTI_UINT32, rank ^ distance, comm, NULL));
    OK(tutti_recv(out, WORDS, TUTTI_UINT32, rank ^ distance, comm, NULL));
    OK(tutti_group_end());
}

/* What is reduced. */
static void count_reduced(void)
{
    size_t size = (size_t)nranks / HOSTS, part = WORDS / size, block = WORDS / (size_t)nranks;
    bool near_root = (size_t)rank < size;
    require_staged("nothing", box_counter(WIRE_COUNTER_STAGED_BYTES) / sizeof(uint32_t));
    OK(tutti_allreduce(in, out, WORDS, TUTTI_UINT32, TUTTI_SUM, comm, NULL));
    require_staged("allreduce", 2 * part);
    OK(tutti_reduce(in, out, WORDS, TUTTI_UINT32, TUTTI_SUM, 0, comm, NULL));
    require_staged("reduce", near_root ? 2 * part : part);
    OK(tutti_reduce_scatter(in, out, block, TUTTI_UINT32, TUTTI_SUM, comm, NULL));
    require_staged("reduce-scatter", 2 * (HOSTS - 1) * block); /* the own block stays on the GPU, which reduces */
}

static void count_bytes(void)
{
    size_t size = (size_t)nranks / HOSTS, block = WORDS / (size_t)nranks;
    bool near_root = (size_t)rank < size;
    size_t device = 1, host;
    OK(tutti_comm_suspend(comm));
    OK(tutti_comm_memory(comm, &device, &host));
    require(device == 0, "nothing is held of the device");
    OK(tutti_comm_resume(comm));
    count_reduced();
    OK(tutti_broadcast(in, out, WORDS, TUTTI_UINT32, 0, comm, NULL));
    require_staged("broadcast", (near_root ? 2 : 1) * WORDS / size);
    OK(tutti_allgather(in, out, block, TUTTI_UINT32, comm, NULL));
    require_staged("allgather", (HOSTS + 1) * block);
    OK(tutti_alltoall(in, out, block, TUTTI_UINT32, comm, NULL));
    require_staged("alltoall", 2 * ((size_t)nranks - size) * block);
    OK(tutti_gather(in, out, block, TUTTI_UINT32, 0, comm, NULL));
    require_staged("gather", rank == 0 ? ((size_t)nranks - size) * block : near_root ? 0 : block);
    OK(tutti_scatter(in, out, block, TUTTI_UINT32, 0, comm, NULL));
    require_staged("scatter", rank == 0 ? ((size_t)nranks - size) * block : near_root ? 0 : block);
    to_neighbour(1);
    require_staged("messages within islands", 0);
    to_neighbour(nranks / HOSTS);
    require_staged("messages between islands", 2 * WORDS);
}

/* ---- Islands of three and two: rank 2 is on no rail ---- */

static uint32_t of_rank(int from, size_t i)
{
    return (uint32_t)from * 1000003u + (uint32_t)i * 7u;
}

static uint32_t of_all(size_t i)
{
    uint32_t sum = 0;
    for (int from = 0; from < nranks; from++)
        sum += of_rank(from, i);
    return sum;
}

static void read_out(uint32_t *to, size_t words)
{
    settle();
    DONE(cu->MemcpyAsync((uintptr_t)to, (uintptr_t)out, words * sizeof *to, NULL));
    DONE(cu->StreamSynchronize(NULL));
}

static size_t block_words; /* words of each rank's */

static uint32_t average_at(size_t i)
{
    return of_all(i) / (uint32_t)nranks;
}

static uint32_t of_last(size_t i)
{
    return of_rank(nranks - 1, i);
}

static uint32_t gathered_at(size_t i)
{
    return of_rank((int)(i / block_words), i % block_words);
}

static uint32_t own_block_at(size_t i)
{
    return of_all((size_t)rank * block_words + i);
}

static void require_out(const char *what, size_t words, uint32_t (*wanted_at)(size_t i))
{
    uint32_t *got = malloc(words * sizeof *got);
    require(got != NULL, "memory");
    read_out(got, words);
    for (size_t i = 0; i < words; i++) {
        uint32_t wanted = wanted_at(i);
        if (got[i] == wanted)
            continue;
        fprintf(stderr, "rank %d: %s of %zu: word %zu is %#x, not %#x\n", rank, what, words, i, got[i], wanted);
        exit(1);
    }
    free(got);
}

/* What this rank stages of the vector once: its rail's part, and on the first rail what does not divide. */
static size_t carried(size_t words, bool whole)
{
    bool first = rank == 0 || rank == 3;
    return rank == 2 || (whole && !first) ? 0 : whole ? words : words / 2 + (first ? words % 2 : 0);
}

/* The same of the blocks of both islands: its own island's part once, and the other's. The last rail has what does not
 * divide. */
static size_t carried_blocks(bool whole)
{
    size_t first = 3 * block_words / 2, part = rank == 0 || rank == 3 ? first : 3 * block_words - first;
    return whole ? carried(5 * block_words, true) : rank == 2 ? 0 : part + block_words;
}

static void go_unlike(size_t words, bool whole)
{
    size_t once = carried(words, whole);
    OK(tutti_allreduce(in, out, words, TUTTI_UINT32, TUTTI_SUM, comm, NULL));
    require_out("allreduce", words, of_all);
    require_staged("allreduce", 2 * once);
    OK(tutti_allreduce(in, out, words, TUTTI_UINT32, TUTTI_AVG, comm, NULL));
    require_out("average", words, average_at);
    require_staged("average", 2 * once);
    OK(tutti_reduce(in, out, words, TUTTI_UINT32, TUTTI_SUM, 2, comm, NULL));
    if (rank == 2)
        require_out("reduce", words, of_all);
    require_staged("reduce", rank < 3 ? 2 * once : once);
    OK(tutti_broadcast(in, out, words, TUTTI_UINT32, 4, comm, NULL));
    require_out("broadcast", words, of_last);
    require_staged("broadcast", rank < 3 ? once : 2 * once);
    block_words = words / (size_t)nranks;
    OK(tutti_allgather(in, out, block_words, TUTTI_UINT32, comm, NULL));
    require_out("allgather", block_words * (size_t)nranks, gathered_at);
    require_staged("allgather", carried_blocks(whole));
    OK(tutti_reduce_scatter(in, out, block_words, TUTTI_UINT32, TUTTI_SUM, comm, NULL));
    require_out("reduce-scatter", block_words, own_block_at);
    require_staged("reduce-scatter", carried_blocks(whole));
}

static void count_unlike(void)
{
    uint32_t *mine = malloc(WORDS * sizeof *mine);
    require(mine && nranks == 5, "memory, and five ranks");
    for (size_t i = 0; i < WORDS; i++)
        mine[i] = of_rank(rank, i);
    DONE(cu->MemcpyAsync((uintptr_t)in, (uintptr_t)mine, WORDS * sizeof *mine, NULL));
    DONE(cu->StreamSynchronize(NULL));
    free(mine);
    require_staged("nothing", box_counter(WIRE_COUNTER_STAGED_BYTES) / sizeof(uint32_t));
    go_unlike(WORDS - 1, false);
    go_unlike(100, true);
}

/* The call, or its end, fails by the fault of the last rank. */
static void require_blame(tutti_result_t called, const char *what)
{
    char words[40];
    snprintf(words, sizeof words, "%s rank %d", what, nranks - 1);
    require((called == TUTTI_SUCCESS ? tutti_comm_synchronize(comm) : called) == TUTTI_REMOTE_ERROR, "a failure");
    if (strstr(tutti_get_last_error(comm), words))
        return;
    fprintf(stderr, "rank %d: %s\n", rank, tutti_get_last_error(comm));
    exit(1);
}

/* ---- By adapters ---- */

#define PIECE 2048          /* words of a message's piece, at least */
#define LONG  (100 * PIECE) /* words of a message */

static uint32_t *here;

/* Words of a block. */
static size_t each(void)
{
    return (size_t)(100 / nranks) * PIECE;
}

static uint32_t value(int from, int to, unsigned round, size_t i)
{
    return (uint32_t)from * 1000003u + (uint32_t)to * 70001u + round * 40503u + (uint32_t)i * 7u;
}

static void copy(void *to, const void *from, size_t words)
{
    DONE(cu->MemcpyAsync((uintptr_t)to, (uintptr_t)from, words * sizeof(uint32_t), NULL));
    DONE(cu->StreamSynchronize(NULL));
}

/* Blocks of `words` for ranks first and on; nothing in `out`. */
static void put(int first, int count, size_t words, unsigned round)
{
    memset(here, 0, WORDS * sizeof *here);
    copy(out, here, WORDS);
    for (int to = 0; to < count; to++)
        for (size_t i = 0; i < words; i++)
            here[(size_t)to * words + i] = value(rank, first + to, round, i);
    copy(in, here, (size_t)count * words);
}

/* Of `count` ranks, what they put for this one. */
static void compare_for(int to, int first, int count, size_t words, unsigned round, const char *what)
{
    copy(here, out, (size_t)count * words);
    for (int from = 0; from < count; from++)
        for (size_t i = 0; i < words; i++) {
            uint32_t got = here[(size_t)from * words + i], wanted = value(first + from, to, round, i);
            if (got == wanted)
                continue;
            fprintf(stderr, "rank %d: %s, round %u: word %zu of rank %d is %#x, not %#x\n", rank, what, round, i,
                    first + from, got, wanted);
            exit(1);
        }
}

static void expect_for(int to, int first, int count, size_t words, unsigned round, const char *what)
{
    settle();
    compare_for(to, first, count, words, round, what);
}

static void expect(int first, int count, size_t words, unsigned round, const char *what)
{
    expect_for(rank, first, count, words, round, what);
}

/* Since the last look. */
static uint64_t counted(enum wire_counter which)
{
    static uint64_t before[WIRE_COUNTER_COUNT];
    uint64_t now = box_counter(which), more = now - before[which];
    before[which] = now;
    return more;
}

/* All of it went by adapters. A lane that a busy machine held up for long may have ended. */
static bool went_direct(const char *what, size_t words)
{
    uint64_t direct = counted(WIRE_COUNTER_DIRECT_BYTES), staged = counted(WIRE_COUNTER_STAGED_BYTES);
    if (direct == words * sizeof(uint32_t) && !staged)
        return true;
    fprintf(stderr, "rank %d: %s: %" PRIu64 " bytes went by adapters, not %zu, and %" PRIu64 " were staged\n", rank,
            what, direct, words * sizeof(uint32_t), staged);
    return false;
}

static void exchange_far(void)
{
    int peer = (rank + nranks / HOSTS) % nranks;
    OK(tutti_group_start());
    OK(tutti_send(in, LONG, TUTTI_UINT32, peer, comm, NULL));
    OK(tutti_recv(out, LONG, TUTTI_UINT32, peer, comm, NULL));
    OK(tutti_group_end());
}

/* Counts of all ranks. */
static uint64_t sum(uint64_t count)
{
    copy(in, &count, sizeof count / sizeof *in);
    OK(tutti_allreduce(in, out, 1, TUTTI_UINT64, TUTTI_SUM, comm, NULL));
    settle();
    copy(&count, out, sizeof count / sizeof *in);
    counted(WIRE_COUNTER_STAGED_BYTES);
    return count;
}

static size_t free_bytes(void)
{
    size_t bytes;
    DONE(cu->MemGetInfo(&bytes, NULL));
    return bytes;
}

/* Adapters let go of memory that the program has freed. */
static void free_what_was_sent(int peer)
{
    CUdeviceptr more;
    size_t before = free_bytes();
    DONE(cu->MemAlloc(&more, 2 * LONG * sizeof *in));
    OK(tutti_group_start());
    OK(tutti_send((void *)(uintptr_t)more, LONG, TUTTI_UINT32, peer, comm, NULL));
    OK(tutti_recv((uint32_t *)(uintptr_t)more + LONG, LONG, TUTTI_UINT32, peer, comm, NULL));
    OK(tutti_group_end());
    settle();
    require(counted(WIRE_COUNTER_DIRECT_BYTES) > 0, "messages by adapters");
    DONE(cu->MemFree(more));
    while (free_bytes() < before)
        usleep(10000);
}

/* Kinds of calls, as bits, of which no round went by adapters alone on all ranks so far. A busy machine may hold up
 * lanes until they end, and each call needs one good round. */
static uint64_t left;
static uint64_t ways_missed; /* of this round, a byte for each kind */

static bool is_left(unsigned kind)
{
    return left >> kind & 1;
}

static void note_way(unsigned kind, const char *what, size_t words)
{
    ways_missed |= (uint64_t)!went_direct(what, words) << 8 * kind;
}

static void end_round(unsigned round)
{
    uint64_t all = sum(ways_missed);
    ways_missed = 0;
    for (unsigned kind = 0; kind < 8; kind++)
        if (!(all >> 8 * kind & 0xff))
            left &= ~(1ull << kind);
    require(!left || round < ROUNDS, "a round in which nothing is staged");
}

/* What rails carry of an allgather and of a broadcast. */
static void share_rails(unsigned round)
{
    size_t block = each(), size = (size_t)nranks / HOSTS;
    put(0, 1, LONG, round);
    counted(WIRE_COUNTER_STAGED_BYTES);
    if (is_left(2)) {
        OK(tutti_allgather(in, out, block, TUTTI_UINT32, comm, NULL));
        expect_for(0, 0, nranks, block, round, "allgather");
        note_way(2, "allgather", HOSTS * block);
    }
    if (is_left(3)) {
        OK(tutti_broadcast(in, out, LONG, TUTTI_UINT32, 1, comm, NULL));
        expect_for(0, 1, 1, LONG, round, "broadcast");
        note_way(3, "broadcast", LONG / size);
    }
}

static void go_direct(void)
{
    size_t far = (size_t)(nranks - nranks / HOSTS), block = each();
    int peer = (rank + nranks / HOSTS) % nranks;
    left = 15;
    for (unsigned round = 0; left; round++) {
        put(peer, 1, LONG, round);
        counted(WIRE_COUNTER_STAGED_BYTES);
        if (is_left(0)) {
            exchange_far();
            expect(peer, 1, LONG, round, "messages between islands");
            note_way(0, "messages between islands", 2 * LONG);
        }
        put(0, nranks, block, round);
        if (is_left(1)) {
            OK(tutti_alltoall(in, out, block, TUTTI_UINT32, comm, NULL));
            expect(0, nranks, block, round, "alltoall");
            note_way(1, "alltoall", 2 * far * block);
        }
        share_rails(round);
        end_round(round);
    }
    free_what_was_sent(peer);
}

/* Each rank on a host of its own. A broadcast's root sends a part to each rank, and each sends its part to the others:
 * six parts go or come at each of four ranks. */
static void go_apart(void)
{
    size_t others = (size_t)nranks - 1, block = each(), vector = (size_t)nranks * block;
    bool root = rank == 1;
    left = 31;
    for (unsigned round = 0; left; round++) {
        put(0, nranks, block, round);
        counted(WIRE_COUNTER_STAGED_BYTES);
        OK(tutti_alltoall(in, out, block, TUTTI_UINT32, comm, NULL));
        expect(0, nranks, block, round, "alltoall");
        note_way(0, "alltoall", 2 * others * block);
        OK(tutti_scatter(in, out, block, TUTTI_UINT32, 1, comm, NULL));
        expect(1, 1, block, round, "scatter");
        note_way(1, "scatter", root ? others * block : block);
        put(0, 1, vector, round);
        OK(tutti_allgather(in, out, block, TUTTI_UINT32, comm, NULL));
        expect_for(0, 0, nranks, block, round, "allgather");
        note_way(2, "allgather", 2 * others * block);
        OK(tutti_gather(in, out, block, TUTTI_UINT32, 1, comm, NULL));
        settle();
        if (root)
            expect_for(0, 0, nranks, block, round, "gather");
        note_way(3, "gather", root ? others * block : block);
        OK(tutti_broadcast(in, out, vector, TUTTI_UINT32, 1, comm, NULL));
        expect_for(0, 1, 1, vector, round, "broadcast");
        note_way(4, "broadcast", 2 * others * block);
        end_round(round);
    }
}

static void ask(const char *command, char *answer, size_t size)
{
    static int (*say)(const char *command, char *answer, size_t size);
    if (!say)
        *(void **)&say = dlsym(dlopen(getenv("TUTTI_IBVERBS_LIBRARY"), RTLD_NOW), "softverbs_control");
    require(say && say(command, answer, size) == 0, command);
}

static void control(const char *command)
{
    char answer[200];
    ask(command, answer, sizeof answer);
}

/* Waits until a part of a message has gone by adapters; not for long, as they may not be back. */
static void some_went_direct(uint64_t before)
{
    for (int i = 0; i < 1000 && box_counter(WIRE_COUNTER_DIRECT_BYTES) == before; i++)
        usleep(100);
}

/* One rank's adapters go while messages are under way: a part has gone by them, and the rest goes otherwise. */
static void cut(void)
{
    int peer = (rank + nranks / HOSTS) % nranks;
    uint64_t both = 0;
    counted(WIRE_COUNTER_STAGED_BYTES);
    for (unsigned round = 0; round < CUTS || !sum(both); round++) {
        require(round < ROUNDS, "a message that went both ways");
        put(peer, 1, LONG, round);
        OK(tutti_barrier(comm, NULL));
        settle();
        uint64_t before = box_counter(WIRE_COUNTER_DIRECT_BYTES);
        exchange_far();
        if (rank == (int)round % nranks) {
            some_went_direct(before);
            usleep(round % 8 * 200);
            control("unplug soft_v0");
            control("unplug soft_v1");
            control("plug soft_v0");
            control("plug soft_v1");
        }
        expect(peer, 1, LONG, round, "messages while adapters go");
        uint64_t direct = counted(WIRE_COUNTER_DIRECT_BYTES), staged = counted(WIRE_COUNTER_STAGED_BYTES);
        both += direct && staged;
    }
}

/* ---- The nearest adapter: GPUs of rail 0 are at soft_v0, those of rail 1 at soft_v1 ---- */

#define PAIRS   512
#define NUMBERS (1u << 24) /* of packets */

/* Packets that this process has sent by both adapters since the last look, by queue pairs that were there then. */
static void look_at_packets(uint32_t sent[2])
{
    static struct {
        unsigned number, packet;
    } before[PAIRS], now[PAIRS];
    static char answer[65536];
    int count = 0;
    sent[0] = sent[1] = 0;
    ask("info", answer, sizeof answer);
    for (const char *at = strstr(answer, "qp 0x"); at && count < PAIRS; at = strstr(at + 1, "qp 0x")) {
        char name[32];
        unsigned peer, port;
        if (sscanf(at, "qp %x %31s RTS peer %x sport %u psn %u", &now[count].number, name, &peer, &port,
                   &now[count].packet) != 5)
            continue;
        for (int i = 0; i < PAIRS; i++)
            if (before[i].number == now[count].number)
                sent[strcmp(name, "soft_v1") == 0] += (now[count].packet - before[i].packet) % NUMBERS;
        count++;
    }
    memcpy(before, now, sizeof before);
}

static void exchange_on_rail(unsigned round)
{
    int peer = (rank + nranks / HOSTS) % nranks;
    put(peer, 1, LONG, round);
    exchange_far();
    expect(peer, 1, LONG, round, "messages on a rail");
    OK(tutti_barrier(comm, NULL));
    settle();
}

/* This rank's adapter carries twice what the other one does: words of links are among that. */
static bool goes_near(unsigned round)
{
    uint32_t sent[2];
    look_at_packets(sent);
    exchange_on_rail(round);
    look_at_packets(sent);
    if (sent[rank % 2] >= 2 * sent[!(rank % 2)])
        return true;
    fprintf(stderr, "rank %d: %u packets by soft_v0, %u by soft_v1\n", rank, sent[0], sent[1]);
    return false;
}

/* Where only the nearest may reach a GPU, nothing does when that one is gone. */
static void go_near(void)
{
    bool only = getenv("TUTTI_NET_GDR_LEVEL") != NULL;
    uint64_t missed = 1;
    exchange_on_rail(0); /* with all that it makes */
    for (unsigned round = 1; missed; round++) {
        require(round < ROUNDS, "a round in which all adapters are the nearest");
        missed = sum(!goes_near(round));
    }
    require(counted(WIRE_COUNTER_DIRECT_BYTES) > 0, "messages by adapters");
    control(rank % 2 ? "unplug soft_v1" : "unplug soft_v0");
    counted(WIRE_COUNTER_STAGED_BYTES);
    exchange_on_rail(ROUNDS);
    require(only == !counted(WIRE_COUNTER_DIRECT_BYTES), "the other adapter, where it may reach the GPU");
    require(!only || counted(WIRE_COUNTER_STAGED_BYTES) >= 2 * LONG * sizeof *in, "copies");
}

/* All wait for the last rank in an alltoall, of which a part has been. Where that was all of a rank's part, the rank
 * has the right words, and hears of the loss in its next call: an abort before that would tell the others first. */
static void lose_halfway(void)
{
    put(0, nranks, each(), 0);
    OK(tutti_barrier(comm, NULL));
    settle();
    tutti_result_t called = tutti_alltoall(in, out, each(), TUTTI_UINT32, comm, NULL);
    if (rank == nranks - 1) {
        usleep(2000);
        _exit(0);
    }
    if (called == TUTTI_SUCCESS && tutti_comm_synchronize(comm) == TUTTI_SUCCESS) {
        compare_for(rank, 0, nranks, each(), 0, "an alltoall that had ended"); /* the loss may be known by now */
        called = tutti_barrier(comm, NULL);
    }
    require_blame(called, "lost");
    OK(tutti_comm_abort(comm));
}

/* ---- Failures ---- */

/* A vector of which one rail carries a word more than others, and so a slice more. Then calls of all channels. Where
 * ranks of a host do not follow one another the allgather is staged as a whole. */
static void go_uneven(void)
{
    for (uint32_t i = 0; i < WORDS; i++)
        here[i] = i;
    copy(in, here, WORDS);
    OK(tutti_allreduce(in, out, 8193, TUTTI_UINT32, TUTTI_MAX, comm, NULL));
    OK(tutti_allreduce(in, out, WORDS, TUTTI_UINT32, TUTTI_AVG, comm, NULL));
    settle();
    copy(here, out, WORDS);
    for (uint32_t i = 0; i < WORDS; i++)
        require(here[i] == i, "an average of what all have");
    OK(tutti_allgather(in, out, WORDS / (size_t)nranks, TUTTI_UINT32, comm, NULL));
    settle();
    copy(here, out, WORDS);
    for (uint32_t i = 0; i < WORDS; i++)
        require(here[i] == i % (WORDS / (uint32_t)nranks), "blocks of all");
}

static void without_the_last(bool dies)
{
    go_uneven();
    OK(tutti_barrier(comm, NULL)); /* an abort would end calls of ranks that come late */
    settle();
    if (rank == nranks - 1) {
        usleep(300000); /* in which the others come to wait */
        if (dies)
            _exit(0);
        OK(tutti_comm_abort(comm));
        return;
    }
    tutti_result_t called = tutti_allreduce(in, out, WORDS, TUTTI_UINT32, TUTTI_SUM, comm, NULL);
    require_blame(called, dies ? "lost" : "aborted by");
    OK(tutti_comm_abort(comm));
}

static void fail_between_steps(void)
{
    bool here = getenv("TUTTI_EMULATED_FAULT") != NULL;
    tutti_result_t result = tutti_allgather(in, out, WORDS / (size_t)nranks, TUTTI_UINT32, comm, NULL);
    result = result == TUTTI_SUCCESS ? tutti_comm_synchronize(comm) : result;
    require(result == (here ? TUTTI_DEVICE_ERROR : TUTTI_REMOTE_ERROR), "a failure");
    require(strstr(tutti_get_last_error(comm), "copying blocks") != NULL, tutti_get_last_error(comm));
    OK(tutti_comm_abort(comm));
}

static void make_memory(void)
{
    void *found[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++)
        OK(tutti_device_mem_alloc(&found[i], WORDS * sizeof(uint32_t)));
    in = found[0];
    out = found[1];
}

int main(int argc, char **argv)
{
    const char *local_rank = getenv("TUTTI_LOCAL_RANK"), *what = argc > 1 ? argv[1] : "";
    if (!local_rank)
        return 2;
    OK(cuda_driver(&cu));
    gpu_select(atoi(local_rank));
    gpu_join(&comm, &rank, &nranks);
    make_memory();
    if (strcmp(what, "fails") == 0) {
        fail_between_steps();
        return 0;
    }
    OK(tutti_barrier(comm, NULL));
    if (strcmp(what, "unlike") == 0) {
        count_unlike();
        OK(tutti_comm_destroy(comm));
        return 0;
    }
    here = malloc(WORDS * sizeof *here);
    require(here != NULL, "memory");
    if (strcmp(what, "aborts") == 0 || strcmp(what, "dies") == 0) {
        without_the_last(strcmp(what, "dies") == 0);
        return 0;
    }
    if (strcmp(what, "halfway") == 0) {
        lose_halfway();
        return 0;
    }
    if (strcmp(what, "direct") == 0) {
        count_reduced();
        go_direct();
    }
    if (strcmp(what, "apart") == 0)
        go_apart();
    if (strcmp(what, "near") == 0)
        go_near();
    if (strcmp(what, "cut") == 0)
        cut();
    if (strcmp(what, "bytes") == 0)
        count_bytes();
    free(here);
    if (getenv("TUTTI_IBVERBS_LIBRARY"))
        require(box_counter(WIRE_COUNTER_SENT_VERBS) && box_counter(WIRE_COUNTER_RECEIVED_VERBS), "RDMA");
    OK(tutti_comm_destroy(comm));
    return 0;
}
