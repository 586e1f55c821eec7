/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a verbs lane: agree on two queue pairs over a TCP connection, watch that, and go down. */
#include "base/error.h"
#include "base/fork.h"
#include "base/log.h"
#include "base/param.h"
#include "transport/verbs/choose.h"
#include "transport/verbs/end.h"
#include "transport/verbs/lane.h"
#include "transport/verbs/pair.h"
#include "transport/verbs/receive.h"
#include "transport/verbs/send.h"
#include "transport/verbs/trip.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define LAST_WORDS 64 /* batches of completions that are looked through when the connection has ended */

static bool verbs_lane_watch(struct verbs_lane *lane, int fd)
{
    lane->source.fd = fd;
    lane->watched = poller_add(lane->base.lane.transport->inner, &lane->source, EPOLLIN) == TUTTI_SUCCESS;
    return lane->watched;
}

/* ---- The connection of a lane that is agreed on ---- */

/* The peer has closed its end. What it sent before still counts. */
static void connection_ended(struct verbs_lane *lane, int error)
{
    for (int i = 0; i < LAST_WORDS && !carrier_dead(&lane->base); i++)
        if (!verbs_complete(lane->device))
            break;
    if (lane->state == VERBS_GREETED && !lane->base.up && !carrier_dead(&lane->base))
        verbs_lane_close(&lane->base.lane); /* as after two have connected at once, of which one is enough */
    else
        verbs_fail(lane, error ? "its connection failed" : "the peer closed the connection", error);
}

static void verbs_lane_introduce(struct verbs_lane *lane);

/* The whole answer. */
static void take_answer(struct verbs_lane *lane)
{
    if (lane->state == VERBS_GREETED && lane->answer.word == VERBS_READY) {
        lane->base.lane.trip = lane->answer.trip;
        verbs_lane_introduce(lane);
    } else if (lane->state == VERBS_OPEN && lane->answer.word == VERBS_NEARER)
        verbs_trip_told(lane, lane->answer.trip);
    else if (lane->state == VERBS_ASKING && lane->answer.word == VERBS_DECLINED)
        verbs_fail(lane, "the peer is connecting this lane itself", EALREADY);
    else
        verbs_fail(lane, "the peer says over the connection what is none of our words", 0);
}

static void connection_ready(struct poll_source *source, uint32_t events)
{
    struct verbs_lane *lane = container_of(source, struct verbs_lane, source);
    ssize_t got = recv(source->fd, (char *)&lane->answer + lane->answer_got, sizeof lane->answer - lane->answer_got,
                       MSG_DONTWAIT);
    (void)events;
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        connection_ended(lane, got ? errno : 0);
        return;
    }
    lane->answer_got += (size_t)got;
    if (lane->answer_got < sizeof lane->answer)
        return;
    lane->answer_got = 0;
    take_answer(lane);
}

static void verbs_lane_overdue(struct transport_timer *timer)
{
    struct verbs_lane *lane = container_of(timer, struct verbs_lane, deadline);
    verbs_fail(lane,
               lane->state == VERBS_PROVING ? "the peer's adapter acknowledges no packet"
                                            : "it takes too long to agree with the peer",
               ETIMEDOUT);
}

/* ---- The side that connects ---- */

static void verbs_lane_connecting_failed(struct connector *connector, const char *what, int error)
{
    verbs_fail(container_of(connector, struct verbs_lane, connector), what, error);
}

/* The two queue pairs are joined. Whether packets go from one to the other and back is seen by sending some. */
static void verbs_lane_answered(struct connector *connector)
{
    struct verbs_lane *lane = container_of(connector, struct verbs_lane, connector);
    struct verbs_welcome answer;
    memcpy(&answer, connector->answer, sizeof answer);
    bool answers = socket_answers(&answer.welcome, lane->index, lane->peer);
    if (answers && answer.welcome.magic == SOCKET_DECLINE_MAGIC) {
        verbs_fail(lane, "the peer does not take this lane yet", EALREADY);
    } else if (!answers || answer.welcome.magic != SOCKET_WELCOME_MAGIC) {
        verbs_fail(lane, "someone else answers at the peer's address", 0);
    } else if (verbs_pair_join(lane, &answer.info) != TUTTI_SUCCESS) {
        verbs_fail(lane, "the two queue pairs cannot be joined", EPROTO);
    } else if (!verbs_lane_watch(lane, connector_take(connector))) {
        verbs_fail(lane, "cannot watch the connection", errno);
    } else {
        int64_t patience = param_int(PARAM_TIMEOUT), trial = param_int(PARAM_IB_TRIAL);
        transport_timer_set(lane->base.lane.transport, &lane->deadline, patience < trial ? patience : trial);
        lane->state = VERBS_PROVING;
        verbs_trip_begin(lane);
    }
}

static struct verbs_lane *verbs_lane_lane_new(struct transport *transport, void *user, uint16_t index)
{
    struct verbs_lane *lane = calloc(1, sizeof *lane);
    if (!lane)
        return NULL;
    carrier_init(&lane->base, transport, user);
    list_init(&lane->deadline.node);
    list_init(&lane->again.node);
    list_init(&lane->ringing);
    lane->deadline.expired = verbs_lane_overdue;
    lane->source = (struct poll_source){.fd = -1, .ready = connection_ready};
    lane->connector = (struct connector){.transport = transport,
                                         .source.fd = -1,
                                         .answered = verbs_lane_answered,
                                         .failed = verbs_lane_connecting_failed};
    lane->index = index;
    return lane;
}

