/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this rank's GPU is doing, for the black box. A call writes down what it is and which ticket it has; a thread looks now and
 * then which tickets are over, as long as something is unfinished. It never calls the driver. Where an operation stays unfinished,
 * it asks the kernel that may be spinning in it: who answers has come to it and waits for peers.
 */
#include "fabric/internal.h"

#include "base/error.h"
#include "base/futex.h"
#include "base/log.h"
#include "device/type.h"

#include <stdlib.h>
#include <string.h>

#define LOOK_US  20000  /* between two looks */
#define SLOW_US  100000 /* while nothing ends */
#define PATIENCE 5      /* looks in vain until the kernel is asked */
#define IDLE     50     /* looks until it goes to sleep when nothing is left: waking it costs the next caller a microsecond */

struct record {
    struct trace_comm *trace;
    struct trace_op *call;       /* being issued; NULL: not recorded */
    enum way way;
    uint32_t rounds;             /* of its schedule; 0 of sends and receives */
    uint64_t peers;              /* ranks sent to (bits 0..31) and received from (32..63); 0: as the call has said */

    /* issued and not seen to be over, oldest first: at most as many as the box holds. Filled by calls, emptied under the lock */
    struct pending {
        struct trace_op *op;
        uint32_t ticket;
    } pending[WIRE_BOX_OPS];
    _Atomic uint64_t head, tail;
    pthread_mutex_t lock;

    pthread_t thread;
    _Atomic bool watching; /* the thread looks again by itself */
    _Atomic bool stop;
    _Atomic uint32_t news; /* what it sleeps on */
    uint64_t asked;        /* 1 + head of when the kernel was asked; 0: it was not */
};

/* ---- What is over -------------------------------------------------------------------------------------------------- */

static struct pending *pending_at(struct record *record, uint64_t index)
{
    return &record->pending[index % WIRE_BOX_OPS];
}

/* The first that is not over. */
static uint64_t find_unfinished(struct fabric *fabric, uint64_t head, uint64_t tail)
{
    while (head < tail && order_is_over(fabric, pending_at(fabric->record, head)->ticket))
        head++;
    return head;
}

/* Under the lock. What ends after the communicator has failed was given up. */
static bool end_until(struct fabric *fabric, uint64_t end)
{
    struct record *record = fabric->record;
    uint64_t head = atomic_load_explicit(&record->head, memory_order_relaxed), first = head;
    tutti_result_t result = (tutti_result_t)atomic_load(&fabric->team->failed);
    for (; head < end; head++) {
        trace_op_seen_done(pending_at(record, head)->op, result);
        if (result != TUTTI_SUCCESS)
            trace_count(fabric->team->engine->trace, WIRE_COUNTER_OPERATIONS_FAILED, 1);
    }
    atomic_store_explicit(&record->head, head, memory_order_release);
    return head != first;
}

static bool look(struct fabric *fabric)
{
    struct record *record = fabric->record;
    uint64_t head = atomic_load_explicit(&record->head, memory_order_relaxed), tail = atomic_load(&record->tail);
    return end_until(fabric, find_unfinished(fabric, head, tail));
}

void record_look(struct fabric *fabric)
{
    struct record *record = fabric->record;
    if (!record)
        return;
    pthread_mutex_lock(&record->lock);
    look(fabric);
    pthread_mutex_unlock(&record->lock);
}

/* ---- What is waiting ----------------------------------------------------------------------------------------------- */

static void ask(struct fabric *fabric)
{
    struct record *record = fabric->record;
    struct board_rank *mine = &fabric->board->rank[fabric->rank];
    atomic_store(&mine->waits, 0);
    atomic_fetch_or(&mine->abort, KERNEL_ASKED);
    record->asked = atomic_load(&record->head) + 1;
}

static void stop_asking(struct fabric *fabric)
{
    if (fabric->record->asked)
        atomic_fetch_and(&fabric->board->rank[fabric->rank].abort, ~(uint32_t)KERNEL_ASKED);
    fabric->record->asked = 0;
}

/* Under the lock, after a look that found nothing to be over. The answer is of the oldest operation: kernels run one at a time. */
static void look_at_waiting(struct fabric *fabric)
{
    struct record *record = fabric->record;
    uint64_t head = atomic_load_explicit(&record->head, memory_order_relaxed);
    if (record->asked != head + 1)
        ask(fabric);
    else if (atomic_load(&fabric->board->rank[fabric->rank].waits))
        trace_op_seen_waiting(pending_at(record, head)->op);
}

