/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes this process's black box: what each communicator is doing, for others to read while it runs and after it was
 * killed. Nothing here fails its caller. A box that cannot be made is a NULL pointer, and every call takes NULL and
 * does nothing.
 *
 * Threads. trace_open, trace_close, trace_comm_*, trace_event: any thread. trace_op_begin: one thread at a time for
 * each communicator. The calls on one operation: one at a time, by whichever thread runs it. trace_count: counts of two
 * threads at the same instant may be lost. Nothing of a communicator may be called after its trace_comm_close.
 *
 * Cost. The cheapest life of an operation is trace_op_passed: 12 stores and one reading of the
 * processor's counter, some 35 instructions. Every start and every change of what is waited for reads it once more.
 */
#ifndef TUTTI_TRACE_TRACE_H
#define TUTTI_TRACE_TRACE_H

#include "base/clock.h"
#include "base/ticks.h"
#include "tutti/tutti.h"
#include "wire/blackbox.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TRACE_CLANG_TSAN 1
#endif
#endif

struct trace_op; /* one record of the ring: struct wire_box_op */

/* What the inline functions need; the rest is private to trace.c. */
struct trace {
    uint64_t *counters;         /* WIRE_BOX_COUNTERS of them, never NULL */
    struct wire_box_op *newest; /* the call that began last, in whatever communicator; none so far: one of no state */
    uint64_t pause_ticks;       /* a shorter pause is not remembered; a power of 2 */
    uint64_t sample_at;         /* ticks: the next call from then on takes a sample of the speed */
};

struct trace_comm {
    struct wire_box_op *ring;
    uint64_t position; /* of the next operation */
    uint64_t *counters;
    struct wire_box_comm *record;
    struct trace *trace;
};

/* ---- The box ---- */

/* Makes the black box of this process in TUTTI_TRACE_DIR and removes this user's boxes that died more than a day ago.
 * NULL when TUTTI_TRACE=0 or, with one line of warning, when there is no room or no right. */
struct trace *trace_open(void);

/* Removes the file; keeps it for readers when `keep` or when a communicator failed. In a forked child it leaves the
 * file alone. All communicators must have been closed or never be used again. */
void trace_close(struct trace *trace, bool keep);

/* Path of the file; "" for NULL. */
const char *trace_path(const struct trace *trace);

/* What a rare happening is about. Start from TRACE_NOTHING and set what applies. Values: tables/events.tbl. */
struct trace_about {
    int lane; /* index in the link */
    uint32_t peer_pid;
    int peer_rank;
    uint64_t peer_host;
    uint64_t comm; /* id */
    uint64_t value1, value2;
};
#define TRACE_NOTHING                                                                                                  \
    {                                                                                                                  \
        .lane = -1, .peer_rank = -1                                                                                    \
    }

void trace_event(struct trace *trace, enum wire_event_kind kind, const struct trace_about *about);

/* From now the program is outside of calls on purpose, for `what`, for `ns` at most; 0: the purpose is over. */
void trace_expect_pause(struct trace *trace, const char *what, uint64_t ns);

/* ---- Communicators ---- */

/* A place for a communicator; `id` is the same on all its ranks. NULL when the box is full: then nothing of it is
 * recorded, which is counted. `local_ranks`: its ranks on this host, 0 if unknown. */
struct trace_comm *trace_comm_open(struct trace *trace, uint64_t id, const char *name, int rank, int nranks,
                                   int local_ranks);

/* Frees it. What it did stays readable until its place is needed. */
void trace_comm_close(struct trace_comm *comm);

/* The communicator failed: the file survives trace_close. culprit: the rank at fault, -1 unknown. */
void trace_comm_failed(struct trace_comm *comm, tutti_result_t result, int culprit, const char *sentence);
void trace_comm_aborted(struct trace_comm *comm);
/* The communicator holds `more` bytes more for this purpose. */
void trace_comm_memory(struct trace_comm *comm, enum wire_memory row, uint64_t more);

/* ---- Lanes and their segments ---- */

#define TRACE_SIZES 6 /* kinds of windows, by the length of their segments */

