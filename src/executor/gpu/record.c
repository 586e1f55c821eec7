/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this rank's GPU is doing, for the black box. A call writes down what it is and which ticket it has. While
 * something is unfinished, a thread of the process looks now and then which tickets are over. It never calls the
 * driver. Where an operation stays unfinished, it asks the kernel that may be spinning in it: a kernel that answers
 * waits for peers.
 */
#include "executor/gpu/record.h"

#include "base/error.h"
#include "base/futex.h"
#include "base/log.h"
#include "device/type.h"
#include "engine/p2p.h"
#include "engine/puts.h"
#include "engine/team_open.h"
#include "executor/gpu/gpu.h"
#include "executor/gpu/mailbox.h"
#include "executor/gpu/observer.h"
#include "executor/stream/ticket.h"

#include <stdlib.h>

#define LOOK_US  20000  /* between two looks */
#define SLOW_US  100000 /* while nothing ends */
#define PATIENCE 5      /* looks in vain until the kernel is asked */
/* Looks until it goes to sleep when nothing is left: waking it costs the next caller a microsecond. */
#define IDLE    50
#define LONG_US (3600ull * 1000 * 1000)

static const char watcher_name[] = "tutti-watcher"; /* the thread: one a process */

struct record {
    struct trace_comm *trace;
    struct trace_op *call; /* being issued; NULL: not recorded */
    uint32_t first;        /* ticket of its first launch */
    enum way way;
    uint32_t rounds; /* of its schedule; 0 of sends and receives */
    uint32_t step;   /* wire_op_step(); 0: it is none */
    uint64_t peers;  /* ranks sent to (bits 0..31) and received from (32..63); 0: as the call has said */

    /* issued and not seen to be over, oldest first: at most as many as the box holds. Filled by calls, emptied under
     * the lock */
    struct pending {
        struct trace_op *op;
        uint32_t first, ticket; /* of its launches, and of what comes last */
    } pending[WIRE_BOX_OPS];
    _Atomic uint64_t head, tail;
    pthread_mutex_t lock;

    struct attended attended;
    unsigned in_vain;      /* looks of the thread, in a row */
    _Atomic bool watching; /* it looks again by itself */
    _Atomic uint32_t news; /* what it sleeps on */
    uint64_t asked;        /* 1 + head of when the kernel was asked; 0: it was not */
};

/* ---- What is over ---- */

static struct pending *pending_at(struct record *record, uint64_t index)
{
    return &record->pending[index % WIRE_BOX_OPS];
}

/* The first that is not over. */
static uint64_t find_unfinished(const struct gpu *gpu, uint64_t head, uint64_t tail)
{
    while (head < tail && ticket_is_over(&gpu->base, pending_at(gpu->record, head)->ticket))
        head++;
    return head;
}

/* By the GPU's clock: when its first launch began, and when the last one was over. Copy engines tell no times, and old
 * launches have lost their places to others. */
static void take_times(const struct gpu *gpu, const struct pending *pending)
{
    struct ticket_times *times = gpu->ranks[gpu->rank].times;
    if (atomic_load(&gpu->base.tickets.ticket) - pending->first >= KERNEL_TIMES)
        return;
    uint64_t begin = atomic_load_explicit(&times[pending->first % KERNEL_TIMES].begin, memory_order_relaxed);
    uint64_t end = atomic_load_explicit(&times[pending->ticket % KERNEL_TIMES].end, memory_order_relaxed);
    trace_op_gpu_times(pending->op, begin, end);
}

/* Under the lock. What ends after the communicator has failed was given up. */
static bool end_until(const struct gpu *gpu, uint64_t end)
{
    struct record *record = gpu->record;
    uint64_t head = atomic_load_explicit(&record->head, memory_order_relaxed), first = head;
    tutti_result_t result = (tutti_result_t)atomic_load(&gpu->base.team->failed);
    for (; head < end; head++) {
        take_times(gpu, pending_at(record, head));
        trace_op_seen_done(pending_at(record, head)->op, result);
        if (result != TUTTI_SUCCESS)
            trace_count(gpu->base.team->engine->trace, WIRE_COUNTER_OPERATIONS_FAILED, 1);
    }
    atomic_store_explicit(&record->head, head, memory_order_release);
    return head != first;
}

static bool gpu_record_look(const struct gpu *gpu)
{
    struct record *record = gpu->record;
    uint64_t head = atomic_load_explicit(&record->head, memory_order_relaxed), tail = atomic_load(&record->tail);
    return end_until(gpu, find_unfinished(gpu, head, tail));
}

