/* SPDX-License-Identifier: Apache-2.0 */
/* The states of a connection. The end of its stream is a message, too: of a process that died as of one that destroyed
 * its identifier, which the kernel answers for on adapters. */
#include "rdmacm/peer.h"
#include "rdmacm/door.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

#define ASK_MS    1000 /* for a sign that a listener has the request */
#define ASK_AGAIN 50   /* after a connection that ended without a sign */
#define ASK_TIMES 20
/* Where nobody listens, a program may be about to, and here asking is quicker than that. Before it listens it may wait
 * for an acknowledgement: 1.2 s are more than two that got lost, 0.54 s each. */
#define SOON_AGAIN  50
#define SOON_TIMES  24
#define ANSWER_MS   60000 /* for the program that listens to answer, and for the other to thank */
#define GOODBYE_MS  10000 /* for the other side's goodbye */
#define TIMEWAIT_MS 500
#define PSN_BITS    0xffffffu

static void peer_late(struct cm_timer *timer);

void peer_end(struct cm_id *id)
{
    stream_close(&id->stream);
    cm_timer_stop(&id->timer);
}

static void over(struct cm_id *id, enum cm_event_kind kind, int status, const struct cm_message *message)
{
    peer_end(id);
    id->state = CM_OVER;
    id_post(id, kind, status, message);
}

static void left(struct cm_id *id)
{
    id->state = CM_LEFT;
    cm_timer_set(&id->timer, TIMEWAIT_MS);
    id_post(id, CM_DISCONNECTED, 0, NULL);
}

static uint32_t random_psn(void)
{
    uint32_t psn = 0;
    if (getrandom(&psn, sizeof(psn), GRND_NONBLOCK) < 0)
        psn = (uint32_t)getpid();
    return psn & PSN_BITS;
}

static void nobody_listens(struct cm_id *id)
{
    stream_close(&id->stream);
    if (id->tries <= SOON_TIMES)
        cm_timer_set(&id->timer, SOON_AGAIN);
    else if (id_is_datagram(id))
        over(id, CM_UNREACHABLE, SIDR_UNSUPPORTED, NULL);
    else
        over(id, CM_REJECTED, REFUSED_NO_LISTENER, &(struct cm_message){.type = CM_REJ});
}

static int ask(struct cm_id *id)
{
    cm_timer_set(&id->timer, ASK_MS);
    id->tries++;
    int err = stream_connect(&id->stream, &id->from, &id->to, peer_ready, id);
    if (err == ECONNREFUSED) { /* at once, as a loopback device does */
        nobody_listens(id);
        return 0;
    }
    return err;
}

/* The request got lost with the process that took the connection, or that has no time: perhaps another has. */
static void ask_again(struct cm_id *id, int err)
{
    stream_close(&id->stream);
    if (id->tries >= ASK_TIMES || err == EHOSTUNREACH || err == ENETUNREACH)
        over(id, CM_UNREACHABLE, -(err ? err : ETIMEDOUT), NULL);
    else
        cm_timer_set(&id->timer, ASK_AGAIN);
}

static void send_request(struct cm_id *id)
{
    const struct rdma_ucm_conn_param *param = &id->param;
    struct cm_message request = {
        .type = id_is_datagram(id) ? CM_SIDR_REQ : CM_REQ,
        .space = id->space,
        .port = address_port(&id->to),
        .source_port = address_port(&id->from),
        .qpn = param->qp_num & PSN_BITS,
        .psn = id->psn,
        .responder_resources = param->responder_resources,
        .initiator_depth = param->initiator_depth,
        .flow_control = param->flow_control,
        .retry_count = param->retry_count,
        .rnr_retry_count = param->rnr_retry_count,
        .srq = param->srq,
        .private_size = param->private_data_len,
    };
    memcpy(request.private_data, param->private_data, param->private_data_len);
    stream_send(&id->stream, &request);
}

static void connected(struct cm_id *id)
{
    int err = stream_connected(&id->stream);
    if (!err)
        send_request(id);
    else if (err == ECONNREFUSED)
        nobody_listens(id);
    else
        ask_again(id, err == ECONNRESET ? 0 : err);
}

static void answered(struct cm_id *id, const struct cm_message *message)
{
    bool datagram = id_is_datagram(id);
    if (message->type == CM_HELD) {
        id->held = true;
        cm_timer_set(&id->timer, ANSWER_MS);
    } else if (message->type == CM_REP && !datagram) {
        id->remote_qpn = message->qpn;
        id->remote_psn = message->psn;
        id->initiator_depth = message->responder_resources;
        id->responder_resources = message->initiator_depth;
        id->state = CM_REP_HERE;
        cm_timer_stop(&id->timer);
        id_post(id, CM_CONNECT_RESPONSE, 0, message);
    } else if ((message->type == CM_REJ && message->status == REFUSED_NO_LISTENER) ||
               (message->type == CM_SIDR_REP && message->status == SIDR_UNSUPPORTED)) {
        nobody_listens(id);
    } else if (message->type == CM_REJ && !datagram) {
        over(id, CM_REJECTED, (int)message->status, message);
    } else if (message->type == CM_SIDR_REP && datagram) {
        over(id, message->status ? CM_UNREACHABLE : CM_ESTABLISHED, (int)message->status, message);
    }
}

