/* SPDX-License-Identifier: Apache-2.0 */
/* epoll with handlers. Sources removed while their batch of events is being handled are struck from the batch. */
#include "base/poller.h"
#include "base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define BATCH 64

struct poller {
    int epoll_fd;
    struct poll_source wake;
    struct epoll_event batch[BATCH];
    int batch_count;
};

static void drain_wake(struct poll_source *source, uint32_t events)
{
    uint64_t count;
    ssize_t ignored = read(source->fd, &count, sizeof count);
    (void)ignored;
    (void)events;
}

tutti_result_t poller_open(struct poller **out)
{
    struct poller *poller = calloc(1, sizeof *poller);
    if (!poller)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for an event loop");
    poller->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    poller->wake = (struct poll_source){.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .ready = drain_wake};
    if (poller->epoll_fd < 0 || poller->wake.fd < 0) {
        tutti_result_t result = error_set(TUTTI_SYSTEM_ERROR, "cannot make an event loop: %s", strerror(errno));
        poller_close(poller);
        return result;
    }
    tutti_result_t result = poller_add(poller, &poller->wake, EPOLLIN);
    if (result != TUTTI_SUCCESS) {
        poller_close(poller);
        return result;
    }
    *out = poller;
    return TUTTI_SUCCESS;
}

void poller_close(struct poller *poller)
{
    if (!poller)
        return;
    if (poller->wake.fd >= 0)
        close(poller->wake.fd);
    if (poller->epoll_fd >= 0)
        close(poller->epoll_fd);
    free(poller);
}

static tutti_result_t control(struct poller *poller, int what, struct poll_source *source, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = source};
    if (epoll_ctl(poller->epoll_fd, what, source->fd, &event) == 0)
        return TUTTI_SUCCESS;
    return error_set(TUTTI_SYSTEM_ERROR, "cannot watch descriptor %d: %s", source->fd, strerror(errno));
}

tutti_result_t poller_add(struct poller *poller, struct poll_source *source, uint32_t events)
{
    return control(poller, EPOLL_CTL_ADD, source, events);
}

tutti_result_t poller_change(struct poller *poller, struct poll_source *source, uint32_t events)
{
    return control(poller, EPOLL_CTL_MOD, source, events);
}

void poller_remove(struct poller *poller, struct poll_source *source)
{
    struct epoll_event unused = {0};
    epoll_ctl(poller->epoll_fd, EPOLL_CTL_DEL, source->fd, &unused);
    for (int i = 0; i < poller->batch_count; i++)
        if (poller->batch[i].data.ptr == source)
            poller->batch[i].data.ptr = NULL;
}

int poller_wait(struct poller *poller, int timeout_ms)
{
    int ran = 0, count = epoll_wait(poller->epoll_fd, poller->batch, BATCH, timeout_ms);
    poller->batch_count = count < 0 ? 0 : count;
    for (int i = 0; i < poller->batch_count; i++) {
        struct poll_source *source = poller->batch[i].data.ptr;
        if (!source)
            continue;
        source->ready(source, poller->batch[i].events);
        ran++;
    }
    poller->batch_count = 0;
    return ran;
}

int poller_fd(const struct poller *poller)
{
    return poller->epoll_fd;
}

void poller_wake(struct poller *poller)
{
    uint64_t one = 1;
    ssize_t ignored = write(poller->wake.fd, &one, sizeof one);
    (void)ignored;
}
