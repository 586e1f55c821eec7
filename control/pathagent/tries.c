/* SPDX-License-Identifier: Apache-2.0 */
#include "pathagent/tries.h"

#include "base/clock.h"
#include "base/random.h"
#include "path/dnlb.h"

#include <stdlib.h>
#include <string.h>

#define BURST       16                /* packets that may be sent at once */
#define PATH_RATE   100               /* probes a second of one path, at most */
#define HOP_EVERY   (NS_PER_S / 8)    /* routers answer few probes a second */
#define TRAIN_EVERY (8 * NS_PER_S)    /* of one path */
#define TRAIN_LEAST (300 * NS_PER_MS) /* between two trains of a host */
#define TRAIN_PART  3                 /* of the budget, for trains */
#define SLOW        0.75              /* of the usual train: a slower one is sent again, */
#define AGAIN       3                 /* so often */
#define LATE        (2 * NS_PER_S)    /* after new tasks: answers to old ones may come */
#define HURRY       4                 /* probes without an answer, after which the spine is asked each second */

/* ---- tasks ---- */

static const struct try_path *find_old(const struct tries *tries, int count, int place, uint64_t ticket)
{
    for (int i = 0; i < count; i++) /* most stay where they are */
        if (tries->old[(place + i) % count].task.ticket == ticket)
            return &tries->old[(place + i) % count];
    return NULL;
}

/* Sessions are told by the place, so a path that moves begins another one. Its sums go on. */
static void carry_on(struct try_path *path, const struct try_path *old, bool moved)
{
    struct try_path is = *path;
    *path = *old;
    path->task = is.task;
    if (!moved)
        return;
    path->session = is.session;
    path->sent = path->settled = path->mark = path->answered = path->arrived = path->dropped = 0;
}

void tries_set(struct tries *tries, const struct try_task *task, const uint64_t *random, int count, uint64_t now)
{
    int before = tries->count;
    memcpy(tries->old, tries->path, (size_t)before * sizeof *tries->old);
    tries->count = count < TRIES_PATHS ? count : TRIES_PATHS;
    tries->given = now;
    for (int i = 0; i < tries->count; i++) {
        struct try_path *path = &tries->path[i];
        const struct try_path *old = find_old(tries, before, i, task[i].ticket);
        *path = (struct try_path){.task = task[i], .session = (random[i] & ~(uint64_t)(TRIES_PATHS - 1)) | (unsigned)i};
        if (old)
            carry_on(path, old, old != &tries->old[i]);
    }
}

uint32_t tries_silent(const struct try_path *path)
{
    return path->settled > path->answered ? path->settled - path->answered : 0;
}

/* ---- what is next ---- */

static double rate_of(const struct tries *tries)
{
    double most = (double)PATH_RATE * tries->count;
    return tries->rate < most ? tries->rate : most;
}

static uint64_t train_gap(const struct tries *tries)
{
    uint64_t by_path = TRAIN_EVERY / (uint64_t)tries->count,
             by_budget = (uint64_t)(TRAIN_PART * TRY_TRAIN / rate_of(tries) * (double)NS_PER_S);
    by_path = by_path < TRAIN_LEAST ? TRAIN_LEAST : by_path;
    return by_path > by_budget ? by_path : by_budget;
}

/* A slow train may be an accident: it is sent again, some times, before the others have their turn. */
static int doubtful(struct tries *tries)
{
    for (int i = 0; i < tries->count; i++) {
        struct try_path *path = &tries->path[i];
        if (!path->doubt || !path->task.trains || path->again >= AGAIN)
            continue;
        path->again++;
        path->doubt = false;
        return i;
    }
    return -1;
}

