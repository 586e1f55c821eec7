/* SPDX-License-Identifier: Apache-2.0 */
/* The connection manager by its commands: each state of a connection, and each way in which one ends, also by the death
 * of a process. */
#include "rdmacm/rdmacm_testing.h"

#include "verbs/softverbs.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>

static void connections_come_and_go(void **state)
{
    struct two two = connect_both();
    struct ib_uverbs_qp_attr attr;
    struct rdma_ucm_init_qp_attr cmd = {(uintptr_t)&attr, two.asker, IBV_QPS_RTR};
    assert_int_equal(cm_err(two.client, RDMA_USER_CM_CMD_INIT_QP_ATTR, &cmd, sizeof(cmd), sizeof(attr)), 0);
    assert_int_equal(attr.dest_qp_num, 0x1234);
    assert_int_equal(attr.ah_attr.grh.dgid[12], 127);
    assert_int_equal(cm_disconnect_err(two.client, two.asker), 0);
    cm_expect(two.server, CHILD, CM_DISCONNECTED, 0);
    assert_true(cm_quiet(two.client)); /* until the other side has said goodbye, too */
    assert_int_equal(cm_disconnect_err(two.server, two.child), 0);
    cm_expect(two.client, CLIENT, CM_DISCONNECTED, 0);
    cm_expect(two.client, CLIENT, CM_TIMEWAIT_EXIT, 0);
    assert_int_equal(cm_destroy(two.client, two.asker), 5);
    cm_expect(two.server, CHILD, CM_TIMEWAIT_EXIT, 0);
    assert_int_equal(cm_destroy(two.server, two.child), 3);
    assert_int_equal(cm_destroy(two.server, two.listener), 1);
    end(&two);
}

static void destroying_an_end_disconnects_the_other(void **state)
{
    struct two two = connect_both();
    cm_destroy(two.server, two.child);
    cm_expect(two.client, CLIENT, CM_DISCONNECTED, 0);
    end(&two);
    two = connect_both();
    close(two.client);
    cm_expect(two.server, CHILD, CM_DISCONNECTED, 0);
    close(two.server);
}

/* Each identifier of the device hears of it, and the listener at no address of its own goes on. */
static void a_device_is_taken_out(void **state)
{
    char answer[64];
    struct two two = connect_both();
    uint32_t bound = cm_create(two.server, SERVER, RDMA_PS_TCP);
    assert_int_equal(cm_bind_err(two.server, bound, "127.0.0.1", PORT + 1), 0);
    assert_int_equal(softverbs_control("unplug soft_lo", answer, sizeof(answer)), 0);
    cm_expect(two.client, CLIENT, CM_DEVICE_REMOVAL, 0);
    cm_expect(two.server, CHILD, CM_DEVICE_REMOVAL, 0);
    assert_int_equal(cm_disconnect_err(two.client, two.asker), EINVAL);
    assert_true(cm_quiet(two.client) && cm_quiet(two.server));
    assert_int_equal(cm_destroy(two.client, two.asker), 4);
    assert_int_equal(softverbs_control("plug soft_lo", answer, sizeof(answer)), 0);
    uint32_t again = cm_asker(two.client, CLIENT, RDMA_PS_TCP, PORT, "");
    cm_expect(two.server, SERVER, CM_CONNECT_REQUEST, 0);
    cm_destroy(two.client, again);
    end(&two);
}

static void nobody_listens(void **state)
{
    int client = open_channel(), other = open_channel(), server = open_channel();
    for (int i = 0; i < 2; i++) {
        if (i) /* one process has a listener, for other ports and port spaces */
            cm_listener(server, SERVER, RDMA_PS_TCP, PORT + 1, 1);
        cm_asker(client, CLIENT, RDMA_PS_TCP, PORT, "");
        cm_asker(other, CLIENT, RDMA_PS_UDP, PORT + 1, "");
        cm_expect(client, CLIENT, CM_REJECTED, 8);
        cm_expect(other, CLIENT, CM_UNREACHABLE, 1);
    }
    close(server);
    close(other);
    close(client);
}

