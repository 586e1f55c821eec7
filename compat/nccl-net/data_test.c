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

/* ---- Several payloads in one receive ---- */

#define GROUPS 40
#define ROOM   70000 /* bytes of a buffer */

/* Payload `place` of group `number`: its tag, which some share, and its length. The same at both ends. */
static int tag_of(int number, int place)
{
    return number % 3 ? place : place / 2;
}

static size_t length_of(int number, int place)
{
    static const size_t lengths[] = {8, 0, ROOM, 1, 4099, 65537};
    return lengths[(number + 5 * place) % 6];
}

static int count_of(int number)
{
    return 1 + number * 5 % DRIVER_GROUPED;
}

static uint64_t seed_of(int number, int place)
{
    return (uint64_t)number * 1000003 + (uint64_t)place;
}

/* From the last tag to the first; those of one tag in their order. */
static void send_groups(struct end *end)
{
    static unsigned char buffer[2 * DRIVER_GROUPED][ROOM];
    void *connection, *request[2 * DRIVER_GROUPED] = {NULL};
    int sent = 0;
    end_connect(end, &connection, NULL);
    for (int number = 0; number < GROUPS; number++)
        for (int tag = DRIVER_GROUPED; tag >= 0; tag--)
            for (int place = 0; place < count_of(number); place++) {
                int at = sent % (2 * DRIVER_GROUPED);
                if (tag_of(number, place) != tag)
                    continue;
                if (sent++ >= 2 * DRIVER_GROUPED)
                    CHECK_CALL(end_wait(end, request[at], NULL));
                payload_fill(buffer[at], length_of(number, place), seed_of(number, place));
                CHECK_CALL(
                    net_send_as(&end->net, connection, tag, buffer[at], length_of(number, place), NULL, &request[at]));
                CHECK(request[at]);
            }
    for (int at = 0; at < 2 * DRIVER_GROUPED; at++)
        CHECK_CALL(end_wait(end, request[at], NULL));
    CHECK_CALL(end->net.end->close_send(connection));
}

struct grouped {
    unsigned char buffer[DRIVER_GROUPED][ROOM + 1];
    void *request;
};

static void post_group(const struct end *end, void *connection, struct grouped *group, int number)
{
    void *data[DRIVER_GROUPED];
    size_t sizes[DRIVER_GROUPED];
    int tags[DRIVER_GROUPED], count = count_of(number);
    for (int place = 0; place < count; place++) {
        data[place] = group->buffer[place];
        sizes[place] = number % 2 ? ROOM : length_of(number, place);
        tags[place] = tag_of(number, place);
        group->buffer[place][length_of(number, place)] = 0xa5;
    }
    CHECK_CALL(net_receive_grouped(&end->net, connection, count, data, sizes, tags, &group->request));
    CHECK(group->request);
}

static void check_group(const struct end *end, const struct grouped *group, int number)
{
    int sizes[DRIVER_GROUPED] = {0};
    CHECK_CALL(end_wait(end, group->request, sizes));
    for (int place = 0; place < count_of(number); place++) {
        CHECK((size_t)sizes[place] == length_of(number, place));
        CHECK(payload_is(group->buffer[place], length_of(number, place), seed_of(number, place)));
        CHECK(group->buffer[place][length_of(number, place)] == 0xa5);
    }
}

/* Three calls at a time. */
static void receive_groups(struct end *end)
{
    static struct grouped group[3];
    void *connection;
    end_connect(end, NULL, &connection);
    for (int number = 0; number < GROUPS + 3; number++) {
        if (number >= 3)
            check_group(end, &group[number % 3], number - 3);
        if (number < GROUPS)
            post_group(end, connection, &group[number % 3], number);
    }
    CHECK_CALL(end->net.end->close_receive(connection));
}

static void test_groups(void **state)
{
    for (int version = 8; version <= 11; version += 3)
        assert_true(driver_pair(version, receive_groups, send_groups));
}

/* ---- Receives in another order than sends ---- */

#define AHEAD 40 /* more than NCCL may have under way */