static int by_rate(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* Of the middle one of the host's paths; 0: no path has a rate. */
static uint64_t usual_rate(struct tries *tries)
{
    int count = 0;
    for (int i = 0; i < tries->count; i++)
        if (tries->path[i].rate)
            tries->rates[count++] = tries->path[i].rate;
    qsort(tries->rates, (size_t)count, sizeof *tries->rates, by_rate);
    return count ? tries->rates[count / 2] : 0;
}

/* Slow is what is slower than the host's usual path. */
static void doubt(struct tries *tries, struct try_path *path)
{
    path->doubt = (double)path->rate < SLOW * (double)usual_rate(tries);
    path->again = path->doubt ? path->again : 0;
}

static bool next_train(struct tries *tries, uint64_t now, struct try_send *out)
{
    if (now < tries->train_next)
        return false;
    int again = doubtful(tries);
    for (int i = 0; i < tries->count; i++) {
        int at = again >= 0 ? again : (tries->train_cursor + i) % tries->count;
        if (!tries->path[at].task.trains)
            continue;
        tries->train_cursor = again >= 0 ? tries->train_cursor : at + 1;
        uint64_t gap = train_gap(tries); /* hosts that begin together do not go on together */
        tries->train_next = now + gap * 3 / 4 + mix64(now) % (gap / 2);
        *out = (struct try_send){.kind = PROBE_TRAIN, .path = at};
        return true;
    }
    return false;
}

/* The spine names the path: it comes first, and most often where nothing else is heard. */
static uint64_t hop_period(const struct try_path *path, int ttl)
{
    static const uint64_t seconds[TRIES_TTLS] = {60, 5, 30, 60};
    if (ttl == 2 && (tries_silent(path) >= HURRY || !path->hop[1].heard))
        return NS_PER_S;
    return seconds[ttl - 1] * NS_PER_S;
}

static bool next_hop(struct tries *tries, uint64_t now, struct try_send *out)
{
    static const int order[TRIES_TTLS] = {2, 3, 1, 4};
    if (now < tries->hop_next)
        return false;
    tries->hop_next = now + HOP_EVERY;
    uint64_t oldest = UINT64_MAX;
    for (int k = 0; k < TRIES_TTLS; k++)
        for (int i = 0; i < tries->count; i++) {
            const struct try_hop *hop = &tries->path[i].hop[order[k] - 1];
            if (hop->asked_at && now - hop->asked_at < hop_period(&tries->path[i], order[k]))
                continue;
            if (hop->asked_at < oldest) {
                oldest = hop->asked_at;
                *out = (struct try_send){.kind = PROBE_HOP, .path = i, .ttl = order[k]};
            }
        }
    return oldest < UINT64_MAX;
}

bool tries_next(struct tries *tries, uint64_t now, struct try_send *out)
{
    if (!tries->count || !tries->rate)
        return false;
    if (now > tries->filled)
        tries->tokens += rate_of(tries) * (double)(now - tries->filled) / (double)NS_PER_S;
    tries->tokens = tries->tokens > BURST ? BURST : tries->tokens;
    tries->filled = now;
    if (tries->tokens < 1)
        return false;
    if (!next_hop(tries, now, out) && !next_train(tries, now, out)) {
        tries->cursor = (tries->cursor + 1) % tries->count;
        *out = (struct try_send){.kind = PROBE_ONE, .path = tries->cursor};
    }
    tries->tokens -= out->kind == PROBE_TRAIN ? TRY_TRAIN : 1;
    return true;
}

uint64_t tries_due(const struct tries *tries, uint64_t now)
{
    if (!tries->count || !tries->rate)
        return now + NS_PER_S;
    double wait = tries->tokens < 1 ? (1 - tries->tokens) / rate_of(tries) : 0;
    return now + (uint64_t)(wait * (double)NS_PER_S);
}

/* ---- what is sent ---- */

/* Ways back in turn: the k-th share of the source ports of RoCE. */
static uint16_t back_of(const struct try_path *path)
{
    uint16_t first, last;
    unsigned ways = path->task.back ? path->task.back : 1;
    dnlb_share(path->sent % ways, ways, &first, &last);
    return first;
}

void tries_fill(struct tries *tries, const struct try_send *send, uint32_t seq, uint64_t now, uint16_t ident,
                struct probe_ends *ends, struct probe *probe)
{
    struct try_path *path = &tries->path[send->path];
    *ends = (struct probe_ends){
        .from_port = path->task.port, .ident = ident, .ttl = send->kind == PROBE_HOP ? (uint8_t)send->ttl : PROBE_TTL};
    memcpy(ends->from, path->task.from, PROBE_END);
    memcpy(ends->to, path->task.to, PROBE_END);
    *probe = (struct probe){.kind = send->kind,
                            .back = back_of(path),
                            .side = path->task.side,
                            .session = path->session,
                            .seq = path->sent,
                            .stamp = now};
    if (send->kind == PROBE_TRAIN) {
        path->train = seq ? path->train : now;
        probe->seq = seq;
        probe->arrived = TRY_TRAIN;
        probe->stamp = path->train;
    }
    if (send->kind == PROBE_HOP)
        probe->session = ident ^ now; /* the routers on the way need not know it */
}

void tries_sent(struct tries *tries, const struct try_send *send, uint32_t seq, const struct probe_ends *ends,
                uint64_t now)
{
    struct try_path *path = &tries->path[send->path];
    if (send->kind == PROBE_ONE) {
        if (now - path->marked >= TRY_SETTLE * NS_PER_MS) {
            path->settled = path->mark;
            path->mark = path->sent;
            path->marked = now;
        }
        path->sent++;
    }
    if (send->kind == PROBE_TRAIN) {
        path->half = seq <= TRY_TRAIN / 2 ? now : path->half;
        path->whole = now;
    }
    if (send->kind == PROBE_HOP) {
        struct try_hop *hop = &path->hop[send->ttl - 1];
        hop->asked++;
        hop->asked_at = now;
        hop->ident = ends->ident;
        hop->check = ends->check;
    }
}

/* ---- what came back ---- */

static void fits_nothing(struct tries *tries, uint64_t now)
{
    tries->forged += now - tries->given > LATE;
}

/* Between two answers all is known, unless the far agent has begun anew. Where something is lost while the far host
 * dropped packets itself, or was late, nothing is known. */
static void judge(struct try_path *path, const struct probe *answer)
{
    uint32_t upto = answer->seq + 1;
    if (upto <= path->answered)
        return; /* it was overtaken */
    uint64_t sent = upto - path->answered, arrived = answer->arrived - path->arrived;
    if (answer->arrived > path->arrived && (answer->dropped == path->dropped || arrived >= sent)) {
        path->judged += sent;
        path->lost = path->lost + sent > arrived ? path->lost + sent - arrived : 0;
    }
    path->answered = upto;
    path->arrived = answer->arrived;
    path->dropped = answer->dropped;
}

/* A train that is slower than others tells of the network, unless this host was as slow to send it. */
static bool is_torn(struct tries *tries, const struct try_path *path, const struct probe *answer)
{
    double bytes = (double)(answer->seq - TRY_TRAIN / 2) * (PROBE_HEADS + PROBE_MOST),
           took = (double)(path->whole - path->half) / (double)NS_PER_S;
    return (double)answer->rate < SLOW * (double)usual_rate(tries) && took * (double)answer->rate * 2 > bytes;
}

static void take_rate(struct tries *tries, struct try_path *path, const struct probe *answer)
{
    bool last = answer->seq + 1 == TRY_TRAIN;
    if (is_torn(tries, path, answer)) {
        tries->torn += last;
        path->doubt |= last; /* it is sent again */
        return;
    }
    path->rate = answer->rate;
    if (!last)
        return;
    path->trains++;
    doubt(tries, path);
}

void tries_answer(struct tries *tries, const struct probe_ends *ends, const struct probe *answer, uint64_t now)
{
    size_t at = answer->session & (TRIES_PATHS - 1);
    struct try_path *path = &tries->path[at];
    bool fits = at < (size_t)tries->count && path->session == answer->session &&
                memcmp(ends->from, path->task.to, PROBE_END) == 0 &&
                memcmp(ends->to, path->task.from, PROBE_END) == 0 && answer->stamp <= now;
    if (fits && answer->rate)
        fits = answer->stamp == path->train && answer->seq >= TRY_TRAIN / 2 && answer->seq < TRY_TRAIN;
    else if (fits)
        fits = answer->seq < path->sent && answer->arrived && answer->arrived <= answer->seq + 1;
    if (!fits) {
        fits_nothing(tries, now);
        return;
    }
    if (answer->rate) {
        take_rate(tries, path, answer);
        return;
    }
    uint64_t delay = now - answer->stamp;
    path->answers++;
    path->delay_sum += delay;
    path->delay_least = path->delay_least && path->delay_least < delay ? path->delay_least : delay;
    judge(path, answer);
}

/* A stranger who did not see the probe cannot know its number and its checksum. */
void tries_quote(struct tries *tries, const struct probe_quote *quote, uint64_t now)
{
    const struct probe_ends *of = &quote->of;
    for (int i = 0; i < tries->count; i++) {
        struct try_path *path = &tries->path[i];
        if (path->task.port != of->from_port || memcmp(path->task.from, of->from, PROBE_END) != 0 ||
            memcmp(path->task.to, of->to, PROBE_END) != 0)
            continue;
        for (int k = 0; k < TRIES_TTLS; k++) {
            struct try_hop *hop = &path->hop[k];
            if (!hop->ident || hop->ident != of->ident || hop->check != of->check)
                continue;
            memcpy(hop->router, quote->router, PROBE_END);
            hop->heard++;
            hop->heard_at = now;
            hop->ident = 0;
            return;
        }
    }
    if (!quote->arrived)
        fits_nothing(tries, now);
}
