/* SPDX-License-Identifier: Apache-2.0 */
/* Fault injection. Decisions come from one generator a process, seeded by the user and by the process. */
#include "verbs/fault.h"
#include "verbs/counters.h"
#include "verbs/engine.h"

#include "base/clock.h"
#include "base/random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_DELAY_US 500
#define REORDER_NS       (300 * NS_PER_US)
#define HELD_MAX         4096

struct fault_settings {
    double drop, dup, reorder, delay, corrupt;
    uint64_t delay_us, open_us, seed, count, posted, fixed_source; /* count: packets that may still be touched */
    int64_t qpn, opcode, psn;                                      /* -1: any */
    unsigned direction;
    uint64_t fail[FAULT_CALLS]; /* calls until the one that fails; 0: none */
};

/* A packet that waits. */
struct fault_held {
    struct list node;
    enum fault_direction direction;
    uint64_t deadline;
    struct path path;
    struct arrival arrival;
    uint8_t ip[PACKET_GRH_SIZE];
    size_t size;
    uint8_t bytes[];
};

/* What a call that failed on demand has not taken back. */
struct fault_kept {
    struct fault_kept *next;
    const void *object;
};

static const struct fault_settings nothing = {.delay_us = DEFAULT_DELAY_US,
                                              .count = UINT64_MAX,
                                              .qpn = -1,
                                              .opcode = -1,
                                              .psn = -1,
                                              .direction = FAULT_IN | FAULT_OUT};
static struct fault_settings now_set;
static uint64_t draws;
static struct list held = {&held, &held};
static int held_count;
static struct fault_kept *kept;
static bool loaded;
static _Atomic bool polls_fail; /* whether a poll is to fail: read without the lock */

enum fault_kind { KIND_RATE, KIND_COUNT, KIND_MATCH, KIND_DIRECTION };

static const struct fault_key {
    const char *name;
    enum fault_kind kind;
    size_t offset;
} keys[] = {
    {"drop", KIND_RATE, offsetof(struct fault_settings, drop)},
    {"dup", KIND_RATE, offsetof(struct fault_settings, dup)},
    {"reorder", KIND_RATE, offsetof(struct fault_settings, reorder)},
    {"delay", KIND_RATE, offsetof(struct fault_settings, delay)},
    {"corrupt", KIND_RATE, offsetof(struct fault_settings, corrupt)},
    {"delay-us", KIND_COUNT, offsetof(struct fault_settings, delay_us)},
    {"open-us", KIND_COUNT, offsetof(struct fault_settings, open_us)},
    {"seed", KIND_COUNT, offsetof(struct fault_settings, seed)},
    {"count", KIND_COUNT, offsetof(struct fault_settings, count)},
    {"posted", KIND_COUNT, offsetof(struct fault_settings, posted)},
    {"qpn", KIND_MATCH, offsetof(struct fault_settings, qpn)},
    {"opcode", KIND_MATCH, offsetof(struct fault_settings, opcode)},
    {"psn", KIND_MATCH, offsetof(struct fault_settings, psn)},
    {"dir", KIND_DIRECTION, offsetof(struct fault_settings, direction)},
    {"fail-post-send", KIND_COUNT, offsetof(struct fault_settings, fail[FAULT_POST_SEND])},
    {"fail-post-recv", KIND_COUNT, offsetof(struct fault_settings, fail[FAULT_POST_RECV])},
    {"fail-poll", KIND_COUNT, offsetof(struct fault_settings, fail[FAULT_POLL])},
    {"fail-reg", KIND_COUNT, offsetof(struct fault_settings, fail[FAULT_REGISTER])},
    {"fail-modify", KIND_COUNT, offsetof(struct fault_settings, fail[FAULT_MODIFY])},
    {"fail-hand", KIND_COUNT, offsetof(struct fault_settings, fail[FAULT_HAND])},
    {"fail-list", KIND_COUNT, offsetof(struct fault_settings, fail[FAULT_LIST])},
    {"fail-open", KIND_COUNT, offsetof(struct fault_settings, fail[FAULT_OPEN])},
    {"fail-query-device", KIND_COUNT, offsetof(struct fault_settings, fail[FAULT_QUERY_DEVICE])},
    {"fail-query-port", KIND_COUNT, offsetof(struct fault_settings, fail[FAULT_QUERY_PORT])},
    {"fail-query-gid", KIND_COUNT, offsetof(struct fault_settings, fail[FAULT_QUERY_ADDRESS])},
    {"fail-pd", KIND_COUNT, offsetof(struct fault_settings, fail[FAULT_DOMAIN])},
    {"fail-channel", KIND_COUNT, offsetof(struct fault_settings, fail[FAULT_CHANNEL])},
    {"fail-cq", KIND_COUNT, offsetof(struct fault_settings, fail[FAULT_COMPLETION_QUEUE])},
    {"fail-resize", KIND_COUNT, offsetof(struct fault_settings, fail[FAULT_RESIZE])},
    {"fail-qp", KIND_COUNT, offsetof(struct fault_settings, fail[FAULT_QUEUE_PAIR])},
    {"fail-srq", KIND_COUNT, offsetof(struct fault_settings, fail[FAULT_SHARED_QUEUE])},
    {"fail-modify-srq", KIND_COUNT, offsetof(struct fault_settings, fail[FAULT_MODIFY_SHARED])},
    {"fail-notify", KIND_COUNT, offsetof(struct fault_settings, fail[FAULT_NOTIFY])},
    {"fail-dereg", KIND_COUNT, offsetof(struct fault_settings, fail[FAULT_DEREGISTER])},
    {"fail-destroy-qp", KIND_COUNT, offsetof(struct fault_settings, fail[FAULT_END_QUEUE_PAIR])},
    {"fail-destroy-srq", KIND_COUNT, offsetof(struct fault_settings, fail[FAULT_END_SHARED_QUEUE])},
    {"fail-destroy-cq", KIND_COUNT, offsetof(struct fault_settings, fail[FAULT_END_COMPLETION_QUEUE])},
    {"fail-destroy-channel", KIND_COUNT, offsetof(struct fault_settings, fail[FAULT_END_CHANNEL])},
    {"fail-dealloc", KIND_COUNT, offsetof(struct fault_settings, fail[FAULT_END_DOMAIN])},
    {"fail-close", KIND_COUNT, offsetof(struct fault_settings, fail[FAULT_CLOSE])},
    {"fail-event", KIND_COUNT, offsetof(struct fault_settings, fail[FAULT_EVENT])},
    {"fail-cq-event", KIND_COUNT, offsetof(struct fault_settings, fail[FAULT_COMPLETION_EVENT])},
    {"fail-fork", KIND_COUNT, offsetof(struct fault_settings, fail[FAULT_FORK])},
    {"fixed-source", KIND_COUNT, offsetof(struct fault_settings, fixed_source)},
    {"fail-source", KIND_COUNT, offsetof(struct fault_settings, fail[FAULT_SOURCE])},
};

