/* SPDX-License-Identifier: Apache-2.0 */
/* Connections that come about halfway: nobody accepts, or who accepts does not answer, answers in parts, or hangs up.
 */
#include "base/clock.h"
#include "base/param.h"
#include "transport/common.h"
#include "transport/connector.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#define GREETING "hello"
#define ANSWER   "welcome"

struct fixture {
    struct poller *poller;
    struct transport transport;
    struct connector connector;
    int listening;
    struct net_address address;
    int answered, failed, error;
    const char *what;
};

static void answered(struct connector *connector)
{
    container_of(connector, struct fixture, connector)->answered++;
}

static void failed(struct connector *connector, const char *what, int error)
{
    struct fixture *fixture = container_of(connector, struct fixture, connector);
    fixture->failed++;
    fixture->what = what;
    fixture->error = error;
    connector_close(connector);
}

static void reap(struct lane *lane)
{
    (void)lane;
}

static int start_with(const char *patience, void **state)
{
    static const struct transport_ops ops = {.name = "none"};
    static const struct transport_owner owner;
    struct fixture *fixture = calloc(1, sizeof *fixture);
    setenv("TUTTI_TIMEOUT", patience, 1);
    param_reload();
    assert_int_equal(poller_open(&fixture->poller), TUTTI_SUCCESS);
    assert_int_equal(transport_init(&fixture->transport, &ops, &owner, fixture->poller, reap), TUTTI_SUCCESS);
    fixture->address.v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    fixture->listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t size = sizeof fixture->address.v4;
    assert_int_equal(bind(fixture->listening, &fixture->address.any, size), 0);
    assert_int_equal(listen(fixture->listening, 0), 0);
    assert_int_equal(getsockname(fixture->listening, &fixture->address.any, &size), 0);
    fixture->connector = (struct connector){.transport = &fixture->transport,
                                            .source.fd = -1,
                                            .greeting = GREETING,
                                            .greeting_size = sizeof GREETING,
                                            .size = sizeof ANSWER,
                                            .answered = answered,
                                            .failed = failed};
    *state = fixture;
    return 0;
}

static int start(void **state)
{
    return start_with("100s", state);
}

/* For a peer that does not answer. */
static int start_in_haste(void **state)
{
    return start_with("1s", state);
}

static int end(void **state)
{
    struct fixture *fixture = *state;
    connector_close(&fixture->connector);
    transport_fini(&fixture->transport);
    poller_close(fixture->poller);
    close(fixture->listening);
    free(fixture);
    return 0;
}

static int client(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    return fd;
}

static void wait_for(struct fixture *fixture, const int *count)
{
    uint64_t deadline = clock_deadline_ms(20000);
    while (!*count) {
        assert_false(clock_passed(deadline));
        poller_wait(fixture->transport.inner, 10);
    }
}

/* Accepts, and reads the greeting. */
static int accept_one(struct fixture *fixture)
{
    char said[sizeof GREETING];
    assert_true(connector_start(&fixture->connector, client(), &fixture->address));
    int fd = accept(fixture->listening, NULL, NULL);
    assert_true(fd >= 0);
    poller_wait(fixture->transport.inner, 1000);
    assert_int_equal(recv(fd, said, sizeof said, MSG_WAITALL), sizeof said);
    assert_string_equal(said, GREETING);
    return fd;
}

static void test_answered_in_parts(void **state)
{
    struct fixture *fixture = *state;
    int fd = accept_one(fixture);
    for (size_t i = 0; i < sizeof ANSWER; i++) {
        assert_int_equal(fixture->answered, 0);
        assert_int_equal(send(fd, ANSWER + i, 1, 0), 1);
        poller_wait(fixture->transport.inner, 1000);
    }
    assert_int_equal(fixture->answered, 1);
    assert_string_equal((char *)fixture->connector.answer, ANSWER);
    int taken = connector_take(&fixture->connector);
    assert_true(taken >= 0);
    close(taken);
    close(fd);
}

/* Given up while there is time for another attempt. */
static void test_never_answered(void **state)
{
    struct fixture *fixture = *state;
    int fd = accept_one(fixture);
    assert_true(fixture->connector.deadline.at < clock_ns() + 900 * NS_PER_MS);
    wait_for(fixture, &fixture->failed);
    assert_int_equal(fixture->error, ETIMEDOUT);
    assert_string_equal(fixture->what, "the peer does not answer our greeting");
    close(fd);
}

static void test_hung_up(void **state)
{
    struct fixture *fixture = *state;
    close(accept_one(fixture));
    wait_for(fixture, &fixture->failed);
    assert_string_equal(fixture->what, "the peer did not take our greeting");
    assert_int_equal(fixture->error, 0);
}

/* A process that is stopped answers nothing; that connections to it are cut on the way says nothing of the process. */
static void test_cut_on_the_way(void **state)
{
    struct fixture *fixture = *state;
    const struct carrier carrier = {.up = false};
    int fd = accept_one(fixture);
    assert_int_equal(shutdown(fixture->connector.source.fd, SHUT_RDWR), 0);
    wait_for(fixture, &fixture->failed);
    assert_int_equal(fixture->error, ECONNABORTED);
    assert_int_equal(carrier_why(&carrier, ECONNABORTED), TUTTI_SYSTEM_ERROR);
    assert_int_equal(carrier_why(&carrier, ECONNRESET), TUTTI_SYSTEM_ERROR);
    assert_int_equal(carrier_why(&carrier, ECONNREFUSED), TUTTI_REMOTE_ERROR);
    close(fd);
}

/* A listener with one place, which is taken, lets nobody else in. */
static void test_never_accepted(void **state)
{
    struct fixture *fixture = *state;
    int other = client();
    assert_true(connect(other, &fixture->address.any, sizeof fixture->address.v4) == 0 || errno == EINPROGRESS);
    usleep(1000);
    assert_true(connector_start(&fixture->connector, client(), &fixture->address));
    wait_for(fixture, &fixture->failed);
    assert_int_equal(fixture->error, ETIMEDOUT);
    assert_string_equal(fixture->what, "cannot connect");
    close(other);
}

static void test_nobody_listens(void **state)
{
    struct fixture *fixture = *state;
    close(fixture->listening);
    int fd = client();
    if (connector_start(&fixture->connector, fd, &fixture->address)) {
        wait_for(fixture, &fixture->failed);
        assert_int_equal(fixture->error, ECONNREFUSED);
    } else {
        assert_int_equal(errno, ECONNREFUSED);
        close(fd);
    }
    fixture->listening = -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_answered_in_parts, start, end),
        cmocka_unit_test_setup_teardown(test_never_answered, start_in_haste, end),
        cmocka_unit_test_setup_teardown(test_hung_up, start, end),
        cmocka_unit_test_setup_teardown(test_cut_on_the_way, start, end),
        cmocka_unit_test_setup_teardown(test_never_accepted, start_in_haste, end),
        cmocka_unit_test_setup_teardown(test_nobody_listens, start, end),
    };
    return cmocka_run_group_tests_name("connector", tests, NULL, NULL);
}
