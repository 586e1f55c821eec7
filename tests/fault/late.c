/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `late shm|tcp|verbs|gpu|pair|hosts|islands [MOMENT]`: no byte of a rank's memory changes any more when its
 * communicator has ended there. Rank 0's ends at a random moment, by one of five endings, while calls, puts and gets
 * are under way in its memory. Some peers are stopped then, and go on sooner or later. MOMENT: that one alone;
 * TUTTI_TEST_FULL=1: 200 moments of each ending. gpu, hosts, islands: on GPUs of one host, of three, of two; pair: two
 * ranks on two GPUs. The stand-in driver's, and real ones.
 */
#include "family.h"
#include "gpu.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum ending { ABORTED, REVOKED, TOLD, SILENT, DESTROYED, ENDINGS };
enum { CALLS = 1, PUTS = 2, GETS = 4 };

#define FEW       2   /* moments of each ending */
#define MANY      200 /* TUTTI_TEST_FULL */
#define SIZE      (6u << 20)
#define HALF      (2u << 20) /* the window; behind it what calls take, and what is got */
#define MINE      0xee
#define LATE_MS   15
#define PATIENCE  200 /* ms: with a peer that may not go on before */
#define DELAY_US  12000
#define ROUNDS    3  /* that a rank calls before it waits for them */
#define GUARD     60 /* seconds, for some moments */
#define UNSETTLED "neither use nor free"

static const char *const endings[ENDINGS] = {"abort", "revocation", "a peer's abort", "silence", "destroy"};

/* The same on all ranks. */
struct moment {
    uint64_t number, draw;
    enum ending ending;
    unsigned traffic;
    unsigned stopped;  /* peers, as bits */
    bool later;        /* they go on when rank 0 has its memory back; on GPUs an abort waits for that, for seconds */
    useconds_t delay;  /* from the first call on */
    bool shared_alloc; /* memory of tutti_mem_alloc() */
};

struct rank {
    struct family *family;
    int rank;
    tutti_comm_t parent, comm;
    tutti_window_t window;
    unsigned char *memory, *arena[2], *seen; /* seen: of SIZE bytes, of the host */
    struct moment moment;
    pthread_t ender;
    _Atomic bool passed; /* the delay */
};

static bool device;
static int ranks = 3;

static struct moment draw_moment(uint64_t seed, uint64_t number)
{
    uint64_t draw = data_hash(seed, number);
    struct moment moment = {.number = number,
                            .draw = draw,
                            .ending = (enum ending)(number % ENDINGS),
                            .traffic = 1 + (unsigned)(draw % 7),
                            .stopped = (unsigned)(draw / 7 % 4) << 1 & ((1u << ranks) - 1),
                            .later = draw / 32 % (device ? 16 : 2) == 0,
                            .delay = (useconds_t)(draw / 1024 % DELAY_US),
                            .shared_alloc = draw / 65536 / 1024 % 2};
    if (moment.ending == TOLD)
        moment.stopped &= 4; /* rank 1 tells */
    if (moment.ending == SILENT && !moment.stopped)
        moment.stopped = 2;
    if (moment.ending == SILENT && moment.traffic == GETS)
        moment.traffic |= PUTS; /* a GPU gets from a stopped peer without end, and hears no silence */
    moment.later |= moment.ending == SILENT && !device;
    return moment;
}

/* The processor reaches memory of the stand-in's GPUs, and none of a real one's. */
static void set_memory(const struct rank *me, int value)
{
    memset(me->seen, value, SIZE);
    gpu_bytes_copy(me->memory, me->seen, SIZE);
}

static bool is_changed(const struct rank *me, unsigned char value)
{
    gpu_bytes_copy(me->seen, me->memory, SIZE);
    for (size_t at = 0; at < SIZE; at++)
        if (me->seen[at] != value)
            return true;
    return false;
}

/* ---- What is under way ---- */

