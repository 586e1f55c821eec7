/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes to what reads probes, their answers, and what routers say of them. Bytes as they are are a probe, or
 * nothing. Then probes are sent, arrive, and are answered, with bytes of the data written into what comes back. No path
 * has more answers than probes. What does not know a path's session, or the number and the checksum of its packet,
 * changes nothing.
 */
#include "pathagent/arrivals.h"
#include "pathagent/tries.h"

#include "base/clock.h"
#include "base/random.h"
#include "inputs.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#define PATHS   3
#define LONGEST 128       /* bytes that lead it: a train is long */
#define ICMP_4  (28 + 28) /* heads of IP and ICMP, and what is quoted */
#define ICMP_6  (48 + 48 + PROBE_BYTES)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct tries tries;
static struct arrivals arrivals;

static void as_it_is(const uint8_t *data, size_t size)
{
    struct probe_ends ends;
    struct probe probe;
    struct probe_quote quote;
    if (probe_read(data, size, &ends, &probe))
        must(probe.kind >= PROBE_ONE && probe.kind <= PROBE_HOP && probe.back >= PROBE_BACK);
    probe_read_icmp(data, size, &quote);
}

static void begin(void)
{
    struct try_task task[PATHS];
    uint64_t random[PATHS];
    for (unsigned i = 0; i < PATHS; i++) {
        task[i] = (struct try_task){.ticket = i + 1,
                                    .from = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 1},
                                    .to = {[10] = 0xff, [11] = 0xff, [12] = 10, [13] = 1, [15] = (uint8_t)(1 + i)},
                                    .port = (uint16_t)(PROBE_BACK + i * 4096),
                                    .back = (uint16_t)(i + 1),
                                    .side = i & 1,
                                    .trains = i != 1};
        random[i] = mix64(i + 77);
        if (i == 2) /* fd00::1, and fd01::1 */
            task[i].from[0] = task[i].to[0] = 0xfd, task[i].to[1] = 1;
    }
    tries.count = 0;
    tries.forged = 0;
    tries.rate = 1000;
    tries.tokens = 0;
    tries.filled = tries.hop_next = tries.train_next = 0;
    memset(&arrivals, 0, sizeof arrivals);
    tries_set(&tries, task, random, PATHS, 0);
}

/* A packet that came back, with some bytes of the data in it. False: it is as it was. */
static bool spoil(uint8_t *packet, size_t length, const uint8_t *data)
{
    uint8_t *at = &packet[(data[1] * 256u + data[2]) % length], was = *at;
    *at = data[0] & 8 ? data[3] : was;
    return *at != was;
}

static bool fits(const struct probe *answer)
{
    bool known = false;
    for (int i = 0; i < PATHS; i++)
        known |= tries.path[i].session == answer->session;
    return known;
}

static void answer(const struct probe_ends *ends, const struct probe *probe, size_t size, uint64_t now,
                   const uint8_t *data)
{
    static struct try_path before[PATHS];
    uint8_t packet[PROBE_PACKET];
    struct probe reply;
    struct probe_ends back = {.from_port = probe->back, .to_port = 4791, .ttl = 64};
    memcpy(back.from, ends->to, PROBE_END);
    memcpy(back.to, ends->from, PROBE_END);
    if (!arrivals_take(&arrivals, ends, probe, size, now, data[2] * NS_PER_MS / 8, &reply))
        return;
    size_t length = probe_write(&back, &reply, PROBE_BYTES, packet);
    spoil(packet, length, data);
    if (!probe_read(packet, length, &back, &reply))
        return;
    memcpy(before, tries.path, sizeof before);
    tries_answer(&tries, &back, &reply, now);
    must(fits(&reply) || memcmp(before, tries.path, sizeof before) == 0);
}

static void quote(const uint8_t *sent, uint64_t now, const uint8_t *data)
{
    static struct try_path before[PATHS];
    uint8_t four[ICMP_4] = {[0] = 0x45, [9] = 1, [20] = data[0] & 4 ? 3 : 11, [21] = data[0] & 4 ? 3 : 0},
            six[ICMP_6] = {[0] = 0x60, [6] = 58, [40] = data[0] & 4 ? 1 : 3, [41] = data[0] & 4 ? 4 : 0};
    struct probe_quote said;
    bool is_4 = sent[0] >> 4 == 4;
    uint8_t *packet = is_4 ? four : six;
    memcpy(packet + (is_4 ? 28 : 48), sent, is_4 ? 28 : 48 + PROBE_BYTES);
    bool spoilt = spoil(packet + (is_4 ? 32 : 48 + 48 + 28), 2, data) || /* its number, and its checksum */
                  spoil(packet + (is_4 ? 54 : 48 + 46), 2, data);
    must(probe_read_icmp(packet, is_4 ? sizeof four : sizeof six, &said));
    memcpy(before, tries.path, sizeof before);
    tries_quote(&tries, &said, now);
    must((memcmp(before, tries.path, sizeof before) == 0) == spoilt);
}

static bool are_alike(const struct probe *a, const struct probe *b)
{
    return a->kind == b->kind && a->back == b->back && a->side == b->side && a->session == b->session &&
           a->seq == b->seq && a->arrived == b->arrived && a->dropped == b->dropped && a->rate == b->rate &&
           a->stamp == b->stamp;
}

static void send_one(uint64_t now, const struct try_send *send, uint32_t seq, const uint8_t *data)
{
    uint8_t packet[PROBE_PACKET];
    struct probe_ends ends, read;
    struct probe probe, same;
    tries_fill(&tries, send, seq, now, (uint16_t)(1 + now % 65535), &ends, &probe);
    ends.to_port = 4791;
    size_t length = probe_write(&ends, &probe, send->kind == PROBE_TRAIN ? PROBE_MOST : PROBE_BYTES, packet);
    tries_sent(&tries, send, seq, &ends, now);
    must(probe_read(packet, length, &read, &same) && are_alike(&same, &probe));
    must(read.check == ends.check && read.ident == ends.ident);
    must(memcmp(read.from, ends.from, PROBE_END) == 0 && memcmp(read.to, ends.to, PROBE_END) == 0);
    if (send->kind == PROBE_HOP && data[0] & 1)
        quote(packet, now, data);
    else if (data[0] & 3)
        answer(&read, &same, length, now + data[3] * NS_PER_US, data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t now = NS_PER_S, sent = 0;
    struct try_send send;
    as_it_is(data, size);
    begin();
    for (size_t i = 0; i + 4 <= size && i < LONGEST; i += 4) {
        now += (data[i] * 16 + 1) * NS_PER_US * 100;
        while (tries_next(&tries, now, &send)) {
            uint32_t packets = send.kind == PROBE_TRAIN ? TRY_TRAIN : 1;
            for (uint32_t seq = 0; seq < packets; seq++)
                send_one(now, &send, seq, data + i);
            sent += packets;
        }
        must((double)sent <= 300 * (double)now / (double)NS_PER_S + TRY_TRAIN + 16); /* 100 a second for each path */
    }
    for (int i = 0; i < PATHS; i++) {
        const struct try_path *path = &tries.path[i];
        must(path->answered <= path->sent && path->judged <= path->sent && path->lost <= path->judged);
        for (int k = 0; k < TRIES_TTLS; k++)
            must(path->hop[k].heard <= path->hop[k].asked);
    }
    return 0;
}
