/* SPDX-License-Identifier: Apache-2.0 */
/* The black box's file and its tables: everything that happens rarely. */
#include "trace/trace.h"

#include "base/clock.h"
#include "base/fork.h"
#include "base/log.h"
#include "base/param.h"
#include "trace/file.h"
#include "trace/samples.h"
#include "trace/watch.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct trace_place {
    struct trace_comm comm;
    bool used;
};

struct lane_place {
    struct trace_lane lane;
    bool used;
};

struct trace_box {
    struct trace public;
    struct wire_box_op none; /* what `newest` is before the first call */
    struct trace_file file;
    pthread_mutex_t lock; /* over the tables and the events ring */
    struct trace_place places[WIRE_BOX_COMMS];
    struct lane_place lanes[WIRE_BOX_LANES];
    uint64_t events;     /* written so far */
    bool failed;         /* a communicator failed: keep the file */
    uint32_t generation; /* in which it was made: a forked child may have its parent's pid in a namespace of its own */
};

#if defined(__x86_64__) || defined(__aarch64__)
bool trace_has_ticks;

__attribute__((constructor)) static void find_ticks(void)
{
    trace_has_ticks = ticks_reliable();
}
#endif

uint64_t trace_slow_now(void)
{
    return clock_ns();
}

static struct wire_box_header *header_of(struct trace_box *box)
{
    return (struct wire_box_header *)(void *)box->file.base;
}

