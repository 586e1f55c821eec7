/* SPDX-License-Identifier: Apache-2.0 */
/* Progress. A packet must be answered though the program calls nothing (an RDMA WRITE's target sleeps), so a thread
 * watches the sockets. A program that polls does the work itself and faster; while it does, the thread looks at the
 * sockets rarely. A poller that turns out not to come back (it spins on memory) is not trusted again for a while. */
#include "verbs/engine.h"
#include "verbs/engine_state.h"
#include "verbs/control.h"
#include "verbs/counters.h"
#include "verbs/device.h"
#include "verbs/fault.h"
#include "verbs/input.h"
#include "verbs/netlink.h"
#include "verbs/posted.h"
#include "verbs/qp.h"
#include "verbs/transport.h"
#include "verbs/wire.h"

#include "base/clock.h"
#include "base/cpu.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SLOT_COUNT     (1u << (24 - SLOT_BITS))
#define ROUNDS_MAX     16
#define BATCHES        8 /* divides ROUNDS_MAX */
#define POLLS_IN_VAIN  64
#define JUST_NOW_NS    (5 * NS_PER_US) /* a program that polls many queues looks at the sockets once for all of them */
#define YIELD_EVERY_NS (4 * NS_PER_MS)
#define POLLER_NS      (200 * NS_PER_US) /* a poller was seen this recently: it is at work */
#define DISTRUST_MIN   (10 * NS_PER_MS)
#define DISTRUST_MAX   (100 * NS_PER_MS)
#define STREAM_BYTES   (32 * 1024) /* so much in one go is a stream, of which more is near */
#define LOOK_MAX       (200 * NS_PER_US)
#define SLICE_NS       (100 * NS_PER_US) /* the shortest there is */
/* The thread keeps a deadline this long after the last timer, sparing wake-ups. */
#define LINGER_NS (100 * NS_PER_MS)
#define LOOK_NS   (20 * NS_PER_MS) /* between looks at the carriers, while a timer runs */

static void close_fds(void);

/* A child of fork has no thread, and must not send in its parent's name: it starts from nothing. The parent's objects
 * stay, as memory. */
static void after_fork(void)
{
    engine.running = false;
    engine.users = 0;
    pthread_mutex_init(&engine.lock, NULL);
    pthread_mutex_init(&device_life, NULL); /* a thread may have been opening a device */
    close_fds();
    list_init(&engine.dirty);
    list_init(&engine.timers);
    device_disinherit();
    posted_forget();
}

/* Before the lock is taken for the first time, which is when forks begin to be watched. */
__attribute__((constructor)) static void watch_forks(void)
{
    engine.child = after_fork;
}

/* An abstract socket name is free again when its process has died, and is known in one network namespace only. */
static int bind_slot(uint32_t slot)
{
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    if (!control_bind(fd, slot))
        return fd;
    close(fd);
    return -1;
}

static int take_slot(void)
{
    if (engine.slot_count == SLOTS_MAX)
        return ENOMEM;
    size_t count = (size_t)(engine.slot_count + 1) * SLOT_SIZE;
    struct qp **more = realloc(engine.qps, count * sizeof(*more));
    if (!more)
        return ENOMEM;
    engine.qps = more;
    memset(more + count - SLOT_SIZE, 0, SLOT_SIZE * sizeof(*more));
    uint32_t start = (uint32_t)getpid() * 2654435761u >> (32 - (24 - SLOT_BITS));
    for (uint32_t tried = 0; tried < SLOT_COUNT; tried++) {
        uint32_t slot = (start + tried) % SLOT_COUNT;
        int fd = slot == 0 || slot == SLOT_COUNT - 1
                     ? -1
                     : bind_slot(slot); /* 0 has the special ones, the last one multicast */
        if (fd >= 0) {
            engine.slots[engine.slot_count] = slot;
            engine.slot_fds[engine.slot_count++] = fd;
            return wire_listen(engine.slots, engine.slot_count);
        }
    }
    return EMFILE;
}

