/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many processes connect to one another at the same time, over a real transport: each pair keeps one lane of each
 * index, and none dies. Payloads in a device's memory are refused there, however they would have gone.
 */
#include "base/error.h"
#include "base/param.h"
#include "link/domain.h"
#include "trace/trace.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define DOMAINS     12
#define PATIENCE_MS 120000
#define LONG        (1u << 20)

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

static int pick(void *state, const struct path_lane *const *lanes, int count, const struct path_payload *payload,
                size_t length, uint64_t now)
{
    return 0;
}

static bool joined(int from, int to)
{
    struct link *here = link_find(domains[from], domains[to]->self.uuid, 0),
                *there = link_find(domains[to], domains[from]->self.uuid, 0);
    for (int i = 0; i < (int)link_lanes(here); i++)
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

static void open_all(void)
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
}

static void close_all(void)
{
    for (int i = 0; i < DOMAINS; i++) {
        part(domains[i]);
        link_domain_close(domains[i]);
        poller_close(pollers[i]);
    }
}

static void test_crossing(void **state)
{
    open_all();
    for (unsigned turn = 0; turn < 50; turn++) /* what crossed arrives late */
        look_around(turn);
    assert_true(all_joined());
    assert_int_equal(box->counters[WIRE_COUNTER_LANES_DOWN], 0);
    assert_true(box->counters[WIRE_COUNTER_LANES_UP] >= DOMAINS * (DOMAINS - 1));
    close_all();
}

static struct {
    bool sent, received;
    tutti_result_t send_result, recv_result;
    char text[256];
} over;

static void keep_text(tutti_result_t result)
{
    if (result != TUTTI_SUCCESS)
        snprintf(over.text, sizeof over.text, "%s", error_last());
}

static void on_sent(struct link_send *send, tutti_result_t result)
{
    keep_text(result);
    over.sent = true;
    over.send_result = result;
}

static void on_received(struct link_recv *recv, tutti_result_t result)
{
    keep_text(result);
    over.received = true;
    over.recv_result = result;
}

/* One payload of domain 0 for domain 1, until the end that lies on a device, or both, know what became of it. */
static void carry(uint32_t seq, size_t length, struct place from, struct place to)
{
    struct link_send send = {.tag = {.seq = seq}, .place = from, .length = length, .done = on_sent};
    struct link_recv recv = {.tag = {.seq = seq}, .place = to, .length = length, .done = on_received};
    struct link *out = link_find(domains[0], domains[1]->self.uuid, 0),
                *in = link_find(domains[1], domains[0]->self.uuid, 0);
    uint64_t deadline = clock_deadline_ms(PATIENCE_MS);
    memset(&over, 0, sizeof over);
    link_recv(in, &recv);
    link_send(out, &send);
    while ((place_is_host(to) && !over.sent) || (place_is_host(from) && !over.received)) {
        look_around(0);
        assert_false(clock_passed(deadline));
    }
    if (!over.sent)
        link_cancel_send(out, &send);
    if (!over.received)
        link_cancel_recv(in, &recv);
}

/* A message, one that is lent where lanes do that, and segments: what stands for the device's memory has no rights. */
static void test_devices_are_refused(void **state)
{
    static const size_t lengths[] = {1, 500, 6000, 20000, LONG};
    unsigned char *data = calloc(2, LONG);
    void *bad = mmap(NULL, LONG, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct place host = place_host(data), other = place_host(data + LONG), gpu = {.address = bad, .device = 2};
    uint32_t seq = 0;
    assert_non_null(data);
    assert_true(bad != MAP_FAILED);
    open_all();
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        carry(seq++, lengths[i], gpu, other);
        assert_int_equal(over.send_result, TUTTI_INVALID_ARGUMENT);
        assert_non_null(strstr(over.text, "memory of GPU 1"));
        carry(seq++, lengths[i], host, gpu);
        assert_int_equal(over.recv_result, TUTTI_INVALID_ARGUMENT);
        assert_non_null(strstr(over.text, "memory of GPU 1"));
        memset(data, 1 + (int)i, lengths[i]);
        carry(seq++, lengths[i], host, other);
        assert_int_equal(over.send_result, TUTTI_SUCCESS);
        assert_int_equal(over.recv_result, TUTTI_SUCCESS);
        assert_memory_equal(data, data + LONG, lengths[i]);
    }
    close_all();
    munmap(bad, LONG);
    free(data);
}

#define UNASKED (200u << 10)

/* A payload for domain 1 that it has not asked for, seen once. False: this one does not stay where it is. */
static bool comes_early(struct link_send *send, uint32_t seq, unsigned char *data)
{
    *send = (struct link_send){.tag = {.seq = seq}, .place = place_host(data), .length = UNASKED, .done = on_sent};
    memset(&over, 0, sizeof over);
    link_send(link_find(domains[0], domains[1]->self.uuid, 0), send);
    bool lent = send->lent;
    link_poll(domains[1]);
    return lent;
}

static void is_asked_for(uint32_t seq, const unsigned char *data, unsigned char *to)
{
    struct link_recv recv = {.tag = {.seq = seq}, .place = place_host(to), .length = UNASKED, .done = on_received};
    link_recv(link_find(domains[1], domains[0]->self.uuid, 0), &recv);
    for (unsigned turn = 0; !over.sent || !over.received; turn++)
        look_around(turn);
    assert_memory_equal(data, to, UNASKED);
    assert_int_equal(domains[1]->kept, 0);
}

/* A payload that stays with its sender is copied early after a while only, and at once where ranks share processors. */
static void test_early_ones_wait(void **state)
{
    unsigned char *data = calloc(2, UNASKED), *to = data + UNASKED;
    struct link_send send;
    assert_non_null(data);
    memset(data, 7, UNASKED);
    open_all();
    bool lends = comes_early(&send, 0, data);
    if (lends)
        assert_int_equal(domains[1]->kept, 0);
    for (unsigned turn = 0; lends && !domains[1]->kept; turn++)
        look_around(turn);
    is_asked_for(0, data, to);
    link_crowd(domains[1]);
    if (lends && comes_early(&send, 1, memset(data, 8, UNASKED))) {
        assert_int_equal(domains[1]->kept, 1);
        is_asked_for(1, data, to);
    }
    close_all();
    free(data);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_crossing), cmocka_unit_test(test_crossing),
                                       cmocka_unit_test(test_devices_are_refused),
                                       cmocka_unit_test(test_early_ones_wait)};
    if (argc > 1)
        setenv("TUTTI_TRANSPORT", argv[1], 1);
    param_reload();
    if (!(box = trace_open()))
        return 77;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    trace_close(box, false);
    return failed;
}