/* The window of a lane that is open, and what earlier ones tell. watch.h's. */
struct trace_watch {
    struct wire_box_watch *record;
    uint64_t free_since; /* the latest segment has landed; 0: none since the lane is up */
    uint64_t begin;      /* of the window */
    uint64_t busy, bytes;
    uint32_t segments;
    uint64_t late[WINDOW_CAUSES]; /* parts of `busy` in which nothing was under way */
    uint32_t usual[TRACE_SIZES];  /* logarithm of the rate that nine of ten windows do not reach */
    uint32_t known[TRACE_SIZES];  /* windows that it was learned from */
    struct wire_box_slow slow;    /* the row of slow windows that goes on; windows 0: none does */
    bool told;
};

/* A lane's place. The calls on one lane: one at a time. */
struct trace_lane {
    struct wire_box_segment *ring;
    struct wire_box_lane *record;
    struct trace *trace;
    struct trace_watch watch;
};

/* What a lane goes by in this process, and how much may be under way on it. */
struct trace_interface {
    const char *name;
    uint32_t device; /* as its transport numbers them */
    uint32_t port, rate;
    uint16_t roles;
    uint16_t source;   /* UDP port; 0: any */
    uint16_t distance; /* enum wire_distance */
    uint64_t trip;     /* ns there and back; 0: not known */
    uint32_t segment;  /* bytes of the longest that is asked for; 0: not known */
    uint32_t window;   /* segments that may be under way; 0: any */
    uint64_t window_bytes;
    uint32_t queue, peer_queue;            /* numbers of queue pairs; 0: none */
    const uint8_t *address, *peer_address; /* 16 bytes each, as GIDs; NULL: not known */
};

/* A place for a lane that is up. NULL when there is none, or TUTTI_TRACE_SEGMENTS=0. about: lane, peer_pid and
 * peer_host. */
struct trace_lane *trace_lane_open(struct trace *trace, const struct trace_about *about, const char *transport);
/* The lane is up, by this interface; or it was, and more is known of it now. */
void trace_lane_up(struct trace_lane *lane, const struct trace_interface *by);
void trace_lane_down(struct trace_lane *lane);
/* Frees the place. What it did stays readable until the place is needed. */
void trace_lane_close(struct trace_lane *lane);

/* This process owns the interface of the lane that is up, or does not. */
static inline void trace_lane_own(struct trace_lane *lane, bool own)
{
    if (lane)
        __atomic_store_n(&lane->record->own, own, __ATOMIC_RELAXED);
}

/* A segment is put that borrows the interface from this process. */
static inline void trace_lane_borrow(struct trace_lane *lane, uint32_t owner, uint64_t bytes)
{
    if (!lane)
        return;
    __atomic_store_n(&lane->record->owner, owner, __ATOMIC_RELAXED);
    __atomic_store_n(&lane->record->borrowed, lane->record->borrowed + bytes, __ATOMIC_RELAXED);
}

/* What of a segment is the same for all of its payload. */
struct trace_payload {
    uint64_t comm;
    uint32_t seq, peer;
    uint16_t slice, round;
    uint64_t ready, credit; /* ns of CLOCK_MONOTONIC */
};

/* ---- Operations ---- */

#if defined(__x86_64__) || defined(__aarch64__)
extern bool trace_has_ticks __attribute__((visibility("hidden"))); /* never changes after the program's start */
#else
#define trace_has_ticks false
#endif

/* The clock where there is no counter. Out of line, to keep the calls below small. */
uint64_t trace_slow_now(void) __attribute__((cold));

static inline uint64_t trace_now(void)
{
    return __builtin_expect(trace_has_ticks, 1) ? ticks_now() : trace_slow_now();
}

/* Stores of one word each that other processes may be reading. */
static inline void trace_store(uint64_t *word, uint64_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELAXED);
}

static inline uint64_t trace_load(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_RELAXED);
}

static inline void trace_publish(struct wire_box_op *op, uint64_t stamp)
{
    __atomic_store_n(&op->stamp, stamp, __ATOMIC_RELEASE);
}

/* Orders the stamp's clearing before what is stored next. The thread sanitizer knows no fences; nor does it see other
 * processes, or reads by the kernel. */
