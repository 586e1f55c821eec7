/* SPDX-License-Identifier: Apache-2.0 */
/* A sender that floods or invents hosts is refused, and others are not. Refusals are said, and not too often. */
#include "serve/sources.h"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct sources *sources;
static uint64_t now;
static char sentence[SERVE_SENTENCE];

static int begin(void **state)
{
    now = 1000 * NS_PER_S;
    sources = sources_open("test");
    return sources ? 0 : -1;
}

static int end(void **state)
{
    sources_close(sources);
    return 0;
}

static unsigned tell(const char *from, unsigned number)
{
    char host[32];
    snprintf(host, sizeof host, "host%u", number);
    *sentence = 0;
    return sources_admit(sources, from, host, now, sentence);
}

static void test_flood(void **state)
{
    for (unsigned i = 0; i < SOURCES_BURST; i++)
        assert_int_equal(tell("10.0.0.1", 1), 0);
    assert_int_equal(tell("10.0.0.1", 1), 429);
    assert_string_equal(sentence, "more than 20 reports of host host1 in a second");
    assert_int_equal(tell("10.0.0.2", 1), 0);
    assert_int_equal(tell("10.0.0.1", 2), 0);
    for (unsigned i = 0; i < 500; i++) { /* as fast as is allowed, for a while */
        now += NS_PER_S / SOURCES_RATE;
        assert_int_equal(tell("10.0.0.1", 1), 0);
    }
    assert_int_equal(tell("10.0.0.1", 1), 429);
    now += 3600 * NS_PER_S;
    for (unsigned i = 0; i < SOURCES_BURST; i++)
        assert_int_equal(tell("10.0.0.1", 1), 0);
    assert_int_equal(tell("10.0.0.1", 1), 429);
}

static void test_invented_hosts(void **state)
{
    for (unsigned i = 0; i < SOURCES_FROM_ONE; i++)
        assert_int_equal(tell("10.0.0.1", i), 0);
    assert_int_equal(tell("10.0.0.1", SOURCES_FROM_ONE), 403);
    assert_string_equal(sentence, "10.0.0.1 has named 1024 hosts, and host host1024 is one too many");
    assert_int_equal(tell("10.0.0.1", 5), 0); /* a host that it was allowed to name goes on */
    assert_int_equal(tell("10.0.0.2", 5), 0);
    now += 599 * NS_PER_S;
    assert_int_equal(tell("10.0.0.1", 5), 0);
    now += 2 * NS_PER_S; /* the others are silent for long enough */
    assert_int_equal(tell("10.0.0.1", SOURCES_FROM_ONE), 0);
    assert_int_equal(tell("10.0.0.1", 5), 0);
}

static void test_all_invent(void **state)
{
    char from[32];
    for (unsigned i = 0; i < SOURCES_HOSTS; i++) {
        snprintf(from, sizeof from, "10.0.0.%u", i / 1000);
        assert_int_equal(tell(from, i), 0);
    }
    assert_int_equal(tell("10.1.0.0", 1), 403);
    assert_string_equal(sentence, "no room for host host1: 65536 have been named");
    assert_int_equal(tell("10.0.0.0", 1), 0);
    now += 599 * NS_PER_S; /* half of one address go on: the others make room */
    for (unsigned i = 0; i < 500; i++)
        assert_int_equal(tell("10.0.0.0", i), 0);
    now += 2 * NS_PER_S;
    assert_int_equal(tell("10.1.0.0", 1), 0);
    for (unsigned i = 0; i < 1000; i++)
        assert_int_equal(tell("10.0.0.0", i), 0);
    for (unsigned i = 1000; i < SOURCES_FROM_ONE; i++)
        assert_int_equal(tell("10.0.0.0", i), 0);
    assert_int_equal(tell("10.0.0.0", SOURCES_FROM_ONE), 403);
}

static void test_said(void **state)
{
    assert_string_equal(sources_complaint(sources), "");
    sources_refused(sources, "10.0.0.1", "it lies", now);
    assert_string_equal(sources_complaint(sources), "10.0.0.1 was refused, 1 times so far: it lies");
    sources_refused(sources, "10.0.0.2", "it lies, too", now); /* not all in one second */
    now += 2 * NS_PER_S;
    sources_refused(sources, "10.0.0.1", "it lies", now); /* not within a minute */
    assert_string_equal(sources_complaint(sources), "10.0.0.1 was refused, 1 times so far: it lies");
    sources_refused(sources, "10.0.0.2", "it lies, too", now);
    assert_string_equal(sources_complaint(sources), "10.0.0.2 was refused, 2 times so far: it lies, too");
    now += 60 * NS_PER_S;
    sources_refused(sources, "10.0.0.1", "it lies", now);
    assert_string_equal(sources_complaint(sources), "10.0.0.1 was refused, 3 times so far: it lies");
    now += 60 * NS_PER_S;
    sources_heard(sources, "10.0.0.3", "10.1.0.1 was refused", now);
    assert_string_equal(sources_complaint(sources), "the agent at 10.0.0.3 says: 10.1.0.1 was refused");
    now += 60 * NS_PER_S;
    sources_refused(sources, "10.0.0.4", "no", now);
    now += 60 * NS_PER_S;
    sources_heard(sources, "10.0.0.3", "10.1.0.1 was refused", now); /* the agent says so again and again */
    assert_string_equal(sources_complaint(sources), "10.0.0.4 was refused, 1 times so far: no");
    for (int i = 0; i < 1000; i++) { /* more than are remembered */
        char from[32];
        snprintf(from, sizeof from, "10.2.0.%d", i);
        now += 2 * NS_PER_S;
        sources_refused(sources, from, "no", now);
    }
    assert_string_equal(sources_complaint(sources), "10.2.0.999 was refused, 1 times so far: no");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(test_flood, begin, end),
                                       cmocka_unit_test_setup_teardown(test_invented_hosts, begin, end),
                                       cmocka_unit_test_setup_teardown(test_all_invent, begin, end),
                                       cmocka_unit_test_setup_teardown(test_said, begin, end)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
