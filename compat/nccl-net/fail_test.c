/* SPDX-License-Identifier: Apache-2.0 */
/* What goes wrong is an error of the right call, never a hang: peers that die, stop, leave or lie, and calls that are
 * refused. */
#include "nccl-net/driver.h"
#include "nccl-net/requests.h"

#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define BIG (4u << 20) /* needs its receiver */

static unsigned char data[BIG];

static void *sending(struct end *end)
{
    void *connection;
    end_connect(end, &connection, NULL);
    return connection;
}

static void *receiving(struct end *end)
{
    void *connection;
    end_connect(end, NULL, &connection);
    return connection;
}

/* Sends until that fails: the end of a message that rides ahead says nothing of its receiver. */
static enum net_result send_on(struct end *end, void *connection, size_t size)
{
    enum net_result result = NET_SUCCESS;
    while (result == NET_SUCCESS) {
        void *request = NULL;
        result = net_send(&end->net, connection, data, size, NULL, &request);
        if (request)
            result = end_wait(end, request, NULL);
    }
    return result;
}

static enum net_result receive_on(struct end *end, void *connection, size_t size)
{
    enum net_result result = NET_SUCCESS;
    while (result == NET_SUCCESS) {
        void *request = NULL;
        int got;
        result = net_receive(&end->net, connection, data, size, NULL, &request);
        if (request)
            result = end_wait(end, request, &got);
    }
    return result;
}

/* What has failed once fails on, and can be closed. */
static void close_failed(struct end *end, void *connection, bool sends)
{
    void *request = end;
    CHECK(net_warnings());
    CHECK((sends ? net_send(&end->net, connection, data, 1, NULL, &request)
                 : net_receive(&end->net, connection, data, 1, NULL, &request)) != NET_SUCCESS);
    CHECK(!request);
    CHECK_CALL((sends ? end->net.end->close_send : end->net.end->close_receive)(connection));
}

static void send_until_failed(struct end *end)
{
    void *connection = sending(end);
    CHECK(send_on(end, connection, BIG) == NET_REMOTE_ERROR);
    close_failed(end, connection, true);
}

static void receive_until_failed(struct end *end)
{
    void *connection = receiving(end);
    CHECK(receive_on(end, connection, BIG) == NET_REMOTE_ERROR);
    close_failed(end, connection, false);
}

/* ---- Peers that die or stop ---- */

static void send_and_die(struct end *end)
{
    void *request, *connection = sending(end);
    for (int i = 0; i < 3; i++) {
        CHECK_CALL(net_send(&end->net, connection, data, BIG, NULL, &request));
        CHECK_CALL(end_wait(end, request, NULL));
    }
    kill(getpid(), SIGKILL);
}

static void receive_and_die(struct end *end)
{
    int got;
    void *request, *connection = receiving(end);
    CHECK_CALL(net_receive(&end->net, connection, data, BIG, NULL, &request));
    CHECK_CALL(end_wait(end, request, &got));
    CHECK_CALL(net_receive(&end->net, connection, data, BIG, NULL, &request));
    kill(getpid(), SIGKILL);
}

static void test_gone_killed(void **state)
{
    assert_true(driver_pair(9, receive_until_failed, send_and_die));
    assert_true(driver_pair(10, receive_and_die, send_until_failed));
}

static void receive_and_stop(struct end *end)
{
    pid_t pid = getpid();
    receiving(end);
    end_tell(end, &pid, sizeof pid);
    kill(pid, SIGSTOP);
}

static void send_to_stopped(struct end *end)
{
    pid_t peer;
    void *connection = sending(end);
    end_hear(end, &peer, sizeof peer);
    CHECK(send_on(end, connection, BIG) == NET_REMOTE_ERROR);
    kill(peer, SIGKILL);
    close_failed(end, connection, true);
}

static void test_stopped(void **state)
{
    setenv("TUTTI_TIMEOUT", "4s", 1);
    assert_true(driver_pair(11, receive_and_stop, send_to_stopped));
    unsetenv("TUTTI_TIMEOUT");
}

/* ---- Peers that leave ---- */

static void receive_and_close(struct end *end)
{
    void *request, *connection = receiving(end);
    CHECK_CALL(net_receive(&end->net, connection, data, BIG, NULL, &request));
    CHECK(request);
    end_meet(end); /* the other end is connected, too */
    CHECK_CALL(end->net.end->close_receive(connection));
}

static void send_and_close(struct end *end)
{
    void *request, *connection = sending(end);
    CHECK_CALL(net_send(&end->net, connection, data, BIG, NULL, &request));
    CHECK(request);
    end_meet(end);
    CHECK_CALL(end->net.end->close_send(connection));
}