#if defined(__SANITIZE_THREAD__) || defined(TRACE_CLANG_TSAN)
static inline void trace_fence(void)
{
}
#else
static inline void trace_fence(void)
{
    atomic_thread_fence(memory_order_release);
}
#endif

static inline void trace_count_at(uint64_t *counters, enum wire_counter id, uint64_t add)
{
    trace_store(&counters[id], trace_load(&counters[id]) + add);
}

static inline void trace_count(struct trace *trace, enum wire_counter id, uint64_t add)
{
    if (trace)
        trace_count_at(trace->counters, id, add);
}

/* No record was free: the operations of a whole ring are unfinished. They tell more than this one. seq: of a
 * collective, or 0. */
void trace_op_unrecorded(struct trace_comm *comm, uint64_t seq) __attribute__((cold));

/* The call of `after` began long after `before` did: the pause between the two is remembered. */
void trace_paused(struct trace *trace, const struct wire_box_op *before, const struct wire_box_op *after)
    __attribute__((cold));

/* A call begins at this time, and a sample of the speed is due. */
void trace_sample(struct trace *trace, uint64_t now) __attribute__((cold));

/* A segment was put. position: its number among those of the lane, from 0 on without a gap. */
static inline void trace_segment_post(struct trace_lane *lane, uint64_t position, const struct trace_payload *of,
                                      uint64_t length, uint64_t now)
{
    if (!lane)
        return;
    struct wire_box_segment *record = &lane->ring[position & (WIRE_BOX_SEGMENTS - 1)];
    uint32_t bytes = length < UINT32_MAX ? (uint32_t)length : UINT32_MAX;
    trace_store(&record->stamp, 0);
    trace_fence();
    trace_store(&record->comm, of->comm);
    __atomic_store_n(&record->seq, of->seq, __ATOMIC_RELAXED);
    __atomic_store_n(&record->slice, of->slice, __ATOMIC_RELAXED);
    __atomic_store_n(&record->round, of->round, __ATOMIC_RELAXED);
    __atomic_store_n(&record->peer, of->peer, __ATOMIC_RELAXED);
    __atomic_store_n(&record->length, bytes, __ATOMIC_RELAXED);
    trace_store(&record->ready, of->ready);
    trace_store(&record->credit, of->credit);
    trace_store(&record->posted, now);
    __atomic_store_n(&record->stamp, (position + 1) << 8 | WIRE_SEGMENT_POSTED, __ATOMIC_RELEASE);
}

/* A segment is under way no more. Of the last WIRE_BOX_SEGMENTS segments. */
static inline void trace_segment_end(struct trace_lane *lane, uint64_t position, enum wire_segment_status status,
                                     uint64_t when)
{
    if (!lane)
        return;
    struct wire_box_segment *record = &lane->ring[position & (WIRE_BOX_SEGMENTS - 1)];
    trace_store(&record->completed, when);
    __atomic_store_n(&record->stamp, (position + 1) << 8 | status, __ATOMIC_RELEASE);
}

/* `op`: tutti_op_t, -1 where there is none, TUTTI_OP_COUNT or larger for a premultiplied sum. root_or_peer: -1 where
 * there is none. */
static inline uint64_t trace_what(enum wire_collective collective, int type, int op, int root_or_peer)
{
    return (uint64_t)(uint8_t)collective | (uint64_t)(uint8_t)type << 8 |
           (uint64_t)(op < TUTTI_OP_COUNT ? (uint8_t)op : WIRE_OP_PREMUL) << 16 |
           (uint64_t)(uint32_t)(root_or_peer + 1) << 32;
}

/* The next record is free; it is counted in any case. */
static inline struct wire_box_op *trace_op_claim(struct trace_comm *comm, uint64_t seq)
{
    struct wire_box_op *record = &comm->ring[comm->position & (WIRE_BOX_OPS - 1)];
    uint64_t old = __atomic_load_n(&record->stamp, __ATOMIC_ACQUIRE);
    trace_count_at(comm->counters, WIRE_COUNTER_OPERATIONS, 1);
    if (__builtin_expect(!old || (old & WIRE_OP_STATE) == WIRE_OP_DONE, 1))
        return record;
    trace_op_unrecorded(comm, seq);
    return NULL;
}

/* The operation is the newest call; was the process away for long before? Records stay where they are until the box
 * ends. */
