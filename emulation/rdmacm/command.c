/* SPDX-License-Identifier: Apache-2.0 */
#include "rdmacm/command.h"
#include "rdmacm/door.h"
#include "rdmacm/peer.h"
#include "rdmacm/query.h"
#include "rdmacm/removal.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define EXPORT      __attribute__((visibility("default")))
#define BACKLOG_MAX 1024
#define MULTICAST   0xffffff /* the queue pair number of all groups */
#define VENDOR_ECE  35       /* a reason that programs may give: the vendor's option is not supported */

union cm_command {
    struct rdma_ucm_create_id create;
    struct rdma_ucm_destroy_id destroy;
    struct rdma_ucm_bind_ip bind_ip;
    struct rdma_ucm_bind bind;
    struct rdma_ucm_resolve_ip resolve_ip;
    struct rdma_ucm_resolve_addr resolve_addr;
    struct rdma_ucm_resolve_route resolve_route;
    struct rdma_ucm_query query;
    struct rdma_ucm_connect connect;
    struct rdma_ucm_listen listen;
    struct rdma_ucm_accept accept;
    struct rdma_ucm_reject reject;
    struct rdma_ucm_disconnect disconnect;
    struct rdma_ucm_init_qp_attr init_qp_attr;
    struct rdma_ucm_notify notify;
    struct rdma_ucm_join_ip_mcast join_ip;
    struct rdma_ucm_join_mcast join;
    struct rdma_ucm_set_option set_option;
    struct rdma_ucm_migrate_id migrate;
};

struct cm_call {
    struct cm_channel *channel;
    const union cm_command *command;
    size_t room; /* for the answer */
};

static int give(const struct cm_call *call, uint64_t to, const void *answer, size_t size)
{
    if (call->room < size)
        size = call->room; /* an older program knows fewer fields */
    memcpy((void *)(uintptr_t)to, answer, size);
    return 0;
}

/* A request that nobody has seen goes with its listener: the other side is refused. */
static void drop_child(struct cm_id *child)
{
    peer_end(child);
    id_free(child, NULL);
}

static uint32_t destroy_id(struct cm_id *id)
{
    uint32_t reported = id->reported;
    door_leave(id);
    peer_end(id);
    id_free(id, drop_child);
    return reported;
}

static void close_channel(struct cm_channel *channel)
{
    while (!list_empty(&channel->ids))
        destroy_id(list_entry(channel->ids.next, struct cm_id, node));
}

static int create(const struct cm_call *call)
{
    const struct rdma_ucm_create_id *cmd = &call->command->create;
    uint8_t type = cmd->ps == RDMA_PS_TCP                               ? IBV_QPT_RC
                   : cmd->ps == RDMA_PS_UDP || cmd->ps == RDMA_PS_IPOIB ? IBV_QPT_UD
                                                                        : cmd->qp_type;
    if ((cmd->ps == RDMA_PS_IB && type != IBV_QPT_RC && type != IBV_QPT_UD && type != IBV_QPT_UC) ||
        (cmd->ps != RDMA_PS_IB && cmd->ps != RDMA_PS_TCP && cmd->ps != RDMA_PS_UDP && cmd->ps != RDMA_PS_IPOIB))
        return EINVAL;
    struct cm_id *id = id_make(call->channel, cmd->ps, type);
    if (!id)
        return ENOMEM;
    id->uid = cmd->uid;
    cm_timer_init(&id->timer, NULL);
    return give(call, cmd->response, &(struct rdma_ucm_create_id_resp){id->number},
                sizeof(struct rdma_ucm_create_id_resp));
}

static int destroy(const struct cm_call *call, struct cm_id *id)
{
    struct rdma_ucm_destroy_id_resp answer = {destroy_id(id)};
    return give(call, call->command->destroy.response, &answer, sizeof(answer));
}

static int copy_address(union cm_address *to, const void *from, size_t size)
{
    memset(to, 0, sizeof(*to));
    memcpy(to, from, size < sizeof(*to) ? size : sizeof(*to));
    return !address_known(to) ? EAFNOSUPPORT : size < address_size(to) ? EINVAL : 0;
}

static int bind_to(struct cm_id *id, const void *bytes, size_t size)
{
    union cm_address address;
    struct cm_place place = {0};
    int err = id->state == CM_IDLE ? copy_address(&address, bytes, size) : EINVAL;
    if (!err && !address_is_any(&address) &&
        !address_is_loopback(&address)) /* loopback is of no device, as in the kernel */
        err = place_find(&address, &place);
    if (err)
        return err;
    id->from = address;
    id->place = place;
    err = door_reserve(id, peer_arrive);
    if (err == EADDRINUSE && channel_reap())
        err = door_reserve(id, peer_arrive);
    if (!err) {
        id->state = CM_BOUND;
        return 0;
    }
    memset(&id->from, 0, sizeof(id->from)); /* resolving chooses another */
    id->place.guid = 0;
    return err;
}