/* ---- The thread ---------------------------------------------------------------------------------------------------- */

static bool unfinished(struct record *record)
{
    return atomic_load_explicit(&record->head, memory_order_relaxed) != atomic_load(&record->tail);
}

/* Nothing was issued for a while. Whoever issues from now on wakes it. */
static void sleep_long(struct record *record, uint32_t news, uint64_t tail)
{
    atomic_store(&record->watching, false);
    if (atomic_load(&record->tail) == tail)
        futex_wait(&record->news, news, 3600u * 1000 * 1000);
    atomic_store(&record->watching, true);
}

/* How often in a row it has looked in vain, this time included. */
static unsigned watch(struct fabric *fabric, unsigned in_vain)
{
    struct record *record = fabric->record;
    pthread_mutex_lock(&record->lock);
    in_vain = look(fabric) ? 0 : in_vain + 1;
    if (in_vain >= PATIENCE && unfinished(record))
        look_at_waiting(fabric);
    else
        stop_asking(fabric);
    pthread_mutex_unlock(&record->lock);
    return in_vain;
}

static void *watcher(void *argument)
{
    struct fabric *fabric = argument;
    struct record *record = fabric->record;
    unsigned in_vain = 0;
    for (;;) {
        uint32_t news = atomic_load(&record->news);
        if (atomic_load(&record->stop)) /* looked at behind the news, so that no sleep misses it */
            return NULL;
        uint64_t tail = atomic_load(&record->tail);
        in_vain = watch(fabric, in_vain);
        bool left = unfinished(record);
        if (left || in_vain < IDLE)
            futex_wait(&record->news, news, left && in_vain >= PATIENCE ? SLOW_US : LOOK_US);
        else
            sleep_long(record, news, tail);
    }
}

/* ---- Calls --------------------------------------------------------------------------------------------------------- */

/* The next place in the box may still be taken by an operation that is over and that nobody has looked at. */
static void make_room(struct fabric *fabric)
{
    struct record *record = fabric->record;
    if (trace_comm_room(record->trace) || pthread_mutex_trylock(&record->lock) != 0)
        return;
    look(fabric);
    pthread_mutex_unlock(&record->lock);
}

static bool records(struct fabric *fabric)
{
    if (!fabric->record)
        return false;
    fabric->record->call = NULL;
    if (atomic_load_explicit(&fabric->team->failed, memory_order_relaxed))
        return false;
    make_room(fabric);
    return true;
}

void record_call(struct fabric *fabric, const struct call *call)
{
    if (fabric->staged) /* its slices are recorded, by the team */
        return;
    uint32_t seq = ++fabric->team->seq; /* on all ranks alike, whether they record or not */
    bool rooted = call->coll == COLL_REDUCE || call->coll == COLL_BROADCAST || call->coll == COLL_GATHER || call->coll == COLL_SCATTER;
    if (!records(fabric))
        return;
    fabric->record->way = WAY_EXCHANGE;
    fabric->record->call = trace_op_call(fabric->record->trace, seq, (enum wire_collective)call->coll, (int)call->type,
                                         call->premul ? TUTTI_OP_COUNT : call->op, rooted ? call->root : -1, call->count,
                                         team_vector_bytes(fabric->team, call), 0);
}

void record_p2p(struct fabric *fabric, const struct p2p_item *items, int count)
{
    uint64_t bytes = 0, peers = 0;
    if (fabric->staged)
        return;
    uint32_t seq = ++fabric->team->p2p_seq;
    if (!records(fabric))
        return;
    for (int i = 0; i < count; i++) {
        bytes += items[i].count * type_size(items[i].type);
        peers |= 1ull << (items[i].peer + (items[i].sends ? 0 : 32));
    }
    fabric->record->way = WAY_EXCHANGE;
    fabric->record->rounds = 0;
    fabric->record->peers = 0;
    fabric->record->call = trace_op_call(fabric->record->trace, seq, count > 1 ? WIRE_GROUP : items[0].sends ? WIRE_SEND : WIRE_RECV,
                                         (int)items[0].type, -1, count == 1 ? items[0].peer : -1, items[0].count, bytes, peers);
}