/* Numbers are taken round robin, so that one comes back late: packets of a dead queue pair may still be under way. */
static bool take_number(struct qp *qp)
{
    uint32_t total = (uint32_t)engine.slot_count * SLOT_SIZE;
    for (uint32_t tried = 0; tried < total; tried++) {
        uint32_t index = engine.next_qp++ % total;
        if (engine.qps[index])
            continue;
        engine.qps[index] = qp;
        qp_ibv(qp)->qp_num = engine.slots[index / SLOT_SIZE] << SLOT_BITS | index % SLOT_SIZE;
        return true;
    }
    return false;
}

int engine_add_qp(struct qp *qp)
{
    list_init(&qp->dirty_node);
    list_init(&qp->timer_node);
    qp->serial = engine.serial++;
    if (take_number(qp))
        return 0;
    int err = take_slot();
    return err ? err : take_number(qp) ? 0 : ENOMEM;
}

/* Deadlines move later without a word: here they are looked at again. */
static void run_timers(uint64_t now)
{
    if (!engine.next_deadline || now < engine.next_deadline)
        return;
    uint64_t next = 0;
    list_each_safe(node, &engine.timers)
    {
        struct qp *qp = list_entry(node, struct qp, timer_node);
        uint64_t deadline = qp_timer(qp, now);
        if (!deadline)
            list_remove(node);
        else if (!next || deadline < next)
            next = deadline;
    }
    engine.next_deadline = next;
}

static bool run_dirty(uint64_t now)
{
    struct list batch;
    if (list_empty(&engine.dirty))
        return false;
    batch = engine.dirty;
    batch.next->prev = batch.prev->next = &batch;
    list_init(&engine.dirty);
    struct list *node;
    while ((node = list_pop(&batch)))
        qp_run(list_entry(node, struct qp, dirty_node), now);
    return true;
}

/* The thread goes on with what a caller of verbs has left. */
static void hand_over(void)
{
    if (list_empty(&engine.dirty) || !engine.sleeping_until)
        return;
    engine.sleeping_until = 0;
    engine_wake();
}

static bool poller_active(uint64_t now)
{
    uint64_t at = atomic_load_explicit(&engine.polled_at, memory_order_relaxed);
    return at && now < at + POLLER_NS;
}

/* A long burst by a poller does not make it look absent. */
void engine_push(void)
{
    uint64_t now = clock_ns();
    bool polls = poller_active(now);
    run_dirty(now);
    wire_flush();
    if (polls)
        engine_polled();
    hand_over();
}

/* Returns whether a packet came. In a stream answers leave after a few batches: one acknowledgement for all of them. */
static bool progress(void)
{
    bool any = false;
    for (int round = 0; round < ROUNDS_MAX; round++) {
        enum wire_came came = wire_receive(input_arrival);
        uint64_t now = clock_ns();
        if (engine.fault_deadline && now >= engine.fault_deadline)
            engine.fault_deadline = fault_release(now, wire_resend, input_checked);
        if (!came || round == ROUNDS_MAX - 1)
            run_timers(now); /* not before what waited was read: it may be what a timer waits for */
        any |= came != WIRE_NOTHING;
        if (came == WIRE_MANY && round % BATCHES != BATCHES - 1 && !engine.hurry)
            continue;
        engine.hurry = false;
        bool ran = run_dirty(now);
        wire_flush();
        if (!came && !ran)
            break;
    }
    return any;
}

/* The peer may wait for this very processor. A yield costs the caller a time slice, and many yields would starve it:
 * one in 4 ms. With SOFTVERBS_POLL=sleep a poller in vain sleeps, up to 200 us, until a packet comes: for machines with
 * too few processors. */
static void give_way(void)
{
    static _Thread_local uint64_t last;
    uint64_t now = clock_ns();
    if (engine.sleepy) {
        struct pollfd fds[] = {{.fd = wire_fd4(), .events = POLLIN}, {.fd = wire_fd6(), .events = POLLIN}};
        ppoll(fds, 2, &(struct timespec){.tv_nsec = POLLER_NS}, NULL);
    } else if (now > last + YIELD_EVERY_NS) {
        last = now;
        sched_yield();
    }
}

