/* SPDX-License-Identifier: Apache-2.0 */
#include "pathagent/prober.h"
#include "pathagent/arrivals.h"
#include "pathagent/door.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "base/thread.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define ANSWERS    8                 /* answers a second, for each probe that a sweep may send */
#define ANSWER_ALL 256               /* answers at once */
#define LONGEST    NS_PER_S          /* without a look at the end */
#define TAKEN      256               /* packets that are taken before others are sent */
#define BEHIND     64                /* times as many, where the thread was late */
#define OVERRUN    (100 * NS_PER_MS) /* between two looks at what the kernel dropped */

struct prober {
    struct prober_options options;
    struct probe_door door;
    uint8_t nic[PROBER_NICS][16];
    int nics;
    struct thread thread;
    pthread_mutex_t lock;
    bool ended, sweep;
    struct tries tries;
    struct arrivals arrivals;
    struct prober_counts counts;
    double answers; /* the budget of now */
    uint64_t filled;
    uint64_t numbers;         /* random, for numbers of packets */
    uint64_t turn;            /* when the thread was to run again; 0: it has not waited yet */
    uint64_t overrun, looked; /* what the kernel had dropped, when it was looked at */
    uint32_t lapses;          /* times at which this host may have lost packets, or held them up, by itself */
};

static uint16_t number(struct prober *prober)
{
    uint16_t drawn;
    do
        drawn = (uint16_t)mix64(prober->numbers++);
    while (!drawn);
    return drawn;
}

/* ---- sending ---- */

static void send_one(struct prober *prober, const struct try_send *send, uint32_t seq, uint64_t now)
{
    uint8_t packet[PROBE_PACKET];
    struct probe_ends ends;
    struct probe probe;
    tries_fill(&prober->tries, send, seq, now, number(prober), &ends, &probe);
    ends.to_port = prober->options.port;
    size_t size = probe_write(&ends, &probe, send->kind == PROBE_TRAIN ? PROBE_MOST : PROBE_BYTES, packet);
    door_send(&prober->door, &ends, probe.side, packet, size);
    tries_sent(&prober->tries, send, seq, &ends, send->kind == PROBE_TRAIN ? clock_ns() : now);
    prober->counts.sent++;
}

static void send_due(struct prober *prober)
{
    struct try_send send;
    uint64_t now = clock_ns();
    prober->tries.rate = prober->sweep ? prober->options.sweep : prober->options.watch;
    while (tries_next(&prober->tries, now, &send))
        for (uint32_t seq = 0; seq < (send.kind == PROBE_TRAIN ? TRY_TRAIN : 1); seq++)
            send_one(prober, &send, seq, now);
}

/* ---- receiving ---- */

static bool may_answer(struct prober *prober, uint64_t now)
{
    double rate = (double)prober->options.sweep * ANSWERS;
    prober->answers += rate * (double)(now - prober->filled) / (double)NS_PER_S;
    prober->answers = prober->answers > ANSWER_ALL ? ANSWER_ALL : prober->answers;
    prober->filled = now;
    if (prober->answers < 1) {
        prober->counts.mute++;
        return false;
    }
    prober->answers--;
    return true;
}

/* An answer has the length of the shortest probe: nobody is sent more than was asked for. */
static void take_probe(struct prober *prober, const struct door_packet *got)
{
    struct probe_ends ends, back;
    struct probe probe, answer;
    uint8_t packet[PROBE_PACKET];
    if (!probe_read(got->bytes, got->size, &ends, &probe) || ends.to_port != prober->options.port)
        return;
    if (probe.kind == PROBE_ANSWER) {
        tries_answer(&prober->tries, &ends, &probe, got->when);
        return;
    }
    uint64_t now = clock_ns();
    if (!arrivals_take(&prober->arrivals, &ends, &probe, got->size, got->when, now - got->when, &answer) ||
        !may_answer(prober, now))
        return;
    answer.dropped = prober->door.dropped[0] + prober->door.dropped[1] + prober->lapses;
    back = (struct probe_ends){
        .from_port = probe.back, .to_port = prober->options.port, .ident = number(prober), .ttl = PROBE_TTL};
    memcpy(back.from, ends.to, PROBE_END);
    memcpy(back.to, ends.from, PROBE_END);
    size_t size = probe_write(&back, &answer, PROBE_BYTES, packet);
    door_send(&prober->door, &back, answer.side, packet, size);
    prober->counts.answered++;
}

/* True: there may be more. */
static bool take_all(struct prober *prober)
{
    struct door_packet got;
    struct probe_quote quote;
    int most = 0;
    for (int family = 0; family < 2; family++) {
        for (int i = 0; i < TAKEN && door_take(&prober->door, family, DOOR_PROBES, &got); i++) {
            take_probe(prober, &got);
            most = i > most ? i : most;
        }
        for (int i = 0; i < TAKEN && door_take(&prober->door, family, DOOR_ROUTERS, &got); i++)
            if (probe_read_icmp(got.bytes, got.size, &quote))
                tries_quote(&prober->tries, &quote, got.when);
    }
    return most == TAKEN - 1;
}