static int bind_ip(const struct cm_call *call, struct cm_id *id)
{
    return bind_to(id, &call->command->bind_ip.addr, sizeof(call->command->bind_ip.addr));
}

static int bind_any(const struct cm_call *call, struct cm_id *id)
{
    return bind_to(id, &call->command->bind.addr, call->command->bind.addr_size);
}

/* The address that the program wants to come from; a port is reserved only if it names one. */
static int come_from(struct cm_id *id, const void *bytes, size_t size)
{
    union cm_address from;
    sa_family_t family = AF_UNSPEC;
    if (size >= sizeof(family))
        memcpy(&family, bytes, sizeof(family));
    if (id->state != CM_IDLE || !family)
        return id->state == CM_IDLE || id->state == CM_BOUND ? 0 : EINVAL;
    int err = copy_address(&from, bytes, size);
    if (!err && (address_port(&from) || address_is_any(&from)))
        return address_port(&from) ? bind_to(id, bytes, size) : 0;
    if (!err)
        err = place_find(&from, &id->place);
    if (!err)
        id->from = from;
    return err;
}

/* The rest of a resolution is an event. */
static int find_way(struct cm_id *id)
{
    union cm_address source = {.storage = {0}};
    bool fixed = address_known(&id->from) && !address_is_any(&id->from);
    uint16_t port = address_known(&id->from) ? address_port(&id->from) : 0;
    if (fixed)
        return id->from.any.sa_family == id->to.any.sa_family ? place_find(&id->from, &id->place) : EINVAL;
    int err = place_source(&id->to, &source);
    if (!err)
        err = place_find(&source, &id->place);
    if (err)
        return err;
    id->from = source;
    address_set_port(&id->from, port);
    return 0;
}

static int resolve_to(struct cm_id *id, const void *from, size_t from_size, const void *to, size_t to_size)
{
    union cm_address target;
    if (id->state != CM_IDLE && id->state != CM_BOUND)
        return EINVAL;
    int err = copy_address(&target, to, to_size);
    if (!err)
        err = come_from(id, from, from_size);
    if (err)
        return err;
    id->to = target;
    err = find_way(id);
    if (!err && !address_port(&id->from))
        address_set_port(&id->from, door_any_port());
    if (!err)
        id->state = CM_ADDRESS;
    id_post(id, err ? CM_ADDR_ERROR : CM_ADDR_RESOLVED, -err, NULL);
    return 0;
}

static int resolve_ip(const struct cm_call *call, struct cm_id *id)
{
    const struct rdma_ucm_resolve_ip *cmd = &call->command->resolve_ip;
    return resolve_to(id, &cmd->src_addr, sizeof(cmd->src_addr), &cmd->dst_addr, sizeof(cmd->dst_addr));
}

static int resolve_addr(const struct cm_call *call, struct cm_id *id)
{
    const struct rdma_ucm_resolve_addr *cmd = &call->command->resolve_addr;
    return resolve_to(id, &cmd->src_addr, cmd->src_size, &cmd->dst_addr, cmd->dst_size);
}

static int resolve_route(const struct cm_call *call, struct cm_id *id)
{
    if (id->state != CM_ADDRESS)
        return EINVAL;
    id->state = CM_ROUTE;
    id_post(id, CM_ROUTE_RESOLVED, 0, NULL);
    return 0;
}

static int give_route(const struct cm_call *call, struct cm_id *id)
{
    struct rdma_ucm_query_route_resp answer;
    query_route(id, &answer);
    return give(call, call->command->query.response, &answer, sizeof(answer));
}

static int give_address(const struct cm_call *call, struct cm_id *id)
{
    struct rdma_ucm_query_addr_resp answer;
    if (call->command->query.option != RDMA_USER_CM_QUERY_ADDR)
        return ENOSYS;
    query_address(id, &answer);
    return give(call, call->command->query.response, &answer, sizeof(answer));
}

static int connect_to(const struct cm_call *call, struct cm_id *id)
{
    const struct rdma_ucm_conn_param *param = &call->command->connect.conn_param;
    return param->valid ? peer_connect(id, param) : EINVAL;
}