/* Programs tell their port before they listen, as those who ask take longer on adapters. */
static void listeners_may_be_late(void **state)
{
    int client = open_channel(), server = open_channel();
    struct pollfd wait = {client, POLLIN, 0};
    cm_asker(client, CLIENT, RDMA_PS_TCP, PORT, "");
    assert_int_equal(poll(&wait, 1, 600), 0); /* more than a lost acknowledgement takes */
    cm_listener(server, SERVER, RDMA_PS_TCP, PORT, 1);
    cm_expect(server, SERVER, CM_CONNECT_REQUEST, 0);
    close(client);
    close(server);
}

static void programs_reject(void **state)
{
    struct two two = ask(RDMA_PS_TCP, 1);
    assert_int_equal(cm_reject_err(two.server, two.child, "go away"), 0);
    cm_destroy(two.server, two.child);
    struct rdma_ucm_event_resp event = cm_expect(two.client, CLIENT, CM_REJECTED, 28);
    assert_int_equal(event.param.conn.private_data_len, ROOM_REJ);
    assert_memory_equal(event.param.conn.private_data, "go away\0", 8);
    end(&two);
    two = ask(RDMA_PS_TCP, 1); /* and the one that asked the answer */
    assert_int_equal(cm_accept_err(two.server, two.child, CHILD, ""), 0);
    cm_expect(two.client, CLIENT, CM_CONNECT_RESPONSE, 0);
    assert_int_equal(cm_reject_err(two.client, two.asker, "no"), 0);
    cm_expect(two.server, CHILD, CM_REJECTED, 28);
    end(&two);
}

/* Two requests may wait; what the program takes makes room. */
static void a_full_backlog_rejects(void **state)
{
    int server = open_channel(), client = open_channel();
    cm_listener(server, SERVER, RDMA_PS_TCP, PORT, 2);
    for (int i = 0; i < 3; i++)
        cm_asker(client, CLIENT + (unsigned)i, RDMA_PS_TCP, PORT, "");
    assert_int_equal(cm_event(client).event, CM_REJECTED);
    cm_expect(server, SERVER, CM_CONNECT_REQUEST, 0);
    cm_asker(client, CLIENT + 9, RDMA_PS_TCP, PORT, "");
    cm_expect(server, SERVER, CM_CONNECT_REQUEST, 0);
    cm_expect(server, SERVER, CM_CONNECT_REQUEST, 0);
    assert_true(cm_quiet(client));
    close(server);
    for (int i = 0; i < 3; i++)
        assert_int_equal(cm_event(client).status, 28);
    close(client);
}

static void a_listener_ends(void **state)
{
    struct two two = ask(RDMA_PS_TCP, 2);
    cm_asker(two.client, CLIENT + 1, RDMA_PS_TCP, PORT, "unseen");
    struct pollfd wait = {two.server, POLLIN, 0};
    assert_int_equal(poll(&wait, 1, PATIENCE_MS), 1);
    assert_int_equal(cm_destroy(two.server, two.listener), 1);
    assert_true(cm_quiet(two.server)); /* nobody is told of what nobody can take */
    cm_expect(two.client, CLIENT + 1, CM_REJECTED, 28);
    assert_int_equal(cm_accept_err(two.server, two.child, CHILD, ""), 0); /* what the program has seen lives on */
    cm_expect(two.client, CLIENT, CM_CONNECT_RESPONSE, 0);
    end(&two);
}

/* A number that was guessed: the request goes with its child. */
static void an_unseen_child_ends(void **state)
{
    int server = open_channel(), client = open_channel();
    uint32_t listener = cm_listener(server, SERVER, RDMA_PS_TCP, PORT, 2);
    struct rdma_ucm_destroy_id_resp answer;
    struct rdma_ucm_destroy_id cmd = {.response = (uintptr_t)&answer};
    struct pollfd wait = {server, POLLIN, 0};
    int found = 0;
    cm_asker(client, CLIENT, RDMA_PS_TCP, PORT, "");
    assert_int_equal(poll(&wait, 1, PATIENCE_MS), 1);
    for (cmd.id = 0; cmd.id < 256; cmd.id++)
        found += cmd.id != listener && !cm_err(server, RDMA_USER_CM_CMD_DESTROY_ID, &cmd, sizeof(cmd), sizeof(answer));
    assert_int_equal(found, 1);
    assert_true(cm_quiet(server));
    cm_expect(client, CLIENT, CM_REJECTED, 28);
    cm_destroy(server, listener);
    close(server);
    close(client);
}

