/* SPDX-License-Identifier: Apache-2.0 */
/*
 * soak [--seconds S] [--seed X] [--resets MS]: random collectives on all ranks (the same sequence, from the seed) for S
 * seconds, or until one of them has SIGTERM. Each result is checked bit by bit. Meanwhile a thread of every rank shuts
 * down one of the process's TCP connections to peers every MS milliseconds or so. Run it over TCP: TUTTI_TRANSPORT=tcp
 * TUTTI_TCP_LANES=3 tutti run -n 4 -- soak --seconds 600. On GPUs: gpu.h.
 *
 * --cuts MS: a thread of every rank takes software RDMA devices out and puts them in again. --dies KIND: the last rank
 * dies in a collective of this kind, by number; the others have the right result, or say who died. --aborts KIND: it
 * aborts when it gets SIGUSR1.
 */
#include "gpu.h"
#include "job.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define BATCH 4
#define TURN  (gpu_wanted() ? 8 : 32) /* collectives between two looks whether to end: the stand-in driver is slow */

static struct {
    double seconds;
    uint64_t seed;
    int reset_ms, cut_ms;
    int dies; /* kind; -1: nobody does */
    bool aborts;
    pthread_t aborter;
    int rank, nranks;
    tutti_comm_t comm;
    struct job batch[BATCH];
    int pending;
    uint64_t operations, bytes, wrong;
    _Atomic uint64_t resets;
    _Atomic bool over;
} s = {.seconds = 10, .seed = 1, .reset_ms = 200, .dies = -1};

static volatile sig_atomic_t asked_to_end, asked_to_abort;
static sem_t abort_now;

static void take_signal(int number)
{
    (void)number;
    asked_to_end = 1;
}

static void take_abort(int number)
{
    (void)number;
    asked_to_abort = 1;
    sem_post(&abort_now);
}

static void *abort_when_asked(void *unused)
{
    (void)unused;
    while (sem_wait(&abort_now) != 0)
        continue;
    tutti_comm_abort(s.comm);
    return NULL;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void must(tutti_result_t result, const char *what)
{
    if (result == TUTTI_SUCCESS)
        return;
    fprintf(stderr, "rank %d: operation %llu: %s: %s: %s\n", s.rank, (unsigned long long)s.operations, what,
            tutti_get_error_string(result), tutti_get_last_error(s.comm));
    exit(1);
}

/* ---- Resets ---- */

/* A connected TCP socket of this process. */
static bool is_connection(int fd)
{
    struct sockaddr_storage peer;
    socklen_t size = sizeof peer, kind_size = sizeof(int);
    int kind = 0;
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &kind, &kind_size) != 0 || kind != SOCK_STREAM)
        return false;
    return getpeername(fd, (struct sockaddr *)&peer, &size) == 0 &&
           (peer.ss_family == AF_INET || peer.ss_family == AF_INET6);
}

static int any_connection(unsigned *seed)
{
    int found[256], count = 0;
    for (int fd = 3; fd < 1024 && count < 256; fd++)
        if (is_connection(fd))
            found[count++] = fd;
    return count ? found[rand_r(seed) % (unsigned)count] : -1;
}

static void rest_about(int every_ms, unsigned *seed)
{
    long ms = every_ms / 2 + rand_r(seed) % (every_ms + 1);
    struct timespec pause = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&pause, NULL);
}

static void *reset_lanes(void *unused)
{
    unsigned seed = (unsigned)(s.seed * 31 + (uint64_t)s.rank);
    (void)unused;
    while (!atomic_load(&s.over)) {
        rest_about(s.reset_ms, &seed);
        int fd = any_connection(&seed);
        if (fd >= 0 && !atomic_load(&s.over) && shutdown(fd, SHUT_RDWR) == 0)
            atomic_fetch_add(&s.resets, 1);
    }
    return NULL;
}

