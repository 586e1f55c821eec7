/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer: what the other side of a connection sends, in each state of an identifier. What parses must build again to
 * the same bytes, and what is answered must parse. The first bytes choose the state. */
#include "rdmacm/id.h"
#include "rdmacm/peer.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct cm_channel *channel;

static void require(bool condition)
{
    if (!condition)
        abort();
}

static void nothing(struct cm_channel *closed)
{
}

static void late(struct cm_timer *timer)
{
}

static void round_trip(const uint8_t *bytes, size_t size)
{
    struct cm_message message;
    uint8_t built[MESSAGE_MAX];
    int used = message_parse(&message, bytes, size);
    require(used <= (int)size && used <= MESSAGE_MAX);
    if (used <= 0)
        return;
    require(message_build(&message, built) == (size_t)used);
    require(!memcmp(built, bytes, (size_t)used));
}

/* The stream of an identifier has these bytes, and perhaps an end. */
static struct cm_id *identifier(uint8_t kind, uint8_t state, int near)
{
    struct cm_id *id = id_make(channel, kind & 1 ? RDMA_PS_UDP : RDMA_PS_TCP, kind & 1 ? IBV_QPT_UD : IBV_QPT_RC);
    require(id);
    id->uid = 1;
    id->state = (enum cm_state)(state % (CM_OVER + 1));
    id->held = kind & 2;
    id->from.any.sa_family = id->to.any.sa_family = AF_INET;
    cm_timer_init(&id->timer, late);
    require(!stream_adopt(&id->stream, near, EPOLLIN, peer_ready, id));
    return id;
}

static void check_answers(int far)
{
    uint8_t bytes[MESSAGE_MAX * 4];
    struct cm_message message;
    ssize_t n = recv(far, bytes, sizeof(bytes), MSG_DONTWAIT);
    for (ssize_t at = 0; at < n;) {
        int used = message_parse(&message, bytes + at, (size_t)(n - at));
        if (!used && n == (ssize_t)sizeof(bytes))
            return;
        require(used > 0);
        at += used;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int pair[2];
    if (size < 2 || size > 8192)
        return 0;
    round_trip(data + 2, size - 2);
    cm_lock();
    if (!channel) {
        channel_on_close(nothing);
        channel = channel_of(channel_open(O_RDWR));
    }
    require(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
    struct cm_id *id = identifier(data[0], data[1], pair[0]);
    require(send(pair[1], data + 2, size - 2, MSG_DONTWAIT) == (ssize_t)(size - 2));
    if (data[0] & 4)
        shutdown(pair[1], SHUT_WR);
    peer_ready(id, EPOLLIN);
    require(id->state <= CM_OVER);
    check_answers(pair[1]);
    peer_end(id);
    id_free(id, NULL);
    require(list_empty(&channel->events));
    close(pair[1]);
    cm_unlock();
    return 0;
}
