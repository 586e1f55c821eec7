/* SPDX-License-Identifier: Apache-2.0 */
/* Help for tests: a root with a thread of its own, and ranks that are threads. */
#ifndef TUTTI_BOOTSTRAP_TESTING_H
#define TUTTI_BOOTSTRAP_TESTING_H

#include "base/clock.h"
#include "base/error.h"
#include "base/param.h"
#include "base/poller.h"
#include "bootstrap/bootstrap.h"
#include "bootstrap/state.h"
#include "wire/bootstrap.h"

#include <fcntl.h>
#include <net/if.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

struct test_root {
    struct poller *poller;
    struct bootstrap_root *root;
    tutti_unique_id_t id;
    pthread_t thread;
    _Atomic bool stop;
};

static inline void *test_root_run(void *arg)
{
    struct test_root *r = arg;
    while (!atomic_load(&r->stop))
        poller_wait(r->poller, 1000);
    return NULL;
}

static inline tutti_result_t test_root_start(struct test_root *r, const tutti_unique_id_t *id)
{
    memset(r, 0, sizeof *r);
    tutti_result_t result = poller_open(&r->poller);
    if (result != TUTTI_SUCCESS)
        return result;
    result = bootstrap_root_open(r->poller, id, &r->id, &r->root);
    if (result == TUTTI_SUCCESS && pthread_create(&r->thread, NULL, test_root_run, r) == 0)
        return TUTTI_SUCCESS;
    bootstrap_root_close(r->root);
    poller_close(r->poller);
    return TUTTI_SYSTEM_ERROR;
}

static inline void test_root_stop(struct test_root *r)
{
    atomic_store(&r->stop, true);
    poller_wake(r->poller);
    pthread_join(r->thread, NULL);
    bootstrap_root_close(r->root);
    poller_close(r->poller);
}

/* One with another nonce. */
static inline tutti_unique_id_t test_damaged(const tutti_unique_id_t *id)
{
    tutti_unique_id_t other = *id;
    ((struct boot_id *)(void *)&other)->nonce[3] ^= 1;
    return other;
}

struct test_rank {
    pthread_t thread;
    const tutti_unique_id_t *id;
    int rank, nranks;
    uint64_t deadline;
    const bootstrap_stop_t *abort;
    int rounds; /* allgathers and barriers after the join */
    size_t size;
    tutti_result_t result;
    bool wrong; /* data differ */
    char sentence[512];
    struct bootstrap_counters joined, after;
};

static inline bool test_gather(struct bootstrap *b, size_t size, tutti_result_t *result)
{
    int rank = b->rank, n = b->nranks;
    unsigned char *all = calloc((size_t)n, size + 1), *mine = malloc(size + 1);
    bool right = true;
    *result = all && mine ? TUTTI_SUCCESS : error_set(TUTTI_SYSTEM_ERROR, "no memory for the test's data");
    if (*result == TUTTI_SUCCESS) {
        for (size_t i = 0; i < size; i++)
            mine[i] = (unsigned char)(rank * 31 + (int)i * 7 + rank / 8);
        *result = bootstrap_allgather(b, mine, size, all);
        for (int r = 0; *result == TUTTI_SUCCESS && r < n; r++)
            for (size_t i = 0; i < size; i++)
                right &= all[(size_t)r * size + i] == (unsigned char)(r * 31 + (int)i * 7 + r / 8);
    }
    free(all);
    free(mine);
    return right;
}

static inline void *test_rank_run(void *arg)
{
    struct test_rank *t = arg;
    struct bootstrap *b = NULL;
    t->result = bootstrap_join(t->id, t->rank, t->nranks, t->deadline, t->abort, &b);
    if (t->result == TUTTI_SUCCESS) {
        bootstrap_counters(b, &t->joined);
        for (int i = 0; i < t->rounds && t->result == TUTTI_SUCCESS; i++) {
            t->wrong |= !test_gather(b, t->size, &t->result);
            if (t->result == TUTTI_SUCCESS)
                t->result = bootstrap_barrier(b);
        }
        bootstrap_counters(b, &t->after);
        if (t->result != TUTTI_SUCCESS)
            snprintf(t->sentence, sizeof t->sentence, "%s", error_last());
        bootstrap_close(b);
    } else {
        snprintf(t->sentence, sizeof t->sentence, "%s", error_last());
    }
    return NULL;
}

static inline void test_ranks_with(struct test_rank *ranks, int n, int rounds, size_t size)
{
    memset(ranks, 0, (size_t)n * sizeof *ranks);
    for (int i = 0; i < n; i++) {
        ranks[i].rounds = rounds;
        ranks[i].size = size;
    }
}

/* Starts ranks first .. first + count - 1 of nranks. False: no thread. */
static inline bool test_ranks_start(struct test_rank *ranks, const tutti_unique_id_t *id, int first, int count,
                                    int nranks, uint64_t deadline)
{
    pthread_attr_t small;
    bool fine = true;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 256 * 1024);
    for (int i = 0; i < count; i++) {
        struct test_rank *t = &ranks[i];
        t->id = id;
        t->rank = first + i;
        t->nranks = nranks;
        t->deadline = deadline;
        fine &= pthread_create(&t->thread, &small, test_rank_run, t) == 0;
    }
    pthread_attr_destroy(&small);
    return fine;
}

static inline void test_ranks_join(struct test_rank *ranks, int count)
{
    for (int i = 0; i < count; i++)
        pthread_join(ranks[i].thread, NULL);
}

/* As many open files as allowed, loopback only. Call before anything else. */
/* A thousand ranks take thousands of ports, and the tests beside would meet them at ports that were somebody else's a
 * moment ago. Where a network of one's own is not allowed, the tests share one. */
static inline void test_own_network(void)
{
    struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    int before = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    int fd = unshare(CLONE_NEWNET) == 0 ? socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0) : -1;
    if (fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &lo) != 0 && setns(before, CLONE_NEWNET) != 0)
        abort();
    if (fd >= 0)
        close(fd);
    if (before >= 0)
        close(before);
}

static inline void test_setup(void)
{
    struct rlimit files;
    test_own_network();
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    setenv("TUTTI_SOCKET_IFNAME", "lo", 1);
    setenv("TUTTI_DEBUG", "none", 0);
    param_reload();
}

#endif