static inline void trace_op_newest(struct trace *trace, struct wire_box_op *record, uint64_t now)
{
    struct wire_box_op *before = __atomic_load_n(&trace->newest, __ATOMIC_RELAXED);
    __atomic_store_n(&trace->newest, record, __ATOMIC_RELAXED);
    if (__builtin_expect(trace_load(&before->begin) + trace->pause_ticks <= now, 0))
        trace_paused(trace, before, record);
    if (__builtin_expect(trace_load(&trace->sample_at) <= now, 0))
        trace_sample(trace, now);
}

/* All that is said when it is enqueued; the stamp is the caller's to publish. */
static inline void trace_op_fill(struct trace_comm *comm, struct wire_box_op *record, uint64_t seq, uint64_t what,
                                 uint64_t count, uint64_t bytes)
{
    uint64_t now = trace_now();
    trace_store(&record->stamp, 0);
    trace_fence();
    trace_store(&record->seq, seq);
    trace_store(&record->count, count);
    trace_store(&record->bytes, bytes);
    trace_store(&record->what, what);
    trace_op_newest(comm->trace, record, now);
    trace_store(&record->begin, now);
}

/*
 * An operation was enqueued. op, root_or_peer: as above. count: elements, bytes: of the whole vector that this rank
 * holds. NULL: not recorded.
 */
static inline struct trace_op *trace_op_begin(struct trace_comm *comm, uint64_t seq, enum wire_collective collective,
                                              int type, int op, int root_or_peer, uint64_t count, uint64_t bytes)
{
    struct wire_box_op *record = comm ? trace_op_claim(comm, collective < WIRE_SEND ? seq : 0) : NULL;
    if (!record)
        return NULL;
    trace_op_fill(comm, record, seq, trace_what(collective, type, op, root_or_peer), count, bytes);
    trace_store(&record->peers, trace_load(&comm->counters[WIRE_COUNTER_REGISTERING])); /* until it ends */
    trace_publish(record, comm->position++ << WIRE_OP_POSITION | WIRE_OP_ENQUEUED);
    return (struct trace_op *)record;
}

/* Sets bits of the state, publishing what was stored before. */
static inline void trace_op_mark(struct wire_box_op *record, unsigned flags, enum wire_op_state state)
{
    trace_publish(record, (trace_load(&record->stamp) & ~(uint64_t)WIRE_OP_STATE) | flags | state);
}

static inline void trace_op_describe(struct wire_box_op *record, const struct wire_name *algorithm, uint32_t rounds,
                                     uint32_t slices)
{
    uint64_t words[2], sizes;
    uint32_t pair[2] = {rounds, slices};
    __builtin_memcpy(words, algorithm->text, sizeof words);
    __builtin_memcpy(&sizes, pair, sizeof sizes);
    trace_store((uint64_t *)(void *)record->algorithm.text, words[0]);
    trace_store((uint64_t *)(void *)(record->algorithm.text + 8), words[1]);
    trace_store((uint64_t *)(void *)&record->rounds, sizes); /* and slices, its neighbour */
}

/* The operation runs, by this algorithm; no clock is read. For operations that may be over at once. */
static inline void trace_op_name(struct trace_op *op, const struct wire_name *algorithm, uint32_t rounds,
                                 uint32_t slices)
{
    struct wire_box_op *record = (struct wire_box_op *)op;
    if (!record)
        return;
    trace_op_describe(record, algorithm, rounds, slices);
    trace_op_mark(record, WIRE_OP_HAS_NAME, WIRE_OP_RUNNING);
}

/* The operation runs, by this algorithm, since now. For operations that were queued behind others, and for long ones.
 */
static inline void trace_op_start(struct trace_op *op, const struct wire_name *algorithm, uint32_t rounds,
                                  uint32_t slices)
{
    struct wire_box_op *record = (struct wire_box_op *)op;
    if (!record)
        return;
    trace_op_describe(record, algorithm, rounds, slices);
    trace_store(&record->start, trace_now());
    trace_op_mark(record, WIRE_OP_HAS_NAME | WIRE_OP_HAS_START, WIRE_OP_RUNNING);
}