/* A full queue of the kernel loses packets that the network has brought. */
static bool has_dropped(struct prober *prober, uint64_t now)
{
    if (now - prober->looked < OVERRUN)
        return false;
    uint64_t overrun = door_overrun(&prober->door), before = prober->overrun;
    bool first = !prober->looked;
    prober->overrun = overrun;
    prober->looked = now;
    return !first && overrun != before;
}

/* The thread that comes late has a host that is late. Answers tell others of both, whose losses do not count then.
 * True: it is late, so answers wait that were there in time. */
static bool look_at_self(struct prober *prober)
{
    uint64_t now = clock_ns();
    bool late = prober->turn && now > prober->turn + TRY_LATE * NS_PER_MS;
    if (late || has_dropped(prober, now)) {
        prober->lapses++;
        prober->counts.late++;
    }
    return late;
}

static void *run(void *argument)
{
    struct prober *prober = argument;
    struct pollfd fd[4]; /* those that are -1 are not looked at */
    for (int i = 0; i < 4; i++)
        fd[i] = (struct pollfd){.fd = prober->door.fd[i / 2][i % 2], .events = POLLIN};
    pthread_mutex_lock(&prober->lock);
    while (!prober->ended) {
        bool late = look_at_self(prober);
        for (int i = 0; take_all(prober) && late && i < BEHIND; i++)
            ;
        send_due(prober);
        uint64_t now = clock_ns(), due = tries_due(&prober->tries, now);
        pthread_mutex_unlock(&prober->lock);
        due = due - now > LONGEST ? now + LONGEST : due;
        prober->turn = due > now ? due : now;
        poll(fd, 4, clock_left_ms(due) ? clock_left_ms(due) : 1);
        pthread_mutex_lock(&prober->lock);
    }
    pthread_mutex_unlock(&prober->lock);
    return NULL;
}

/* ---- beginning and end ---- */

struct prober *prober_open(const struct prober_options *options)
{
    struct prober *prober = calloc(1, sizeof *prober);
    if (!prober) {
        error_note(TUTTI_SYSTEM_ERROR, "no memory for probes");
        return NULL;
    }
    prober->options = *options;
    prober->filled = prober->tries.filled = clock_ns();
    pthread_mutex_init(&prober->lock, NULL);
    prober->nics = door_open(&prober->door, options->space, options->port, options->marks, prober->nic, PROBER_NICS);
    if (prober->nics >= 0 && random_bytes(&prober->numbers, sizeof prober->numbers) == TUTTI_SUCCESS &&
        thread_start(&prober->thread, "tutti-probes", run, prober) == TUTTI_SUCCESS)
        return prober;
    prober_close(prober);
    return NULL;
}

void prober_close(struct prober *prober)
{
    if (!prober)
        return;
    pthread_mutex_lock(&prober->lock);
    prober->ended = true;
    pthread_mutex_unlock(&prober->lock);
    thread_end(&prober->thread);
    door_close(&prober->door);
    pthread_mutex_destroy(&prober->lock);
    free(prober);
}

int prober_nics(const struct prober *prober, uint8_t out[PROBER_NICS][16])
{
    memcpy(out, prober->nic, sizeof prober->nic);
    return prober->nics;
}

void prober_set(struct prober *prober, const struct try_task *task, int count)
{
    uint64_t *drawn = calloc((size_t)count + 1, sizeof *drawn);
    if (!drawn || random_bytes(drawn, (size_t)count * sizeof *drawn) != TUTTI_SUCCESS)
        count = 0; /* a session that can be guessed is none */
    pthread_mutex_lock(&prober->lock);
    tries_set(&prober->tries, task, drawn, count, clock_ns());
    pthread_mutex_unlock(&prober->lock);
    free(drawn);
}

void prober_sweep(struct prober *prober, bool sweep)
{
    pthread_mutex_lock(&prober->lock);
    prober->sweep = sweep;
    pthread_mutex_unlock(&prober->lock);
}

int prober_report(struct prober *prober, struct try_path out[TRIES_PATHS])
{
    pthread_mutex_lock(&prober->lock);
    int count = prober->tries.count;
    memcpy(out, prober->tries.path, (size_t)count * sizeof *out);
    pthread_mutex_unlock(&prober->lock);
    return count;
}

struct prober_counts prober_counts(struct prober *prober)
{
    pthread_mutex_lock(&prober->lock);
    struct prober_counts counts = prober->counts;
    counts.forged = prober->tries.forged;
    counts.torn = prober->tries.torn;
    pthread_mutex_unlock(&prober->lock);
    return counts;
}