static int wait_for(const struct cm_call *call, struct cm_id *id)
{
    static const struct sockaddr_in6 all = {.sin6_family = AF_INET}; /* an IPv4 address of zeros, too */
    int backlog = (int)call->command->listen.backlog;
    int err = id->state == CM_IDLE ? bind_to(id, &all, sizeof(all)) : 0;
    if (err || id->state != CM_BOUND)
        return err ? err : EINVAL;
    id->backlog = backlog <= 0 || backlog > BACKLOG_MAX ? BACKLOG_MAX : backlog;
    id->state = CM_LISTENING;
    return 0;
}

static int accept_it(const struct cm_call *call, struct cm_id *id)
{
    const struct rdma_ucm_accept *cmd = &call->command->accept;
    uint64_t before = id->uid;
    if (cmd->conn_param.valid)
        id->uid = cmd->uid;
    int err = peer_accept(id, cmd->conn_param.valid ? &cmd->conn_param : NULL);
    if (err)
        id->uid = before;
    return err;
}

static int reject(const struct cm_call *call, struct cm_id *id)
{
    const struct rdma_ucm_reject *cmd = &call->command->reject;
    if (cmd->reason && cmd->reason != REFUSED_BY_PROGRAM && cmd->reason != VENDOR_ECE)
        return EINVAL;
    return peer_reject(id, cmd->reason ? cmd->reason : REFUSED_BY_PROGRAM, cmd->private_data, cmd->private_data_len);
}

static int disconnect(const struct cm_call *call, struct cm_id *id)
{
    return peer_disconnect(id);
}

static int init_qp_attr(const struct cm_call *call, struct cm_id *id)
{
    struct ib_uverbs_qp_attr answer;
    int err = query_qp(id, call->command->init_qp_attr.qp_state, &answer);
    return err ? err : give(call, call->command->init_qp_attr.response, &answer, sizeof(answer));
}

static int set_byte(const struct rdma_ucm_set_option *cmd, uint8_t *to, uint8_t max)
{
    uint8_t value;
    if (cmd->optlen != sizeof(value))
        return EINVAL;
    memcpy(&value, (const void *)(uintptr_t)cmd->optval, sizeof(value));
    if (value > max)
        return EINVAL;
    *to = value;
    return 0;
}

static int set_flag(const struct rdma_ucm_set_option *cmd, bool *to, bool allowed)
{
    int value;
    if (cmd->optlen != sizeof(value) || !allowed)
        return EINVAL;
    memcpy(&value, (const void *)(uintptr_t)cmd->optval, sizeof(value));
    *to = value != 0;
    return 0;
}

static int set_option(const struct cm_call *call, struct cm_id *id)
{
    const struct rdma_ucm_set_option *cmd = &call->command->set_option;
    if (cmd->level != RDMA_OPTION_ID)
        return cmd->level == RDMA_OPTION_IB ? EINVAL : ENOSYS; /* paths are InfiniBand's */
    switch (cmd->optname) {
    case RDMA_OPTION_ID_TOS:
        return set_byte(cmd, &id->tos, UINT8_MAX);
    case RDMA_OPTION_ID_REUSEADDR:
        return set_flag(cmd, &id->reuse, true);
    case RDMA_OPTION_ID_AFONLY:
        return set_flag(cmd, &id->only_family, id->state == CM_IDLE);
    case RDMA_OPTION_ID_ACK_TIMEOUT:
        return id_is_datagram(id) ? EINVAL : set_byte(cmd, &id->ack_timeout, 31);
    default:
        return ENOSYS;
    }
}

static int notify(const struct cm_call *call, struct cm_id *id)
{
    return call->command->notify.event == IBV_EVENT_COMM_EST ? peer_established(id) : 0;
}

/* The switch needs no permission: the group is there at once. */
static int join_to(const struct cm_call *call, struct cm_id *id, uint64_t response, uint64_t uid,
                   const union cm_address *address)
{
    struct cm_group *group = NULL;
    if (id->place.guid && address_is_multicast(address))
        group = group_make(id, uid);
    if (!group)
        return id->place.guid && address_is_multicast(address) ? ENOMEM : EINVAL;
    struct cm_event event = {.id = id, .of = group, .reported = &group->reported};
    struct rdma_ucm_ud_param *param = &event.answer.param.ud;
    union ibv_gid gid = address_gid(address);
    event.answer.uid = uid;
    event.answer.id = group->number;
    event.answer.event = CM_MULTICAST_JOIN;
    id_fill_address(id, &param->ah_attr);
    memcpy(param->ah_attr.grh.dgid, gid.raw, sizeof(gid.raw));
    param->qp_num = MULTICAST;
    param->qkey = UD_QKEY;
    channel_post(id->channel, &event);
    return give(call, response, &(struct rdma_ucm_create_id_resp){group->number},
                sizeof(struct rdma_ucm_create_id_resp));
}