/* One device, or both: then no lane is left that reaches memory by itself. */
static void *cut_devices(void *unused)
{
    static const char *const device[] = {"soft_v0", "soft_v1"};
    int (*control)(const char *command, char *answer, size_t size);
    unsigned seed = (unsigned)(s.seed * 37 + (uint64_t)s.rank);
    void *library = dlopen(getenv("TUTTI_IBVERBS_LIBRARY"), RTLD_NOW);
    *(void **)&control = library ? dlsym(library, "softverbs_control") : NULL;
    (void)unused;
    while (control && !atomic_load(&s.over)) {
        rest_about(s.cut_ms, &seed);
        int which = rand_r(&seed) % 3, wrong = 0;
        char command[32], answer[200];
        for (int plug = 0; plug < 2; plug++)
            for (int i = 0; i < 2; i++) {
                snprintf(command, sizeof command, "%s %s", plug ? "plug" : "unplug", device[i]);
                wrong |= which == i ? 0 : control(command, answer, sizeof answer);
            }
        atomic_fetch_add(&s.resets, !wrong);
    }
    return NULL;
}

/* ---- Work ---- */

static void check_batch(void)
{
    must(tutti_comm_synchronize(s.comm), "synchronize");
    for (int i = 0; i < s.pending; i++) {
        s.wrong += !job_check(&s.batch[i]);
        s.operations++;
        s.bytes += s.batch[i].bytes[0] + (s.batch[i].memory[1] ? s.batch[i].bytes[1] : 0);
        job_free(&s.batch[i]);
    }
    s.pending = 0;
    if (s.wrong)
        exit(1);
}

/* All ranks stop together. */
static bool agreed_end(double end)
{
    static int32_t *ends; /* mine, any: where the ranks' buffers are */
    int32_t seen = asked_to_end || now() >= end;
    if (!ends)
        ends = (int32_t *)(void *)job_memory(2 * sizeof *ends);
    gpu_bytes_copy(ends, &seen, sizeof seen);
    must(tutti_allreduce(ends, ends + 1, 1, TUTTI_INT32, TUTTI_MAX, s.comm, NULL), "allreduce");
    must(tutti_comm_synchronize(s.comm), "synchronize");
    gpu_bytes_copy(&seen, ends + 1, sizeof seen);
    return seen;
}

static void report(const char *what, double began)
{
    printf("%s%s %.0f s: %llu operations, %.1f GB, %llu resets, %llu wrong\n", s.rank ? "  " : "", what, now() - began,
           (unsigned long long)s.operations, (double)s.bytes / 1e9, (unsigned long long)atomic_load(&s.resets),
           (unsigned long long)s.wrong);
    fflush(stdout);
}

static void work(void)
{
    double began = now(), spoke = began;
    for (uint64_t number = 0, turn = TURN; number % turn || !agreed_end(began + s.seconds);) {
        int together = 1 + (int)(data_hash(s.seed, number) / 77 % BATCH);
        for (int i = 0; i < together; i++, number++) {
            s.batch[s.pending] = job_draw(s.seed, number, s.nranks);
            job_prepare(&s.batch[s.pending], s.comm, s.rank, s.nranks);
            must(job_issue(&s.batch[s.pending++], NULL), "issue");
            if (number % turn == turn - 1)
                i = together;
        }
        check_batch();
        if (s.rank == 0 && now() - spoke >= 5) {
            spoke = now();
            report("after", began);
        }
    }
    atomic_store(&s.over, true);
    report("total", began);
}

/* In which step of the job is said by TUTTI_EMULATED_FAULT; without it somewhere in the job, or behind it. */
static void leave(void)
{
    if (getenv("TUTTI_EMULATED_FAULT"))
        tutti_comm_synchronize(s.comm);
    else
        usleep((useconds_t)(data_hash(s.seed, 3) % 8 * 1000));
    if (asked_to_abort && pthread_join(s.aborter, NULL) == 0) {
        printf("rank %d: aborted\n", s.rank);
        fflush(stdout);
    }
    _exit(0);
}