static void one_who_asked_ends(void **state)
{
    struct two two = ask(RDMA_PS_TCP, 1);
    cm_destroy(two.client, two.asker);
    while (!cm_accept_err(two.server, two.child, CHILD, "")) { /* the news may be on its way */
        cm_expect(two.server, CHILD, CM_REJECTED, 28);
        break;
    }
    assert_int_equal(cm_accept_err(two.server, two.child, CHILD, ""), EINVAL);
    end(&two);
}

static void datagrams_have_one_question(void **state)
{
    struct two two = ask(RDMA_PS_UDP, 1);
    assert_int_equal(cm_accept_err(two.server, two.child, CHILD, "yes"), 0);
    struct rdma_ucm_event_resp event = cm_expect(two.client, CLIENT, CM_ESTABLISHED, 0);
    assert_int_equal(event.param.ud.qp_num, 0x1234);
    assert_int_equal(event.param.ud.qkey, UD_QKEY);
    assert_int_equal(event.param.ud.private_data_len, ROOM_SIDR_REP);
    assert_memory_equal(event.param.ud.private_data, "yes\0", 4);
    end(&two);
    two = ask(RDMA_PS_UDP, 1);
    assert_int_equal(cm_reject_err(two.server, two.child, ""), 0);
    cm_expect(two.client, CLIENT, CM_UNREACHABLE, 2);
    end(&two);
}

static void ports_have_one_owner(void **state)
{
    int one = open_channel(), other = open_channel();
    uint32_t first = cm_create(one, SERVER, RDMA_PS_TCP), second = cm_create(other, SERVER, RDMA_PS_TCP);
    assert_int_equal(cm_bind_err(one, first, "0.0.0.0", PORT), 0);
    assert_int_equal(cm_bind_err(other, second, "0.0.0.0", PORT), EADDRINUSE);
    assert_int_equal(cm_bind_err(other, second, "127.0.0.1", PORT), EADDRINUSE);
    assert_int_equal(cm_bind_err(other, cm_create(other, SERVER, RDMA_PS_UDP), "0.0.0.0", PORT), 0);
    assert_int_equal(cm_bind_err(other, second, "10.1.2.3", PORT), ENODEV);
    cm_destroy(one, first);
    struct rdma_ucm_query_route_resp route;
    struct rdma_ucm_query cmd = {(uintptr_t)&route, second};
    assert_int_equal(cm_err(other, RDMA_USER_CM_CMD_QUERY_ROUTE, &cmd, sizeof(cmd), sizeof(route)), 0);
    assert_int_equal(route.src_addr.sin6_family, 0); /* what was refused is not kept */
    assert_int_equal(cm_bind_err(other, second, "127.0.0.1", PORT), 0);
    assert_int_equal(cm_listen_err(other, first + 1000, 1), ENOENT);
    close(one);
    close(other);
}

/* The child of the request moves with its listener's events. */
static void identifiers_move(void **state)
{
    int from = open_channel(), to = open_channel(), client = open_channel();
    uint32_t listener = cm_listener(from, SERVER, RDMA_PS_TCP, PORT, 2);
    struct rdma_ucm_migrate_resp answer;
    struct rdma_ucm_migrate_id cmd = {(uintptr_t)&answer, listener, (uint32_t)from};
    struct pollfd wait = {from, POLLIN, 0};
    cm_asker(client, CLIENT, RDMA_PS_TCP, PORT, "");
    assert_int_equal(poll(&wait, 1, PATIENCE_MS), 1);
    assert_int_equal(cm_err(to, RDMA_USER_CM_CMD_MIGRATE_ID, &cmd, sizeof(cmd), sizeof(answer)), 0);
    assert_int_equal(answer.events_reported, 0);
    assert_true(cm_quiet(from));
    close(from);
    uint32_t child = cm_expect(to, SERVER, CM_CONNECT_REQUEST, 0).id;
    assert_int_equal(cm_accept_err(to, child, CHILD, ""), 0);
    cm_expect(client, CLIENT, CM_CONNECT_RESPONSE, 0);
    close(to);
    close(client);
}

static void sends(int fd, const void *bytes, size_t size)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(STREAM_PORT)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    if (size)
        assert_int_equal(send(fd, bytes, size, MSG_NOSIGNAL), size);
}

