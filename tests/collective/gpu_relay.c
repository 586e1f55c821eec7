/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two ranks on each of two hosts, with a GPU and an adapter beside it each. The first ones exchange messages, and relay
 * a part of them by the GPUs of the others while these are idle: in slots on those GPUs, which this program looks for
 * in what its communicator holds. Then the others send, too; want the memory; an adapter goes; the one on the first
 * host dies; and at last a rank that relays dies. All messages are right, nobody hangs, and no slot is left. On the
 * stand-ins, with TUTTI_BORROW, TUTTI_STAGE_SLICE=64K, TUTTI_DMABUF_FROM=4K, TUTTI_EMULATED_MEMORY=256M.
 */
#include "box.h"
#include "gpu_rank.h"

#include <dirent.h>
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORDS    131072 /* of a message: 512 KiB, in pieces of 16 KiB */
#define ROUNDS   300    /* at most, until what a busy machine may hinder has been seen */
#define PATIENCE 10000  /* ms */
#define TOO_MUCH ((size_t)300 << 20)

static tutti_comm_t whole, pair;
static int rank;
static uint32_t *in, *out, *here;
static unsigned round_number;

static void settle(tutti_comm_t comm)
{
    OK(tutti_comm_synchronize(comm));
}

static void meet(void)
{
    OK(tutti_barrier(whole, NULL));
    settle(whole);
}

static size_t slots_held(void)
{
    size_t device = 0;
    OK(tutti_comm_memory(pair, &device, NULL));
    return device;
}

/* Since the last look. */
static uint64_t relayed(void)
{
    static uint64_t before;
    uint64_t now = box_counter(WIRE_COUNTER_RELAYED_BYTES), more = now - before;
    before = now;
    return more;
}

static uint32_t word(int from, size_t i)
{
    return (uint32_t)from * 1000003u + round_number * 40503u + (uint32_t)i * 7u;
}

static tutti_result_t exchange(void)
{
    tutti_result_t result = tutti_group_start();
    if (result == TUTTI_SUCCESS)
        result = tutti_send(in, WORDS, TUTTI_UINT32, rank < 2, pair, NULL);
    if (result == TUTTI_SUCCESS)
        result = tutti_recv(out, WORDS, TUTTI_UINT32, rank < 2, pair, NULL);
    if (result == TUTTI_SUCCESS)
        result = tutti_group_end();
    return result == TUTTI_SUCCESS ? tutti_comm_synchronize(pair) : result;
}

static void begin_round(void)
{
    round_number++;
    for (size_t i = 0; i < WORDS; i++)
        here[i] = word(rank, i);
    gpu_bytes_copy(in, here, WORDS * sizeof *here);
    memset(here, 0, WORDS * sizeof *here);
    gpu_bytes_copy(out, here, WORDS * sizeof *here);
}

static void end_round(void)
{
    gpu_bytes_copy(here, out, WORDS * sizeof *here);
    for (size_t i = 0; i < WORDS; i++)
        if (here[i] != word((rank + 2) % 4, i)) {
            fprintf(stderr, "rank %d, round %u: word %zu is %#x, not %#x\n", rank, round_number, i, here[i],
                    word((rank + 2) % 4, i));
            exit(1);
        }
}

static void go_round(void)
{
    begin_round();
    OK(exchange());
    end_round();
}

/* Both ranks of the pair have it so, or neither has. */
static bool both(bool mine)
{
    uint32_t all[1] = {mine};
    gpu_bytes_copy(in, all, sizeof all);
    OK(tutti_allreduce(in, out, 1, TUTTI_UINT32, TUTTI_MIN, pair, NULL));
    settle(pair);
    gpu_bytes_copy(all, out, sizeof all);
    return all[0];
}

/* Rounds until both ranks have relayed. */
static void until_relayed(const char *what)
{
    relayed();
    for (unsigned left = ROUNDS;; left--) {
        require(left > 0, what);
        go_round();
        if (both(relayed() > 0))
            break;
        usleep(10000);
    }
}

/* Descriptors of memory of the machine's GPU 1 that this process has. */
static int descriptors(void)
{
    char path[300], target[300];
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        snprintf(path, sizeof path, "/proc/self/fd/%.200s", entry->d_name);
        ssize_t length = readlink(path, target, sizeof target - 1);
        target[length < 0 ? 0 : length] = 0;
        count += strstr(target, "tutti-emulated-gpu1") != NULL;
    }
    if (folder)
        closedir(folder);
    return count;
}

