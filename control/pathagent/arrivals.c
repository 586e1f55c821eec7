/* SPDX-License-Identifier: Apache-2.0 */
#include "pathagent/arrivals.h"

#include "base/clock.h"
#include "base/random.h"

#include <string.h>

/* The session's place, or that of the one that was silent for longest. */
static struct probe_arrival *find(struct arrivals *arrivals, const uint8_t from[PROBE_END], uint64_t session)
{
    size_t at = hash_bytes(session, from, PROBE_END) % ARRIVALS_SETS;
    struct probe_arrival *set = arrivals->place[at], *oldest = set;
    for (int i = 0; i < ARRIVALS_WAYS; i++) {
        if (set[i].used && memcmp(set[i].from, from, PROBE_END) == 0 && set[i].session == session)
            return &set[i];
        oldest = set[i].used < oldest->used ? &set[i] : oldest;
    }
    *oldest = (struct probe_arrival){.session = session};
    memcpy(oldest->from, from, PROBE_END);
    return oldest;
}

/* Two trains at once by one source port share the link down, and tell nothing of its rate. */
static bool is_shared(struct arrivals *arrivals, uint16_t port, uint64_t session, uint64_t begun, uint64_t now)
{
    size_t at = mix64(port) % ARRIVALS_PORTS;
    if (arrivals->train[at].session != session) {
        arrivals->train[at].other = arrivals->train[at].session;
        arrivals->train[at].other_at = arrivals->train[at].at;
    }
    arrivals->train[at].session = session;
    arrivals->train[at].at = now;
    return arrivals->train[at].other && arrivals->train[at].other != session && arrivals->train[at].other_at > begun;
}

/* Switches let the beginning of a train pass faster than their link is: the second half tells. */
static uint64_t train_rate(struct arrivals *arrivals, uint16_t port, struct probe_arrival *at,
                           const struct probe *probe, size_t size, uint64_t now)
{
    if (at->train != probe->stamp) {
        at->train = probe->stamp;
        at->begun = 0;
        at->shared = false;
    }
    at->shared |= is_shared(arrivals, port, probe->session, at->begun ? at->begun : now, now);
    if (probe->seq < probe->arrived / 2)
        return 0;
    if (!at->begun) {
        at->begun = now;
        at->since = 0;
        return 0;
    }
    at->since++;
    return now > at->begun && !at->shared
               ? (uint64_t)((double)at->since * (double)size * (double)NS_PER_S / (double)(now - at->begun))
               : 0;
}

bool arrivals_take(struct arrivals *arrivals, const struct probe_ends *ends, const struct probe *probe, size_t size,
                   uint64_t now, uint64_t lag, struct probe *answer)
{
    if (probe->kind != PROBE_ONE && probe->kind != PROBE_TRAIN)
        return false;
    struct probe_arrival *at = find(arrivals, ends->from, probe->session);
    at->used = now ? now : 1;
    *answer = (struct probe){.kind = PROBE_ANSWER,
                             .back = PROBE_BACK,
                             .side = probe->side,
                             .session = probe->session,
                             .seq = probe->seq,
                             .stamp = probe->stamp};
    if (probe->kind == PROBE_ONE) {
        answer->arrived = ++at->arrived;
        return true;
    }
    answer->rate = train_rate(arrivals, ends->from_port, at, probe, size, now);
    at->shared |= lag > TRAIN_LATE * NS_PER_MS;
    return answer->rate && (uint64_t)probe->seq + TRAIN_ANSWERS >= probe->arrived;
}
