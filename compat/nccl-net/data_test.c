/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes arrive through the plugin as they were sent: all versions of the interface, sizes, orders of posting, many
 * connections, lanes that are cut meanwhile. Whatever TUTTI_ says of transports applies. Usage: data_test [TESTS], a
 * pattern, or -PATTERN: all but these.
 */
#include "nccl-net/flow.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

/* Connects `pairs` connections each way, and lets messages go over all of them at once. */
static void exchange(struct end *end, int pairs, int count, int cut_every, size_t room)
{
    struct net_flow *flows = calloc((size_t)pairs * 2, sizeof *flows);
    CHECK(flows);
    for (int i = 0; i < pairs; i++) {
        struct net_flow *out = &flows[2 * i], *in = &flows[2 * i + 1];
        *out = (struct net_flow){.end = end,
                                 .sends = true,
                                 .seed = (uint64_t)(i * 2 + end->side),
                                 .room = i ? 1 << 18 : room,
                                 .window = i ? 8 : 3,
                                 .count = count,
                                 .cut_every = cut_every};
        *in = *out;
        in->sends = false;
        in->cut_every = 0;
        in->seed = (uint64_t)(i * 2 + !end->side);
        end_connect(end, &out->connection, &in->connection);
        flow_open(out);
        flow_open(in);
    }
    flow_run(flows, 2 * pairs);
    CHECK(!cut_every || flows[0].cut);
    end_meet(end);                      /* an end that is through would not wait long for lanes that are cut */
    for (int i = 0; i < 2 * pairs; i++) /* the sends first here, the receives first there */
        flow_close(&flows[i ^ end->side]);
    free(flows);
}

static void exchange_some(struct end *end)
{
    exchange(end, 2, 36, 0, end->net.version == 11 ? 8 << 20 : 1 << 20);
}

static void test_versions(void **state)
{
    for (int version = 8; version <= 11; version++)
        assert_true(driver_pair(version, exchange_some, exchange_some));
}

static void exchange_while_cut(struct end *end)
{
    exchange(end, 2, 60, 12, 1 << 20);
}

static void test_cut_lanes(void **state)
{
    assert_true(driver_pair(11, exchange_while_cut, exchange_while_cut));
}

static void exchange_over_many(struct end *end)
{
    exchange(end, 24, 10, 0, 4096);
}

static void test_many_connections(void **state)
{
    assert_true(driver_pair(11, exchange_over_many, exchange_over_many));
}

/* ---- Send or receive posted first ---- */

static struct net_flow one_flow(struct end *end, bool sends, int window, int count)
{
    struct net_flow flow = {.end = end, .sends = sends, .seed = 5, .room = 1 << 20, .window = window, .count = count};
    end_connect(end, sends ? &flow.connection : NULL, sends ? NULL : &flow.connection);
    flow_open(&flow);
    return flow;
}

/* This end posts all that fits before the other one posts anything. */
static void post_first(struct end *end, bool sends)
{
    struct net_flow flow = one_flow(end, sends, NET_REQUESTS, 2 * NET_REQUESTS);
    flow_post(&flow);
    CHECK(flow.posted == NET_REQUESTS);
    void *request = &flow;
    unsigned char byte;
    CHECK_CALL(sends ? net_send(&end->net, flow.connection, &byte, 1, NULL, &request)
                     : net_receive(&end->net, flow.connection, &byte, 1, NULL, &request));
    CHECK(!request); /* no more are taken */
    for (int i = 0; i < 100; i++) {
        int done = 0, size;
        CHECK_CALL(end->net.end->test(flow.slot[NET_REQUESTS - 1].request, &done, &size));
        CHECK(!done);
    }
    end_tell(end, "", 1);
    flow_run(&flow, 1);
    flow_close(&flow);
}

static void post_last(struct end *end, bool sends)
{
    char byte;
    struct net_flow flow = one_flow(end, sends, 5, 2 * NET_REQUESTS);
    end_hear(end, &byte, 1);
    flow_run(&flow, 1);
    flow_close(&flow);
}

static void receive_first(struct end *end)
{
    post_first(end, false);
}
static void receive_last(struct end *end)
{
    post_last(end, false);
}
static void send_first(struct end *end)
{
    post_first(end, true);
}
static void send_last(struct end *end)
{
    post_last(end, true);
}

static void test_receives_first(void **state)
{
    assert_true(driver_pair(9, receive_first, send_last));
}

static void test_sends_first(void **state)
{
    assert_true(driver_pair(10, send_first, receive_last));
}

/* ---- Other shapes ---- */

/* Both ends of a connection in one process, in one thread. */
static void loop_back(struct end *end)
{
    unsigned char handle[NET_HANDLE];
    void *listener, *ends[2] = {NULL, NULL};
    CHECK_CALL(net_listen(&end->net, 0, handle, &listener));
    while (!ends[0] || !ends[1]) {
        if (!ends[0])
            CHECK_CALL(end->net.memory->accept(listener, &ends[0], &(void *){NULL}));
        if (!ends[1])
            CHECK_CALL(net_connect(&end->net, 0, handle, &ends[1]));
    }
    CHECK_CALL(end->net.end->close_listen(listener));
    struct net_flow flows[2];
    for (int i = 0; i < 2; i++) {
        flows[i] =
            (struct net_flow){.end = end, .connection = ends[i], .sends = i, .room = 1 << 20, .window = 8, .count = 30};
        flow_open(&flows[i]);
    }
    flow_run(flows, 2);
    flow_close(&flows[1]);
    flow_close(&flows[0]);
}

static void test_one_process(void **state)
{
    assert_true(driver_alone(11, loop_back));
}

/* NCCL closes the plugin with its last communicator, and opens it again for the next. */
static void exchange_twice(struct end *end)
{
    exchange(end, 1, 6, 0, 1 << 16);
    net_unload(&end->net);
    net_load(&end->net, end->net.version);
    CHECK_CALL(net_init(&end->net));
    exchange(end, 1, 6, 0, 1 << 16);
}

static void test_loaded_again(void **state)
{
    assert_true(driver_pair(11, exchange_twice, exchange_twice));
}

/* Two channels, each with a thread of its own that connects and one that sends: as two communicators of one process. */
static void *channel(void *argument)
{
    exchange(argument, 2, 12, 0, 1 << 20);
    return NULL;
}

static int second[2]; /* sockets of the second channel */

static void exchange_by_threads(struct end *end)
{
    pthread_t thread;
    struct end other = *end;
    other.socket = second[end->side];
    close(second[!end->side]);
    CHECK(!pthread_create(&thread, NULL, channel, &other));
    channel(end);
    CHECK(!pthread_join(thread, NULL));
}

static void test_two_threads(void **state)
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, second), 0);
    assert_true(driver_pair(10, exchange_by_threads, exchange_by_threads));
    close(second[0]);
    close(second[1]);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_versions),     cmocka_unit_test(test_receives_first),
        cmocka_unit_test(test_sends_first),  cmocka_unit_test(test_many_connections),
        cmocka_unit_test(test_one_process),  cmocka_unit_test(test_two_threads),
        cmocka_unit_test(test_loaded_again), cmocka_unit_test(test_cut_lanes),
    };
    if (argc > 1 && argv[1][0] == '-')
        cmocka_set_skip_filter(argv[1] + 1);
    else if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed || !driver_runs;
}
