/* SPDX-License-Identifier: Apache-2.0 */
/* Asynchronous events of a context and completion events of a channel: lists, and descriptors that count what is in
 * them. */
#ifndef VERBS_EVENT_H
#define VERBS_EVENT_H

#include "verbs/object.h"

int event_fd_open(int *writer);       /* -1 with errno; the caller closes both */
void event_fd_post(int writer);       /* beyond 65536 events that nobody has read the descriptor counts no more */
int event_fd_take(int fd, bool wait); /* 0, or -1 with errno */

/* A port event for a context, or one of a queue. Memory shortage loses the event. */
void event_port(struct rdma_device *device, enum ibv_event_type type);
void event_qp(struct qp *qp, enum ibv_event_type type);
void event_cq(struct cq *cq, enum ibv_event_type type);
void event_srq(struct srq *srq, enum ibv_event_type type);

/* The program has taken an event, and has dealt with it: what it is about is not destroyed in between. */
void event_reported(const struct ibv_async_event *event);
void event_acknowledge(const struct ibv_async_event *event);

/* Waits until `count` events of an object are dealt with (its public mutex, condition and counter). */
void event_wait(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *completed, uint32_t count);

/* Takes back the events of this object that nobody has read. */
void event_forget(struct rdma_context *context, const void *object);

#endif