/* Messages of two tags in turn; the last one of tag 1 is never received. */
static void send_in_turn(struct end *end)
{
    static unsigned char buffer[2][AHEAD][4099];
    void *connection, *request[2][AHEAD] = {{NULL}};
    end_connect(end, &connection, NULL);
    for (int i = 0; i < AHEAD; i++)
        for (int tag = 1; tag <= 2; tag++) {
            unsigned char *data = buffer[tag - 1][i];
            void **at = &request[tag - 1][i];
            payload_fill(data, sizeof buffer[0][0], seed_of(i, tag));
            for (int wait = 0; !*at; wait = 0) {
                CHECK_CALL(net_send_as(&end->net, connection, tag, data, sizeof buffer[0][0], NULL, at));
                for (int tested = 0; !*at && tested < i; tested++) /* as many as may be are under way */
                    for (int other = 0; other < 2; other++)
                        if (request[other][tested]) {
                            CHECK_CALL(end->net.end->test(request[other][tested], &wait, NULL));
                            request[other][tested] = wait ? NULL : request[other][tested];
                        }
            }
        }
    for (int i = 0; i < AHEAD; i++)
        for (int tag = 0; tag < 2; tag++)
            if (request[tag][i])
                CHECK_CALL(end_wait(end, request[tag][i], NULL));
    end_meet(end);
    CHECK_CALL(end->net.end->close_send(connection));
}

/* All of tag 2 first, though those of tag 1 come between. */
static void receive_crossed(struct end *end)
{
    static unsigned char buffer[4099];
    void *connection;
    end_connect(end, NULL, &connection);
    for (int tag = 2; tag >= 1; tag--)
        for (int i = 0; i < AHEAD - (tag == 1); i++) {
            int size = 0;
            void *request, *data = buffer;
            size_t room = sizeof buffer;
            CHECK_CALL(net_receive_grouped(&end->net, connection, 1, &data, &room, (int[]){tag}, &request));
            CHECK_CALL(end_wait(end, request, &size));
            CHECK(size == (int)sizeof buffer && payload_is(buffer, sizeof buffer, seed_of(i, tag)));
        }
    end_meet(end);
    CHECK_CALL(end->net.end->close_receive(connection));
}

static void send_one(const struct end *end, void *connection, int tag)
{
    void *request;
    CHECK_CALL(net_send_as(&end->net, connection, tag, &tag, sizeof tag, NULL, &request));
    CHECK_CALL(end_wait(end, request, NULL));
}

/* Tag 1 only after the other end has got tag 2. */
static void send_after_word(struct end *end)
{
    char word;
    void *connection;
    end_connect(end, &connection, NULL);
    send_one(end, connection, 2);
    end_hear(end, &word, 1);
    send_one(end, connection, 1);
    end_meet(end);
    CHECK_CALL(end->net.end->close_send(connection));
}

/* Waits for tag 1 first. */
static void receive_before_word(struct end *end)
{
    int got[2] = {0}, done = 0;
    size_t room = sizeof *got;
    void *connection, *request[2], *data[2] = {&got[0], &got[1]};
    end_connect(end, NULL, &connection);
    CHECK_CALL(net_receive_grouped(&end->net, connection, 1, &data[0], &room, (int[]){1}, &request[0]));
    for (int i = 0; i < 300; i++) { /* in which tag 2 comes, and more is asked for */
        CHECK_CALL(end->net.end->test(request[0], &done, NULL));
        CHECK(!done);
        usleep(100);
    }
    CHECK_CALL(net_receive_grouped(&end->net, connection, 1, &data[1], &room, (int[]){2}, &request[1]));
    CHECK_CALL(end_wait(end, request[1], NULL));
    end_tell(end, "", 1);
    CHECK_CALL(end_wait(end, request[0], NULL));
    CHECK(got[0] == 1 && got[1] == 2);
    end_meet(end);
    CHECK_CALL(end->net.end->close_receive(connection));
}

static void test_crossed(void **state)
{
    assert_true(driver_pair(11, receive_before_word, send_after_word));
    assert_true(driver_pair(10, receive_crossed, send_in_turn));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_versions),     cmocka_unit_test(test_receives_first),
        cmocka_unit_test(test_sends_first),  cmocka_unit_test(test_many_connections),
        cmocka_unit_test(test_one_process),  cmocka_unit_test(test_two_threads),
        cmocka_unit_test(test_loaded_again), cmocka_unit_test(test_cut_lanes),
        cmocka_unit_test(test_groups),       cmocka_unit_test(test_crossed),
    };
    if (argc > 1 && argv[1][0] == '-')
        cmocka_set_skip_filter(argv[1] + 1);
    else if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed || !driver_runs;
}
