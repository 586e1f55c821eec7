/* SPDX-License-Identifier: Apache-2.0 */
/* A program for launchers: finds out who it is, meets the others twice, exchanges (not if MEET_ONLY_FIND is
 * set), and says so in one line. */
#include "base/clock.h"
#include "base/error.h"
#include "bootstrap/env.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "meet.h"

struct service {
    struct poller *poller;
    struct bootstrap_root *root;
    pthread_t thread;
    bool running;
    _Atomic bool stop;
};

static void *serve(void *arg)
{
    struct service *service = arg;
    while (!bootstrap_root_done(service->root) && !atomic_load(&service->stop))
        poller_wait(service->poller, 200);
    return NULL;
}

static tutti_result_t service_start(struct service *service, struct env_identity *who)
{
    *service = (struct service){0};
    tutti_result_t result = poller_open(&service->poller);
    if (result == TUTTI_SUCCESS)
        result = env_root_open(who, service->poller, &service->root);
    if (result == TUTTI_SUCCESS && service->root)
        service->running = pthread_create(&service->thread, NULL, serve, service) == 0;
    return result;
}

static void service_stop(struct service *service, tutti_result_t result)
{
    if (result != TUTTI_SUCCESS)
        atomic_store(&service->stop, true);
    if (service->running)
        pthread_join(service->thread, NULL);
    bootstrap_root_close(service->root);
    poller_close(service->poller);
}

static tutti_result_t exchange(const struct env_identity *who)
{
    struct bootstrap *b;
    int mine = who->rank * 10 + 1, *all = calloc((size_t)who->nranks, sizeof *all);
    if (!all)
        return TUTTI_SYSTEM_ERROR;
    tutti_result_t result = bootstrap_join(&who->id, who->rank, who->nranks, clock_deadline_ms(60000), NULL, &b);
    if (result == TUTTI_SUCCESS) {
        result = bootstrap_allgather(b, &mine, sizeof mine, all);
        for (int i = 0; i < who->nranks && result == TUTTI_SUCCESS; i++)
            if (all[i] != i * 10 + 1)
                result = error_set(TUTTI_INTERNAL_ERROR, "rank %d's word is %d", i, all[i]);
        bootstrap_close(b);
    }
    free(all);
    return result;
}

int meet_and_report(const char *note)
{
    struct env_identity who;
    struct service service;
    for (int round = 0; round < 2; round++) {
        tutti_result_t result = env_identity_find(&who);
        if (result == TUTTI_SUCCESS && !getenv("MEET_ONLY_FIND")) {
            result = service_start(&service, &who);
            if (result == TUTTI_SUCCESS)
                result = exchange(&who);
            service_stop(&service, result);
        }
        if (result != TUTTI_SUCCESS) {
            printf("failed: %s: %s\n", error_name(result), error_last());
            return 1;
        }
    }
    printf("met by %s%s: rank %d of %d, local %d of %d\n", who.source, note, who.rank, who.nranks, who.local_rank,
           who.local_size);
    return 0;
}
