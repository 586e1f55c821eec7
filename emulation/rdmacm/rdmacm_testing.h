/* SPDX-License-Identifier: Apache-2.0 */
/* For tests: the commands of <rdma_user_cm.h>, as librdmacm writes them. Each asserts that it succeeds; what ends in
 * _err answers an errno value. */
#ifndef RDMACM_TESTING_H
#define RDMACM_TESTING_H

#include "rdmacm/command.h"
#include "rdmacm/id.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define PATIENCE_MS 20000 /* until an event that does not come fails the test */

static inline int cm_err(int fd, uint32_t kind, const void *body, size_t size, size_t room)
{
    uint8_t bytes[512];
    struct rdma_ucm_cmd_hdr header = {kind, (uint16_t)size, (uint16_t)room};
    memcpy(bytes, &header, sizeof(header));
    memcpy(bytes + sizeof(header), body, size);
    ssize_t n = softverbs_cm_write(fd, bytes, sizeof(header) + size);
    return n == (ssize_t)(sizeof(header) + size) ? 0 : n == -1 ? errno : -1;
}

static inline struct sockaddr_in6 cm_at(const char *ip, uint16_t port)
{
    union cm_address address = {.v4 = {.sin_family = AF_INET, .sin_port = htons(port)}};
    inet_pton(AF_INET, ip, &address.v4.sin_addr);
    return address.v6;
}

static inline uint32_t cm_create(int fd, uint64_t uid, uint16_t space)
{
    struct rdma_ucm_create_id_resp answer = {0};
    struct rdma_ucm_create_id cmd = {.uid = uid, .response = (uintptr_t)&answer, .ps = space};
    assert_int_equal(cm_err(fd, RDMA_USER_CM_CMD_CREATE_ID, &cmd, sizeof(cmd), sizeof(answer)), 0);
    return answer.id;
}

/* How many events it reported. */
static inline uint32_t cm_destroy(int fd, uint32_t id)
{
    struct rdma_ucm_destroy_id_resp answer = {0};
    struct rdma_ucm_destroy_id cmd = {.response = (uintptr_t)&answer, .id = id};
    assert_int_equal(cm_err(fd, RDMA_USER_CM_CMD_DESTROY_ID, &cmd, sizeof(cmd), sizeof(answer)), 0);
    return answer.events_reported;
}

static inline int cm_bind_err(int fd, uint32_t id, const char *ip, uint16_t port)
{
    struct rdma_ucm_bind_ip cmd = {.addr = cm_at(ip, port), .id = id};
    return cm_err(fd, RDMA_USER_CM_CMD_BIND_IP, &cmd, sizeof(cmd), 0);
}

static inline int cm_listen_err(int fd, uint32_t id, uint32_t backlog)
{
    return cm_err(fd, RDMA_USER_CM_CMD_LISTEN, &(struct rdma_ucm_listen){id, backlog}, sizeof(struct rdma_ucm_listen),
                  0);
}

static inline uint32_t cm_listener(int fd, uint64_t uid, uint16_t space, uint16_t port, uint32_t backlog)
{
    uint32_t id = cm_create(fd, uid, space);
    assert_int_equal(cm_bind_err(fd, id, "0.0.0.0", port), 0);
    assert_int_equal(cm_listen_err(fd, id, backlog), 0);
    return id;
}

static inline struct rdma_ucm_event_resp cm_event_now(int fd)
{
    struct rdma_ucm_event_resp answer = {0};
    struct rdma_ucm_get_event cmd = {(uintptr_t)&answer};
    assert_int_equal(cm_err(fd, RDMA_USER_CM_CMD_GET_EVENT, &cmd, sizeof(cmd), sizeof(answer)), 0);
    return answer;
}

/* The next event; sleeps for it. */
static inline struct rdma_ucm_event_resp cm_event(int fd)
{
    struct pollfd wait = {fd, POLLIN, 0};
    assert_int_equal(poll(&wait, 1, PATIENCE_MS), 1);
    return cm_event_now(fd);
}

/* The next event, which must be this. */
static inline struct rdma_ucm_event_resp cm_expect(int fd, uint64_t uid, enum cm_event_kind kind, int status)
{
    struct rdma_ucm_event_resp answer = cm_event(fd);
    assert_int_equal(answer.event, kind);
    assert_int_equal(answer.uid, uid);
    assert_int_equal((int)answer.status, status);
    return answer;
}

static inline bool cm_quiet(int fd)
{
    struct pollfd wait = {fd, POLLIN, 0};
    return poll(&wait, 1, 0) == 0;
}

static inline struct rdma_ucm_conn_param cm_param(const char *data)
{
    struct rdma_ucm_conn_param param = {.qp_num = 0x1234, .responder_resources = 3, .initiator_depth = 5, .valid = 1};
    param.retry_count = 7;
    param.private_data_len = (uint8_t)strlen(data);
    memcpy(param.private_data, data, strlen(data));
    return param;
}