static int join_ip(const struct cm_call *call, struct cm_id *id)
{
    const struct rdma_ucm_join_ip_mcast *cmd = &call->command->join_ip;
    union cm_address address;
    int err = copy_address(&address, &cmd->addr, sizeof(cmd->addr));
    return err ? err : join_to(call, id, cmd->response, cmd->uid, &address);
}

static int join(const struct cm_call *call, struct cm_id *id)
{
    const struct rdma_ucm_join_mcast *cmd = &call->command->join;
    union cm_address address;
    int err =
        cmd->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED ? EINVAL : copy_address(&address, &cmd->addr, cmd->addr_size);
    return err ? err : join_to(call, id, cmd->response, cmd->uid, &address);
}

static int leave(const struct cm_call *call)
{
    const struct rdma_ucm_destroy_id *cmd = &call->command->destroy;
    struct cm_id *id = NULL;
    struct cm_group *group = group_find(call->channel, cmd->id, &id);
    if (!group)
        return ENOENT;
    struct rdma_ucm_destroy_id_resp answer = {group->reported};
    group_free(id, group);
    return give(call, cmd->response, &answer, sizeof(answer));
}

static void move_child(struct cm_event *event, struct cm_channel *to)
{
    if (!event->child)
        return;
    list_remove(&event->child->node);
    event->child->channel = to;
    list_push(&to->ids, &event->child->node);
}

static int migrate(const struct cm_call *call)
{
    const struct rdma_ucm_migrate_id *cmd = &call->command->migrate;
    struct cm_channel *from = channel_of((int)cmd->fd);
    struct cm_id *id = from && !from->inherited ? id_find(from, cmd->id) : NULL;
    if (!id)
        return from ? ENOENT : EINVAL;
    if (from != call->channel) {
        list_remove(&id->node);
        list_push(&call->channel->ids, &id->node);
        id->channel = call->channel;
        channel_move(from, call->channel, id, move_child);
    }
    return give(call, cmd->response, &(struct rdma_ucm_migrate_resp){id->reported},
                sizeof(struct rdma_ucm_migrate_resp));
}

/* Rows in the order of the kernel's numbers. A command with an identifier says where that lies. */
static const struct cm_row {
    int (*plain)(const struct cm_call *call);
    int (*of_id)(const struct cm_call *call, struct cm_id *id);
    size_t at;
} rows[] = {
#define PLAIN(kind, fn)      [RDMA_USER_CM_CMD_##kind] = {fn, NULL, 0}
#define OF_ID(kind, fn, arm) [RDMA_USER_CM_CMD_##kind] = {NULL, fn, offsetof(union cm_command, arm.id)}
    PLAIN(CREATE_ID, create),
    OF_ID(DESTROY_ID, destroy, destroy),
    OF_ID(BIND_IP, bind_ip, bind_ip),
    OF_ID(RESOLVE_IP, resolve_ip, resolve_ip),
    OF_ID(RESOLVE_ROUTE, resolve_route, resolve_route),
    OF_ID(QUERY_ROUTE, give_route, query),
    OF_ID(CONNECT, connect_to, connect),
    OF_ID(LISTEN, wait_for, listen),
    OF_ID(ACCEPT, accept_it, accept),
    OF_ID(REJECT, reject, reject),
    OF_ID(DISCONNECT, disconnect, disconnect),
    OF_ID(INIT_QP_ATTR, init_qp_attr, init_qp_attr),
    OF_ID(SET_OPTION, set_option, set_option),
    OF_ID(NOTIFY, notify, notify),
    OF_ID(JOIN_IP_MCAST, join_ip, join_ip),
    PLAIN(LEAVE_MCAST, leave),
    PLAIN(MIGRATE_ID, migrate),
    OF_ID(QUERY, give_address, query),
    OF_ID(BIND, bind_any, bind),
    OF_ID(RESOLVE_ADDR, resolve_addr, resolve_addr),
    OF_ID(JOIN_MCAST, join, join),
};

