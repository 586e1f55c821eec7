/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl_soak [--seed S] [--seeds N] [--seconds T] [--steps N] [--ranks N] [--mode one|threads|processes|pairs] [--way
 * NAME] [--patience T] [--on-hang COMMAND]
 *
 * Random programs for NCCL's calls on GPUs, every result checked. Each seed runs in processes of its own: what is not
 * told is drawn from it. Where nothing moves for T seconds it is told what every actor does, and COMMAND is run, with
 * the processes' numbers behind it.
 */
#include "soak.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct run run = {.seed = 1, .without = ""};

static struct {
    uint64_t seeds;
    double seconds, patience;
    int steps, ranks, mode, way;
    const char *on_hang;
} wanted = {.seeds = 1, .patience = 60, .mode = -1, .way = -1};

/* ---- Ways to carry things ---- */

#define SMALL                                                                                                          \
    "TUTTI_PLAIN_FROM=2K TUTTI_COPY_FROM=16K TUTTI_COPY_STAGE=8K TUTTI_PEER_FROM=4K TUTTI_PEER_MOST=64K "              \
    "TUTTI_GATHER_FROM=96K "                                                                                           \
    "TUTTI_CHAIN_FROM=8K TUTTI_CHAIN_FAN=48K TUTTI_CHAIN_CHUNK=1K TUTTI_CHAIN_PIECE=4K "

static const struct way {
    const char *name, *settings;
    bool no_graphs;
} ways[] = {
    {"default", "TUTTI_PEER_MOST=1M TUTTI_COPY_STAGE=64K", false},
    {"small", SMALL, false},
    {"invited",
     SMALL "TUTTI_INVITE_FROM=2K TUTTI_COPY_FROM=256K TUTTI_LINES_TO=0 "
           "TUTTI_BULK_FROM=2K TUTTI_REDUCE_LINES_TO=0 TUTTI_GATHER_FROM=1T",
     false},
    {"read",
     SMALL "TUTTI_READ_FROM=2K TUTTI_INVITE_FROM=2K TUTTI_COPY_FROM=8K TUTTI_BULK_FROM=2K TUTTI_REDUCE_LINES_TO=0 "
           "TUTTI_GATHER_FROM=4K TUTTI_PEER_MOST=0",
     false},
    {"zero", SMALL "TUTTI_CTA_POLICY=zero", false},
    {"no-peers", SMALL "TUTTI_P2P_DISABLE=1", false},
    {"unreachable", SMALL "TUTTI_EMULATED_P2P=0", false},
    {"staged", SMALL "TUTTI_SHM_DISABLE=1 TUTTI_STAGE_SLICE=64K", true},
    {"staged-streams", SMALL "TUTTI_SHM_DISABLE=1 TUTTI_STAGE_SLICE=64K TUTTI_STAGE_KERNEL=0", true},
    {"staged-blocking", SMALL "TUTTI_SHM_DISABLE=1 TUTTI_STAGE_SLICE=64K TUTTI_EMULATED_BLOCK=1", true},
    {"hosts", SMALL "SOAK_HOSTS=2 TUTTI_STAGE_SLICE=64K TUTTI_TCP_LANES=3", false},
    {"kernels", SMALL "TUTTI_COPY_PROCESSES=0", false},
    {"alone", SMALL "TUTTI_ISSUE_THREADS=1 TUTTI_GROUP_SPREAD=0", false},
    {"workers", SMALL "TUTTI_ISSUE_THREADS=4", false},
    {"one-queue", SMALL "CUDA_DEVICE_MAX_CONNECTIONS=1 TUTTI_EMULATED_CONNECTIONS=1", false},
    {"staged-queue",
     SMALL "TUTTI_SHM_DISABLE=1 TUTTI_STAGE_SLICE=64K CUDA_DEVICE_MAX_CONNECTIONS=1 TUTTI_EMULATED_CONNECTIONS=1",
     true},
    {"jitter", SMALL "TUTTI_EMULATED_JITTER=150:7 TUTTI_ISSUE_THREADS=3 TUTTI_GROUP_SPREAD=0", false},
    {"blocking", SMALL "TUTTI_EMULATED_BLOCK=1", false},
    {"chains", SMALL "TUTTI_CHAIN_COPY_FROM=16K TUTTI_COPY_PUSH=0", false},
    {"gathered", SMALL "TUTTI_PEER_MOST=0 TUTTI_GATHER_FROM=4K TUTTI_COPY_FROM=1K TUTTI_ISSUE_THREADS=2", false},
};