static void close_at_once(struct end *end)
{
    void *connection = sending(end);
    end_meet(end);
    CHECK_CALL(end->net.end->close_send(connection));
}

static void find_receiver_gone(struct end *end)
{
    void *connection = sending(end);
    end_meet(end);
    CHECK(send_on(end, connection, BIG) != NET_SUCCESS);
    close_failed(end, connection, true);
}

static void find_sender_gone(struct end *end)
{
    void *connection = receiving(end);
    end_meet(end);
    CHECK(receive_on(end, connection, BIG) != NET_SUCCESS);
    close_failed(end, connection, false);
}

static void test_gone_closed(void **state)
{
    assert_true(driver_pair(8, receive_and_close, find_receiver_gone));
    assert_true(driver_pair(9, find_sender_gone, send_and_close));
    assert_true(driver_pair(10, find_sender_gone, close_at_once));
}

/* The last message of a connection that is closed right behind it arrives. */
static void send_last(struct end *end)
{
    void *request, *connection = sending(end);
    CHECK_CALL(net_send(&end->net, connection, data, 100, NULL, &request));
    CHECK_CALL(end_wait(end, request, NULL));
    CHECK_CALL(end->net.end->close_send(connection));
    end_meet(end);
}

static void receive_last(struct end *end)
{
    int got = 0;
    void *request, *connection = receiving(end);
    end_meet(end);
    CHECK_CALL(net_receive(&end->net, connection, data, BIG, NULL, &request));
    CHECK_CALL(end_wait(end, request, &got));
    CHECK(got == 100);
    CHECK_CALL(end->net.end->close_receive(connection));
}

static void test_last_message(void **state)
{
    assert_true(driver_pair(11, receive_last, send_last));
}

/* ---- Connections that are not made ---- */

static void listen_and_close(struct end *end)
{
    unsigned char handle[NET_HANDLE];
    void *listener, *connection;
    CHECK_CALL(net_listen(&end->net, 0, handle, &listener));
    end->net.memory->accept(listener, &connection, NULL); /* begins it; its time may be over by now */
    CHECK(!connection);
    CHECK_CALL(end->net.end->close_listen(listener));
    end_tell(end, handle, sizeof handle);
    end_meet(end);
}

static void connect_in_vain(struct end *end)
{
    unsigned char handle[NET_HANDLE];
    void *connection;
    end_hear(end, handle, sizeof handle);
    while (net_connect(&end->net, 0, handle, &connection) == NET_SUCCESS) {
        CHECK(!connection);
        usleep(1000);
    }
    CHECK(net_warnings());
    end_meet(end);
}

static void accept_in_vain(struct end *end)
{
    unsigned char handle[NET_HANDLE];
    void *listener, *connection;
    CHECK_CALL(net_listen(&end->net, 0, handle, &listener));
    end_tell(end, handle, sizeof handle);
    end_meet(end);
    while (end->net.memory->accept(listener, &connection, NULL) == NET_SUCCESS) {
        CHECK(!connection);
        usleep(1000);
    }
    CHECK_CALL(end->net.memory->accept(listener, &connection, NULL)); /* it has said so */
    CHECK(!connection && net_warnings());
    CHECK_CALL(end->net.end->close_listen(listener));
    end_meet(end);
}

/* What a context connects ends with it. */
static void connect_and_give_up(struct end *end)
{
    unsigned char handle[NET_HANDLE];
    void *connection, *context = end->net.context;
    end_hear(end, handle, sizeof handle);
    net_connect(&end->net, 0, handle, &connection);
    CHECK(!connection);
    CHECK_CALL(net_init(&end->net));
    CHECK_CALL(end->net.v11->finalize(end->net.context)); /* of another one nothing ends */
    CHECK_CALL(end->net.v11->finalize(context));
    CHECK_CALL(net_init(&end->net));
    end_meet(end);
    end_meet(end);
}

static void no_such_handle(struct end *end)
{
    unsigned char handle[NET_HANDLE] = "no handle of ours";
    void *connection;
    while (net_connect(&end->net, 0, handle, &connection) == NET_SUCCESS) {
        CHECK(!connection);
        usleep(1000);
    }
    CHECK(net_warnings());
}

static void test_not_connected(void **state)
{
    setenv("TUTTI_INIT_TIMEOUT", "1s", 1); /* an end that gives up before it was heard of is missed by this alone */
    assert_true(driver_pair(8, listen_and_close, connect_in_vain));
    assert_true(driver_pair(11, accept_in_vain, connect_and_give_up));
    assert_true(driver_alone(9, no_such_handle));
    unsetenv("TUTTI_INIT_TIMEOUT");
}

