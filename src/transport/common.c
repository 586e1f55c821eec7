/* SPDX-License-Identifier: Apache-2.0 */
/* What the transports of this folder have in common: the inner event loop, timers, and the life of lanes. */
#include "transport/common.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/param.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

void *transport_target(struct lane *lane, uint32_t imm, uint64_t offset, size_t length)
{
    const struct transport_owner *owner = &lane->transport->owner;
    struct place place = owner->target(lane, imm, offset, length);
    if (!place_is_host(place) && owner->unwritable)
        owner->unwritable(lane, imm, offset, length);
    return place_reach(place);
}

tutti_result_t transport_put_check(const struct lane *lane, const struct put *put, bool reaches_devices)
{
    if (!put->length || put->length > INT64_MAX || put->offset > UINT64_MAX - put->length)
        return error_set(TUTTI_INVALID_ARGUMENT, "a put has at least 1 byte, and no end beyond 2^64");
    if (!place_is_host(put->source) && !reaches_devices)
        return error_note(TUTTI_INVALID_ARGUMENT,
                          "a lane over %s cannot read the memory of a GPU (device %d, %zu bytes)", lane->ops->name,
                          put->source.device - 1, put->length);
    return TUTTI_SUCCESS;
}

static void wind_clock(struct transport *transport)
{
    struct itimerspec when = {0};
    if (!list_empty(&transport->timers)) {
        uint64_t at = list_entry(transport->timers.next, struct transport_timer, node)->at;
        when.it_value = (struct timespec){(time_t)(at / NS_PER_S), (long)(at % NS_PER_S)};
    }
    timerfd_settime(transport->clock.fd, TFD_TIMER_ABSTIME, &when, NULL);
}

static void clock_rang(struct poll_source *source, uint32_t events)
{
    struct transport *transport = container_of(source, struct transport, clock);
    uint64_t now = clock_ns(), count;
    ssize_t ignored = read(source->fd, &count, sizeof count);
    (void)ignored;
    (void)events;
    while (!list_empty(&transport->timers)) {
        struct transport_timer *timer = list_entry(transport->timers.next, struct transport_timer, node);
        if (timer->at > now)
            break;
        list_remove(&timer->node);
        timer->expired(timer);
    }
    wind_clock(transport);
}

void transport_timer_set(struct transport *transport, struct transport_timer *timer, int64_t ms)
{
    struct list *after = transport->timers.prev;
    timer->at = clock_deadline_ms((uint64_t)ms);
    while (after != &transport->timers && list_entry(after, struct transport_timer, node)->at > timer->at)
        after = after->prev;
    list_push(after->next, &timer->node);
    if (transport->timers.next == &timer->node)
        wind_clock(transport);
}

void transport_timer_clear(struct transport *transport, struct transport_timer *timer)
{
    bool first = transport->timers.next == &timer->node;
    list_remove(&timer->node);
    if (first)
        wind_clock(transport);
}

static void inner_ready(struct poll_source *source, uint32_t events)
{
    struct transport *transport = container_of(source, struct transport, source);
    (void)events;
    if (transport->depth)
        return;
    transport->ops->poll(transport);
    transport_look(transport);
}

tutti_result_t transport_init(struct transport *transport, const struct transport_ops *ops,
                              const struct transport_owner *owner, struct poller *poller,
                              void (*reap)(struct lane *lane))
{
    transport->ops = ops;
    transport->owner = *owner;
    transport->outer = poller;
    transport->reap = reap;
    transport->source = (struct poll_source){.fd = -1, .ready = inner_ready};
    transport->clock =
        (struct poll_source){.fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK), .ready = clock_rang};
    list_init(&transport->timers);
    list_init(&transport->failing);
    list_init(&transport->graves);
    if (transport->clock.fd < 0)
        return error_set(TUTTI_SYSTEM_ERROR, "cannot make a timer for transport %s: %s", ops->name, strerror(errno));
    tutti_result_t result = poller_open(&transport->inner);
    if (result == TUTTI_SUCCESS)
        result = poller_add(transport->inner, &transport->clock, EPOLLIN);
    if (result != TUTTI_SUCCESS)
        return result;
    transport->source.fd = poller_fd(transport->inner);
    result = poller_add(poller, &transport->source, EPOLLIN);
    if (result != TUTTI_SUCCESS)
        transport->source.fd = -1;
    return result;
}

void transport_fini(struct transport *transport)
{
    if (transport->source.fd >= 0)
        poller_remove(transport->outer, &transport->source);
    if (transport->clock.fd >= 0)
        close(transport->clock.fd);
    poller_close(transport->inner);
}