/* Garbage and messages that are out of place end their connection, and no other. */
static void strangers_do_no_harm(void **state)
{
    struct two two = connect_both();
    for (int type = 0; type <= CM_TYPES; type++) {
        uint8_t bytes[MESSAGE_MAX], byte;
        struct cm_message message = {.type = (enum cm_message_type)type, .space = RDMA_PS_TCP, .port = PORT + 1};
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        sends(fd, bytes, message_build(&message, bytes));
        while (recv(fd, &byte, 1, 0) > 0) /* until the other side ends it */
            ;
        close(fd);
    }
    assert_int_equal(cm_disconnect_err(two.client, two.asker), 0);
    cm_expect(two.server, CHILD, CM_DISCONNECTED, 0);
    cm_destroy(two.server, two.listener); /* now, not soon: the next test is another process's */
    end(&two);
}

/* A process that takes the connection and dies before it hands the request on: another is asked. */
static void a_request_is_made_again(void **state)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(STREAM_PORT)};
    int dying = socket(AF_INET, SOCK_STREAM, 0), on = 1, server = open_channel(), client = open_channel();
    assert_int_equal(setsockopt(dying, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)), 0);
    assert_int_equal(setsockopt(dying, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), 0);
    assert_int_equal(bind(dying, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(dying, 1), 0);
    cm_asker(client, CLIENT, RDMA_PS_TCP, PORT, "");
    int taken = accept(dying, NULL, NULL);
    assert_true(taken >= 0);
    uint32_t listener = cm_listener(server, SERVER, RDMA_PS_TCP, PORT, 1);
    close(dying);
    close(taken);
    cm_expect(server, SERVER, CM_CONNECT_REQUEST, 0);
    cm_destroy(server, listener);
    close(server);
    close(client);
}