static void refuse_place(struct end *end)
{
    struct net net;
    setenv("NCCL_COMM_ID", "127.0.0.1:1", 1);
    net_load(&net, 11);
    CHECK(net_init(&net) == NET_INVALID_USAGE && net_warnings());
}

/* A file names the place. */
static void refuse_second_place(struct end *end)
{
    char path[] = "/tmp/nccl-net-XXXXXX";
    unsigned char handle[NET_HANDLE];
    void *listeners[2] = {NULL, NULL};
    FILE *file = fdopen(mkstemp(path), "w");
    CHECK(file && fputs("NCCL_COMM_ID=127.0.0.1:1\n", file) >= 0 && !fclose(file));
    setenv("NCCL_CONF_FILE", path, 1);
    net_load(&end->net, 11);
    CHECK_CALL(net_init(&end->net));
    CHECK_CALL(net_listen(&end->net, 0, handle, &listeners[0]));
    CHECK(net_listen(&end->net, 0, handle, &listeners[1]) == NET_INVALID_USAGE && net_warnings() && !listeners[1]);
    CHECK_CALL(end->net.end->close_listen(listeners[0]));
    net_unload(&end->net);
    unlink(path);
}

static void test_one_place(void **state)
{
    assert_true(driver_alone(0, refuse_place));
    assert_true(driver_alone(0, refuse_second_place));
}

/* ---- Calls that are refused ---- */

static void check_memory(struct end *end, void *connection)
{
    void *memory = end;
    CHECK(end->net.memory->register_memory(connection, data, BIG, NET_CUDA_MEMORY, &memory) == NET_INTERNAL_ERROR);
    CHECK(end->net.memory->register_dmabuf(connection, data, BIG, NET_CUDA_MEMORY, 0, -1, &memory) ==
          NET_INTERNAL_ERROR);
    CHECK_CALL(end->net.memory->register_memory(connection, data, 0, NET_HOST_MEMORY, &memory));
    CHECK_CALL(end->net.memory->deregister_memory(connection, memory));
    CHECK(end->net.memory->register_memory(connection, NULL, 10, NET_HOST_MEMORY, &memory) == NET_INVALID_ARGUMENT);
    CHECK(end->net.memory->deregister_memory(connection, data) == NET_INVALID_ARGUMENT);
}

static void check_requests(struct end *end, void *connection, bool sends)
{
    struct net *net = &end->net;
    size_t sizes[DRIVER_GROUPED + 1] = {1, 1};
    int tags[DRIVER_GROUPED + 1] = {1, 2};
    void *request = end, *buffers[DRIVER_GROUPED + 1] = {data, data}, *memory[2] = {NULL, NULL};
    CHECK((sends ? net_receive(net, connection, data, 1, NULL, &request)
                 : net_send(net, connection, data, 1, NULL, &request)) == NET_INTERNAL_ERROR);
    CHECK(!request);
    if (sends) {
        size_t most = net->v8 ? (size_t)UINT_MAX : ((size_t)1 << 30) + 1;
        CHECK(net_send(net, connection, data, most, NULL, &request) == NET_INTERNAL_ERROR && !request);
        return;
    }
    CHECK(net_receive_grouped(net, connection, 9, buffers, sizes, tags, &request) == NET_INTERNAL_ERROR && !request);
    CHECK(net_receive_grouped(net, connection, 0, buffers, sizes, tags, &request) == NET_INTERNAL_ERROR && !request);
    sizes[1] = net->v8 ? (size_t)UINT_MAX : ((size_t)1 << 30) + 1;
    CHECK(net_receive_grouped(net, connection, 2, buffers, sizes, tags, &request) == NET_INTERNAL_ERROR && !request);
    request = end;
    CHECK_CALL(net->end->flush(connection, 1, buffers, (int[]){1}, memory, &request));
    CHECK(!request);
}

