/* SPDX-License-Identifier: Apache-2.0 */
/* Without memory: the first, second, third... allocation fails, and each call says so, leaks nothing and does not
 * crash. Linked with calloc and realloc wrapped. */
#include "algorithm/algorithm.h"
#include "algorithm/choice.h"
#include "schedule/checker.h"
#include "schedule/cost.h"
#include "schedule/printer.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size);

static int left = INT_MAX; /* allocations that still succeed */

static bool fails(void)
{
    return left-- <= 0;
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return fails() ? NULL : __real_realloc(old, size);
}

typedef tutti_result_t (*call_fn)(void);

/* Succeeds in the end; until then, every result is a failure. */
static void starve(call_fn call)
{
    int failures = 0;
    tutti_result_t result;
    do {
        left = failures;
        result = call();
        left = INT_MAX;
        if (result)
            failures++;
    } while (result && failures < 1000);
    assert_int_equal(result, TUTTI_SUCCESS);
    assert_true(failures > 0);
}

static const struct shape shape = {COLL_ALLREDUCE, 4, 0};

static const struct algorithm *ring(void)
{
    return algorithm_find(COLL_ALLREDUCE, "ring", 4);
}

static tutti_result_t check(void)
{
    char why[200];
    return schedule_check(ring(), shape, false, why, sizeof why);
}

static tutti_result_t walk(void)
{
    struct cost_terms terms;
    return cost_walk(ring(), &shape, &terms);
}

static tutti_result_t walk_without_closed_form(void)
{
    struct algorithm row = *ring();
    struct cost_terms terms;
    row.cost = NULL;
    return cost_terms(&row, &shape, &terms);
}

static FILE *nowhere;

static tutti_result_t print(void)
{
    return printer_text(nowhere, ring(), &shape, -1);
}

static tutti_result_t draw(void)
{
    return printer_svg(nowhere, ring(), &shape);
}

static char path[] = "/tmp/tutti-memory-XXXXXX";

static tutti_result_t choose(void)
{
    struct choice_table *table;
    tutti_result_t result = choice_open_with("ring", path, &table);
    if (!result)
        choice_close(table);
    return result;
}

static tutti_result_t save(void)
{
    const struct choice_rule rules[] = {{COLL_ALLREDUCE, 1, false, 1, 5, 6, ring()},
                                        {COLL_ALLREDUCE, 2, true, 1, 5, 6, ring()}};
    return choice_save(path, "comment", rules, 2);
}

static void calls_without_memory(void **state)
{
    int file = mkstemp(path);
    nowhere = fopen("/dev/null", "w");
    assert_true(file >= 0 && nowhere);
    starve(check);
    starve(walk);
    starve(walk_without_closed_form);
    starve(print);
    starve(draw);
    assert_int_equal(save(), TUTTI_SUCCESS);
    starve(choose);
    choice_close(NULL);
    close(file);
    unlink(path);
    fclose(nowhere);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