static int execute(int fd, const struct rdma_ucm_cmd_hdr *header, const void *body, size_t size)
{
    union cm_command command;
    struct cm_call call = {channel_of(fd), &command, header->out};
    uint32_t number;
    if (!call.channel || call.channel->inherited)
        return EPERM;
    if (header->cmd >= sizeof(rows) / sizeof(rows[0]) || (!rows[header->cmd].plain && !rows[header->cmd].of_id))
        return ENOSYS;
    const struct cm_row *row = &rows[header->cmd];
    memset(&command, 0, sizeof(command));
    memcpy(&command, body, size < sizeof(command) ? size : sizeof(command));
    if (row->plain)
        return row->plain(&call);
    memcpy(&number, (const char *)&command + row->at, sizeof(number));
    struct cm_id *id = id_find(call.channel, number);
    return id ? row->of_id(&call, id) : ENOENT;
}

static int take_event(const struct cm_hold *hold, uint64_t response, size_t room)
{
    struct cm_channel *channel = channel_held(hold);
    if (!channel || channel->inherited)
        return channel ? EPERM : EBADF;
    struct cm_event *event = channel_take(channel, hold);
    if (!event)
        return EAGAIN;
    if (event->child)
        event->id->backlog++;
    ++*event->reported;
    memcpy((void *)(uintptr_t)response, &event->answer, room < sizeof(event->answer) ? room : sizeof(event->answer));
    free(event);
    return 0;
}

/* Sleeps in the kernel as a reader of the descriptor, so that O_NONBLOCK and signals do what they do with a device. */
static int get_event(const struct cm_hold *hold, const struct rdma_ucm_cmd_hdr *header, const void *body, int cancel)
{
    struct rdma_ucm_get_event command;
    if (header->in < sizeof(command))
        return EINVAL;
    if (header->out < offsetof(struct rdma_ucm_event_resp, reserved))
        return ENOSPC;
    memcpy(&command, body, sizeof(command));
    for (;;) {
        char byte;
        cm_lock();
        int err = take_event(hold, command.response, header->out);
        cm_unlock();
        if (err != EAGAIN)
            return err;
        pthread_setcancelstate(cancel, NULL);
        ssize_t n = recv(hold->fd, &byte, 1, MSG_PEEK);
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
        if (n <= 0)
            return n < 0 ? errno : EBADF;
    }
}

EXPORT int softverbs_cm_open(int flags)
{
    int cancel;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    cm_lock();
    channel_on_close(close_channel);
    int fd = channel_open(flags);
    if (fd >= 0)
        removal_watch();
    cm_unlock();
    pthread_setcancelstate(cancel, NULL);
    return fd;
}

static int check(const struct rdma_ucm_cmd_hdr *header, size_t size)
{
    return size < sizeof(*header) || header->in + sizeof(*header) > size ? EINVAL : 0;
}

static void let_go(void *hold)
{
    channel_let_go(hold);
}

/* The hold comes first, before the lock that others may have for long. */
static int serve_waiter(int fd, const struct rdma_ucm_cmd_hdr *header, const void *body, size_t size, int cancel)
{
    struct cm_hold hold;
    int err;
    channel_hold(&hold, fd);
    pthread_cleanup_push(let_go, &hold);
    cm_lock();
    bool ours = channel_held(&hold);
    cm_unlock();
    err = ours ? check(header, size) : NOT_OF_CM;
    if (!err)
        err = get_event(&hold, header, body, cancel);
    pthread_cleanup_pop(1);
    return err;
}

static int serve(int fd, const struct rdma_ucm_cmd_hdr *header, const void *body, size_t size)
{
    cm_lock();
    int err = channel_of(fd) ? check(header, size) : NOT_OF_CM;
    if (!err)
        err = execute(fd, header, body, header->in);
    cm_unlock();
    return err;
}

/* A thread that is cancelled must not take the lock with it: it can be only where it sleeps for an event. */
EXPORT ssize_t softverbs_cm_write(int fd, const void *data, size_t size)
{
    struct rdma_ucm_cmd_hdr header = {.cmd = UINT32_MAX};
    const void *body = (const char *)data + sizeof(header);
    int cancel;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    if (size >= sizeof(header))
        memcpy(&header, data, sizeof(header));
    int err = header.cmd == RDMA_USER_CM_CMD_GET_EVENT ? serve_waiter(fd, &header, body, size, cancel)
                                                       : serve(fd, &header, body, size);
    pthread_setcancelstate(cancel, NULL);
    if (err == NOT_OF_CM)
        return NOT_OF_CM;
    errno = err;
    return err ? -1 : (ssize_t)size;
}

/* Our own calls of close() come here, too, with the lock held, when the number was once a channel's that ended without
 * a call of close(). */
EXPORT void softverbs_cm_closed(void)
{
    int cancel;
    if (cm_locked())
        return;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    cm_lock();
    channel_reap();
    cm_unlock();
    pthread_setcancelstate(cancel, NULL);
}