static void box_clock(struct wire_box_clock *clock)
{
    struct timespec now;
    uint64_t ticks = 0, ns = 0;
    ticks_pair(&ticks, &ns);
    clock_gettime(CLOCK_REALTIME, &now);
    trace_store(&clock->ticks, trace_has_ticks ? ticks : ns);
    trace_store(&clock->monotonic_ns, ns);
    trace_store(&clock->realtime_ns, (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec);
}

static void fill_header(struct trace_box *box)
{
    struct wire_box_header *header = header_of(box);
    header->version = WIRE_BOX_VERSION;
    header->header_bytes = sizeof *header;
    header->file_bytes = WIRE_BOX_BYTES;
    header->clock_kind = trace_has_ticks ? TICKS_KIND : WIRE_CLOCK_NS;
    header->state = WIRE_BOX_OPEN;
    header->marked = box->file.marked;
    header->events = (struct wire_box_section){WIRE_BOX_EVENT_AT, sizeof(struct wire_box_event), WIRE_BOX_EVENTS};
    header->samples = WIRE_BOX_SAMPLE_AT;
    header->comms = (struct wire_box_section){WIRE_BOX_COMM_AT, WIRE_BOX_COMM_BYTES, WIRE_BOX_COMMS};
    header->ops = (struct wire_box_section){WIRE_BOX_PAGE, sizeof(struct wire_box_op), WIRE_BOX_OPS};
    header->lanes = (struct wire_box_section){WIRE_BOX_LANE_AT, WIRE_BOX_LANE_BYTES, WIRE_BOX_LANES};
    header->segments =
        (struct wire_box_section){WIRE_BOX_SEGMENT_AT, sizeof(struct wire_box_segment), WIRE_BOX_SEGMENTS};
    header->counters = (struct wire_box_section){WIRE_BOX_COUNTER_AT, sizeof(uint64_t), WIRE_COUNTER_COUNT};
    snprintf(header->library, sizeof header->library, "tutti %d.%d.%d", TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR,
             TUTTI_VERSION_PATCH);
    trace_file_identify(header);
    box_clock(&header->opened);
    header->latest = header->opened;
    __atomic_store_n(&header->magic, WIRE_BOX_MAGIC, __ATOMIC_RELEASE);
}

#if defined(__aarch64__)
static uint64_t tick_rate(void)
{
    uint64_t rate;
    __asm__("mrs %0, cntfrq_el0" : "=r"(rate));
    return rate;
}
#else
static uint64_t tick_rate(void)
{
    return trace_has_ticks ? 2 * NS_PER_S : NS_PER_S;
}
#endif

/* About a quarter of a second. */
static uint64_t pause_ticks(void)
{
    return (uint64_t)1 << (62 - (unsigned)__builtin_clzll(tick_rate() | 4));
}

/* One process in this number sweeps, by chance: if all ranks of a large job looked at the boxes of all, that would be
 * most of their joining. */
#define SWEEPERS 16

struct trace *trace_open(void)
{
    if (!param_int(PARAM_TRACE))
        return NULL;
    struct trace_box *box = calloc(1, sizeof *box);
    if (!box) {
        log_warn("no black box: no memory for its tables");
        return NULL;
    }
    if (clock_ns() % SWEEPERS == 0)
        trace_file_sweep(param_string(PARAM_TRACE_DIR));
    if (!trace_file_make(&box->file, param_string(PARAM_TRACE_DIR), WIRE_BOX_BYTES, WIRE_BOX_COMM_AT)) {
        free(box);
        return NULL;
    }
    pthread_mutex_init(&box->lock, NULL);
    box->generation = fork_generation;
    box->public.counters = (uint64_t *)(void *)(box->file.base + WIRE_BOX_COUNTER_AT);
    box->public.pause_ticks = pause_ticks();
    box->public.newest = &box->none;
    box->public.sample_at = 0;
    fill_header(box);
    return &box->public;
}

void trace_close(struct trace *trace, bool keep)
{
    struct trace_box *box = (struct trace_box *)trace;
    if (!box)
        return;
    struct wire_box_header *header = header_of(box);
    bool ours = box->generation == fork_generation;
    if (ours) {
        box_clock(&header->latest);
        __atomic_store_n(&header->state, WIRE_BOX_CLOSED, __ATOMIC_RELEASE);
    }
    trace_file_close(&box->file, ours && !keep && !box->failed);
    pthread_mutex_destroy(&box->lock);
    free(box);
}

const char *trace_path(const struct trace *trace)
{
    return trace ? ((const struct trace_box *)trace)->file.path : "";
}

static void note_event(struct trace_box *box, enum wire_event_kind kind, const struct trace_about *about)
{
    struct wire_box_event *ring = (struct wire_box_event *)(void *)(box->file.base + WIRE_BOX_EVENT_AT);
    struct wire_box_event *event = &ring[box->events & (WIRE_BOX_EVENTS - 1)];
    trace_store(&event->stamp, 0);
    trace_fence();
    event->time = trace_now();
    event->kind = kind;
    event->lane = about->lane;
    event->peer_pid = about->peer_pid;
    event->peer_rank = about->peer_rank;
    event->peer_host = about->peer_host;
    event->comm = about->comm;
    event->value1 = about->value1;
    event->value2 = about->value2;
    __atomic_store_n(&event->stamp, ++box->events, __ATOMIC_RELEASE);
    if (box->events % 16 == 0)
        box_clock(&header_of(box)->latest);
}

void trace_event(struct trace *trace, enum wire_event_kind kind, const struct trace_about *about)
{
    struct trace_box *box = (struct trace_box *)trace;
    if (!box)
        return;
    pthread_mutex_lock(&box->lock);
    note_event(box, kind, about);
    pthread_mutex_unlock(&box->lock);
}

/* ---- Pauses ---- */

static void copy_text(char *to, size_t size, const char *from)
{
    size_t length = from ? strnlen(from, size - 1) : 0;
    memset(to + length, 0, size - length);
    memcpy(to, from ? from : "", length);
}

static struct wire_box_pauses *pauses_of(struct trace_box *box)
{
    return (struct wire_box_pauses *)(void *)(box->file.base + WIRE_BOX_PAUSE_AT);
}

static uint64_t call_of(const struct wire_box_op *op)
{
    return 1 + (trace_load(&op->what) & 0xff) + (trace_load(&op->count) << 8);
}

/* Two rows for each power of 2. */
static unsigned pause_row(uint64_t ticks, uint64_t least)
{
    unsigned bits = 63 - (unsigned)__builtin_clzll(ticks);
    unsigned row = 2 * (bits - (unsigned)__builtin_ctzll(least)) + (ticks >> (bits - 1) & 1);
    return row < WIRE_BOX_PAUSES ? row : WIRE_BOX_PAUSES - 1;
}

/* A call that is not over yet was no pause. Counts of two threads at the same instant may be lost. */
void trace_paused(struct trace *trace, const struct wire_box_op *before, const struct wire_box_op *after)
{
    uint64_t stamp = __atomic_load_n(&before->stamp, __ATOMIC_ACQUIRE), now = trace_now();
    uint64_t over = trace_load(stamp & WIRE_OP_HAS_END ? &before->end : &before->begin);
    if ((stamp & WIRE_OP_STATE) != WIRE_OP_DONE || over >= now || now - over < trace->pause_ticks)
        return;
    uint64_t away = now - over;
    struct wire_box_pause *row = &pauses_of((struct trace_box *)trace)->rows[pause_row(away, trace->pause_ticks)];
    if (away > trace_load(&row->longest))
        trace_store(&row->longest, away);
    trace_store(&row->latest, now);
    trace_store(&row->before, call_of(before));
    trace_store(&row->after, call_of(after));
    trace_store(&row->count, trace_load(&row->count) + 1);
}

void trace_expect_pause(struct trace *trace, const char *what, uint64_t ns)
{
    struct trace_box *box = (struct trace_box *)trace;
    if (!box)
        return;
    pthread_mutex_lock(&box->lock);
    struct wire_box_expected *expected = &pauses_of(box)->expected;
    uint64_t stamp = expected->stamp, now = clock_ns();
    trace_store(&expected->stamp, stamp + 1);
    trace_fence();
    expected->since = now;
    expected->until = ns ? now + ns : 0;
    copy_text(expected->what, sizeof expected->what, what);
    __atomic_store_n(&expected->stamp, stamp + 2, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&box->lock);
}

/* ---- Samples of the speed ---- */

#define SAMPLE_PAUSES 16 /* from one sample to the next, in shortest pauses: about four seconds */

/* Bytes of the collectives since this time, in which there were `calls` calls. Forgotten ones count as those that rings
 * remember. */
static uint64_t called_since(struct trace_box *box, uint64_t since, uint64_t calls)
{
    double bytes = 0, seen = 0;
    if (pthread_mutex_trylock(&box->lock) != 0) /* a call does not wait; in a forked child it would do so for ever */
        return 0;
    for (int i = 0; i < WIRE_BOX_COMMS; i++)
        if (box->places[i].used)
            seen += samples_see(box->places[i].comm.ring, since, &bytes);
    pthread_mutex_unlock(&box->lock);
    return (uint64_t)(seen > 0 && seen < (double)calls ? bytes * (double)calls / seen : bytes);
}

/* Of threads that call at once one takes the sample. */
void trace_sample(struct trace *trace, uint64_t now)
{
    struct trace_box *box = (struct trace_box *)trace;
    struct wire_box_samples *samples = (struct wire_box_samples *)(void *)(box->file.base + WIRE_BOX_SAMPLE_AT);
    uint64_t due = trace_load(&trace->sample_at);
    if (due > now ||
        !__atomic_compare_exchange_n(&trace->sample_at, &due, UINT64_MAX, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        return;
    const struct wire_box_sample *before = samples->count ? &samples->items[samples->count - 1] : NULL;
    uint64_t calls = trace_load(&trace->counters[WIRE_COUNTER_OPERATIONS]);
    uint64_t called = called_since(box, before ? before->at : 0, calls - (before ? before->calls : 0));
    samples_add(samples,
                (struct wire_box_sample){
                    .at = now,
                    .calls = calls,
                    .bytes = trace_load(&trace->counters[WIRE_COUNTER_SENT_SHM]) +
                             trace_load(&trace->counters[WIRE_COUNTER_SENT_TCP]) +
                             trace_load(&trace->counters[WIRE_COUNTER_SENT_VERBS]),
                },
                called);
    __atomic_store_n(&trace->sample_at, now + SAMPLE_PAUSES * trace->pause_ticks, __ATOMIC_RELEASE);
}

/* ---- Communicators ---- */

static struct wire_box_comm *record_at(struct trace_box *box, unsigned index)
{
    return (struct wire_box_comm *)(void *)(box->file.base + WIRE_BOX_COMM_AT + index * WIRE_BOX_COMM_BYTES);
}

/* A new place is better than one with a past; of those, the one that ended well longest ago; then any that ended. */
static struct trace_place *find_place(struct trace_box *box)
{
    int best = -1;
    uint64_t best_rank = UINT64_MAX;
    for (int i = 0; i < WIRE_BOX_COMMS; i++) {
        struct wire_box_comm *record = box->places[i].comm.record;
        if (box->places[i].used)
            continue;
        uint64_t rank = record ? record->closed : 0;
        if (record && record->state != WIRE_COMM_CLOSED)
            rank |= 1ull << 63;
        if (rank < best_rank) {
            best_rank = rank;
            best = i;
        }
    }
    return best < 0 ? NULL : &box->places[best];
}

/* Writers of a communicator's record hold the box's lock; readers see an odd stamp meanwhile. */
static void record_begin(struct wire_box_comm *record)
{
    trace_store(&record->stamp, record->stamp + 1);
    trace_fence();
}

static void record_end(struct wire_box_comm *record)
{
    __atomic_store_n(&record->stamp, record->stamp + 1, __ATOMIC_RELEASE);
}

static void fill_comm(struct trace_place *place, uint64_t id, const char *name, int rank, int nranks, int local_ranks)
{
    struct wire_box_comm *record = place->comm.record;
    record_begin(record);
    for (int i = 0; i < WIRE_BOX_OPS; i++)
        trace_store(&place->comm.ring[i].stamp, 0);
    record->id = id;
    record->rank = rank;
    record->nranks = nranks;
    record->local_ranks = (uint32_t)local_ranks;
    record->state = WIRE_COMM_OPEN;
    record->result = TUTTI_SUCCESS;
    record->culprit = -1;
    record->opened = trace_now();
    record->closed = record->unrecorded = record->newest_unrecorded = record->captured = 0;
    memset(record->memory, 0, sizeof record->memory);
    copy_text(record->name, sizeof record->name, name);
    copy_text(record->sentence, sizeof record->sentence, NULL);
    record_end(record);
}

/* Finds a place and has room made for it in the file. Under the lock. */
static struct trace_place *claim(struct trace_box *box)
{
    struct trace_place *place = find_place(box);
    if (!place)
        return NULL;
    unsigned index = (unsigned)(place - box->places);
    struct wire_box_comm *record = record_at(box, index);
    if (!place->comm.record &&
        !trace_file_room(&box->file, WIRE_BOX_COMM_AT + index * WIRE_BOX_COMM_BYTES, WIRE_BOX_COMM_BYTES))
        return NULL;
    place->used = true;
    place->comm = (struct trace_comm){(struct wire_box_op *)(void *)((char *)record + WIRE_BOX_PAGE), 0,
                                      box->public.counters, record, &box->public};
    return place;
}

struct trace_comm *trace_comm_open(struct trace *trace, uint64_t id, const char *name, int rank, int nranks,
                                   int local_ranks)
{
    struct trace_box *box = (struct trace_box *)trace;
    if (!box)
        return NULL;
    pthread_mutex_lock(&box->lock);
    box_clock(&header_of(box)->latest);
    struct trace_place *place = claim(box);
    trace_count(trace, place ? WIRE_COUNTER_COMMS_MADE : WIRE_COUNTER_COMMS_UNRECORDED, 1);
    if (place)
        fill_comm(place, id, name, rank, nranks, local_ranks);
    pthread_mutex_unlock(&box->lock);
    return place ? &place->comm : NULL;
}

/* Sets the state, once: a failed communicator stays failed when it is closed. */
static void set_state(struct trace_comm *comm, enum wire_comm_state state, tutti_result_t result, int culprit,
                      const char *sentence)
{
    struct wire_box_comm *record = comm->record;
    record_begin(record);
    if (record->state == WIRE_COMM_OPEN) {
        record->state = state;
        record->result = (int32_t)result;
        record->culprit = culprit;
        copy_text(record->sentence, sizeof record->sentence, sentence);
    }
    record->closed = trace_now();
    record_end(record);
}

/* Under the box's lock. */
static void note_comm(struct trace_comm *comm, enum wire_event_kind kind, int peer, uint64_t value)
{
    const struct trace_about about = {.lane = -1, .peer_rank = peer, .comm = comm->record->id, .value1 = value};
    note_event((struct trace_box *)comm->trace, kind, &about);
}

void trace_comm_close(struct trace_comm *comm)
{
    if (!comm)
        return;
    struct trace_box *box = (struct trace_box *)comm->trace;
    pthread_mutex_lock(&box->lock);
    set_state(comm, WIRE_COMM_CLOSED, TUTTI_SUCCESS, -1, NULL);
    note_comm(comm, WIRE_EVENT_COMM_FINI, -1, 0);
    ((struct trace_place *)comm)->used = false;
    box_clock(&header_of(box)->latest);
    pthread_mutex_unlock(&box->lock);
}

void trace_comm_failed(struct trace_comm *comm, tutti_result_t result, int culprit, const char *sentence)
{
    if (!comm)
        return;
    struct trace_box *box = (struct trace_box *)comm->trace;
    pthread_mutex_lock(&box->lock);
    set_state(comm, WIRE_COMM_FAILED, result, culprit, sentence);
    note_comm(comm, WIRE_EVENT_COMM_FAILED, culprit, (uint64_t)result);
    box->failed = true;
    trace_count(comm->trace, WIRE_COUNTER_COMMS_FAILED, 1);
    box_clock(&header_of(box)->latest);
    pthread_mutex_unlock(&box->lock);
}

void trace_comm_aborted(struct trace_comm *comm)
{
    if (!comm)
        return;
    struct trace_box *box = (struct trace_box *)comm->trace;
    pthread_mutex_lock(&box->lock);
    set_state(comm, WIRE_COMM_ABORTED, TUTTI_REMOTE_ERROR, -1, "aborted by this process");
    note_comm(comm, WIRE_EVENT_COMM_ABORT, -1, 0);
    pthread_mutex_unlock(&box->lock);
}

void trace_comm_memory(struct trace_comm *comm, enum wire_memory row, uint64_t more)
{
    if (!comm)
        return;
    struct trace_box *box = (struct trace_box *)comm->trace;
    pthread_mutex_lock(&box->lock);
    record_begin(comm->record);
    comm->record->memory[row] += more;
    record_end(comm->record);
    pthread_mutex_unlock(&box->lock);
}

void trace_op_unrecorded(struct trace_comm *comm, uint64_t seq)
{
    trace_count_at(comm->counters, WIRE_COUNTER_OPERATIONS_UNRECORDED, 1);
    trace_store(&comm->record->unrecorded, trace_load(&comm->record->unrecorded) + 1);
    if (seq)
        trace_store(&comm->record->newest_unrecorded, seq);
}

/* ---- Lanes ---- */

static void lane_begin(struct wire_box_lane *record)
{
    trace_store(&record->stamp, record->stamp + 1);
    trace_fence();
}

static void lane_end(struct wire_box_lane *record)
{
    __atomic_store_n(&record->stamp, record->stamp + 1, __ATOMIC_RELEASE);
}

/* A new place is better than one with a past; of those, the one that was opened longest ago. Under the lock. */
static struct lane_place *claim_lane(struct trace_box *box)
{
    struct lane_place *best = NULL;
    for (int i = 0; i < WIRE_BOX_LANES && (!best || best->lane.record); i++) {
        struct lane_place *place = &box->lanes[i];
        if (!place->used && (!best || !place->lane.record || place->lane.record->opened < best->lane.record->opened))
            best = place;
    }
    if (!best || best->lane.record)
        return best;
    size_t at = WIRE_BOX_LANE_AT + (size_t)(best - box->lanes) * WIRE_BOX_LANE_BYTES;
    if (!trace_file_room(&box->file, at, WIRE_BOX_LANE_BYTES))
        return NULL;
    char *start = box->file.base + at;
    best->lane = (struct trace_lane){.ring = (struct wire_box_segment *)(void *)(start + WIRE_BOX_SEGMENT_AT),
                                     .record = (struct wire_box_lane *)(void *)start,
                                     .trace = &box->public};
    return best;
}

static void fill_ends(struct wire_box_lane *record, const struct trace_interface *by)
{
    static const uint8_t unknown[sizeof record->address];
    record->queue = by->queue;
    record->peer_queue = by->peer_queue;
    memcpy(record->address, by->address ? by->address : unknown, sizeof record->address);
    memcpy(record->peer_address, by->peer_address ? by->peer_address : unknown, sizeof record->peer_address);
}

static void fill_lane(struct trace_lane *lane, const struct trace_about *about, const char *transport)
{
    struct wire_box_lane *record = lane->record;
    lane_begin(record);
    for (int i = 0; i < WIRE_BOX_SEGMENTS; i++)
        trace_store(&lane->ring[i].stamp, 0);
    record->peer_host = about->peer_host;
    record->peer_pid = about->peer_pid;
    record->index = (uint32_t)about->lane;
    record->device = record->rate = record->port = record->roles = record->source = record->distance = record->own = 0;
    record->window_bytes = record->borrowed = record->window = record->owner = record->trip = record->segment = 0;
    memset(&record->interface, 0, sizeof record->interface);
    fill_ends(record, &(struct trace_interface){.queue = 0});
    record->state = WIRE_LANE_DOWN;
    record->opened = trace_now();
    copy_text(record->transport.text, sizeof record->transport.text, transport);
    lane_end(record);
    trace_watch_open(lane);
}

struct trace_lane *trace_lane_open(struct trace *trace, const struct trace_about *about, const char *transport)
{
    struct trace_box *box = (struct trace_box *)trace;
    if (!box || !param_int(PARAM_TRACE_SEGMENTS))
        return NULL;
    pthread_mutex_lock(&box->lock);
    struct lane_place *place = claim_lane(box);
    if (place) {
        place->used = true;
        fill_lane(&place->lane, about, transport);
    } else {
        trace_count(trace, WIRE_COUNTER_LANES_UNRECORDED, 1);
    }
    pthread_mutex_unlock(&box->lock);
    return place ? &place->lane : NULL;
}

void trace_lane_up(struct trace_lane *lane, const struct trace_interface *by)
{
    if (!lane)
        return;
    struct wire_box_lane *record = lane->record;
    if (record->state != WIRE_LANE_UP)
        trace_watch_begin(lane);
    lane_begin(record);
    record->state = WIRE_LANE_UP;
    record->device = by->device;
    record->rate = by->rate;
    record->port = (uint16_t)by->port;
    record->roles = by->roles;
    record->source = by->source;
    record->distance = by->distance;
    record->segment = by->segment;
    record->trip = by->trip < UINT32_MAX ? (uint32_t)by->trip : UINT32_MAX;
    record->window = by->window;
    record->window_bytes = by->window_bytes;
    copy_text(record->interface.text, sizeof record->interface.text, by->name);
    fill_ends(record, by);
    lane_end(record);
}

static void end_lane(struct trace_lane *lane, enum wire_lane_state state)
{
    lane_begin(lane->record);
    lane->record->state = state;
    lane_end(lane->record);
}

void trace_lane_down(struct trace_lane *lane)
{
    if (lane)
        end_lane(lane, WIRE_LANE_DOWN);
}

void trace_lane_close(struct trace_lane *lane)
{
    if (!lane)
        return;
    struct trace_box *box = (struct trace_box *)lane->trace;
    pthread_mutex_lock(&box->lock);
    end_lane(lane, WIRE_LANE_CLOSED);
    ((struct lane_place *)lane)->used = false;
    pthread_mutex_unlock(&box->lock);
}
