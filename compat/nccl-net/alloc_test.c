/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that cannot be had, at every place in turn: an error or none, nothing left behind, and the next try is right.
 */
#include "nccl-net/driver.h"
#include "inject.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define MOST 2000 /* places */

enum { BYTES = 5000, MESSAGES = 3 };

struct both {
    void *listener, *sends, *receives;
};

static enum net_result connect_both(const struct end *end, struct both *both)
{
    unsigned char handle[NET_HANDLE];
    enum net_result result = net_listen(&end->net, 0, handle, &both->listener);
    while (result == NET_SUCCESS && (!both->sends || !both->receives)) {
        if (!both->receives)
            result = end->net.memory->accept(both->listener, &both->receives, &(void *){NULL});
        if (result == NET_SUCCESS && !both->sends)
            result = net_connect(&end->net, 0, handle, &both->sends);
        usleep(100);
    }
    return result;
}

static enum net_result carry(const struct end *end, const struct both *both)
{
    unsigned char from[BYTES], to[BYTES] = {0}, other[8] = {0}; /* the other one comes first, and is kept */
    void *send = NULL, *receive = NULL, *sends_other = NULL, *receives_other = NULL, *data = other;
    int sent = 0, received = 0, size = 0;
    payload_fill(from, sizeof from, 1);
    enum net_result result = net_receive(&end->net, both->receives, to, sizeof to, NULL, &receive);
    if (result == NET_SUCCESS)
        result = net_send_as(&end->net, both->sends, DRIVER_TAG + 1, from, sizeof other, NULL, &sends_other);
    if (result == NET_SUCCESS)
        result = net_send(&end->net, both->sends, from, sizeof from, NULL, &send);
    while (result == NET_SUCCESS && (!sent || !received)) {
        if (!sent)
            result = end->net.end->test(send, &sent, NULL);
        if (result == NET_SUCCESS && !received)
            result = end->net.end->test(receive, &received, &size);
        usleep(100);
    }
    CHECK(result != NET_SUCCESS || (size == BYTES && payload_is(to, sizeof to, 1)));
    if (result == NET_SUCCESS)
        result = net_receive_grouped(&end->net, both->receives, 1, &data, (size_t[]){sizeof other},
                                     (int[]){DRIVER_TAG + 1}, &receives_other);
    if (result == NET_SUCCESS)
        result = end_wait(end, receives_other, NULL);
    if (result == NET_SUCCESS)
        result = end_wait(end, sends_other, NULL);
    CHECK(result != NET_SUCCESS || payload_is(other, sizeof other, 1));
    return result;
}

static enum net_result attempt(struct end *end)
{
    struct both both = {NULL, NULL, NULL};
    enum net_result result = net_init(&end->net);
    if (result != NET_SUCCESS)
        return result;
    result = connect_both(end, &both);
    for (int i = 0; i < MESSAGES && result == NET_SUCCESS; i++)
        result = carry(end, &both);
    if (both.listener)
        CHECK_CALL(end->net.end->close_listen(both.listener));
    if (both.sends)
        CHECK_CALL(end->net.end->close_send(both.sends));
    if (both.receives)
        CHECK_CALL(end->net.end->close_receive(both.receives));
    CHECK_CALL(end->net.v11->finalize(end->net.context));
    return result;
}

static void sweep(struct end *end, const char *function)
{
    unsigned long fired = 1;
    unsigned failed = 0;
    for (int n = 1; fired; n++) {
        char what[40];
        snprintf(what, sizeof what, "%s:%d", function, n);
        CHECK(n < MOST && inject_arm(what));
        enum net_result result = attempt(end);
        fired = inject_disarm();
        failed += result != NET_SUCCESS;
        CHECK(result == NET_SUCCESS || result == NET_SYSTEM_ERROR || result == NET_REMOTE_ERROR);
    }
    CHECK(failed);
    CHECK_CALL(attempt(end));
}

static void sweep_all(struct end *end)
{
    CHECK(inject_present());
    net_load(&end->net, 11);
    CHECK_CALL(attempt(end));
    sweep(end, "calloc");
    sweep(end, "malloc");
    dlclose(end->net.library);
}

static void test_no_memory(void **state)
{
    assert_true(driver_alone(0, sweep_all));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_no_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
