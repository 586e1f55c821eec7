/* SPDX-License-Identifier: Apache-2.0 */
/* The reading of /proc/stat for a set of processors, and the limit for a measurement. */
#include "cli/noise.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void ticks(void **state)
{
    static const char text[] = "cpu  1111 2222 3333 4444 5 6 7 8 9 10\n"
                               "cpu0 10 20 30 400 5 6 7 8 100 100\n"
                               "cpu1 1 1 1 1 1 1 1 1 0 0\n"
                               "cpu12 1000 0 0 0 0 0 0 0 0 0\n"
                               "cpu3 5 0 0 7\n"
                               "intr 12345 cpu0 9 9 9 9 9 9 9 9\n";
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(0, &set);
    CPU_SET(3, &set);
    struct noise_ticks sum = noise_ticks(text, &set);
    assert_int_equal(sum.used, 10 + 20 + 30 + 6 + 7 + 5);
    assert_int_equal(sum.stolen, 8);
    assert_int_equal(sum.all, 10 + 20 + 30 + 400 + 5 + 6 + 7 + 8 + 5 + 7);
    sum = noise_ticks("", &set);
    assert_int_equal(sum.all, 0);
}

static bool loud(struct noise noise, int ranks, const char *sentence)
{
    char out[300];
    bool answer = noise_is_loud(&noise, ranks, out, sizeof out);
    assert_non_null(strstr(out, sentence));
    return answer;
}

static void judged(void **state)
{
    const struct noise quiet = {.processors = 4, .used = 0.1, .stolen = 0.01, .median_us = 1000, .late_us = 1100};
    struct noise noise = quiet;
    assert_false(loud(quiet, 4, "other processes use 0.10 of the 4 processors, other machines of the host 0.01"));
    noise.used = 1.1;
    assert_true(loud(noise, 4, "use 1.10 of the 4"));
    assert_false(loud(noise, 3, "use 1.10 of the 4")); /* there is a processor for that */
    assert_true(loud(noise, 8, "use 1.10 of the 4"));
    noise = quiet;
    noise.stolen = 0.3;
    assert_true(loud(noise, 2, "of the host 0.30"));
    noise = quiet;
    noise.late_us = 1700;
    assert_true(loud(noise, 2, "takes 1000 us, but 1 time of 10 more than 1700 us"));
}

static void pairs(void **state)
{
    struct noise_pairs pairs = {0};
    assert_false(noise_is_between(&pairs));
    for (int i = 0; i < 18; i++)
        noise_pair(&pairs, 10, i % 2 ? 14 : 7);
    noise_pair(&pairs, 0, 3); /* was not measured */
    noise_pair(&pairs, 10, 16);
    noise_pair(&pairs, 16, 10);
    assert_int_equal(pairs.all, 20);
    assert_int_equal(pairs.apart, 2);
    assert_false(noise_is_between(&pairs));
    noise_pair(&pairs, 16, 10);
    assert_true(noise_is_between(&pairs));
}

/* Measures this machine, whatever it does meanwhile. */
static void looked(void **state)
{
    char out[300];
    struct noise noise = noise_look();
    assert_true(noise.processors > 0);
    assert_true(noise.used >= 0 && noise.used <= noise.processors + 0.01);
    assert_true(noise.median_us > 0 && noise.late_us >= noise.median_us);
    noise_is_loud(&noise, 1, out, sizeof out);
    assert_non_null(strstr(out, "us"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(ticks), cmocka_unit_test(judged), cmocka_unit_test(pairs),
                                       cmocka_unit_test(looked)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