const struct flow *record_way(struct fabric *fabric, enum way way, const struct call *call)
{
    struct record *record = fabric->record;
    const struct way_flow *found = way_find(&fabric->flows, way, call->coll, call->root, fabric->rank, fabric->nranks);
    if (!found) {
        error_set(TUTTI_INTERNAL_ERROR, "%s has no schedule %s for %d ranks", schedule_coll_name(call->coll), way_name(way)->text, fabric->nranks);
        return NULL;
    }
    if (record) {
        record->way = way;
        record->rounds = (uint32_t)found->flow.rounds;
        record->peers = (found->flow.to | found->flow.gives) | (uint64_t)(found->flow.from | found->flow.takes) << 32;
    }
    return &found->flow;
}

void record_copies(struct fabric *fabric)
{
    if (fabric->record && fabric->record->way == WAY_EXCHANGE)
        fabric->record->way = WAY_COPY;
}

static void wake(struct record *record)
{
    atomic_fetch_add(&record->news, 1);
    futex_wake_all(&record->news);
}

static void push(struct record *record, uint32_t ticket)
{
    uint64_t tail = atomic_load_explicit(&record->tail, memory_order_relaxed);
    *pending_at(record, tail) = (struct pending){record->call, ticket};
    atomic_store(&record->tail, tail + 1); /* and after that, in one order for both sides, it is seen whether the thread sleeps */
    if (!atomic_load(&record->watching) && !atomic_exchange(&record->watching, true))
        wake(record);
}

void record_returned(struct fabric *fabric, tutti_result_t result)
{
    struct record *record = fabric->record;
    if (!record)
        return;
    const struct wire_name *name = way_name(record->way);
    if (result != TUTTI_SUCCESS) {
        trace_op_seen_done(record->call, result);
    } else if (fabric->capturing) {
        trace_op_captured(record->trace, record->call, name, record->rounds, record->peers);
    } else if (record->call) {
        trace_op_issued(record->call, name, record->rounds, record->peers);
        push(record, atomic_load_explicit(&fabric->ticket, memory_order_relaxed));
    }
    record->call = NULL;
}

/* ---- The ledger ---------------------------------------------------------------------------------------------------- */

void record_memory(struct fabric *fabric, enum wire_memory row, size_t bytes)
{
    fabric->memory[row] += bytes;
    trace_comm_memory(fabric->team->trace, row, fabric->memory[row] + (row == WIRE_MEMORY_TABLES ? team_memory(fabric->team) : 0));
}

static void write_ledger(struct fabric *fabric)
{
    size_t windows = board_size(fabric->nranks) - sizeof(struct board);
    record_memory(fabric, WIRE_MEMORY_TABLES, sizeof *fabric + (fabric->record ? sizeof *fabric->record : 0));
    if (fabric->staged)
        record_memory(fabric, WIRE_MEMORY_SLICES, staged_memory(fabric->staged));
    else
        record_memory(fabric, WIRE_MEMORY_BOARD, sizeof(struct board));
    if (fabric->in_host)
        record_memory(fabric, WIRE_MEMORY_HOST_WINDOWS, windows);
}

/* ---- Life ---------------------------------------------------------------------------------------------------------- */

static void release(struct fabric *fabric)
{
    pthread_mutex_destroy(&fabric->record->lock);
    free(fabric->record);
    fabric->record = NULL;
}

void record_open(struct fabric *fabric)
{
    struct record *record = fabric->team->trace && fabric->board ? calloc(1, sizeof *record) : NULL;
    if (record) {
        record->trace = fabric->team->trace;
        atomic_store(&record->watching, true);
        pthread_mutex_init(&record->lock, NULL);
        fabric->record = record;
        if (pthread_create(&record->thread, NULL, watcher, fabric) != 0) {
            log_warn("operations of rank %d are not in the black box: there is no thread for them", fabric->rank);
            release(fabric);
        }
    }
    write_ledger(fabric);
}

void record_close(struct fabric *fabric)
{
    struct record *record = fabric->record;
    if (!record)
        return;
    atomic_store(&record->stop, true);
    wake(record);
    pthread_join(record->thread, NULL);
    look(fabric);
    end_until(fabric, atomic_load(&record->tail)); /* the team has failed, or nothing is left */
    release(fabric);
}