/* A process without descriptors refuses, and does not spin; later it takes requests again. */
static void descriptors_run_out(void **state)
{
    int server = open_channel(), client = open_channel(), fd = socket(AF_INET, SOCK_STREAM, 0);
    struct rlimit before, none;
    struct timeval patience = {PATIENCE_MS / 1000, 0};
    char byte;
    cm_listener(server, SERVER, RDMA_PS_TCP, PORT, 1);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = (struct rlimit){3, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    sends(fd, "", 0);
    errno = 0;
    assert_true(recv(fd, &byte, 1, 0) <= 0 && errno != EAGAIN);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    close(fd);
    cm_asker(client, CLIENT, RDMA_PS_TCP, PORT, "");
    cm_expect(server, SERVER, CM_CONNECT_REQUEST, 0);
    close(server);
    close(client);
}

/* The states in which another process is killed. */
enum dying { DIES_ASKING, DIES_ASKED, DIES_ANSWERED, DIES_CONNECTED, DIES_LISTENING, STAGES };

/* In the other process: comes to the state, says so, and sleeps until it is killed. */
static int die(bool client, enum dying stage)
{
    int fd = open_channel();
    if (client) {
        uint32_t id = cm_asker(fd, CLIENT, RDMA_PS_TCP, PORT, "");
        if (stage >= DIES_ANSWERED)
            cm_expect(fd, CLIENT, CM_CONNECT_RESPONSE, 0);
        if (stage >= DIES_CONNECTED)
            assert_int_equal(cm_thank_err(fd, id), 0);
    } else {
        cm_listener(fd, SERVER, RDMA_PS_TCP, PORT, 5);
        assert_int_equal(write(STDOUT_FILENO, "l", 1), 1);
        uint32_t id = stage == DIES_LISTENING ? 0 : cm_expect(fd, SERVER, CM_CONNECT_REQUEST, 0).id;
        if (stage >= DIES_ANSWERED && id)
            assert_int_equal(cm_accept_err(fd, id, CHILD, ""), 0);
        if (stage == DIES_CONNECTED)
            cm_expect(fd, CHILD, CM_ESTABLISHED, 0);
    }
    assert_int_equal(write(STDOUT_FILENO, "!", 1), 1);
    return pause();
}

struct other {
    pid_t pid;
    int said;
};

static void hear(const struct other *other, char word)
{
    char byte = 0;
    assert_int_equal(read(other->said, &byte, 1), 1);
    assert_int_equal(byte, word);
}

static struct other start(bool client, enum dying stage)
{
    int ends[2];
    char text[8];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    snprintf(text, sizeof(text), "%d", stage);
    pid_t pid = fork();
    if (!pid) {
        dup2(ends[1], STDOUT_FILENO);
        execl("/proc/self/exe", "rdmacm_test", client ? "client" : "server", text, NULL);
        _exit(127);
    }
    close(ends[1]);
    struct other other = {pid, ends[0]};
    if (!client)
        hear(&other, 'l');
    return other;
}

static void kill_it(const struct other *other)
{
    hear(other, '!');
    kill(other->pid, SIGKILL);
    assert_int_equal(waitpid(other->pid, NULL, 0), other->pid);
    close(other->said);
}

static void a_killed_server_is_heard_of(void **state)
{
    for (enum dying stage = DIES_ASKED; stage <= DIES_CONNECTED; stage++) {
        struct other server = start(false, stage);
        int fd = open_channel();
        uint32_t id = cm_asker(fd, CLIENT, RDMA_PS_TCP, PORT, "");
        if (stage >= DIES_ANSWERED)
            cm_expect(fd, CLIENT, CM_CONNECT_RESPONSE, 0);
        if (stage == DIES_CONNECTED)
            assert_int_equal(cm_thank_err(fd, id), 0);
        kill_it(&server);
        cm_expect(fd, CLIENT, stage == DIES_CONNECTED ? CM_DISCONNECTED : CM_REJECTED,
                  stage == DIES_CONNECTED ? 0 : 28);
        close(fd);
    }
    struct other server = start(false, DIES_LISTENING);
    int fd = open_channel();
    kill_it(&server);
    cm_asker(fd, CLIENT, RDMA_PS_TCP, PORT, "");
    cm_expect(fd, CLIENT, CM_REJECTED, 8);
    close(fd);
}

static void a_killed_client_is_heard_of(void **state)
{
    for (enum dying stage = DIES_ASKING; stage <= DIES_CONNECTED; stage++) {
        int fd = open_channel();
        cm_listener(fd, SERVER, RDMA_PS_TCP, PORT, 5);
        struct other client = start(true, stage);
        uint32_t child = cm_expect(fd, SERVER, CM_CONNECT_REQUEST, 0).id;
        if (stage >= DIES_ANSWERED)
            assert_int_equal(cm_accept_err(fd, child, CHILD, ""), 0);
        if (stage == DIES_CONNECTED)
            cm_expect(fd, CHILD, CM_ESTABLISHED, 0);
        if (stage != DIES_ASKED) {
            kill_it(&client);
        } else { /* dead before its request is looked at */
            hear(&client, '!');
            kill(client.pid, SIGKILL);
            assert_int_equal(waitpid(client.pid, NULL, 0), client.pid);
            close(client.said);
        }
        if (stage == DIES_CONNECTED)
            cm_expect(fd, CHILD, CM_DISCONNECTED, 0);
        else if (stage == DIES_ANSWERED)
            cm_expect(fd, CHILD, CM_REJECTED, 28);
        else if (!cm_accept_err(fd, child, CHILD, ""))
            cm_expect(fd, CHILD, CM_REJECTED, 28);
        close(fd);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connections_come_and_go),
        cmocka_unit_test(destroying_an_end_disconnects_the_other),
        cmocka_unit_test(a_device_is_taken_out),
        cmocka_unit_test(nobody_listens),
        cmocka_unit_test(listeners_may_be_late),
        cmocka_unit_test(programs_reject),
        cmocka_unit_test(a_full_backlog_rejects),
        cmocka_unit_test(a_listener_ends),
        cmocka_unit_test(an_unseen_child_ends),
        cmocka_unit_test(one_who_asked_ends),
        cmocka_unit_test(datagrams_have_one_question),
        cmocka_unit_test(ports_have_one_owner),
        cmocka_unit_test(identifiers_move),
        cmocka_unit_test(strangers_do_no_harm),
        cmocka_unit_test(a_request_is_made_again),
        cmocka_unit_test(descriptors_run_out),
        cmocka_unit_test(a_killed_server_is_heard_of),
        cmocka_unit_test(a_killed_client_is_heard_of),
    };
    if (argc == 3)
        return die(!strcmp(argv[1], "client"), (enum dying)atoi(argv[2]));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
