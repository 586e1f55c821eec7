/* SPDX-License-Identifier: Apache-2.0 */
/* Every state of the model of failover, for some shapes; and that the checker finds what was made wrong on purpose. */
#include "link/failover_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define BIT(kind)  (1u << (kind))
#define BREAKS     (BIT(MODEL_KILL) | BIT(MODEL_ALARM) | BIT(MODEL_REFUSE))
#define ALL_BREAKS (BREAKS | BIT(MODEL_GIVE_UP))
#define SUSPICION  (BIT(MODEL_SUSPECT) | BIT(MODEL_KILL) | BIT(MODEL_ALARM))
#define MOST       6000000u /* states */

/* 2 segments one way; these, and then 1 more into the same slot, asked for or by a credit that stands; 1 each way. */
#define ONE(from)                                                                                                      \
    1,                                                                                                                 \
    {                                                                                                                  \
        {                                                                                                              \
            from, 2, -1                                                                                                \
        }                                                                                                              \
    }
#define TWO                                                                                                            \
    2,                                                                                                                 \
    {                                                                                                                  \
        {0, 2, -1},                                                                                                    \
        {                                                                                                              \
            0, 1, 0                                                                                                    \
        }                                                                                                              \
    }
#define STANDS                                                                                                         \
    2,                                                                                                                 \
    {                                                                                                                  \
        {0, 1, -1},                                                                                                    \
        {                                                                                                              \
            0, 2, 0, true                                                                                              \
        }                                                                                                              \
    }
#define BOTH                                                                                                           \
    2,                                                                                                                 \
    {                                                                                                                  \
        {0, 1, -1},                                                                                                    \
        {                                                                                                              \
            1, 1, -1                                                                                                   \
        }                                                                                                              \
    }
#define REST(faults, kinds) faults, kinds, 2, true, MODEL_AS_IT_IS

static const struct model_shape shapes[] = {
    {"2 lanes", 2, 0, ONE(0), REST(1, ALL_BREAKS)},
    {"2 lanes, the other way", 2, 0, ONE(1), REST(1, ALL_BREAKS)},
    {"2 lanes, 2 payloads", 2, 0, TWO, REST(1, ALL_BREAKS | BIT(MODEL_CANCEL))},
    {"2 lanes, both ways", 2, 0, BOTH, REST(1, ALL_BREAKS)},
    {"2 lanes for data, 2 payloads", 1, 2, TWO, REST(1, ALL_BREAKS | BIT(MODEL_CANCEL))},
    {"1 lane for data, a credit that stands", 1, 1, STANDS, REST(1, ALL_BREAKS | BIT(MODEL_CANCEL))},
    {"2 lanes, a credit that stands", 2, 0, STANDS, REST(1, BIT(MODEL_KILL) | BIT(MODEL_ALARM))},
    {"1 lane for data", 1, 1, ONE(0), REST(2, ALL_BREAKS)},
    {"1 lane for data, the other way", 1, 1, ONE(1), REST(2, ALL_BREAKS)},
    {"2 lanes, suspicion, both ways", 2, 0, BOTH, REST(1, SUSPICION)},
    {"1 lane for data, suspicion", 1, 1, ONE(0), REST(1, SUSPICION)},
    {"2 lanes for data, suspicion", 1, 2, TWO, REST(1, SUSPICION)},
};

/* With TUTTI_TEST_FULL. */
static const struct model_shape long_shapes[] = {
    {"2 lanes", 2, 0, ONE(0), REST(2, ALL_BREAKS)},
    {"2 lanes, the other way", 2, 0, ONE(1), REST(2, ALL_BREAKS)},
    {"1 lane for data, 2 payloads", 1, 1, TWO, REST(2, BIT(MODEL_KILL) | BIT(MODEL_CANCEL))},
    {"1 lane for data, both ways", 1, 1, BOTH, REST(2, ALL_BREAKS)},
    {"2 lanes, suspicion", 2, 0, ONE(0), REST(2, SUSPICION)},
    {"1 lane for data, suspicion", 1, 1, ONE(0), REST(2, SUSPICION)},
};

static void print_way(const struct model_result *result)
{
    char text[80];
    for (int i = 0; i < result->length; i++) {
        model_print_action(result->way[i], text, sizeof text);
        print_message("    %s\n", text);
    }
}