static bool set_direction(unsigned *out, const char *value)
{
    if (!strcmp(value, "in"))
        *out = FAULT_IN;
    else if (!strcmp(value, "out"))
        *out = FAULT_OUT;
    else if (!strcmp(value, "both"))
        *out = FAULT_IN | FAULT_OUT;
    else
        return false;
    return true;
}

static bool set_value(struct fault_settings *to, const struct fault_key *key, const char *value)
{
    void *field = (char *)to + key->offset;
    char *end;
    if (key->kind == KIND_DIRECTION)
        return set_direction(field, value);
    if (key->kind == KIND_RATE) {
        double rate = strtod(value, &end);
        *(double *)field = rate;
        return end != value && !*end && rate >= 0 && rate <= 1;
    }
    if (*value == '-')
        return false;
    *(uint64_t *)field = strtoull(value, &end, 0);
    return end != value && !*end;
}

static bool set_item(struct fault_settings *to, char *item)
{
    char *value = strchr(item, '=');
    if (!value)
        return false;
    *value++ = 0;
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (!strcmp(item, keys[i].name))
            return set_value(to, &keys[i], value);
    return false;
}

bool fault_set(const char *text, const char **why)
{
    struct fault_settings next = loaded ? now_set : nothing;
    char copy[512], *rest = copy, *item;
    *why = "a list like drop=0.01,seed=7 is wanted; see docs/use/emulation.md for the keys";
    if (strlen(text) >= sizeof(copy))
        return false;
    strcpy(copy, text);
    while ((item = strsep(&rest, ", \n")))
        if (*item && !set_item(&next, item))
            return false;
    if (next.seed != now_set.seed)
        draws = 0;
    now_set = next;
    loaded = true;
    atomic_store_explicit(&polls_fail, next.fail[FAULT_POLL] > 0, memory_order_relaxed);
    return true;
}

static void load(void)
{
    const char *text = getenv("SOFTVERBS_FAULT"), *why;
    if (loaded)
        return;
    now_set = nothing;
    loaded = true;
    if (!text || fault_set(text, &why))
        return;
    now_set = nothing;
    fprintf(stderr, "softverbs: cannot use SOFTVERBS_FAULT=\"%s\": %s\n", text, why);
}

void fault_clear(void)
{
    now_set = nothing;
    loaded = true;
}

bool fault_touches_packets(void)
{
    if (!loaded)
        load();
    return now_set.drop > 0 || now_set.dup > 0 || now_set.reorder > 0 || now_set.delay > 0 || now_set.corrupt > 0;
}

bool fault_posts(void)
{
    if (!loaded)
        load();
    return now_set.posted;
}

bool fault_fixes_source(void)
{
    if (!loaded)
        load();
    return now_set.fixed_source;
}

/* Each process draws its own faults: a packet and what is sent again, or a request and its answer, must not meet the
 * same. */
static uint64_t draw(void)
{
    return mix64(mix64(now_set.seed + (uint64_t)getpid()) + ++draws);
}

static bool chance(double rate)
{
    return rate > 0 && (double)(draw() >> 11) * 0x1p-53 < rate;
}

