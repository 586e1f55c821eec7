/* SPDX-License-Identifier: Apache-2.0 */
/* Event lists. A pipe holds a byte for each event, so that poll, blocking and non-blocking reads behave. Its end is
 * never ready for writing, as the kernel's descriptors are not: a program may wait for both. */
#include "verbs/event.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

int event_fd_open(int *writer)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC))
        return -1;
    fcntl(ends[1], F_SETFL, O_NONBLOCK); /* the engine does not wait for a program that reads no events */
    *writer = ends[1];
    return ends[0];
}

void event_fd_post(int writer)
{
    while (write(writer, "", 1) < 0 && errno == EINTR)
        ;
}

int event_fd_take(int fd, bool wait)
{
    char value;
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    if (!wait && poll(&ready, 1, 0) <= 0)
        return -1;
    ssize_t n = read(fd, &value, sizeof(value));
    return n == sizeof(value) ? 0 : -1;
}

static void add(struct rdma_context *context, const struct ibv_async_event *ibv)
{
    struct event *event = malloc(sizeof(*event));
    if (!event)
        return;
    event->ibv = *ibv;
    list_push(&context->events, &event->node);
    event_fd_post(context->async_writer);
}

void event_port(struct rdma_device *device, enum ibv_event_type type)
{
    struct ibv_async_event event = {.event_type = type, .element.port_num = 1};
    list_each(node, &device->contexts) if (!list_entry(node, struct rdma_context, node)->dead)
        add(list_entry(node, struct rdma_context, node), &event);
}

void event_qp(struct qp *qp, enum ibv_event_type type)
{
    struct ibv_async_event event = {.event_type = type, .element.qp = qp_ibv(qp)};
    add(qp->context, &event);
}

void event_cq(struct cq *cq, enum ibv_event_type type)
{
    struct ibv_async_event event = {.event_type = type, .element.cq = (struct ibv_cq *)&cq->ex};
    add(context_of(cq->ex.context), &event);
}

void event_srq(struct srq *srq, enum ibv_event_type type)
{
    struct ibv_async_event event = {.event_type = type, .element.srq = &srq->ibv};
    add(context_of(srq->ibv.context), &event);
}

enum about { ABOUT_PORT, ABOUT_CQ, ABOUT_QP, ABOUT_SRQ };

static enum about about(enum ibv_event_type type)
{
    switch (type) {
    case IBV_EVENT_CQ_ERR:
        return ABOUT_CQ;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
        return ABOUT_SRQ;
    case IBV_EVENT_QP_LAST_WQE_REACHED:
        return ABOUT_QP;
    default:
        return type <= IBV_EVENT_PATH_MIG_ERR ? ABOUT_QP : ABOUT_PORT;
    }
}

void event_forget(struct rdma_context *context, const void *object)
{
    list_each_safe(node, &context->events)
    {
        struct event *event = list_entry(node, struct event, node);
        if (about(event->ibv.event_type) == ABOUT_PORT || (const void *)event->ibv.element.qp != object)
            continue;
        event_fd_take(context_ibv(context)->async_fd, false);
        list_remove(node);
        free(event);
    }
}

void event_reported(const struct ibv_async_event *event)
{
    switch (about(event->event_type)) {
    case ABOUT_CQ:
        ((struct cq *)event->element.cq)->async_reported++;
        break;
    case ABOUT_QP:
        ((struct qp *)event->element.qp)->async_reported++;
        break;
    case ABOUT_SRQ:
        ((struct srq *)event->element.srq)->async_reported++;
        break;
    case ABOUT_PORT:
        break;
    }
}

static void complete(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *completed)
{
    pthread_mutex_lock(mutex);
    ++*completed;
    pthread_cond_broadcast(cond);
    pthread_mutex_unlock(mutex);
}

void event_acknowledge(const struct ibv_async_event *event)
{
    struct ibv_cq *cq = event->element.cq;
    struct ibv_qp *qp = event->element.qp;
    struct ibv_srq *srq = event->element.srq;
    switch (about(event->event_type)) {
    case ABOUT_CQ:
        complete(&cq->mutex, &cq->cond, &cq->async_events_completed);
        break;
    case ABOUT_QP:
        complete(&qp->mutex, &qp->cond, &qp->events_completed);
        break;
    case ABOUT_SRQ:
        complete(&srq->mutex, &srq->cond, &srq->events_completed);
        break;
    case ABOUT_PORT:
        break;
    }
}

void event_wait(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *completed, uint32_t count)
{
    pthread_mutex_lock(mutex);
    while (*completed < count)
        pthread_cond_wait(cond, mutex);
    pthread_mutex_unlock(mutex);
}
