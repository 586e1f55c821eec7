/* SPDX-License-Identifier: Apache-2.0 */
/* Many payloads at once: finding one by its tag takes as many steps among twenty thousand as among twenty. Counted, not
 * timed. */
#include "link/link_testing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { MANY = 20000, LONGEST = 12 };

#define EAGER SCRIPT_EAGER

static struct script *start(void)
{
    return script_start((struct script_shape){.lanes = 1});
}

/* Things in the longest of the lists that a search may have to walk. */
static int longest(const struct tags *tags)
{
    int most = 0;
    for (uint32_t i = 0; i <= tags->mask; i++) {
        int length = 0;
        list_each(node, &tags->list[i]) length++;
        most = length > most ? length : most;
    }
    return most;
}

static struct payload **start_many(struct link *link, bool sends, size_t length)
{
    struct payload **many = calloc(MANY, sizeof *many);
    assert_non_null(many);
    for (uint32_t i = 0; i < MANY; i++) {
        many[i] = payload_new(sends, i, 7, length + i % 5);
        payload_start(many[i], link);
    }
    return many;
}

/* The other ends, from the last to the first. */
static void meet(struct script *script, struct payload **many, struct link *link)
{
    for (uint32_t i = MANY; i-- > 0;) {
        struct payload *other = payload_new(!many[i]->sends, i, 7, many[i]->length);
        struct payload *pair[2] = {many[i]->sends ? many[i] : other, many[i]->sends ? other : many[i]};
        payload_start(other, link);
        script_settle(script);
        assert_true(payload_pair_right(pair));
        payload_pair_free(pair);
    }
    free(many);
}

static void test_receives_first(void **state)
{
    struct script *script = start();
    struct link *link = script->side[1].link;
    struct payload **recv = start_many(link, false, 8);
    assert_in_range(longest(&link->match.posted), 1, LONGEST);
    meet(script, recv, script->side[0].link);
    script_free(script);
}

static void test_sends_first(void **state)
{
    struct script *script = start();
    struct link *link = script->side[1].link;
    struct payload **send = start_many(script->side[0].link, true, 8);
    script_settle(script);
    assert_in_range(longest(&link->early.arrived), 1, LONGEST);
    meet(script, send, link);
    script_free(script);
}

static void test_large_sends_first(void **state)
{
    struct script *script = start();
    struct link *link = script->side[0].link;
    struct payload **send = start_many(link, true, EAGER + 1);
    assert_in_range(longest(&link->match.waiting), 1, LONGEST);
    meet(script, send, script->side[1].link);
    script_free(script);
}

static void test_sends_to_itself_first(void **state)
{
    struct script *script = start();
    struct link *self;
    assert_int_equal(link_get(script->side[0].domain, &script->side[0].self, 0, &self), TUTTI_SUCCESS);
    struct payload **send = start_many(self, true, 8);
    assert_in_range(longest(&self->match.waiting), 1, LONGEST);
    meet(script, send, self);
    script_free(script);
}

/* What was many once costs walks over all lists no longer. */
static void test_few_again(void **state)
{
    struct script *script = start();
    struct link *link = script->side[1].link;
    struct payload **recv = start_many(link, false, 8);
    for (uint32_t i = 0; i < MANY; i++)
        payload_cancel(recv[i], link);
    assert_null(tags_any(&link->match.posted));
    for (uint32_t i = 0; link->match.posted.mask >= LINK_LISTS && i < 10 * MANY; i++) {
        payload_start(recv[i % MANY], link);
        payload_cancel(recv[i % MANY], link);
    }
    assert_int_equal(link->match.posted.mask, LINK_LISTS - 1);
    for (uint32_t i = 0; i < MANY; i++)
        payload_free(recv[i]);
    free(recv);
    script_free(script);
}

/* Of one operation, slice, round and pair: more than any field of a packed number would hold. */
static void test_many_messages_of_a_round(void **state)
{
    struct script *script = start();
    struct payload *pair[2][2];
    for (uint32_t k = 0; k < 2; k++) {
        for (int end = 0; end < 2; end++)
            pair[k][end] = payload_new(!end, k, 7, k ? 5 : EAGER + 5);
        pair[k][0]->send.tag = pair[k][1]->recv.tag =
            (struct wire_tag){.comm = 1, .seq = 3, .round = 2, .message = k * 4096, .to = 1};
        payload_start(pair[k][1], script->side[1].link);
    }
    for (uint32_t k = 0; k < 2; k++)
        payload_start(pair[k][0], script->side[0].link);
    script_settle(script);
    for (uint32_t k = 0; k < 2; k++) {
        assert_true(payload_pair_right(pair[k]));
        payload_pair_free(pair[k]);
    }
    script_free(script);
}

#define CASE(name) cmocka_unit_test(name)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_receives_first),        CASE(test_sends_first), CASE(test_large_sends_first),
        CASE(test_sends_to_itself_first), CASE(test_few_again),   CASE(test_many_messages_of_a_round),
    };
    return cmocka_run_group_tests(tests, script_setup, NULL);
}