static tutti_result_t call(const struct rank *me, uint64_t draw)
{
    static const size_t counts[] = {1, 200, 5000, 60000};
    size_t count = counts[draw / 8 % 4];
    uint32_t *in = (uint32_t *)(void *)(me->memory + HALF), *out = in + HALF / 8;
    tutti_comm_t comm = me->comm;
    switch (draw % 7) {
    case 0:
        return tutti_allreduce(in, out, count, TUTTI_UINT32, TUTTI_SUM, comm, NULL);
    case 1:
        return tutti_allreduce(out, out, count, TUTTI_UINT32, TUTTI_SUM, comm, NULL);
    case 2:
        return tutti_allgather(in, out, count, TUTTI_UINT32, comm, NULL);
    case 3:
        return tutti_alltoall(in, out, count, TUTTI_UINT32, comm, NULL);
    case 4:
        return tutti_reduce_scatter(in, out, count, TUTTI_UINT32, TUTTI_SUM, comm, NULL);
    case 5:
        return tutti_broadcast(in, out, count, TUTTI_UINT32, 1, comm, NULL);
    default:
        tutti_group_start();
        tutti_send(in, count, TUTTI_UINT32, (me->rank + 1) % ranks, comm, NULL);
        tutti_recv(out, count, TUTTI_UINT32, (me->rank + ranks - 1) % ranks, comm, NULL);
        return tutti_group_end();
    }
}

static size_t length_of(uint64_t draw)
{
    return (size_t[]){8, 500, 20000, 300000, 600000}[draw % 5];
}

/* A peer puts into its part of rank 0's window, and waits for its next turn. */
static tutti_result_t serve(const struct rank *me, uint64_t draw)
{
    const tutti_signal_wait_t turn = {0, 0, 1};
    tutti_result_t result = TUTTI_SUCCESS;
    if (me->moment.traffic & PUTS)
        result = tutti_put_signal(me->memory + HALF, length_of(draw), TUTTI_UINT8, 0, me->window,
                                  (size_t)(me->rank - 1) * (HALF / 2), 0, me->comm, NULL);
    return result == TUTTI_SUCCESS ? tutti_wait_signal(&turn, 1, me->comm, NULL) : result;
}

/* Rank 0 gets from each peer, waits for each peer's put, and lets it go on. */
static tutti_result_t be_served(const struct rank *me, uint64_t draw)
{
    tutti_result_t result = TUTTI_SUCCESS;
    for (int peer = 1; peer < ranks && result == TUTTI_SUCCESS; peer++) {
        const tutti_signal_wait_t put = {peer, 0, 1};
        if (me->moment.traffic & GETS)
            result = tutti_get(me->memory + 2 * HALF + (size_t)(peer - 1) * (HALF / 2), length_of(draw / 5),
                               TUTTI_UINT8, peer, me->window, 0, me->comm, NULL);
        if (result == TUTTI_SUCCESS && me->moment.traffic & PUTS)
            result = tutti_wait_signal(&put, 1, me->comm, NULL);
        if (result == TUTTI_SUCCESS)
            result = tutti_signal(peer, 0, me->comm, NULL);
    }
    return result;
}

static tutti_result_t work_on(const struct rank *me, uint64_t turn)
{
    tutti_result_t result = TUTTI_SUCCESS;
    for (uint64_t round = 0; round < ROUNDS && result == TUTTI_SUCCESS; round++) {
        uint64_t draw = data_hash(me->moment.draw, turn * ROUNDS + round);
        if (me->moment.traffic & CALLS)
            result = call(me, draw);
        if (result == TUTTI_SUCCESS && me->moment.traffic & (PUTS | GETS))
            result = me->rank == 0 ? be_served(me, draw / 64) : serve(me, draw / 64);
    }
    return result;
}

/* ---- The end ---- */

static void tell_stopped(const struct rank *me, int signal_number)
{
    for (int peer = 1; peer < ranks; peer++)
        if (me->moment.stopped >> peer & 1)
            kill(me->family->pid[peer], signal_number);
}

static void *continue_soon(void *argument)
{
    const struct rank *me = argument;
    usleep((useconds_t)(me->moment.draw >> 40) % DELAY_US);
    family_nap(me->moment.ending == SILENT ? 2 * PATIENCE : 0);
    tell_stopped(me, SIGCONT);
    return NULL;
}

/* By the thread whose call has returned that: each has a sentence of its own. */
static void keep_sentence(struct family_report *report)
{
    if (report->result != TUTTI_SUCCESS)
        snprintf(report->sentence, sizeof report->sentence, "%s", tutti_get_last_error(NULL));
}