static bool matches(enum fault_direction direction, const uint8_t *bytes)
{
    uint32_t qpn = (uint32_t)bytes[5] << 16 | (uint32_t)bytes[6] << 8 | bytes[7];
    uint32_t psn = (uint32_t)bytes[9] << 16 | (uint32_t)bytes[10] << 8 | bytes[11];
    return now_set.direction & direction && now_set.count && (now_set.qpn < 0 || now_set.qpn == qpn) &&
           (now_set.opcode < 0 || now_set.opcode == bytes[0]) && (now_set.psn < 0 || now_set.psn == psn);
}

/* Keeps a copy for later; when there is no memory it is lost. */
static void hold(enum fault_direction direction, const struct path *path, const struct arrival *arrival,
                 const uint8_t *bytes, size_t size, uint64_t ns)
{
    struct fault_held *packet = held_count < HELD_MAX ? malloc(sizeof(*packet) + size) : NULL;
    if (!packet)
        return;
    memset(packet, 0, sizeof(*packet));
    packet->direction = direction;
    packet->deadline = clock_ns() + ns;
    packet->size = size;
    memcpy(packet->bytes, bytes, size);
    if (path)
        packet->path = *path;
    if (arrival) {
        packet->arrival = *arrival;
        memcpy(packet->ip, arrival->ip, arrival->ip_size);
        packet->arrival.ip = packet->ip;
        packet->arrival.bytes = packet->bytes;
    }
    list_push(&held, &packet->node);
    held_count++;
    engine_alarm(packet->deadline);
}

static unsigned touch(enum fault_direction direction, const struct path *path, const struct arrival *arrival,
                      uint8_t *bytes, size_t size)
{
    if (size < PACKET_BTH_SIZE || !matches(direction, bytes))
        return 1;
    uint64_t hold_ns = 0;
    unsigned copies = 1;
    if (chance(now_set.drop)) {
        count(fault_drop);
        copies = 0;
    } else if (chance(now_set.reorder)) {
        count(fault_reorder);
        hold_ns = REORDER_NS;
    } else if (chance(now_set.delay)) {
        count(fault_delay);
        hold_ns = now_set.delay_us * NS_PER_US;
    } else if (chance(now_set.dup)) {
        count(fault_duplicate);
        copies = 2;
    } else if (chance(now_set.corrupt)) {
        count(fault_corrupt);
        uint64_t at = draw();
        bytes[at % size] ^= (uint8_t)(1u << (at >> 32 & 7));
    } else {
        return 1;
    }
    now_set.count -= now_set.count != UINT64_MAX;
    if (!hold_ns)
        return copies;
    hold(direction, path, arrival, bytes, size, hold_ns);
    return 0;
}

unsigned fault_packet(enum fault_direction direction, const struct path *path, uint8_t *bytes, size_t size)
{
    return touch(direction, path, NULL, bytes, size);
}

unsigned fault_arrival(const struct arrival *arrival, uint8_t *copy)
{
    memcpy(copy, arrival->bytes, arrival->size);
    return touch(FAULT_IN, NULL, arrival, copy, arrival->size);
}

uint64_t fault_release(uint64_t now, fault_resend_fn resend, wire_deliver_fn deliver)
{
    uint64_t next = 0;
    struct list due;
    list_init(&due);
    list_each_safe(node, &held)
    {
        struct fault_held *packet = list_entry(node, struct fault_held, node);
        if (packet->deadline <= now) {
            list_remove(node);
            list_push(&due, node);
        } else if (!next || packet->deadline < next) {
            next = packet->deadline;
        }
    }
    struct list *node;
    while ((node = list_pop(&due))) {
        struct fault_held *packet = list_entry(node, struct fault_held, node);
        if (packet->direction == FAULT_OUT)
            resend(&packet->path, packet->bytes, packet->size);
        else
            deliver(&packet->arrival);
        free(packet);
        held_count--;
    }
    return next;
}

void fault_forget(void)
{
    struct list *node;
    while ((node = list_pop(&held)))
        free(list_entry(node, struct fault_held, node));
    held_count = 0;
}

bool fault_fails(enum fault_call call)
{
    if (!loaded)
        load();
    if (!now_set.fail[call] || --now_set.fail[call])
        return false;
    count(fault_call);
    return true;
}

bool fault_fails_unlocked(enum fault_call call)
{
    engine_lock();
    bool fails = fault_fails(call);
    engine_unlock();
    return fails;
}

bool fault_keeps(enum fault_call call, const void *object)
{
    struct fault_kept *one = fault_fails(call) ? malloc(sizeof(*one)) : NULL;
    if (!one)
        return false;
    *one = (struct fault_kept){kept, object};
    kept = one;
    return true;
}

uint64_t fault_open_us(void)
{
    engine_lock();
    if (!loaded)
        load();
    uint64_t us = now_set.open_us;
    engine_unlock();
    return us;
}

bool fault_poll_fails(void)
{
    if (!atomic_load_explicit(&polls_fail, memory_order_relaxed))
        return false;
    engine_lock();
    bool fails = fault_fails(FAULT_POLL);
    if (!now_set.fail[FAULT_POLL])
        atomic_store_explicit(&polls_fail, false, memory_order_relaxed);
    engine_unlock();
    return fails;
}
