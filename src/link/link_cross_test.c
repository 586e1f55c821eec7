/* SPDX-License-Identifier: Apache-2.0 */
/* Many processes connect to one another at the same time, over a real transport: each pair keeps one lane of each
 * index, and none dies. */
#include "base/param.h"
#include "link/domain.h"
#include "trace/trace.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#define DOMAINS     12
#define PATIENCE_MS 120000

static struct trace *box;
static struct link_domain *domains[DOMAINS];
static struct poller *pollers[DOMAINS];

static void on_lost(void *context, struct link *link)
{
    if (!link->domain->closing)
        fail_msg("process %u lost a link: %s", link->domain->self.pid, link->reason);
}

static void on_aborted(void *context, uint64_t comm, const struct wire_abort *abort)
{
}

static void on_shared(void *context, struct link *link, uint64_t key, int fd)
{
}

static int pick(void *state, const struct path_lane *const *lanes, int count, size_t length, uint64_t left,
                uint64_t now)
{
    return 0;
}

static bool joined(int from, int to)
{
    struct link *here = link_find(domains[from], domains[to]->self.uuid, 0),
                *there = link_find(domains[to], domains[from]->self.uuid, 0);
    for (int i = 0; i < here->lanes; i++)
        if (!there || here->lane[i].state != LANE_UP || there->lane[i].state != LANE_UP ||
            here->lane[i].epoch != there->lane[i].epoch)
            return false;
    return true;
}

static bool all_joined(void)
{
    for (int from = 0; from < DOMAINS; from++)
        for (int to = 0; to < DOMAINS; to++)
            if (from != to && !joined(from, to))
                return false;
    return true;
}

/* Everybody connects to everybody before anybody looks who has come. */
static void connect_all(void)
{
    struct link *link;
    for (int from = 0; from < DOMAINS; from++)
        for (int to = 0; to < DOMAINS; to++)
            if (from != to)
                assert_int_equal(link_get(domains[from], &domains[to]->self, 0, &link), TUTTI_SUCCESS);
}

static void look_around(unsigned turn)
{
    for (unsigned i = 0; i < DOMAINS; i++) {
        unsigned who = (i * 5 + turn) % DOMAINS;
        link_poll(domains[who]);
        poller_wait(pollers[who], 0);
        link_tick(domains[who], clock_ns());
    }
}

/* No goodbyes: nobody would answer. */
static void part(struct link_domain *domain)
{
    domain->closing = true;
    list_each(node, &domain->links) link_lose(list_entry(node, struct link, node), "the test ends");
}

static void test_crossing(void **state)
{
    static const struct path_policy policy = {.name = "first", .pick = pick};
    static const struct link_owner owner = {.lost = on_lost, .aborted = on_aborted, .shared = on_shared};
    uint64_t deadline = clock_deadline_ms(PATIENCE_MS);
    for (int i = 0; i < DOMAINS; i++) {
        assert_int_equal(poller_open(&pollers[i]), TUTTI_SUCCESS);
        assert_int_equal(link_domain_open(&owner, pollers[i], box, &policy, &domains[i]), TUTTI_SUCCESS);
    }
    connect_all();
    for (unsigned turn = 0; !all_joined(); turn++) {
        look_around(turn);
        assert_false(clock_passed(deadline));
    }
    for (unsigned turn = 0; turn < 50; turn++) /* what crossed arrives late */
        look_around(turn);
    assert_true(all_joined());
    assert_int_equal(box->counters[WIRE_COUNTER_LANES_DOWN], 0);
    assert_true(box->counters[WIRE_COUNTER_LANES_UP] >= DOMAINS * (DOMAINS - 1));
    for (int i = 0; i < DOMAINS; i++) {
        part(domains[i]);
        link_domain_close(domains[i]);
        poller_close(pollers[i]);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_crossing), cmocka_unit_test(test_crossing)};
    if (argc > 1)
        setenv("TUTTI_TRANSPORT", argv[1], 1);
    param_reload();
    if (!(box = trace_open()))
        return 77;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    trace_close(box, false);
    return failed;
}