/* Beside the thread that calls. Its communicator is there until it has waited for this one. */
static void *end_it(void *argument)
{
    struct rank *me = argument;
    enum ending ending = me->moment.ending;
    pthread_t other;
    usleep(me->moment.delay);
    atomic_store(&me->passed, true);
    if (me->rank == 0)
        tell_stopped(me, SIGSTOP);
    bool soon = me->rank == 0 && me->moment.stopped && !me->moment.later;
    if (soon)
        pthread_create(&other, NULL, continue_soon, me);
    if (me->rank == 0 ? ending == ABORTED || ending == REVOKED : ending == TOLD && me->rank == 1) {
        tutti_result_t result = tutti_comm_abort(me->comm);
        if (me->rank == 0) {
            me->family->report[0].result = result;
            keep_sentence(&me->family->report[0]);
        }
    }
    if (soon)
        pthread_join(other, NULL);
    if (soon && ending == SILENT) /* peers went on before the silence was noticed, perhaps */
        tutti_comm_abort(me->comm);
    return NULL;
}

static void call_until_the_end(struct rank *me)
{
    bool waits = me->rank != 0 || me->moment.ending != DESTROYED; /* else its last calls are under way */
    tutti_result_t result = TUTTI_SUCCESS;
    for (uint64_t turn = 0; result == TUTTI_SUCCESS; turn++) {
        bool last = !waits && atomic_load(&me->passed);
        result = work_on(me, turn);
        if (last)
            return;
        if (result == TUTTI_SUCCESS)
            result = tutti_comm_synchronize(me->comm);
    }
}

/* Whatever became of the communicator; but only which memory is not to be used, yet, matters here. */
static void destroy_told(struct rank *me)
{
    struct family_report *report = &me->family->report[0];
    tutti_result_t result = tutti_comm_destroy(me->comm);
    me->comm = NULL;
    if (result == TUTTI_SUCCESS || !strstr(tutti_get_last_error(NULL), UNSETTLED))
        return;
    report->result = result;
    keep_sentence(report);
}

/* Of a communicator that has failed by others, GPUs may still store until it is aborted or destroyed here. */
static void take_memory_back(struct rank *me)
{
    struct family_report *report = &me->family->report[0];
    bool failed = device && (me->moment.ending == TOLD || me->moment.ending == SILENT),
         aborts = failed && me->moment.draw >> 50 & 1;
    if (aborts) {
        report->result = tutti_comm_abort(me->comm);
        keep_sentence(report);
    }
    if (me->moment.ending == DESTROYED || me->moment.ending == ABORTED || (failed && !aborts))
        destroy_told(me);
}

static void check_memory(struct rank *me)
{
    struct family_report *report = &me->family->report[0];
    bool excused = device && me->moment.stopped && me->moment.later && strstr(report->sentence, UNSETTLED);
    set_memory(me, MINE);
    tell_stopped(me, SIGCONT);
    family_nap(LATE_MS);
    report->touched = !excused && is_changed(me, MINE);
}

/* ---- A rank ---- */

/* All, without a communicator. */
static void meet(struct rank *me)
{
    uint64_t times = atomic_fetch_add(&me->family->report[me->rank].rounds, 1) + 1;
    for (int peer = 0; peer < ranks; peer++)
        while (atomic_load(&me->family->report[peer].rounds) < times)
            family_nap(1);
}

static tutti_result_t begin(struct rank *me)
{
    tutti_config_t config = gpu_config();
    me->window = NULL;
    me->memory = me->arena[me->moment.shared_alloc];
    atomic_store(&me->passed, false);
    if (me->rank == 0)
        family_end(me->family, 0, NULL, TUTTI_SUCCESS);
    set_memory(me, me->rank + 1);
    if (me->moment.later || me->moment.ending == SILENT)
        config.timeout_ms = PATIENCE;
    tutti_result_t result = tutti_comm_duplicate(me->parent, &me->comm, &config);
    if (result == TUTTI_SUCCESS && me->moment.traffic & (PUTS | GETS))
        tutti_window_register(me->comm, me->memory, HALF, &me->window); /* or the first call fails, too */
    return result;
}

