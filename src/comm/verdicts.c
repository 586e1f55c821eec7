/* SPDX-License-Identifier: Apache-2.0 */
/* An agent replaces its file by another one, which the kernel tells. So nothing here has a thread, or is looked at
 * while nobody listens. */
#include "comm/verdicts.h"

#include "base/events.h"
#include "base/fork.h"
#include "base/log.h"
#include "base/param.h"
#include "wire/verdicts.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#define MASTERS 8 /* whose numbers are remembered: an agent of this user, one of root, and masters that began anew */

static struct {
    pthread_mutex_t lock; /* protects all below */
    unsigned listeners;
    int fd; /* -1: none */
    struct {
        uint64_t master, number; /* of the latest news that was told; master 0: no entry */
    } told[MASTERS];
    unsigned next; /* entry that a new master gets */
} verdicts = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

/* The parent's descriptor is shared with it: what the child read there the parent would miss. */
static void verdicts_forget(void)
{
    pthread_mutex_init(&verdicts.lock, NULL);
    if (verdicts.fd >= 0)
        close(verdicts.fd);
    verdicts.fd = -1;
    verdicts.listeners = 0;
}

__attribute__((constructor)) static void verdicts_begin(void)
{
    fork_reset_by(verdicts_forget);
}

static uint64_t *told_of(uint64_t master)
{
    unsigned at = 0;
    while (at < MASTERS && verdicts.told[at].master != master)
        at++;
    if (at == MASTERS) {
        at = verdicts.next++ % MASTERS;
        verdicts.told[at].master = master;
        verdicts.told[at].number = 0;
    }
    return &verdicts.told[at].number;
}

static void tell_list(const struct verdict_list *list, bool aloud)
{
    uint64_t *told = told_of(list->master);
    for (uint32_t i = 0; i < list->count; i++) {
        const struct verdict_news *news = &list->news[i];
        if (news->number <= *told)
            continue;
        *told = news->number;
        if (aloud)
            events_tell(&(tutti_event_t){.kind = news->over ? TUTTI_EVENT_VERDICT_OVER : TUTTI_EVENT_VERDICT,
                                         .rank = news->rank < 0 ? -1 : news->rank,
                                         .lane = -1,
                                         .process = news->process},
                        "%s", news->text);
    }
}

/* Root's agent tells all processes of the host. */
static void tell_all(bool aloud)
{
    const char *dir = param_string(PARAM_TRACE_DIR);
    const uint32_t me = (uint32_t)geteuid();
    struct verdict_list list;
    if (verdicts_read(dir, me, &list))
        tell_list(&list, aloud);
    if (me != 0 && verdicts_read(dir, 0, &list))
        tell_list(&list, aloud);
}

static void open_watch(void)
{
    const char *dir = param_string(PARAM_TRACE_DIR);
    verdicts.fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (verdicts.fd >= 0 && inotify_add_watch(verdicts.fd, dir, IN_MOVED_TO | IN_ONLYDIR) >= 0)
        return;
    log_info("verdicts of the job's master are heard only when the program asks for events: watching %s: %s", dir,
             strerror(errno));
    if (verdicts.fd >= 0)
        close(verdicts.fd);
    verdicts.fd = -1;
}

int verdicts_follow(void)
{
    pthread_mutex_lock(&verdicts.lock);
    if (verdicts.listeners++ == 0) {
        open_watch();
        tell_all(false);
    }
    int fd = verdicts.fd;
    pthread_mutex_unlock(&verdicts.lock);
    return fd;
}

void verdicts_leave(void)
{
    pthread_mutex_lock(&verdicts.lock);
    if (verdicts.listeners > 0 && --verdicts.listeners == 0 && verdicts.fd >= 0) {
        close(verdicts.fd);
        verdicts.fd = -1;
    }
    pthread_mutex_unlock(&verdicts.lock);
}

/* Takes what the kernel tells of the folder. False: nothing. */
static bool take_changes(void)
{
    _Alignas(struct inotify_event) char events[4096];
    bool some = verdicts.fd < 0;
    while (verdicts.fd >= 0 && read(verdicts.fd, events, sizeof events) > 0)
        some = true;
    return some;
}

void verdicts_look(void)
{
    pthread_mutex_lock(&verdicts.lock);
    if (verdicts.listeners > 0 && take_changes())
        tell_all(true);
    pthread_mutex_unlock(&verdicts.lock);
}
