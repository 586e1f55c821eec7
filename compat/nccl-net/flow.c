/* SPDX-License-Identifier: Apache-2.0 */
#include "nccl-net/flow.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define GUARD   0xa5
#define GUARDED 16 /* bytes behind a payload that must stay as they are */

static const size_t sizes[] = {8, 0, 1 << 16, 1, 131, 1 << 20, 4099, (8 << 20), 65537, 0, 262144 - 3, 1 << 19};

size_t flow_size(const struct net_flow *flow, int number)
{
    size_t size = sizes[((uint64_t)number + flow->seed) % (sizeof sizes / sizeof *sizes)];
    return size < flow->room ? size : flow->room;
}

void flow_open(struct net_flow *flow)
{
    for (int i = 0; i < flow->window; i++) {
        struct flow_slot *slot = &flow->slot[i];
        slot->buffer = malloc(flow->room + GUARDED);
        CHECK(slot->buffer);
        CHECK_CALL(flow->end->net.memory->register_memory(flow->connection, slot->buffer, flow->room, NET_HOST_MEMORY,
                                                          &slot->memory));
    }
}

void flow_close(struct net_flow *flow)
{
    for (int i = 0; i < flow->window; i++) {
        CHECK_CALL(flow->end->net.memory->deregister_memory(flow->connection, flow->slot[i].memory));
        free(flow->slot[i].buffer);
    }
    const struct net_end_calls *calls = &flow->end->net.end[0];
    CHECK_CALL((flow->sends ? calls->close_send : calls->close_receive)(flow->connection));
}

static bool is_lane(int fd)
{
    struct sockaddr_storage peer;
    socklen_t size = sizeof peer, kind_size = sizeof(int);
    int kind = 0;
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &kind, &kind_size) != 0 || kind != SOCK_STREAM)
        return false;
    return getpeername(fd, (struct sockaddr *)&peer, &size) == 0 &&
           (peer.ss_family == AF_INET || peer.ss_family == AF_INET6);
}

/* Ends a TCP connection of this process, as a network does that fails. False: there is none just now. */
static bool cut_lane(void)
{
    static int last = 2; /* each in its turn */
    for (int i = 0; i < 1024; i++) {
        last = last == 1023 ? 3 : last + 1;
        if (is_lane(last) && shutdown(last, SHUT_RDWR) == 0)
            return true;
    }
    return false;
}

static bool post_one(struct net_flow *flow)
{
    struct flow_slot *slot = &flow->slot[flow->posted % flow->window];
    size_t size = flow_size(flow, flow->posted);
    uint64_t seed = flow->seed * 1000003 + (uint64_t)flow->posted;
    const struct net *net = &flow->end->net;
    if (flow->sends) {
        payload_fill(slot->buffer, size, seed);
        CHECK_CALL(net_send(net, flow->connection, slot->buffer, size, slot->memory, &slot->request));
    } else {
        memset(slot->buffer + size, GUARD, GUARDED);
        size_t room = flow->posted % 2 ? size : flow->room; /* NCCL's receives may have more room than is sent */
        CHECK_CALL(net_receive(net, flow->connection, slot->buffer, room, slot->memory, &slot->request));
    }
    return slot->request != NULL;
}

void flow_post(struct net_flow *flow)
{
    while (flow->posted < flow->count && flow->posted - flow->over < flow->window && post_one(flow)) {
        flow->posted++;
        flow->cuts |= flow->cut_every && flow->posted % flow->cut_every == 0;
    }
}

static void check_payload(const struct net_flow *flow, const struct flow_slot *slot, size_t size)
{
    static const unsigned char guard[GUARDED] = {[0 ... GUARDED - 1] = GUARD};
    CHECK(payload_is(slot->buffer, size, flow->seed * 1000003 + (uint64_t)flow->over));
    CHECK(!memcmp(slot->buffer + size, guard, GUARDED));
}

bool flow_step(struct net_flow *flow)
{
    int done = 0, size = -1;
    flow_post(flow);
    if (flow->cuts && cut_lane()) {
        flow->cuts = false;
        flow->cut++;
    }
    if (flow->over == flow->posted)
        return false;
    struct flow_slot *slot = &flow->slot[flow->over % flow->window];
    CHECK_CALL(flow->end->net.end->test(slot->request, &done, flow->sends && flow->over % 2 ? NULL : &size));
    if (!done)
        return false;
    CHECK(size == -1 || (size_t)size == flow_size(flow, flow->over));
    CHECK(size != -1 || flow->sends);
    if (!flow->sends)
        check_payload(flow, slot, (size_t)size);
    flow->over++;
    return true;
}

struct flow_work {
    struct net_flow *flows;
    int count;
};

static void *progress(void *argument)
{
    const struct flow_work *work = argument;
    int left, moved;
    do {
        left = moved = 0;
        for (int i = 0; i < work->count; i++) {
            moved += flow_step(&work->flows[i]);
            left += work->flows[i].over < work->flows[i].count;
        }
        if (!moved) /* as NCCL's thread does */
            sched_yield();
    } while (left);
    return NULL;
}

void flow_run(struct net_flow *flows, int count)
{
    pthread_t thread;
    struct flow_work work = {flows, count};
    CHECK(!pthread_create(&thread, NULL, progress, &work));
    CHECK(!pthread_join(thread, NULL));
}