enum { WAYS = sizeof ways / sizeof *ways };

static void set_all(const char *settings)
{
    char copy[1000], *rest = copy;
    snprintf(copy, sizeof copy, "%s", settings);
    for (char *one; (one = strsep(&rest, " "));) {
        char *value = strchr(one, '=');
        if (!value)
            continue;
        *value = 0;
        setenv(one, value + 1, 1);
    }
}

/* ---- Actors ---- */

void note(const struct actor *actor, const char *format, ...)
{
    va_list list;
    char text[200];
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    memcpy(run.shared->actor[actor->index].at, text, sizeof text);
    atomic_fetch_add(&run.shared->actor[actor->index].notes, 1);
    if (run.verbose)
        fprintf(stderr, "%d: %s\n", actor->index, text);
}

_Noreturn void wrong(const struct actor *actor, const char *what, int result)
{
    fprintf(stderr, "actor %d: %s: %d: %s (%s)\n", actor->index, what, result, ncclGetLastError(NULL),
            run.shared->actor[actor->index].at);
    fflush(stderr);
    _exit(1);
}

static int ranks_each(void)
{
    return run.mode == ONE_THREAD ? run.nranks : run.mode == PAIRS ? 2 : 1;
}

static int actors(void)
{
    return (run.nranks + ranks_each() - 1) / ranks_each();
}

/* All actors of a run come here equally often. */
void meet_actors(struct actor *actor)
{
    uint32_t all = ++actor->barriers * (uint32_t)actors();
    note(actor, "waits for the others");
    atomic_fetch_add(&run.shared->arrived, 1);
    while (atomic_load(&run.shared->arrived) < all)
        usleep(100);
}

static void *act(void *argument)
{
    struct actor *actor = argument;
    play(actor);
    free(actor);
    return NULL;
}

static struct actor *actor_new(int index)
{
    struct actor *actor = calloc(1, sizeof *actor);
    if (!actor)
        exit(2);
    actor->index = index;
    actor->first = index * ranks_each();
    actor->count = run.nranks - actor->first < ranks_each() ? run.nranks - actor->first : ranks_each();
    return actor;
}

static void act_in_process(int index)
{
    pthread_t thread[GPUS];
    if (driver_load()) {
        fprintf(stderr, "no libcuda.so.1 with devices\n");
        _exit(77);
    }
    if (run.mode != THREADS) {
        act(actor_new(index));
        exit(0);
    }
    for (int i = 0; i < actors(); i++)
        if (pthread_create(&thread[i], NULL, act, actor_new(i)) != 0)
            exit(2);
    for (int i = 0; i < actors(); i++)
        pthread_join(thread[i], NULL);
    exit(0);
}

/* ---- One seed ---- */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static const char *const modes[] = {"one", "threads", "processes", "pairs"};

static void draw_run(uint64_t seed, int *way)
{
    uint64_t hash = data_hash(seed, 4711);
    memset(run.shared, 0, sizeof *run.shared);
    run.seed = seed;
    run.mode = wanted.mode >= 0 ? (enum mode)wanted.mode : (enum mode)(hash / 8 % MODES);
    run.nranks = wanted.ranks ? wanted.ranks : run.mode == PAIRS ? 3 + (int)(hash % 2) : 2 + (int)(hash % 3);
    run.steps = wanted.steps ? wanted.steps : 20 + (int)(hash / 64 % 60);
    *way = wanted.way >= 0 ? wanted.way : (int)(hash / 65536 % WAYS);
    run.no_graphs = ways[*way].no_graphs;
    printf("--seed %llu --ranks %d --mode %s --way %s --steps %d: ", (unsigned long long)seed, run.nranks,
           modes[run.mode], ways[*way].name, run.steps);
    fflush(stdout);
}

static void tell_where(const pid_t *child, int count)
{
    char command[500];
    int used = snprintf(command, sizeof command, "%s", wanted.on_hang ? wanted.on_hang : "");
    fprintf(stderr, "nothing moves any more:\n");
    for (int i = 0; i < GPUS; i++)
        if (run.shared->actor[i].notes)
            fprintf(stderr, "  actor %d: %s\n", i, run.shared->actor[i].at);
    for (int i = 0; i < count; i++)
        used += snprintf(command + used, sizeof command - (size_t)used, " %d", (int)child[i]);
    if (wanted.on_hang && system(command) != 0)
        fprintf(stderr, "%s failed\n", command);
}

