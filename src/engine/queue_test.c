/* SPDX-License-Identifier: Apache-2.0 */
/* The ring of blocks against plain counting: each operation is taken out where it was put in, and none is lost when the
 * ring grows. */
#include "engine/queue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#define STEPS 200000

static uint64_t put_in, taken, drawn;

static unsigned draw(unsigned below)
{
    drawn = drawn * 6364136223846793005ull + 1442695040888963407ull;
    return (unsigned)(drawn >> 33) % below;
}

static void put(struct op_queue *queue)
{
    struct op *op = queue_tail(queue, put_in, taken);
    assert_non_null(op);
    assert_ptr_equal(queue_tail(queue, put_in, taken), op); /* a caller that gives up asks again for the same place */
    assert_int_equal(op->bytes, 0);
    op->bytes = ++put_in;
}

static void take(struct op_queue *queue)
{
    struct op *op = queue_head(queue, taken);
    assert_int_equal(op->bytes, ++taken);
    op->bytes = 0;
}

/* `most` waiting at a time: what comes and goes is now more of this, now of that. */
static void each_comes_out_where_it_was_put_in(void **state)
{
    struct op_queue queue = {0};
    (void)state;
    assert_int_equal(queue_open(&queue), TUTTI_SUCCESS);
    for (int step = 0; step < STEPS; step++) {
        unsigned most = step < STEPS / 4 ? 2 : step < STEPS / 2 ? 2 * QUEUE_BLOCK : 40 * QUEUE_BLOCK;
        unsigned lean = step / 3000 % 2 ? 3 : 1;
        if (put_in - taken < most && draw(4) < lean)
            put(&queue);
        else if (taken < put_in)
            take(&queue);
        if (step < STEPS / 4)
            assert_int_equal(queue.blocks, 2);
    }
    assert_in_range(queue.blocks, 20, 41);
    while (taken < put_in)
        take(&queue);
    queue_close(&queue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_comes_out_where_it_was_put_in)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