void carrier_init(struct carrier *carrier, struct transport *transport, void *user)
{
    carrier->lane = (struct lane){.ops = transport->ops, .transport = transport, .user = user};
    list_init(&carrier->node);
}

tutti_result_t carrier_fail(struct carrier *carrier, tutti_result_t why, const char *format, ...)
{
    struct transport *transport = carrier->lane.transport;
    if (carrier_dead(carrier))
        return carrier->why;
    va_list args;
    va_start(args, format);
    vsnprintf(carrier->sentence, sizeof carrier->sentence, format, args);
    va_end(args);
    carrier->why = why;
    carrier->failing = true;
    list_push(&transport->failing, &carrier->node);
    if (transport->armed)
        poller_wake(transport->inner);
    return error_note(why, "%s", carrier->sentence);
}

/* A connection that was made and is reset may have been cut on the way: the next one tells whether anybody listens. */
tutti_result_t carrier_why(const struct carrier *carrier, int error)
{
    bool gone = !error || error == ECONNREFUSED || error == ENOENT;
    return carrier->up || gone ? TUTTI_REMOTE_ERROR : TUTTI_SYSTEM_ERROR;
}

void carrier_close(struct carrier *carrier)
{
    struct transport *transport = carrier->lane.transport;
    carrier->closed = true;
    list_remove(&carrier->node);
    if (transport->depth)
        list_push(&transport->graves, &carrier->node);
    else
        transport->reap(&carrier->lane);
}

void transport_reap(struct transport *transport)
{
    struct list *node;
    while ((node = list_pop(&transport->graves)))
        transport->reap(&list_entry(node, struct carrier, node)->lane);
}

int transport_settle(struct transport *transport)
{
    struct list *node;
    int count = 0;
    while ((node = list_pop(&transport->failing))) {
        struct carrier *carrier = list_entry(node, struct carrier, node);
        carrier->failing = false;
        carrier->down = true;
        count++;
        error_note(carrier->why, "%s", carrier->sentence);
        transport->owner.down(&carrier->lane, carrier->why);
    }
    return count;
}

int transport_look(struct transport *transport)
{
    transport->idle_polls = 0;
    transport_enter(transport);
    int count = poller_wait(transport->inner, 0);
    count += transport_settle(transport);
    transport_leave(transport);
    return count;
}

struct wire_hello transport_hello(const struct transport *transport, const struct wire_process *peer, uint16_t index,
                                  uint32_t epoch, uint32_t known, uint64_t session)
{
    struct wire_hello hello = {.magic = WIRE_HELLO_MAGIC,
                               .version = WIRE_HELLO_VERSION,
                               .lane = index,
                               .epoch = epoch,
                               .known = known,
                               .session = session,
                               .from = *transport->self};
    memcpy(hello.secret, peer->secret, sizeof hello.secret);
    return hello;
}

/* In a time that tells nothing of either. */
static bool same_secret(const uint8_t *a, const uint8_t *b)
{
    unsigned differ = 0;
    for (int i = 0; i < WIRE_SECRET_BYTES; i++)
        differ |= a[i] ^ b[i];
    return !differ;
}

bool transport_believes(const struct transport *transport, const struct wire_hello *hello)
{
    return hello->magic == WIRE_HELLO_MAGIC && hello->version == WIRE_HELLO_VERSION &&
           same_secret(hello->secret, transport->self->secret);
}

/*
 * NCCL's switch is about what goes through host memory because GPUs do not reach one another. It is set where that
 * memory is short, which we do not need: it counts where GPUs are told not to.
 */
bool transport_shm_is_off(void)
{
    bool theirs = strncmp(param_source(PARAM_SHM_DISABLE), "NCCL", 4) == 0;
    return param_int(PARAM_SHM_DISABLE) && (!theirs || param_int(PARAM_P2P_DISABLE));
}

bool transport_is_asked(const struct transport_ops *ops)
{
    return strcmp(param_string(PARAM_TRANSPORT), ops->name) == 0;
}

/* What carries data alone has TCP beside it. */
bool transport_is_wanted(const struct transport_ops *ops)
{
    const char *only = param_string(PARAM_TRANSPORT);
    if (strcmp(only, "auto") == 0)
        return !((ops->caps & TRANSPORT_SAME_HOST) && transport_shm_is_off()) &&
               !((ops->caps & TRANSPORT_DATA) && strcasecmp(param_string(PARAM_NET), "socket") == 0);
    return transport_is_asked(ops) || (strcmp(ops->name, "tcp") == 0 && strcmp(only, "verbs") == 0);
}