static uint64_t all_notes(void)
{
    uint64_t sum = 0;
    for (int i = 0; i < GPUS; i++)
        sum += atomic_load(&run.shared->actor[i].notes);
    return sum;
}

static int status_of(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* The worst exit status of the children, which end together if one fails. */
static int watch(pid_t *child, int count)
{
    int left = count, worst = 0, status;
    uint64_t notes = 0;
    double moved = now();
    while (left) {
        pid_t ended = waitpid(-1, &status, WNOHANG);
        if (ended > 0) {
            left--;
            moved = now();
            for (int i = 0; i < count; i++)
                child[i] = child[i] == ended ? 0 : child[i];
            worst = worst ? worst : status_of(status);
        } else {
            usleep(2000);
        }
        if (all_notes() != notes)
            moved = now();
        notes = all_notes();
        bool stuck = now() - moved > wanted.patience;
        if (stuck && !worst) {
            tell_where(child, count);
            worst = 124;
        }
        for (int i = 0; worst && i < count; i++)
            if (child[i])
                kill(child[i], SIGKILL);
    }
    return worst;
}

static int run_seed(uint64_t seed)
{
    pid_t child[GPUS];
    int way, count;
    double began = now();
    draw_run(seed, &way);
    count = run.mode == THREADS ? 1 : actors();
    for (int i = 0; i < count; i++) {
        child[i] = fork();
        if (child[i] < 0)
            exit(2);
        if (child[i] == 0) {
            set_all(ways[way].settings);
            if (getenv("SOAK_HOSTS"))
                setenv("TUTTI_HOSTID", i * 2 < count ? "first" : "second", 1);
            act_in_process(i);
        }
    }
    int status = watch(child, count);
    if (status)
        printf("FAILED (%d), ", status);
    printf("%s%llu tasks, %.1f MB, %.1f s\n", status ? "" : "right, ", (unsigned long long)run.shared->tasks,
           (double)run.shared->bytes / 1e6, now() - began);
    fflush(stdout);
    return status;
}

/* ---- Options ---- */

static int find_way(const char *name)
{
    for (int i = 0; i < WAYS; i++)
        if (!strcmp(ways[i].name, name))
            return i;
    fprintf(stderr, "no way is called %s\n", name);
    exit(2);
}

static int find_mode(const char *name)
{
    for (int i = 0; i < MODES; i++)
        if (!strcmp(modes[i], name))
            return i;
    fprintf(stderr, "no mode is called %s\n", name);
    exit(2);
}

static void take_option(const char *name, const char *value)
{
    if (!strcmp(name, "--seed"))
        run.seed = strtoull(value, NULL, 10);
    else if (!strcmp(name, "--seeds"))
        wanted.seeds = strtoull(value, NULL, 10);
    else if (!strcmp(name, "--seconds"))
        wanted.seconds = atof(value);
    else if (!strcmp(name, "--steps"))
        wanted.steps = atoi(value);
    else if (!strcmp(name, "--ranks"))
        wanted.ranks = atoi(value);
    else if (!strcmp(name, "--mode"))
        wanted.mode = find_mode(value);
    else if (!strcmp(name, "--way"))
        wanted.way = find_way(value);
    else if (!strcmp(name, "--patience"))
        wanted.patience = atof(value);
    else if (!strcmp(name, "--without"))
        run.without = value;
    else if (!strcmp(name, "--on-hang"))
        wanted.on_hang = value;
    else {
        fprintf(stderr, "there is no option %s\n", name);
        exit(2);
    }
}

int main(int argc, char **argv)
{
    int failed = 0, status = 0;
    double began = now();
    for (int i = 1; i + 1 < argc; i += 2)
        take_option(argv[i], argv[i + 1]);
    run.verbose = getenv("SOAK_VERBOSE") != NULL;
    run.shared = mmap(NULL, sizeof *run.shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (run.shared == MAP_FAILED || wanted.ranks > GPUS)
        return 2;
    setenv("TUTTI_DEBUG", "none", 0);
    setenv("TUTTI_TIMEOUT", "300s", 0);
    uint64_t first = run.seed;
    for (uint64_t i = 0; wanted.seconds ? now() - began < wanted.seconds : i < wanted.seeds; i++) {
        status = run_seed(first + i);
        if (status == 77)
            return 77;
        failed += status != 0;
    }
    if (failed)
        printf("%d FAILED\n", failed);
    return failed != 0;
}