/* Fewer than this number. An allocation makes the stand-in look whether adapters have let go. */
static void until_descriptors_go(int number, const char *what)
{
    for (int ms = 0; descriptors() >= number; ms++) {
        void *little;
        require(ms < PATIENCE, what);
        usleep(1000);
        OK(tutti_device_mem_alloc(&little, sizeof *in));
        OK(tutti_device_mem_free(little));
    }
}

/* Long before memory goes that is not used. */
static void until_given_back(int with_slots)
{
    for (int ms = 0; slots_held(); ms++) {
        require(ms < PATIENCE / 2, "slots are given back to whom the GPU is");
        usleep(1000);
    }
    until_descriptors_go(with_slots, "no descriptor of them is left");
}

static void control(const char *command)
{
    int (*say)(const char *command, char *answer, size_t size);
    char answer[200];
    *(void **)&say = dlsym(dlopen(getenv("TUTTI_IBVERBS_LIBRARY"), RTLD_NOW), "softverbs_control");
    require(say && say(command, answer, sizeof answer) == 0, command);
}

static void an_adapter_goes(void)
{
    for (int i = 0; i < 4; i++) {
        begin_round();
        if (rank == 0)
            control(i % 2 ? "plug soft_v1" : "unplug soft_v1");
        OK(exchange());
        end_round();
    }
    until_relayed("slots when the adapter is back");
}

static void a_relaying_rank_dies(void)
{
    tutti_result_t result = TUTTI_SUCCESS;
    begin_round();
    if (rank == 2) {
        OK(tutti_group_start());
        OK(tutti_send(in, WORDS, TUTTI_UINT32, 0, pair, NULL));
        OK(tutti_recv(out, WORDS, TUTTI_UINT32, 0, pair, NULL));
        OK(tutti_group_end());
        usleep(2000);
        _exit(0);
    }
    for (int i = 0; i < ROUNDS && result == TUTTI_SUCCESS; i++)
        result = exchange();
    require(result == TUTTI_REMOTE_ERROR, "the loss of the other rank");
    OK(tutti_comm_abort(pair));
    until_descriptors_go(1, "no descriptor of a slot is left");
}

/* Ranks 1 and 3: the GPUs and adapters are theirs. */
static void own(void)
{
    void *much;
    meet();
    for (int i = 0; i < 8; i++)
        go_round();
    meet();
    if (rank == 1) /* where slots are: they are given back */
        require(tutti_device_mem_alloc(&much, TOO_MUCH) == TUTTI_DEVICE_ERROR, "more memory than there is");
    meet();
    meet();
    OK(tutti_comm_destroy(whole));
    if (rank == 1)
        _exit(0);   /* as if it were killed */
    usleep(500000); /* the owner is gone: a lane fails what is sent and what is to come in one go */
    require(exchange() == TUTTI_REMOTE_ERROR, "the loss of the owner");
    OK(tutti_comm_abort(pair));
}

static void relay(void)
{
    until_relayed("slots beside idle adapters");
    require(slots_held() > 0, "memory of them");
    meet();
    for (int i = 0; i < 8; i++)
        go_round();
    until_relayed("slots when owners are done");
    int with_slots = descriptors();
    meet();
    if (rank == 0)
        until_given_back(with_slots);
    meet();
    until_relayed("slots again");
    an_adapter_goes();
    meet();
    OK(tutti_comm_destroy(whole));
    for (int i = 0; i < 8; i++)
        go_round();
    until_relayed("slots on a GPU whose process is gone");
    a_relaying_rank_dies();
}

int main(void)
{
    const char *local_rank = getenv("TUTTI_LOCAL_RANK");
    void *found[2] = {NULL, NULL};
    int nranks;
    if (!local_rank)
        return 2;
    gpu_select(atoi(local_rank));
    gpu_join(&whole, &rank, &nranks);
    OK(tutti_comm_split(whole, rank % 2, rank, &pair, NULL));
    for (int i = 0; i < 2; i++)
        OK(tutti_device_mem_alloc(&found[i], WORDS * sizeof *in));
    in = found[0];
    out = found[1];
    here = malloc(WORDS * sizeof *here);
    require(here != NULL, "memory");
    if (rank % 2)
        own();
    else
        relay();
    free(here);
    return 0;
}