static tutti_result_t live_through(struct rank *me)
{
    tutti_result_t result = begin(me);
    if (result != TUTTI_SUCCESS)
        return result;
    meet(me); /* windows between hosts belong to no call: one that some rank still makes ends with an abort */
    pthread_create(&me->ender, NULL, end_it, me);
    call_until_the_end(me);
    pthread_join(me->ender, NULL);
    if (me->rank == 0) {
        take_memory_back(me);
        check_memory(me);
    }
    tutti_comm_destroy(me->comm);
    meet(me);
    return TUTTI_SUCCESS;
}

static void *memory_of(bool shared)
{
    void *memory = NULL;
    if (device)
        tutti_device_mem_alloc(&memory, SIZE);
    else if (shared)
        tutti_mem_alloc(&memory, SIZE);
    else
        memory = malloc(SIZE);
    return memory;
}

static void memory_free(void *memory, bool shared)
{
    if (device)
        tutti_device_mem_free(memory);
    else if (shared)
        tutti_mem_free(memory);
    else
        free(memory);
}

/* One moment after another, to the first that is wrong. */
static void work(struct family *family, int rank, tutti_comm_t comm)
{
    struct rank me = {.family = family,
                      .rank = rank,
                      .parent = comm,
                      .arena = {memory_of(false), memory_of(true)},
                      .seen = malloc(SIZE)};
    tutti_result_t result = me.arena[0] && me.arena[1] && me.seen ? TUTTI_SUCCESS : TUTTI_SYSTEM_ERROR;
    for (int i = 0; i < family->variant && result == TUTTI_SUCCESS && !family->report[0].touched; i++) {
        me.moment = draw_moment(1, family->seed + (uint64_t)i);
        if (rank == 0)
            family->report[0].begun = me.moment.number;
        result = live_through(&me);
    }
    if (result != TUTTI_SUCCESS)
        family_end(family, rank, comm, result);
    tutti_comm_destroy(comm);
    memory_free(me.arena[0], false);
    memory_free(me.arena[1], true);
    free(me.seen);
}

/* ---- All moments ---- */

static bool play(uint64_t from, int count)
{
    struct family *family = family_start(ranks, -1, count, from, work);
    bool right = family_wait(family, GUARD + count);
    const struct family_report *report = family->report;
    for (int rank = 0; rank < ranks; rank++)
        if (report[rank].result != TUTTI_SUCCESS && !strstr(report[rank].sentence, UNSETTLED)) {
            printf("rank %d: %s\n", rank, report[rank].sentence);
            right = false;
        }
    if (report[0].touched || !right) {
        struct moment moment = draw_moment(1, report[0].begun);
        printf("FAILED: moment %llu, by %s, with%s%s%s%s%s%s\n", (unsigned long long)moment.number,
               endings[moment.ending], moment.traffic & CALLS ? " calls" : "", moment.traffic & PUTS ? " puts" : "",
               moment.traffic & GETS ? " gets" : "", moment.stopped & 2 ? ", rank 1 stopped" : "",
               moment.stopped & 4 ? ", rank 2 stopped" : "", report[0].touched ? ": a late write" : "");
        right = false;
    }
    family_free(family);
    return right;
}

static void choose(const char *where)
{
    bool pair = strcmp(where, "pair") == 0, hosts = strcmp(where, "hosts") == 0;
    bool islands = strcmp(where, "islands") == 0;
    device = pair || hosts || islands || strcmp(where, "gpu") == 0;
    ranks = pair ? 2 : 3;
    setenv(device ? "TUTTI_TEST_GPU" : "TUTTI_TRANSPORT", device ? "1" : where, 1);
    if (hosts || islands)
        setenv("TUTTI_TEST_HOSTS", hosts ? "3" : "2", 1);
    setenv("TUTTI_SOCKET_IFNAME", "=lo", 0);
    setenv("TUTTI_DEBUG", "none", 0);
    setenv("TUTTI_TRACE", "0", 0);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    choose(argv[1]);
    int count = argc > 2 ? 1 : ENDINGS * (getenv("TUTTI_TEST_FULL") ? MANY : FEW);
    bool right = play(argc > 2 ? strtoull(argv[2], NULL, 10) : 0, count);
    printf("%d moments: %s\n", count, right ? "right" : "WRONG");
    return !right;
}