void engine_poll(const void *queue)
{
    static _Thread_local unsigned vain;
    static _Thread_local const void *looked_for; /* when the sockets were last looked at in vain: this queue */
    static _Thread_local uint64_t looked_at;
    bool came = false;
    if (looked_for && looked_for != queue && clock_ns() < looked_at + JUST_NOW_NS)
        return;
    if (pthread_mutex_trylock(&engine.lock))
        return;
    if (engine.running)
        came = progress();
    hand_over();
    engine_polled();
    engine_unlock();
    vain = came ? 0 : vain + 1;
    if (vain > POLLS_IN_VAIN)
        give_way();
    looked_for = came ? NULL : queue;
    looked_at = clock_ns();
}

static void drain(int fd)
{
    char bytes[4096];
    while (read(fd, bytes, sizeof(bytes)) > 0)
        ;
}

/* How long the thread may sleep, and until when in engine.sleeping_until. */
static uint64_t choose_sleep(uint64_t now, bool yield, uint64_t last_timer)
{
    uint64_t until = engine.next_deadline ? engine.next_deadline : UINT64_MAX;
    if (until == UINT64_MAX && now < last_timer + LINGER_NS)
        until = last_timer + LINGER_NS;
    if (engine.fault_deadline && engine.fault_deadline < until)
        until = engine.fault_deadline;
    if (yield && now + YIELD_NS < until)
        until = now + YIELD_NS;
    if (engine.next_deadline && engine.look_at < until)
        until = engine.look_at;
    if (!list_empty(&engine.dirty))
        until = now;
    engine.sleeping_until = until;
    return until;
}

/* In a stream the next burst is near and waking up costs more than looking around for it. */
static bool look(struct pollfd *fds, nfds_t n, uint64_t until)
{
    static const struct timespec at_once;
    while (clock_ns() < until)
        if (ppoll(fds, n, &at_once, NULL))
            return true;
    return false;
}

static void sleep_until(uint64_t now, uint64_t until, bool yield, uint64_t look_ns)
{
    struct pollfd fds[4 + SLOTS_MAX] = {
        {.fd = engine.wake_fd, .events = POLLIN},
        {.fd = engine.monitor_fd, .events = POLLIN},
        {.fd = yield ? -1 : wire_fd4(), .events = POLLIN},
        {.fd = yield ? -1 : wire_fd6(), .events = POLLIN},
    };
    int n = engine.slot_count;
    for (int i = 0; i < n; i++)
        fds[4 + i] = (struct pollfd){.fd = engine.slot_fds[i], .events = POLLIN};
    uint64_t ns = until > now ? until - now : 0;
    struct timespec timeout = {.tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S)};
    atomic_store_explicit(&engine.yielding, yield, memory_order_relaxed);
    engine_unlock();
    bool found = look_ns && look(fds, (nfds_t)(4 + n), ns < look_ns ? until : now + look_ns);
    if (!found)
        ppoll(fds, (nfds_t)(4 + n), until == UINT64_MAX ? NULL : &timeout, NULL);
    engine_lock();
    if (look_ns)
        engine.look_ns = !found ? look_ns / 2 : look_ns * 2 < LOOK_MAX ? look_ns * 2 : LOOK_MAX;
    atomic_store_explicit(&engine.yielding, false, memory_order_relaxed);
    engine.sleeping_until = 0;
    if (fds[0].revents)
        drain(engine.wake_fd);
    if (fds[1].revents) {
        drain(engine.monitor_fd);
        device_refresh();
    }
    for (int i = 0; i < n; i++)
        if (fds[4 + i].revents)
            control_serve(fds[4 + i].fd);
}

/* After leaving the sockets to a poller that has gone: packets that waited cost trust. */
static void judge(uint64_t now, bool came)
{
    if (poller_active(now)) {
        engine.distrust /= 2;
        return;
    }
    if (!came) {
        engine.distrust = 0;
        return;
    }
    engine.distrust = engine.distrust * 2 < DISTRUST_MIN ? DISTRUST_MIN : engine.distrust * 2;
    if (engine.distrust > DISTRUST_MAX)
        engine.distrust = DISTRUST_MAX;
    engine.distrust_until = now + engine.distrust;
}

/* Since Linux 6.12 a thread that asks for short slices runs at once when it wakes, whoever holds the processor: a
 * program that spins on memory, or a compiler, would keep it for milliseconds. Older kernels ignore it. */
