/* SPDX-License-Identifier: Apache-2.0 */
/*
 * soak [--seconds S] [--seed X] [--resets MS]: random collectives on all ranks (the same sequence, from the seed) for S
 * seconds, or until one of them has SIGTERM. Each result is checked bit by bit. Meanwhile a thread of every rank shuts
 * down one of the process's TCP connections to peers every MS milliseconds or so. Run it over TCP: TUTTI_TRANSPORT=tcp
 * TUTTI_TCP_LANES=3 tutti run -n 4 -- soak --seconds 600.
 */
#include "job.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define BATCH 4

static struct {
    double seconds;
    uint64_t seed;
    int reset_ms;
    int rank, nranks;
    tutti_comm_t comm;
    struct job batch[BATCH];
    int pending;
    uint64_t operations, bytes, wrong;
    _Atomic uint64_t resets;
    _Atomic bool over;
} s = {.seconds = 10, .seed = 1, .reset_ms = 200};

static volatile sig_atomic_t asked_to_end;

static void take_signal(int number)
{
    (void)number;
    asked_to_end = 1;
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

static void *reset_lanes(void *unused)
{
    unsigned seed = (unsigned)(s.seed * 31 + (uint64_t)s.rank);
    (void)unused;
    while (!atomic_load(&s.over)) {
        struct timespec pause = {0, 0};
        long ms = s.reset_ms / 2 + rand_r(&seed) % (s.reset_ms + 1);
        pause.tv_sec = ms / 1000;
        pause.tv_nsec = ms % 1000 * 1000000;
        nanosleep(&pause, NULL);
        int fd = any_connection(&seed);
        if (fd >= 0 && !atomic_load(&s.over) && shutdown(fd, SHUT_RDWR) == 0)
            atomic_fetch_add(&s.resets, 1);
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
    int32_t mine = asked_to_end || now() >= end, any = 0;
    must(tutti_allreduce(&mine, &any, 1, TUTTI_INT32, TUTTI_MAX, s.comm, NULL), "allreduce");
    must(tutti_comm_synchronize(s.comm), "synchronize");
    return any;
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
    for (uint64_t number = 0; number % 32 || !agreed_end(began + s.seconds);) {
        int together = 1 + (int)(data_hash(s.seed, number) / 77 % BATCH);
        for (int i = 0; i < together; i++, number++) {
            s.batch[s.pending] = job_draw(s.seed, number, s.nranks);
            job_prepare(&s.batch[s.pending], s.comm, s.rank, s.nranks);
            must(job_issue(&s.batch[s.pending++], NULL), "issue");
            if (number % 32 == 31)
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

int main(int argc, char **argv)
{
    pthread_t thread;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--seconds"))
            s.seconds = atof(argv[i + 1]);
        else if (!strcmp(argv[i], "--seed"))
            s.seed = strtoull(argv[i + 1], NULL, 10);
        else if (!strcmp(argv[i], "--resets"))
            s.reset_ms = atoi(argv[i + 1]);
        else
            return 2;
    }
    signal(SIGTERM, take_signal);
    must(tutti_comm_init_from_env(&s.comm, NULL), "init");
    must(tutti_comm_rank(s.comm, &s.rank), "rank");
    must(tutti_comm_count(s.comm, &s.nranks), "count");
    if (s.reset_ms > 0 && pthread_create(&thread, NULL, reset_lanes, NULL) != 0)
        return 2;
    work();
    if (s.reset_ms > 0)
        pthread_join(thread, NULL);
    must(tutti_comm_destroy(s.comm), "destroy");
    return 0;
}
