/* SPDX-License-Identifier: Apache-2.0 */
/* The lock, the table of queue pairs with their timers, and when the thread must wake. */
#include "verbs/engine.h"
#include "verbs/engine_state.h"

#include <errno.h>
#include <unistd.h>

struct engine_state engine = {.once = PTHREAD_ONCE_INIT, .wake_fd = -1, .monitor_fd = -1};

static void setup(void)
{
    pthread_mutexattr_t attr;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ADAPTIVE_NP);
    pthread_mutex_init(&engine.lock, &attr);
    pthread_mutexattr_destroy(&attr);
    list_init(&engine.dirty);
    list_init(&engine.timers);
    pthread_atfork(engine_lock, engine_unlock, engine.child); /* lists are whole when they are copied */
}

void engine_lock(void)
{
    pthread_once(&engine.once, setup);
    pthread_mutex_lock(&engine.lock);
}

void engine_unlock(void)
{
    pthread_mutex_unlock(&engine.lock);
}

void engine_wake(void)
{
    uint64_t one = 1;
    while (write(engine.wake_fd, &one, sizeof(one)) < 0 && errno == EINTR)
        ;
}

uint32_t engine_slot(void)
{
    return engine.slot_count ? engine.slots[0] : 0;
}

static struct qp **entry_of(uint32_t qpn)
{
    for (int i = 0; i < engine.slot_count; i++)
        if (engine.slots[i] == qpn >> SLOT_BITS)
            return &engine.qps[(size_t)i * SLOT_SIZE + qpn % SLOT_SIZE];
    return NULL;
}

struct qp *engine_find_qp(uint32_t qpn)
{
    struct qp **entry = entry_of(qpn);
    return entry ? *entry : NULL;
}

void engine_each_qp(void (*each)(struct qp *qp, void *arg), void *arg)
{
    for (size_t i = 0; i < (size_t)engine.slot_count * SLOT_SIZE; i++)
        if (engine.qps[i])
            each(engine.qps[i], arg);
}

void engine_remove_qp(struct qp *qp)
{
    struct qp **entry = entry_of(qp_number(qp));
    if (entry && *entry == qp)
        *entry = NULL;
    list_remove(&qp->dirty_node);
    list_remove(&qp->timer_node);
}

void engine_mark(struct qp *qp)
{
    if (list_empty(&qp->dirty_node))
        list_push(&engine.dirty, &qp->dirty_node);
}

void engine_hurry(struct qp *qp)
{
    engine_mark(qp);
    engine.hurry = true;
}

static void arm(struct qp *qp, uint64_t deadline, uint64_t tolerance)
{
    if (list_empty(&qp->timer_node))
        list_push(&engine.timers, &qp->timer_node);
    if (!engine.next_deadline || deadline < engine.next_deadline)
        engine.next_deadline = deadline;
    if (engine.sleeping_until > deadline + tolerance) {
        engine.sleeping_until = deadline;
        engine_wake();
    }
}

void engine_arm(struct qp *qp, uint64_t deadline)
{
    arm(qp, deadline, 0);
}

void engine_arm_loosely(struct qp *qp, uint64_t deadline)
{
    arm(qp, deadline, YIELD_NS);
}

void engine_alarm(uint64_t deadline)
{
    if (!engine.fault_deadline || deadline < engine.fault_deadline)
        engine.fault_deadline = deadline;
    if (engine.sleeping_until > deadline) {
        engine.sleeping_until = deadline;
        engine_wake();
    }
}

void engine_polled(void)
{
    atomic_store_explicit(&engine.polled_at, clock_ns(), memory_order_relaxed);
}

void engine_watch(void)
{
    atomic_store_explicit(&engine.polled_at, 0, memory_order_relaxed);
    if (atomic_load_explicit(&engine.yielding, memory_order_relaxed))
        engine_wake();
}
