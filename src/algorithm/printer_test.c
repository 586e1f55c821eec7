/* SPDX-License-Identifier: Apache-2.0 */
/* Printed schedules say what the schedule says: exact text of a small one, every message of a drawing an arrow. */
#include "algorithm/algorithm.h"
#include "base/error.h"
#include "schedule/printer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef tutti_result_t (*print_fn)(FILE *, const struct algorithm *, const struct shape *);

static tutti_result_t text_of_all(FILE *file, const struct algorithm *algorithm, const struct shape *shape)
{
    return printer_text(file, algorithm, shape, -1);
}

static tutti_result_t text_of_last(FILE *file, const struct algorithm *algorithm, const struct shape *shape)
{
    return printer_text(file, algorithm, shape, shape->nranks - 1);
}

static char *printed(print_fn print, const char *name, struct shape shape, tutti_result_t want)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    assert_non_null(file);
    const struct algorithm *algorithm = algorithm_find(shape.coll, name, strlen(name));
    assert_non_null(algorithm);
    assert_int_equal(print(file, algorithm, &shape), want);
    fclose(file);
    return text;
}

static void text_of_a_small_ring(void **state)
{
    char *text = printed(text_of_all, "ring", (struct shape){COLL_ALLREDUCE, 2, 0}, TUTTI_SUCCESS);
    assert_string_equal(text, "allreduce ring: 2 ranks, 2 rounds, 2 blocks\n"
                              "round 0\n"
                              "  rank 0      send IN[0] to 1; OUT[1] = IN[1] op recv from 1 (final)\n"
                              "  rank 1      send IN[1] to 0; OUT[0] = IN[0] op recv from 0 (final)\n"
                              "round 1\n"
                              "  rank 0      send OUT[1] to 1; recv OUT[0] from 1\n"
                              "  rank 1      send OUT[0] to 0; recv OUT[1] from 0\n");
    free(text);
}

static void text_of_one_rank(void **state)
{
    char *text = printed(text_of_last, "direct", (struct shape){COLL_REDUCE, 3, 2}, TUTTI_SUCCESS);
    assert_string_equal(text, "reduce direct: 3 ranks, root 2, 2 rounds, 1 block\n"
                              "round 0\n"
                              "  rank 2      SCRATCH[2] = IN[0]; recv SCRATCH[0] from 0; recv SCRATCH[1] from 1\n"
                              "round 1\n"
                              "  rank 2      OUT[0] = op over SCRATCH[0..2] (final)\n");
    free(text);
}

static int occurrences(const char *text, const char *what)
{
    int count = 0;
    for (const char *at = strstr(text, what); at; at = strstr(at + 1, what))
        count++;
    return count;
}

static int sends(const struct algorithm *algorithm, const struct shape *shape)
{
    int total = 0;
    struct action *actions = calloc((size_t)algorithm->actions(shape) + 1, sizeof *actions);
    assert_non_null(actions);
    for (int round = 0; round < algorithm->rounds(shape); round++)
        for (int rank = 0; rank < shape->nranks; rank++) {
            int count = algorithm->round(shape, rank, round, actions);
            for (int i = 0; i < count; i++)
                total += actions[i].kind == ACTION_SEND;
        }
    free(actions);
    return total;
}

static void every_message_is_drawn(void **state)
{
    for (int i = 0; i < algorithm_count(); i++)
        for (int coll = 0; coll < COLL_COUNT; coll++)
            for (int n = 1; n <= 16; n += 5) {
                const struct algorithm *row = algorithm_row(i);
                struct shape shape = {(enum coll)coll, n, schedule_has_root((enum coll)coll) ? n / 2 : 0};
                if (!schedule_fits(row, &shape))
                    continue;
                char *text = printed(printer_svg, row->name, shape, TUTTI_SUCCESS);
                assert_int_equal(occurrences(text, "marker-end"), sends(row, &shape));
                assert_int_equal(occurrences(text, "<text"), occurrences(text, "</text>"));
                assert_int_equal(strncmp(text, "<svg ", 5), 0);
                assert_string_equal(text + strlen(text) - 7, "</svg>\n");
                assert_null(strstr(text, "nan"));
                free(text);
            }
}

static void too_large_or_misfit(void **state)
{
    free(printed(printer_svg, "ring", (struct shape){COLL_ALLREDUCE, 65, 0}, TUTTI_INVALID_ARGUMENT));
    assert_non_null(strstr(error_last(), "up to 64 ranks"));
    free(printed(printer_svg, "doubling", (struct shape){COLL_ALLGATHER, 6, 0}, TUTTI_INVALID_ARGUMENT));
    free(printed(text_of_all, "doubling", (struct shape){COLL_ALLGATHER, 6, 0}, TUTTI_INVALID_ARGUMENT));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_of_a_small_ring),
        cmocka_unit_test(text_of_one_rank),
        cmocka_unit_test(every_message_is_drawn),
        cmocka_unit_test(too_large_or_misfit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