static void ask_for_short_slices(void)
{
    struct { /* sched_setattr(2); libc does not have the call yet and the kernel's header does not go with libc's */
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period;
    } attr = {.size = sizeof(attr)};
    if (syscall(SYS_sched_getattr, 0, &attr, sizeof(attr), 0) || attr.policy != SCHED_OTHER)
        return;
    attr.runtime = SLICE_NS;
    syscall(SYS_sched_setattr, 0, &attr, 0);
}

static void *run(void *arg)
{
    uint64_t last_timer = 0;
    prctl(PR_SET_NAME, "softverbs");
    prctl(PR_SET_TIMERSLACK, 1);
    ask_for_short_slices();
    engine_lock();
    bool yielded = false;
    while (!engine.stop) {
        uint64_t now = clock_ns();
        bool active = poller_active(now);
        uint64_t begun = now, bytes = counter_read(COUNT_received_bytes);
        bool came = yielded && active ? false : progress();
        now = clock_ns();
        bool stream = counter_read(COUNT_received_bytes) - bytes >= STREAM_BYTES;
        uint64_t look_ns = now - begun < engine.look_ns ? engine.look_ns : now - begun;
        if (yielded)
            judge(now, came);
        if (yielded && active)
            run_timers(now);
        if (engine.next_deadline)
            last_timer = now;
        if (engine.next_deadline && now >= engine.look_at) {
            device_look();
            engine.look_at = now + LOOK_NS;
        }
        yielded = poller_active(now) && now >= engine.distrust_until && list_empty(&engine.dirty);
        look_ns = !stream || active ? 0 : look_ns < LOOK_MAX ? look_ns : LOOK_MAX;
        sleep_until(now, choose_sleep(now, yielded, last_timer), yielded, look_ns);
    }
    engine_unlock();
    return NULL;
}

static void settle(struct qp *qp, void *arg)
{
    responder_settle(qp);
}

/* The program ends with queue pairs that live: the peer must not wait for an acknowledgement that was held back. */
void engine_settle(void)
{
    struct timespec patience;
    clock_gettime(CLOCK_REALTIME, &patience);
    patience.tv_sec++;
    if (!engine.running || pthread_mutex_timedlock(&engine.lock, &patience))
        return;
    engine_each_qp(settle, NULL);
    wire_flush();
    engine_unlock();
}

static void close_fds(void)
{
    if (engine.wake_fd >= 0)
        close(engine.wake_fd);
    if (engine.monitor_fd >= 0)
        close(engine.monitor_fd);
    engine.wake_fd = engine.monitor_fd = -1;
    for (int i = 0; i < engine.slot_count; i++)
        close(engine.slot_fds[i]);
    engine.slot_count = 0;
    free(engine.qps);
    engine.qps = NULL;
    wire_close();
    fault_forget();
}

static int start(void)
{
    engine.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    engine.monitor_fd = netlink_monitor();
    int err = engine.wake_fd < 0 || engine.monitor_fd < 0 ? errno : wire_open();
    if (err == EPERM || err == EACCES)
        fprintf(stderr,
                "softverbs: opening a packet socket: %s; run as root or with CAP_NET_RAW (for example in a user and "
                "network "
                "namespace: unshare -rn)\n",
                strerror(err));
    if (!err)
        err = take_slot();
    /* Not from 0: Linux derives a source port from the product of two numbers. In products of 4096 x slot + a small
     * index, the bits that decide for an uplink repeat. */
    if (!err && getrandom(&engine.next_qp, sizeof engine.next_qp, 0) < 0)
        err = EIO;
    const char *poll_mode = getenv("SOFTVERBS_POLL");
    engine.sleepy = poll_mode && !strcmp(poll_mode, "sleep");
    engine.stop = false;
    engine.next_deadline = engine.fault_deadline = 0;
    if (!err)
        err = pthread_create(&engine.thread, NULL, run, NULL);
    if (err)
        close_fds();
    engine.running = !err;
    fault_touches_packets(); /* reads the environment */
    return err;
}

int engine_retain(void)
{
    int err = engine.users ? 0 : start();
    if (!err)
        engine.users++;
    return err;
}

void engine_release(void)
{
    if (--engine.users || !engine.running)
        return;
    pthread_t thread = engine.thread;
    engine.stop = true;
    engine_wake();
    engine_unlock();
    pthread_join(thread, NULL);
    engine_lock();
    engine.running = false;
    close_fds();
}