static void goodbye(struct cm_id *id)
{
    id->told_left = true;
    if (id->state == CM_LEAVING)
        stream_send(&id->stream, &(struct cm_message){.type = CM_DREP});
    if (id->state == CM_LEAVING || id->state == CM_CONNECTED || id->state == CM_REP_SENT || id->state == CM_REP_HERE)
        left(id);
}

static void handle(struct cm_id *id, const struct cm_message *message)
{
    if (id->state == CM_CONNECTING) {
        answered(id, message);
    } else if (message->type == CM_RTU && id->state == CM_REP_SENT) {
        id->state = CM_CONNECTED;
        cm_timer_stop(&id->timer);
        id_post(id, CM_ESTABLISHED, 0, message);
    } else if (message->type == CM_REJ && (id->state == CM_REP_SENT || id->state == CM_REP_HERE)) {
        over(id, CM_REJECTED, (int)message->status, message);
    } else if (message->type == CM_DREQ) {
        goodbye(id);
    } else if (message->type == CM_DREP && id->state == CM_LEAVING) {
        left(id);
    }
}

static void ended(struct cm_id *id)
{
    static const struct cm_message nothing = {.type = CM_REJ};
    switch (id->state) {
    case CM_CONNECTING:
        if (!id->held)
            ask_again(id, 0);
        else if (id_is_datagram(id))
            over(id, CM_UNREACHABLE, SIDR_REFUSED, NULL);
        else
            over(id, CM_REJECTED, REFUSED_BY_PROGRAM, &nothing);
        break;
    case CM_REP_SENT:
    case CM_REP_HERE:
        over(id, CM_REJECTED, REFUSED_BY_PROGRAM, &nothing);
        break;
    case CM_CONNECTED:
    case CM_LEAVING:
        stream_close(&id->stream);
        left(id);
        break;
    case CM_ASKED:
        over(id, CM_REJECTED, REFUSED_BY_PROGRAM, &nothing); /* nobody hears of it: accepting fails */
        break;
    default:
        stream_close(&id->stream);
    }
}

void peer_ready(void *arg, uint32_t events)
{
    struct cm_id *id = arg;
    struct cm_message message;
    enum stream_read read;
    if (events & EPOLLOUT || (id->state == CM_CONNECTING && !id->held && events & EPOLLERR)) {
        connected(id);
        return;
    }
    do {
        read = stream_next(&id->stream, &message);
        if (read == STREAM_MESSAGE)
            handle(id, &message);
        if (read == STREAM_END)
            ended(id);
    } while (read == STREAM_MESSAGE && id->stream.fd >= 0);
}

static void peer_late(struct cm_timer *timer)
{
    struct cm_id *id = container_of(timer, struct cm_id, timer);
    if (id->state == CM_LEFT) {
        id_post(id, CM_TIMEWAIT_EXIT, 0, NULL);
    } else if (id->state == CM_LEAVING) {
        left(id);
    } else if (id->state == CM_CONNECTING && !id->held && id->stream.fd >= 0) {
        ask_again(id, 0);
    } else if (id->state == CM_CONNECTING && !id->held) {
        int err = ask(id);
        if (err)
            over(id, CM_UNREACHABLE, -err, NULL);
    } else {
        over(id, CM_UNREACHABLE, -ETIMEDOUT, NULL);
    }
}

int peer_connect(struct cm_id *id, const struct rdma_ucm_conn_param *param)
{
    if (id->state != CM_ROUTE || param->private_data_len > (id_is_datagram(id) ? ROOM_SIDR_REQ : ROOM_REQ))
        return EINVAL;
    id->param = *param;
    id->responder_resources = param->responder_resources;
    id->initiator_depth = param->initiator_depth;
    id->retry_count = param->retry_count;
    id->rnr_retry_count = param->rnr_retry_count;
    id->psn = random_psn();
    id->tries = 0;
    id->held = false;
    id->state = CM_CONNECTING;
    cm_timer_init(&id->timer, peer_late);
    int err = ask(id);
    if (err)
        over(id, CM_UNREACHABLE, -err, NULL);
    return 0;
}