/* From now it waits for `peer` (-1: for nobody) in `round` of `slice`. Call it when that changes and the wait is not
 * over at once. Also starts an operation that trace_op_start has not started. */
static inline void trace_op_wait(struct trace_op *op, uint32_t round, uint32_t slice, int peer)
{
    struct wire_box_op *record = (struct wire_box_op *)op;
    if (!record)
        return;
    uint64_t stamp = trace_load(&record->stamp), now = trace_now();
    uint64_t updates = (stamp >> WIRE_OP_UPDATES) + 1;
    struct wire_box_wait *wait = &record->wait[updates & 1]; /* not the one that readers look at now */
    trace_store(&wait->what, (uint64_t)((uint32_t)(peer + 1) & 0xffffffu) |
                                 (uint64_t)(slice < 0xffff ? slice : 0xffff) << 24 |
                                 (uint64_t)(round < 0xffffff ? round : 0xffffff) << 40);
    trace_store(&wait->since, now);
    if (!(stamp & WIRE_OP_HAS_START))
        trace_store(&record->start, now);
    stamp &= ~((uint64_t)0xff << WIRE_OP_UPDATES | WIRE_OP_STATE);
    trace_publish(record,
                  stamp | (updates & 0xff) << WIRE_OP_UPDATES | WIRE_OP_HAS_WAIT | WIRE_OP_HAS_START | WIRE_OP_RUNNING);
}

/* An operation was over in its call, and is told of when it is: all in one. what: trace_what(). algorithm: NULL where
 * there is none. */
static inline void trace_op_passed(struct trace_comm *comm, uint64_t seq, uint64_t what, uint64_t count, uint64_t bytes,
                                   const struct wire_name *algorithm, tutti_result_t result)
{
    struct wire_box_op *record = comm ? trace_op_claim(comm, (what & 0xff) < WIRE_SEND ? seq : 0) : NULL;
    if (comm)
        trace_count_at(comm->counters, WIRE_COUNTER_OPERATIONS_AT_ONCE, 1);
    if (!record)
        return;
    trace_op_fill(comm, record, seq, what, count, bytes);
    if (algorithm)
        trace_op_describe(record, algorithm, 0, 0);
    trace_publish(record, comm->position++ << WIRE_OP_POSITION | (uint64_t)(uint8_t)result << WIRE_OP_RESULT |
                              (algorithm ? WIRE_OP_HAS_NAME : 0) | WIRE_OP_DONE);
}

/* Before trace_op_end(), of what was not over at once: the program has waited for an end since then; 0: it does not. */
static inline void trace_op_waited(struct trace_op *op, uint64_t since)
{
    struct wire_box_op *record = (struct wire_box_op *)op;
    if (!record || !(trace_load(&record->stamp) & WIRE_OP_HAS_START))
        return;
    uint64_t begin = trace_load(&record->begin), now = trace_now(), from = since > begin ? since : begin;
    uint64_t part = since && now > from ? WIRE_OP_WAITED_WHOLE * (now - from) / (now - begin) : 0;
    trace_store(&record->what, trace_load(&record->what) | (1 + part) << WIRE_OP_WAITED);
}

/* The operation is over. The clock is read only if the operation was started or has waited. The record may be reused
 * from now on: the pointer is void. */
static inline void trace_op_end(struct trace_comm *comm, struct trace_op *op, tutti_result_t result)
{
    struct wire_box_op *record = (struct wire_box_op *)op;
    if (!record)
        return;
    uint64_t stamp = trace_load(&record->stamp) | (uint64_t)(uint8_t)result << WIRE_OP_RESULT | WIRE_OP_DONE;
    if (stamp & WIRE_OP_HAS_START) {
        trace_store(&record->end, trace_now());
        trace_store(&record->peers, trace_load(&comm->counters[WIRE_COUNTER_REGISTERING]) - trace_load(&record->peers));
        stamp |= WIRE_OP_HAS_END;
    }
    trace_publish(record, stamp);
}

/* ---- Operations that a GPU carries out ---- */