/* Begins to connect; a failure is the lane's, of which the owner learns by down(). */
static tutti_result_t verbs_lane_start(struct verbs_lane *lane, const struct wire_process *peer)
{
    struct transport *transport = lane->base.lane.transport;
    struct net_address to, from;
    int ports = socket_addresses(peer->verbs, WIRE_DEVICES);
    if (!ports || !socket_address(&peer->verbs[lane->index % (unsigned)ports], &to))
        return error_set(TUTTI_INVALID_ARGUMENT, "the peer has no address for lanes over RDMA verbs");
    net_format(&to, lane->to);
    int fd = fork_socket(to.any.sa_family, SOCK_STREAM);
    if (fd < 0)
        return error_set(TUTTI_SYSTEM_ERROR, "cannot make a socket for verbs lane %u: %s", lane->index,
                         strerror(errno));
    socket_tune(fd);
    socket_be_quick(fd, transport, peer);
    if (choose_ip(&lane->device->gid, &from))
        socket_bind_source(fd, &from, &to);
    lane->connector.greeting = &lane->hello;
    lane->connector.greeting_size = sizeof lane->hello;
    lane->connector.size = sizeof(struct verbs_welcome);
    if (!connector_start(&lane->connector, fd, &to)) {
        int error = errno;
        close(fd);
        verbs_fail(lane, "cannot connect", error);
    }
    return TUTTI_SUCCESS;
}

tutti_result_t verbs_lane_open(struct transport *transport, const struct wire_process *peer, uint16_t index,
                               uint32_t epoch, uint32_t known, uint64_t session, void *user, struct lane **out)
{
    struct verbs_lane *lane = verbs_lane_lane_new(transport, user, index);
    if (!lane)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for verbs lane %u", index);
    lane->hello.hello = transport_hello(transport, peer, index, epoch, known, session);
    memcpy(lane->peer, peer->uuid, sizeof lane->peer);
    tutti_result_t result = verbs_pair_open(lane, peer);
    lane->hello.info = lane->mine;
    if (result == TUTTI_SUCCESS)
        result = verbs_lane_start(lane, peer);
    if (result != TUTTI_SUCCESS) {
        verbs_lane_close(&lane->base.lane);
        return result;
    }
    *out = &lane->base.lane;
    return TUTTI_SUCCESS;
}

void verbs_lane_reap(struct lane *base)
{
    struct verbs_lane *lane = verbs_lane_of(base);
    verbs_forget_queue(lane);
    if (lane->source.fd >= 0)
        close(lane->source.fd);
    verbs_pair_free(lane);
    free(lane);
}

/* ---- The side that is connected to ---- */

static bool verbs_lane_answer(const struct verbs_lane *lane, uint32_t magic)
{
    struct verbs_welcome welcome = {.welcome = socket_answer(lane->base.lane.transport, magic, lane->index),
                                    .info = lane->mine};
    return socket_send_whole(lane->source.fd, &welcome, sizeof welcome);
}

/* The owner decides before the peer's does: a lane that is not taken is never up there. What it says here and now goes
 * out behind our yes. */
static void verbs_lane_introduce(struct verbs_lane *lane)
{
    static const struct verbs_word declined = {.word = VERBS_DECLINED};
    struct transport *transport = lane->base.lane.transport;
    transport_timer_clear(transport, &lane->deadline);
    lane->base.up = true;
    bool taken = transport->owner.accepted(transport->owner.context, &lane->base.lane, &lane->hello.hello);
    if (carrier_dead(&lane->base))
        return;
    if (!taken) {
        socket_send_whole(lane->source.fd, &declined, sizeof declined);
        verbs_lane_close(&lane->base.lane);
        return;
    }
    lane->state = VERBS_OPEN;
    if (verbs_say(lane, VERBS_TAKEN))
        verbs_move(lane);
}

/* A lane that could not be made is never the owner's: the peer sees its connection closed. */
static void begin_with_peer(struct transport *transport, int fd, const struct verbs_hello *hello)
{
    struct verbs_lane *lane = verbs_lane_lane_new(transport, NULL, hello->hello.lane);
    if (!lane) {
        close(fd);
        return;
    }
    lane->state = VERBS_GREETED;
    lane->hello = *hello;
    memcpy(lane->peer, hello->hello.from.uuid, sizeof lane->peer);
    transport_timer_set(transport, &lane->deadline, param_int(PARAM_TIMEOUT));
    tutti_result_t result = TUTTI_SYSTEM_ERROR;
    if (verbs_lane_watch(lane, fd))
        result = verbs_pair_open(lane, &hello->hello.from);
    if (result == TUTTI_SUCCESS && verbs_pair_join(lane, &hello->info) == TUTTI_SUCCESS &&
        verbs_lane_answer(lane, SOCKET_WELCOME_MAGIC))
        return;
    if (result == TUTTI_IN_PROGRESS) /* not now: the peer tries again */
        verbs_lane_answer(lane, SOCKET_DECLINE_MAGIC);
    verbs_lane_close(&lane->base.lane);
}

void verbs_greeted(struct acceptor *acceptor, int fd, const void *greeting, int fds[ACCEPTOR_FDS])
{
    struct transport *transport = acceptor->transport;
    struct verbs_hello hello;
    (void)fds; /* TCP carries none */
    memcpy(&hello, greeting, sizeof hello);
    if (!transport_believes(transport, &hello.hello)) {
        log_info("a stranger connected to transport verbs without the secret: closed");
        close(fd);
        return;
    }
    socket_tune(fd);
    socket_be_quick(fd, transport, &hello.hello.from);
    begin_with_peer(transport, fd, &hello);
}