/* The other side may have given up while the request lay in a queue: then there is nobody to serve. */
static bool gone(int fd)
{
    char byte;
    ssize_t n = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

static struct cm_id *child_of(const struct cm_id *listener, const struct cm_message *request, int fd)
{
    struct cm_id *child = id_make(listener->channel, listener->space, listener->qp_type);
    socklen_t here = sizeof(child->from), there = sizeof(child->to);
    if (!child)
        return NULL;
    cm_timer_init(&child->timer, peer_late);
    if (getsockname(fd, &child->from.any, &here) || getpeername(fd, &child->to.any, &there)) {
        id_free(child, NULL);
        return NULL;
    }
    address_plain(&child->from);
    address_plain(&child->to);
    if (place_find(&child->from, &child->place)) {
        id_free(child, NULL);
        return NULL;
    }
    address_set_port(&child->from, request->port);
    address_set_port(&child->to, request->source_port);
    child->state = CM_ASKED;
    child->tos = listener->tos;
    child->ack_timeout = listener->ack_timeout;
    child->remote_qpn = request->qpn;
    child->remote_psn = request->psn;
    child->initiator_depth = request->responder_resources;
    child->responder_resources = request->initiator_depth;
    child->retry_count = request->retry_count;
    child->rnr_retry_count = request->rnr_retry_count;
    child->psn = random_psn();
    return child;
}

void peer_arrive(struct cm_id *listener, const struct cm_message *request, int fd)
{
    if (gone(fd)) {
        close(fd);
        return;
    }
    if (listener->state != CM_LISTENING || id_is_datagram(listener) != (request->type == CM_SIDR_REQ)) {
        door_refuse(fd, request, REFUSED_NO_LISTENER, SIDR_UNSUPPORTED);
        return;
    }
    struct cm_id *child = listener->backlog > 0 ? child_of(listener, request, fd) : NULL;
    if (!child) {
        door_refuse(fd, request, REFUSED_BY_PROGRAM, SIDR_REFUSED);
        return;
    }
    if (stream_adopt(&child->stream, fd, EPOLLIN, peer_ready, child) || id_post_request(listener, child, request)) {
        peer_end(child);
        id_free(child, NULL);
        return;
    }
    listener->backlog--;
    stream_send(&child->stream, &(struct cm_message){.type = CM_HELD});
}

static int thank(struct cm_id *id)
{
    if (id->state != CM_REP_HERE)
        return EINVAL;
    id->state = CM_CONNECTED;
    stream_send(&id->stream, &(struct cm_message){.type = CM_RTU});
    return 0;
}

int peer_accept(struct cm_id *id, const struct rdma_ucm_conn_param *param)
{
    if (!param)
        return thank(id);
    bool datagram = id_is_datagram(id);
    if (id->state != CM_ASKED || id->stream.fd < 0 || param->private_data_len > (datagram ? ROOM_SIDR_REP : ROOM_REP))
        return EINVAL;
    struct cm_message answer = {
        .type = datagram ? CM_SIDR_REP : CM_REP,
        .qpn = param->qp_num & PSN_BITS,
        .psn = id->psn,
        .qkey = param->qkey ? param->qkey : UD_QKEY,
        .responder_resources = param->responder_resources,
        .initiator_depth = param->initiator_depth,
        .flow_control = param->flow_control,
        .rnr_retry_count = param->rnr_retry_count,
        .srq = param->srq,
        .private_size = param->private_data_len,
    };
    memcpy(answer.private_data, param->private_data, param->private_data_len);
    id->responder_resources = param->responder_resources;
    id->initiator_depth = param->initiator_depth;
    id->rnr_retry_count = param->rnr_retry_count;
    stream_send(&id->stream, &answer);
    id->state = datagram ? CM_OVER : CM_REP_SENT;
    if (datagram)
        peer_end(id);
    else
        cm_timer_set(&id->timer, ANSWER_MS);
    return 0;
}

int peer_reject(struct cm_id *id, uint8_t reason, const uint8_t *data, uint8_t size)
{
    bool datagram = id_is_datagram(id);
    if ((id->state != CM_ASKED && id->state != CM_REP_HERE) || size > ROOM_REJ)
        return EINVAL;
    struct cm_message refusal = {
        .type = datagram ? CM_SIDR_REP : CM_REJ, .status = datagram ? SIDR_REFUSED : reason, .private_size = size};
    memcpy(refusal.private_data, data, size);
    stream_send(&id->stream, &refusal);
    peer_end(id);
    id->state = CM_OVER;
    return 0;
}

int peer_disconnect(struct cm_id *id)
{
    if (id->state == CM_LEFT || id->state == CM_LEAVING) {
        if (id->told_left)
            stream_send(&id->stream, &(struct cm_message){.type = CM_DREP});
        return 0;
    }
    if (id->state != CM_CONNECTED && id->state != CM_REP_SENT && id->state != CM_REP_HERE)
        return EINVAL;
    id->state = CM_LEAVING;
    cm_timer_set(&id->timer, GOODBYE_MS);
    stream_send(&id->stream, &(struct cm_message){.type = CM_DREQ});
    return 0;
}

int peer_established(struct cm_id *id)
{
    if (id->state != CM_REP_SENT)
        return id->state == CM_CONNECTED ? 0 : EINVAL;
    id->state = CM_CONNECTED;
    cm_timer_stop(&id->timer);
    id_post(id, CM_ESTABLISHED, 0, &(struct cm_message){.type = CM_RTU});
    return 0;
}