static void check_refusals(struct end *end)
{
    unsigned char handle[NET_HANDLE] = "";
    void *out, *sends, *receives;
    struct net *net = &end->net;
    CHECK(net_listen(net, 99, handle, &out) == NET_INTERNAL_ERROR);
    CHECK(net_connect(net, -1, handle, &out) == NET_INTERNAL_ERROR);
    if (net->v8)
        CHECK(net->v8->properties(99, &(struct net_properties_8){0}) == NET_INTERNAL_ERROR);
    if (net->v11)
        CHECK(net->v11->properties(-1, &(struct net_properties_11){0}) == NET_INTERNAL_ERROR && !net->v11->fuse);
    if (net->v10)
        CHECK(net->v10->properties(99, &(struct net_properties_9){0}) == NET_INTERNAL_ERROR && !net->v10->fuse);
    if (net->v9)
        CHECK(!net->v9->fuse);
    end_connect(end, &sends, &receives);
    check_memory(end, sends);
    check_memory(end, receives);
    check_requests(end, sends, true);
    check_requests(end, receives, false);
    end_meet(end);
    CHECK_CALL(net->end->close_receive(receives));
    CHECK_CALL(net->end->close_send(sends));
}

static void test_refusals(void **state)
{
    for (int version = 8; version <= 11; version++)
        assert_true(driver_pair(version, check_refusals, check_refusals));
}

static void receive_too_little(struct end *end)
{
    void *connection = receiving(end);
    CHECK(receive_on(end, connection, 99) == NET_INVALID_USAGE);
    close_failed(end, connection, false);
}

static void send_too_much(struct end *end)
{
    void *connection = sending(end);
    CHECK(send_on(end, connection, 100) != NET_SUCCESS);
    close_failed(end, connection, true);
}

static void test_too_small(void **state)
{
    assert_true(driver_pair(11, receive_too_little, send_too_much));
}

/* ---- Peers that lie ---- */

struct head {
    uint32_t mark, count, room;
    struct {
        uint32_t size;
        int32_t tag;
    } payload[NET_REQUESTS];
};

#define MARK 0x74757433
static const struct head lies[] = {
    {MARK + 1, 1, 0, {{1, DRIVER_TAG}}},
    {MARK, 0, 0, {{1, DRIVER_TAG}}},
    {MARK, NET_REQUESTS + 1, 0, {{1, DRIVER_TAG}}},
    {MARK, 1, 8192, {{1, DRIVER_TAG}}},
    {MARK, 1, 96, {{1, DRIVER_TAG}}},
    {MARK, 1, 0, {{BIG + 1, DRIVER_TAG}}},
    {MARK, UINT32_MAX, 0, {{UINT32_MAX, DRIVER_TAG}}},
    {MARK, 2, 0, {{0, DRIVER_TAG}, {UINT32_MAX, DRIVER_TAG}}},
    {MARK, 1, 0, {{NET_MOST_KEPT + 1, DRIVER_TAG + 1}}}, /* nobody waits for it, and another payload is waited for */
    {MARK, 2, 0, {{NET_MOST_KEPT, DRIVER_TAG + 1}, {1, DRIVER_TAG + 1}}},
};
static const struct head *lie;

/* An end of its own make, which knows the handle. */
static tutti_comm_t join(const tutti_unique_id_t *id, int rank)
{
    tutti_comm_t comm;
    tutti_result_t (*enter)(tutti_comm_t *, int, const tutti_unique_id_t *, int, const tutti_config_t *) =
        net_symbol("tutti_comm_init_rank");
    CHECK(enter(&comm, 2, id, rank, NULL) == TUTTI_SUCCESS);
    return comm;
}

static void speak(tutti_comm_t comm, const void *bytes, size_t size)
{
    tutti_result_t (*call)(const void *, size_t, tutti_type_t, int, tutti_comm_t, tutti_stream_t) =
        net_symbol("tutti_send");
    CHECK(call(bytes, size, TUTTI_UINT8, NET_RECEIVER, comm, NULL) == TUTTI_SUCCESS);
}

static void hear(tutti_comm_t comm, void *bytes, size_t size)
{
    tutti_result_t (*call)(void *, size_t, tutti_type_t, int, tutti_comm_t, tutti_stream_t) = net_symbol("tutti_recv");
    tutti_result_t (*wait)(tutti_comm_t) = net_symbol("tutti_comm_synchronize");
    CHECK(call(bytes, size, TUTTI_UINT8, NET_SENDER, comm, NULL) == TUTTI_SUCCESS);
    CHECK(wait(comm) == TUTTI_SUCCESS);
}

static void leave(tutti_comm_t comm)
{
    tutti_result_t (*call)(tutti_comm_t) = net_symbol("tutti_comm_destroy");
    call(comm);
}

static void say(struct end *end)
{
    tutti_unique_id_t id;
    end_hear(end, id.bytes, sizeof id.bytes);
    tutti_comm_t comm = join(&id, NET_SENDER);
    speak(comm, lie, sizeof *lie);
    end_meet(end);
    leave(comm);
}