static bool blames_last(void)
{
    static const char *const words[] = {"lost rank %d", "aborted by rank %d"};
    char blame[40];
    bool blames = false;
    for (int i = 0; i < 1 + s.aborts; i++) { /* a rank that has no step to abort in ends */
        snprintf(blame, sizeof blame, words[i], s.nranks - 1);
        blames |= strstr(tutti_get_last_error(s.comm), blame) != NULL;
    }
    return blames;
}

/* Of some length: a rank dies before the job, in it, or when its own part is over. */
static void lose_last(void)
{
    struct job job = job_draw(s.seed, 0, s.nranks);
    job.kind = (enum job_kind)s.dies;
    job.count = job_rooted(job.kind) || job_reduces(job.kind) ? 200000 : 60000;
    job.type = TUTTI_INT32;
    job.op = TUTTI_SUM;
    job.in_place = false;
    job_prepare(&job, s.comm, s.rank, s.nranks);
    tutti_result_t result = tutti_barrier(s.comm, NULL);
    if (result == TUTTI_SUCCESS)
        result = tutti_comm_synchronize(s.comm);
    if (result == TUTTI_SUCCESS) /* the last rank may be killed before */
        result = job_issue(&job, NULL);
    if (s.rank == s.nranks - 1)
        leave();
    if (result == TUTTI_SUCCESS)
        result = tutti_comm_synchronize(s.comm);
    bool ended = result == TUTTI_SUCCESS;
    if (ended) { /* hears of the loss here: an abort before that would tell the others first */
        s.wrong = !job_check(&job);
        result = tutti_barrier(s.comm, NULL);
        result = result == TUTTI_SUCCESS ? tutti_comm_synchronize(s.comm) : result;
    }
    s.wrong |= result == TUTTI_SUCCESS || !blames_last();
    printf("rank %d: %s: %s: %s%s\n", s.rank, job_name(job.kind), s.wrong ? "WRONG" : "right",
           ended ? "it had ended; " : "", tutti_get_last_error(s.comm));
    must(tutti_comm_abort(s.comm), "abort");
}

static void join(void)
{
    tutti_config_t config = gpu_config();
    if (gpu_wanted())
        gpu_select(atoi(getenv("TUTTI_LOCAL_RANK")));
    must(tutti_comm_init_from_env(&s.comm, &config), "init");
    must(tutti_comm_rank(s.comm, &s.rank), "rank");
    must(tutti_comm_count(s.comm, &s.nranks), "count");
}

int main(int argc, char **argv)
{
    pthread_t thread, cutter;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--seconds"))
            s.seconds = atof(argv[i + 1]);
        else if (!strcmp(argv[i], "--seed"))
            s.seed = strtoull(argv[i + 1], NULL, 10);
        else if (!strcmp(argv[i], "--resets"))
            s.reset_ms = atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--cuts"))
            s.cut_ms = atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--dies") || !strcmp(argv[i], "--aborts")) {
            s.dies = atoi(argv[i + 1]);
            s.aborts = argv[i][2] == 'a';
        } else
            return 2;
    }
    signal(SIGTERM, take_signal);
    join();
    sem_init(&abort_now, 0, 0);
    signal(SIGUSR1, take_abort);
    if (s.aborts && pthread_create(&s.aborter, NULL, abort_when_asked, NULL) != 0)
        return 2;
    if (s.dies >= 0 && s.dies < JOB_KINDS) {
        lose_last();
        return s.wrong != 0;
    }
    if (s.cut_ms > 0 && pthread_create(&cutter, NULL, cut_devices, NULL) != 0)
        return 2;
    if (s.reset_ms > 0 && pthread_create(&thread, NULL, reset_lanes, NULL) != 0)
        return 2;
    work();
    if (s.reset_ms > 0)
        pthread_join(thread, NULL);
    if (s.cut_ms > 0)
        pthread_join(cutter, NULL);
    must(tutti_comm_destroy(s.comm), "destroy");
    return 0;
}