/* With TUTTI_TEST_QUICK one fault is enough. */
static void check(const struct model_shape *given)
{
    struct model_result result;
    struct model_shape quick = *given, *shape = &quick;
    quick.faults = getenv("TUTTI_TEST_QUICK") ? 1 : given->faults;
    model_check(shape, MOST, NULL, &result);
    print_message("%s, %d faults: %llu states, %llu steps, over in %llu: %s\n", shape->name, shape->faults,
                  (unsigned long long)result.states, (unsigned long long)result.steps, (unsigned long long)result.ended,
                  result.wrong ? result.wrong : "good");
    if (result.wrong)
        print_way(&result);
    assert_null(result.wrong);
    assert_true(result.ended > 0);
}

static void test_every_state(void **state)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        check(&shapes[i]);
    for (size_t i = 0; getenv("TUTTI_TEST_FULL") && i < sizeof long_shapes / sizeof *long_shapes; i++)
        check(&long_shapes[i]);
}

/* Each mutation on the smallest shape that shows what is wrong with it, and what the checker says. */
static const struct {
    enum model_mutation mutation;
    struct model_shape shape;
    const char *wrong;
} mutants[] = {
    {MODEL_NO_CONFIRMATION, {"", 2, 0, ONE(0), REST(1, BREAKS)}, "a late write: the buffer was given back"},
    {MODEL_OK_UNCLOSED, {"", 2, 0, ONE(0), REST(1, BREAKS)}, "a late write: the buffer was given back"},
    {MODEL_OK_CONNECTING, {"", 1, 1, ONE(1), REST(2, BREAKS)}, "a segment arrives twice"},
    {MODEL_NO_HAVE, {"", 1, 1, ONE(0), REST(1, BREAKS)}, "a segment arrives twice"},
    {MODEL_OK_BEFORE_HAVE, {"", 1, 1, ONE(0), REST(1, BREAKS)}, "a segment arrives twice"},
    {MODEL_UNCONFIRMED_USED, {"", 1, 1, ONE(0), REST(1, BREAKS)}, "a late write: the buffer was given back"},
    {MODEL_NO_RESEND, {"", 2, 0, ONE(0), REST(1, BREAKS)}, "no way to an end without another fault"},
    {MODEL_NO_SEQUENCE, {"", 2, 0, ONE(0), REST(1, BREAKS)}, "a second credit"},
    {MODEL_SAY_NOTHING, {"", 2, 0, ONE(0), REST(1, BREAKS)}, "no way to an end without another fault"},
    {MODEL_NO_REVOKE, {"", 1, 1, ONE(0), REST(1, BIT(MODEL_CANCEL))}, "a late write: the receive was given up"},
    {MODEL_SUSPECT_AGAIN, {"", 1, 2, ONE(0), REST(1, BIT(MODEL_SUSPECT))}, "a late write: the buffer was given back"},
    {MODEL_SUSPECT_SILENT, {"", 2, 0, ONE(0), REST(1, BIT(MODEL_SUSPECT))}, "a message overtakes another"},
    {MODEL_RETIRE_OPEN, {"", 1, 2, ONE(0), REST(1, BIT(MODEL_SUSPECT))}, "a send is over while a lane reads it"},
    {MODEL_STANDS_UNDONE, {"", 1, 1, STANDS, REST(1, BIT(MODEL_KILL))}, "a late write: the buffer was given back"},
};

static void test_mutations_are_found(void **state)
{
    for (size_t i = 0; i < sizeof mutants / sizeof *mutants; i++) {
        struct model_shape shape = mutants[i].shape;
        struct model_result result;
        if (shape.faults == 1) { /* the others are among the shapes above */
            model_check(&shape, MOST, NULL, &result);
            assert_null(result.wrong);
        }
        shape.mutation = mutants[i].mutation;
        model_check(&shape, MOST, NULL, &result);
        print_message("mutation %d: %s, after %d steps\n", (int)shape.mutation,
                      result.wrong ? result.wrong : "not found", result.length);
        assert_non_null(result.wrong);
        assert_string_equal(result.wrong, mutants[i].wrong);
    }
    assert_int_equal(sizeof mutants / sizeof *mutants, MODEL_MUTATIONS - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_state), cmocka_unit_test(test_mutations_are_found)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