static void hear_lies(struct end *end)
{
    void *connection = receiving(end);
    CHECK(receive_on(end, connection, BIG) != NET_SUCCESS);
    close_failed(end, connection, false);
    end_meet(end);
}

static void test_lies(void **state)
{
    for (lie = lies; lie < lies + sizeof lies / sizeof *lies; lie++)
        assert_true(driver_pair(11, hear_lies, say));
}

/* ---- Short payloads lie in heads that have room, others go by themselves ---- */

struct roomy {
    struct head head;
    char bytes[64];
};

static void speak_in_heads(struct end *end)
{
    static const struct head first = {MARK, 1, 64, {{8, DRIVER_TAG}}}, last = {MARK, 1, 0, {{4, DRIVER_TAG}}};
    static const struct roomy next = {{MARK, 3, 0, {{3, DRIVER_TAG}, {65, DRIVER_TAG}, {5, DRIVER_TAG}}}, "abcdefgh"};
    char apart[65] = "apart";
    tutti_unique_id_t id;
    end_hear(end, id.bytes, sizeof id.bytes);
    tutti_comm_t comm = join(&id, NET_SENDER);
    speak(comm, &first, sizeof first);
    speak(comm, "by itsel", 8);
    speak(comm, &next, sizeof next);
    speak(comm, apart, sizeof apart);
    speak(comm, &last, sizeof last);
    speak(comm, "last", 4);
    end_meet(end);
    leave(comm);
}

static void expect(struct end *end, void *connection, const char *text, int size)
{
    char got[100] = "";
    void *request = NULL;
    int came;
    CHECK_CALL(net_receive(&end->net, connection, got, sizeof got, NULL, &request));
    CHECK_CALL(end_wait(end, request, &came));
    CHECK(came == size && !strcmp(got, text));
}

static void receive_from_heads(struct end *end)
{
    void *connection = receiving(end);
    expect(end, connection, "by itsel", 8);
    expect(end, connection, "abc", 3);
    expect(end, connection, "apart", 65);
    expect(end, connection, "defgh", 5);
    expect(end, connection, "last", 4);
    end_meet(end);
    CHECK_CALL(end->net.end->close_receive(connection));
}

static void send_one(struct end *end, void *connection, size_t size)
{
    void *request = NULL;
    CHECK_CALL(net_send(&end->net, connection, data, size, NULL, &request));
    CHECK_CALL(end_wait(end, request, NULL));
}

static void send_in_heads(struct end *end)
{
    memcpy(data, "short and long", 15);
    void *connection = sending(end);
    send_one(end, connection, 15);
    send_one(end, connection, 15);
    send_one(end, connection, 4097);
    send_one(end, connection, 15);
    end_meet(end);
    CHECK_CALL(end->net.end->close_send(connection));
}

static void hear_heads(struct end *end)
{
    char bytes[4097];
    struct roomy roomy;
    tutti_unique_id_t id;
    tutti_result_t (*new_id)(tutti_unique_id_t *) = net_symbol("tutti_get_unique_id");
    CHECK(new_id(&id) == TUTTI_SUCCESS);
    end_tell(end, id.bytes, sizeof id.bytes);
    tutti_comm_t comm = join(&id, NET_RECEIVER);
    hear(comm, &roomy.head, sizeof roomy.head);
    CHECK(roomy.head.mark == MARK && roomy.head.count == 1 && roomy.head.room == 64);
    hear(comm, bytes, 15);
    CHECK(!strcmp(bytes, "short and long"));
    hear(comm, &roomy, sizeof roomy);
    CHECK(roomy.head.room == 64 && roomy.head.payload[0].size == 15 && !strcmp(roomy.bytes, "short and long"));
    hear(comm, &roomy, sizeof roomy); /* the next one is too long for its room, and for any */
    CHECK(roomy.head.room == 0 && roomy.head.payload[0].size == 4097);
    hear(comm, bytes, 4097);
    hear(comm, &roomy.head, sizeof roomy.head);
    hear(comm, bytes, 15);
    end_meet(end);
    leave(comm);
}

static void test_heads(void **state)
{
    assert_true(driver_pair(11, receive_from_heads, speak_in_heads));
    assert_true(driver_pair(11, hear_heads, send_in_heads));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gone_killed),  cmocka_unit_test(test_stopped),       cmocka_unit_test(test_gone_closed),
        cmocka_unit_test(test_last_message), cmocka_unit_test(test_not_connected), cmocka_unit_test(test_one_place),
        cmocka_unit_test(test_refusals),     cmocka_unit_test(test_too_small),     cmocka_unit_test(test_lies),
        cmocka_unit_test(test_heads),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