/* As trace_op_begin. peers: ranks sent to (bits 0..31) and received from (32..63), of sends and receives. */
static inline struct trace_op *trace_op_call(struct trace_comm *comm, uint64_t seq, enum wire_collective collective,
                                             int type, int op, int root_or_peer, uint64_t count, uint64_t bytes,
                                             uint64_t peers)
{
    struct wire_box_op *record =
        (struct wire_box_op *)trace_op_begin(comm, seq, collective, type, op, root_or_peer, count, bytes);
    if (!record)
        return NULL;
    trace_store(&record->peers, peers);
    trace_store(&record->wait[0].since, 0);
    trace_store(&record->wait[1].since, 0);
    trace_op_mark(record, WIRE_OP_DEVICE, WIRE_OP_ENQUEUED);
    return (struct trace_op *)record;
}

static inline void trace_op_route(struct wire_box_op *record, const struct wire_name *way, uint32_t rounds,
                                  uint64_t peers)
{
    if (peers)
        trace_store(&record->peers, peers);
    trace_op_describe(record, way, rounds, 0);
}

/* The operation's call has returned; the GPU has the operation. rounds: of the schedule. peers: as above, of all
 * rounds; 0: as the call said. */
static inline void trace_op_issued(struct trace_op *op, const struct wire_name *way, uint32_t rounds, uint64_t peers)
{
    struct wire_box_op *record = (struct wire_box_op *)op;
    if (!record)
        return;
    trace_op_route(record, way, rounds, peers);
    trace_op_mark(record, WIRE_OP_HAS_NAME, WIRE_OP_ENQUEUED);
}

/* What has a name is a step: wire_op_step(). */
static inline void trace_op_step(struct trace_op *op, uint32_t step)
{
    if (op)
        __atomic_store_n(&((struct wire_box_op *)op)->slices, step, __ATOMIC_RELAXED);
}

/* The operation's call has returned; a graph has the operation, and nothing more is seen of it. */
static inline void trace_op_captured(struct trace_comm *comm, struct trace_op *op, const struct wire_name *way,
                                     uint32_t rounds, uint64_t peers)
{
    struct wire_box_op *record = (struct wire_box_op *)op;
    if (!comm)
        return;
    trace_store(&comm->record->captured, trace_load(&comm->record->captured) + 1);
    if (!record)
        return;
    trace_op_route(record, way, rounds, peers);
    trace_op_mark(record, WIRE_OP_HAS_NAME | WIRE_OP_CAPTURED, WIRE_OP_DONE);
}

/* The GPU was seen waiting for peers in it. */
static inline void trace_op_seen_waiting(struct trace_op *op)
{
    struct wire_box_op *record = (struct wire_box_op *)op;
    if (!record || (trace_load(&record->stamp) & WIRE_OP_HAS_START))
        return;
    trace_store(&record->start, trace_now());
    trace_op_mark(record, WIRE_OP_HAS_START, WIRE_OP_RUNNING);
}

/* When its GPU began and ended, by the GPU's clock (ns); 0: not known. Before it is seen to be over. */
static inline void trace_op_gpu_times(struct trace_op *op, uint64_t begin, uint64_t end)
{
    struct wire_box_op *record = (struct wire_box_op *)op;
    if (!record)
        return;
    trace_store(&record->wait[0].since, begin);
    trace_store(&record->wait[1].since, end);
}

/* The operation was seen to be over. The record may be reused from now on: the pointer is void. */
static inline void trace_op_seen_done(struct trace_op *op, tutti_result_t result)
{
    struct wire_box_op *record = (struct wire_box_op *)op;
    if (!record)
        return;
    trace_store(&record->end, trace_now());
    trace_op_mark(record, (unsigned)(uint8_t)result << WIRE_OP_RESULT | WIRE_OP_HAS_END, WIRE_OP_DONE);
}

/* Is the next operation's place free, or is an unfinished one in it? */
static inline bool trace_comm_room(const struct trace_comm *comm)
{
    uint64_t old = __atomic_load_n(&comm->ring[comm->position & (WIRE_BOX_OPS - 1)].stamp, __ATOMIC_RELAXED);
    return !old || (old & WIRE_OP_STATE) == WIRE_OP_DONE;
}

/* The operation's place in its communicator's ring. */
static inline unsigned trace_op_place(const struct trace_comm *comm, const struct trace_op *op)
{
    return (unsigned)((const struct wire_box_op *)(const void *)op - comm->ring);
}

#endif