static void record_waited(const struct gpu *gpu)
{
    struct record *record = gpu->record;
    pthread_mutex_lock(&record->lock);
    gpu_record_look(gpu);
    pthread_mutex_unlock(&record->lock);
}

/* ---- What is waiting ---- */

static void record_ask(const struct gpu *gpu)
{
    struct record *record = gpu->record;
    mailbox_ask(&gpu->ranks[gpu->rank]);
    record->asked = atomic_load(&record->head) + 1;
}

static void stop_asking(const struct gpu *gpu)
{
    if (gpu->record->asked)
        mailbox_ask_no_more(&gpu->ranks[gpu->rank]);
    gpu->record->asked = 0;
}

/* Under the lock, after a look that found nothing to be over. The answer is of the oldest operation: kernels run one at
 * a time. */
static void record_look_at_waiting(const struct gpu *gpu)
{
    struct record *record = gpu->record;
    uint64_t head = atomic_load_explicit(&record->head, memory_order_relaxed);
    if (record->asked != head + 1)
        record_ask(gpu);
    else if (mailbox_answer(&gpu->ranks[gpu->rank]))
        trace_op_seen_waiting(pending_at(record, head)->op);
}

/* ---- The thread ---- */

static bool unfinished(struct record *record)
{
    return atomic_load_explicit(&record->head, memory_order_relaxed) != atomic_load(&record->tail);
}

/* How often in a row the thread has looked in vain, this time included. */
static unsigned watch(const struct gpu *gpu, unsigned in_vain)
{
    struct record *record = gpu->record;
    pthread_mutex_lock(&record->lock);
    in_vain = gpu_record_look(gpu) ? 0 : in_vain + 1;
    if (in_vain >= PATIENCE && unfinished(record))
        record_look_at_waiting(gpu);
    else
        stop_asking(gpu);
    pthread_mutex_unlock(&record->lock);
    return in_vain;
}

/* Where nothing was issued for a while, whoever issues from now on wakes the thread. */
static uint64_t sleep_long(struct record *record, uint64_t tail)
{
    atomic_store(&record->watching, false);
    if (atomic_load(&record->tail) == tail)
        return LONG_US;
    atomic_store(&record->watching, true);
    return 0;
}

static uint64_t record_watch(void *context)
{
    const struct gpu *gpu = context;
    struct record *record = gpu->record;
    atomic_store(&record->watching, true);
    uint64_t tail = atomic_load(&record->tail);
    record->in_vain = watch(gpu, record->in_vain);
    bool left = unfinished(record);
    if (left || record->in_vain < IDLE)
        return left && record->in_vain >= PATIENCE ? SLOW_US : LOOK_US;
    return sleep_long(record, tail);
}

/* ---- Calls ---- */

/* The next place in the box may still be taken by an operation that is over and that nobody has looked at. */
static void make_room(const struct gpu *gpu)
{
    struct record *record = gpu->record;
    if (trace_comm_room(record->trace) || pthread_mutex_trylock(&record->lock) != 0)
        return;
    gpu_record_look(gpu);
    pthread_mutex_unlock(&record->lock);
}

static bool records(const struct gpu *gpu)
{
    gpu->record->call = NULL;
    gpu->record->step = 0;
    gpu->record->first = gpu->base.tickets.handed_out + 1;
    if (atomic_load_explicit(&gpu->base.team->failed, memory_order_relaxed))
        return false;
    make_room(gpu);
    return true;
}

static void record_called(const struct gpu *gpu, const struct call *call, uint32_t number)
{
    bool rooted = call->coll == COLL_REDUCE || call->coll == COLL_BROADCAST || call->coll == COLL_GATHER ||
                  call->coll == COLL_SCATTER;
    if (!records(gpu))
        return;
    gpu->record->way = WAY_EXCHANGE;
    if (call->step)
        gpu->record->step = wire_op_step(call->step_of, call->step_at, call->step, call->steps);
    gpu->record->call = trace_op_call(gpu->record->trace, number, (enum wire_collective)call->coll, (int)call->type,
                                      call->premul ? TUTTI_OP_COUNT : call->op, rooted ? call->root : -1, call->count,
                                      team_vector_bytes(gpu->base.team, call), 0);
}

static void record_messages(const struct gpu *gpu, const struct p2p_item *items, int count, uint32_t number)
{
    uint64_t bytes = 0, peers = 0;
    if (!records(gpu))
        return;
    for (int i = 0; i < count; i++) {
        bytes += items[i].count * type_size(items[i].type);
        peers |= 1ull << (items[i].peer + (items[i].sends ? 0 : 32));
    }
    gpu->record->way = WAY_EXCHANGE;
    gpu->record->rounds = 0;
    gpu->record->peers = 0;
    gpu->record->call =
        trace_op_call(gpu->record->trace, number,
                      count > 1        ? WIRE_GROUP
                      : items[0].sends ? WIRE_SEND
                                       : WIRE_RECV,
                      (int)items[0].type, -1, count == 1 ? items[0].peer : -1, items[0].count, bytes, peers);
}

