/* SPDX-License-Identifier: Apache-2.0 */
/* Every n-th system call or allocation fails once while three ranks meet: success or a clean error, never a hang. */
#include "bootstrap/bootstrap_testing.h"
#include "inject.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <unistd.h>

#define RANKS 3

static bool clean(tutti_result_t result)
{
    return result == TUTTI_SUCCESS || result == TUTTI_SYSTEM_ERROR || result == TUTTI_REMOTE_ERROR;
}

/* Meets once with a failure armed. Returns the number of failures made. */
static unsigned long meet_with(const char *specification, unsigned deadline_ms, bool must_succeed)
{
    struct test_root root;
    struct test_rank ranks[RANKS] = {0};
    for (int i = 0; i < RANKS; i++) {
        ranks[i].rounds = 1;
        ranks[i].size = 40;
    }
    assert_true(inject_arm(specification));
    tutti_result_t result = test_root_start(&root, NULL);
    bool started =
        result == TUTTI_SUCCESS && test_ranks_start(ranks, &root.id, 0, RANKS, RANKS, clock_deadline_ms(deadline_ms));
    if (started)
        test_ranks_join(ranks, RANKS);
    unsigned long fired = inject_disarm();
    if (result == TUTTI_SUCCESS)
        test_root_stop(&root);
    assert_true(clean(result));
    for (int i = 0; i < RANKS && started; i++) {
        if (!clean(ranks[i].result) || ranks[i].wrong || (must_succeed && ranks[i].result != TUTTI_SUCCESS))
            fail_msg("%s: rank %d: %s: %s", specification, i, error_name(ranks[i].result), ranks[i].sentence);
        if (ranks[i].result != TUTTI_SUCCESS && !*ranks[i].sentence)
            fail_msg("%s: rank %d failed without a sentence", specification, i);
    }
    return fired;
}

static void sweep(const char *function)
{
    char specification[64];
    int n = 1;
    for (unsigned long fired = 1; fired; n++) {
        alarm(60);
        snprintf(specification, sizeof specification, "%s:%d", function, n);
        fired = meet_with(specification, 200, false);
    }
    print_message("%s: %d meetings\n", function, n - 1);
    alarm(0);
}

static void every_call(void **state)
{
    sweep("any");
}

static void each_function(void **state)
{
    static const char *const functions[] = {"malloc", "calloc",  "connect", "accept4",   "send",    "sendmsg",
                                            "recv",   "recvmsg", "socket",  "epoll_ctl", "eventfd", "poll"};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        sweep(functions[i]);
}

static void from_then_on(void **state)
{
    static const char *const specifications[] = {"malloc:5+",  "socket:3+",  "recv:6+",
                                                 "accept4:2+", "connect:1+", "epoll_ctl:7+"};
    alarm(120);
    for (size_t i = 0; i < sizeof specifications / sizeof *specifications; i++)
        meet_with(specifications[i], 200, false);
    alarm(0);
}

static void short_transfers(void **state)
{
    alarm(300);
    meet_with("short:1", 60000, true);
    meet_with("short:7", 60000, true);
    meet_with("short:100", 60000, true);
    alarm(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_transfers),
        cmocka_unit_test(from_then_on),
        cmocka_unit_test(each_function),
        cmocka_unit_test(every_call),
    };
    if (!inject_present()) {
        fprintf(stderr, "SKIPPED: run with LD_PRELOAD=libinject.so\n");
        return 77;
    }
    test_setup();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