static inline uint32_t cm_routed(int fd, uint64_t uid, uint16_t space, const char *ip, uint16_t port)
{
    uint32_t id = cm_create(fd, uid, space);
    struct rdma_ucm_resolve_ip cmd = {.dst_addr = cm_at(ip, port), .id = id, .timeout_ms = 1000};
    assert_int_equal(cm_err(fd, RDMA_USER_CM_CMD_RESOLVE_IP, &cmd, sizeof(cmd), 0), 0);
    cm_expect(fd, uid, CM_ADDR_RESOLVED, 0);
    struct rdma_ucm_resolve_route route = {id, 1000};
    assert_int_equal(cm_err(fd, RDMA_USER_CM_CMD_RESOLVE_ROUTE, &route, sizeof(route), 0), 0);
    cm_expect(fd, uid, CM_ROUTE_RESOLVED, 0);
    return id;
}

/* An identifier that has asked a listener of this host. */
static inline uint32_t cm_asker(int fd, uint64_t uid, uint16_t space, uint16_t port, const char *data)
{
    struct rdma_ucm_connect cmd = {cm_param(data), .id = cm_routed(fd, uid, space, "127.0.0.1", port)};
    assert_int_equal(cm_err(fd, RDMA_USER_CM_CMD_CONNECT, &cmd, sizeof(cmd), 0), 0);
    return cmd.id;
}

static inline int cm_accept_err(int fd, uint32_t id, uint64_t uid, const char *data)
{
    struct rdma_ucm_accept cmd = {.uid = uid, .conn_param = cm_param(data), .id = id};
    return cm_err(fd, RDMA_USER_CM_CMD_ACCEPT, &cmd, sizeof(cmd), 0);
}

/* What the side that asked says to an answer. */
static inline int cm_thank_err(int fd, uint32_t id)
{
    return cm_err(fd, RDMA_USER_CM_CMD_ACCEPT, &(struct rdma_ucm_accept){.id = id}, sizeof(struct rdma_ucm_accept), 0);
}

static inline int cm_reject_err(int fd, uint32_t id, const char *data)
{
    struct rdma_ucm_reject cmd = {.id = id, .private_data_len = (uint8_t)strlen(data)};
    memcpy(cmd.private_data, data, strlen(data));
    return cm_err(fd, RDMA_USER_CM_CMD_REJECT, &cmd, sizeof(cmd), 0);
}

static inline int cm_disconnect_err(int fd, uint32_t id)
{
    return cm_err(fd, RDMA_USER_CM_CMD_DISCONNECT, &(struct rdma_ucm_disconnect){id},
                  sizeof(struct rdma_ucm_disconnect), 0);
}

#define PORT   7471
#define SERVER 0x5e /* identifiers of the program's: */
#define CLIENT 0xc1
#define CHILD  0xcd

static inline int open_channel(void)
{
    int fd = softverbs_cm_open(O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

/* A listener and one that asks it, on channels of their own. */
struct two {
    int server, client;
    uint32_t listener, asker, child;
};

static inline struct two ask(uint16_t space, uint32_t backlog)
{
    struct two two = {open_channel(), open_channel()};
    two.listener = cm_listener(two.server, SERVER, space, PORT, backlog);
    two.asker = cm_asker(two.client, CLIENT, space, PORT, "hello");
    struct rdma_ucm_event_resp event = cm_expect(two.server, SERVER, CM_CONNECT_REQUEST, 0);
    two.child = event.id;
    if (space == RDMA_PS_TCP) {
        assert_int_equal(event.param.conn.private_data_len, ROOM_REQ);
        assert_memory_equal(event.param.conn.private_data, "hello\0", 6);
        assert_int_equal(event.param.conn.qp_num, 0x1234);
        assert_int_equal(event.param.conn.responder_resources, 5); /* what the other side begins is what we answer */
        assert_int_equal(event.param.conn.initiator_depth, 3);
    }
    return two;
}

/* As the preloaded close() does it: another process may have the port at once. */
static inline void end(struct two *two)
{
    close(two->server);
    close(two->client);
    softverbs_cm_closed();
}

static inline struct two connect_both(void)
{
    struct two two = ask(RDMA_PS_TCP, 1);
    assert_int_equal(cm_accept_err(two.server, two.child, CHILD, "welcome"), 0);
    struct rdma_ucm_event_resp event = cm_expect(two.client, CLIENT, CM_CONNECT_RESPONSE, 0);
    assert_int_equal(event.param.conn.private_data_len, ROOM_REP);
    assert_memory_equal(event.param.conn.private_data, "welcome\0", 8);
    assert_int_equal(cm_thank_err(two.client, two.asker), 0);
    cm_expect(two.server, CHILD, CM_ESTABLISHED, 0);
    return two;
}

#endif