static void record_windows(const struct gpu *gpu, const struct window_item *items, int count, uint32_t number)
{
    uint64_t bytes = 0, peers = 0;
    if (!records(gpu))
        return;
    for (int i = 0; i < count; i++) {
        bool takes = items[i].call == WINDOW_GET || items[i].call == WINDOW_WAIT;
        bytes += items[i].call == WINDOW_PUT || items[i].call == WINDOW_GET ? items[i].length : 0;
        peers |= 1ull << (items[i].peer + (takes ? 32 : 0));
    }
    gpu->record->way = WAY_COPY;
    gpu->record->rounds = 0;
    gpu->record->peers = 0;
    gpu->record->call = trace_op_call(gpu->record->trace, number, puts_kind(items, count), TUTTI_UINT8, -1,
                                      count == 1 ? items[0].peer : -1, bytes, bytes, peers);
}

static void record_goes(const struct gpu *gpu, enum way way, const struct flow *flow)
{
    struct record *record = gpu->record;
    record->way = way;
    record->rounds = (uint32_t)flow->rounds;
    record->peers = (flow->to | flow->gives) | (uint64_t)(flow->from | flow->takes) << 32;
}

static void record_copies(const struct gpu *gpu)
{
    if (gpu->record->way == WAY_EXCHANGE)
        gpu->record->way = WAY_COPY;
}

static void wake(struct record *record)
{
    atomic_fetch_add(&record->news, 1);
    futex_wake_all(&record->news);
}

static void push(struct record *record, uint32_t ticket)
{
    uint64_t tail = atomic_load_explicit(&record->tail, memory_order_relaxed);
    uint32_t first = (int32_t)(ticket - record->first) < 0 ? ticket : record->first; /* it went with one before */
    *pending_at(record, tail) = (struct pending){record->call, first, ticket};
    atomic_store(&record->tail,
                 tail + 1); /* and after that, in one order for both sides, it is seen whether the thread sleeps */
    if (!atomic_load(&record->watching) && !atomic_exchange(&record->watching, true))
        wake(record);
}

static void record_returned(const struct gpu *gpu, tutti_result_t result)
{
    struct record *record = gpu->record;
    const struct wire_name *name = way_name(record->way);
    if (result != TUTTI_SUCCESS) {
        trace_op_seen_done(record->call, result);
    } else if (gpu->base.tickets.capturing) {
        trace_op_captured(record->trace, record->call, name, record->rounds, record->peers);
    } else if (record->call) {
        trace_op_issued(record->call, name, record->rounds, record->peers);
        trace_op_step(record->call, record->step);
        push(record, atomic_load_explicit(&gpu->base.tickets.ticket, memory_order_relaxed));
    }
    record->call = NULL;
}

static const struct observer record_observer = {.called = record_called,
                                                .messages = record_messages,
                                                .windows = record_windows,
                                                .goes = record_goes,
                                                .copies = record_copies,
                                                .returned = record_returned,
                                                .waited = record_waited};

/* ---- Life ---- */

static void record_release(struct gpu *gpu)
{
    pthread_mutex_destroy(&gpu->record->lock);
    free(gpu->record);
    gpu->record = NULL;
    gpu->observer = NULL;
}

void record_open(struct gpu *gpu)
{
    struct record *record = gpu->base.team->trace ? calloc(1, sizeof *record) : NULL;
    if (record) {
        record->trace = gpu->base.team->trace;
        atomic_store(&record->watching, true);
        pthread_mutex_init(&record->lock, NULL);
        gpu->record = record;
        gpu->observer = &record_observer;
        record->attended = (struct attended){.bell = &record->news, .look = record_watch, .context = gpu};
        if (attend_begin(&record->attended, watcher_name, 0) != TUTTI_SUCCESS) {
            log_warn("operations of rank %d are not in the black box: %s", gpu->rank, error_last());
            record_release(gpu);
        }
    }
}

void record_close(struct gpu *gpu)
{
    struct record *record = gpu->record;
    if (!record)
        return;
    attend_end(&record->attended);
    gpu_record_look(gpu);
    end_until(gpu, atomic_load(&record->tail)); /* the team has failed, or nothing is left */
    record_release(gpu);
}

size_t record_bytes(const struct gpu *gpu)
{
    return gpu->record ? sizeof *gpu->record : 0;
}
