/* SPDX-License-Identifier: Apache-2.0 */
/* What a policy is told of whose bytes a payload's are, and source ports that it does not know at once. */
#include "link/link_testing.h"

#include "base/param.h"
#include "link/nics.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define SEGMENT SCRIPT_SEGMENT
#define DATA    LINK_DATA_LANE
#define LATE    (500 * NS_PER_MS)

/* ---- A policy that prefers the interface next to the payload's GPU, at both ends ---- */

static struct {
    const struct path_lane *lane[LINK_MAX_LANES]; /* lanes that are up, of either side */
    uint32_t landed[LINK_MAX_LANES];
    uint64_t left, now; /* of the last choice */
    uint64_t elsewhere; /* by the first lane's interface */
    enum path_class class;
    int shown, windows; /* asked for no payload, and for one */
    uint64_t segment;   /* answer of segment(), */
    int offered;        /* lanes of which it was told */
    bool narrow;        /* a lane takes one segment at a time */
    int posted[LINK_MAX_LANES];
    int before; /* segments that the first lane for data had before the second had one */
} told;

static int nearest(const struct path_payload *payload, const struct path_lane *const *lanes, int count)
{
    for (int i = 0; i < count; i++)
        if (lanes[i] && path_is_direct(lanes[i]->nic, payload))
            return i;
    return -1;
}

static int pick(void *state, const struct path_lane *const *lanes, int count, const struct path_payload *payload,
                size_t length, uint64_t now)
{
    int near = payload->near ? nearest(payload, lanes, count) : 0;
    assert_true(told.narrow || !told.left || payload->left <= told.left);
    assert_true(payload->left >= length);
    assert_true(now >= told.now);
    told.left = payload->left;
    told.now = now;
    told.class = payload->class;
    told.elsewhere = lanes[0]->nic->elsewhere;
    return near;
}

static struct path_window window(void *state, const struct path_lane *lane, const struct path_payload *payload,
                                 uint64_t now)
{
    assert_true(now > 0);
    told.shown += !payload;
    told.windows += payload != NULL;
    return (struct path_window){.segments = told.narrow};
}

static lane_set credit(void *state, const struct path_payload *payload, uint64_t now)
{
    assert_true(payload->left > 0 && now > 0);
    int near = payload->near ? nearest(payload, told.lane, LINK_MAX_LANES) : -1;
    return near < 0 ? 0 : lane_bit((unsigned)near);
}

static uint64_t segment(void *state, const struct path_lane *const *lanes, int count,
                        const struct path_payload *payload, uint64_t most)
{
    assert_true(payload->left > 0 && most >= SEGMENT);
    for (int i = 0; i < count; i++)
        assert_non_null(lanes[i]->nic);
    told.offered = count;
    return told.segment;
}

static void up(void *state, const struct path_lane *lane)
{
    told.lane[lane->index] = lane;
}

static void posted(void *state, const struct path_lane *lane, size_t length, uint64_t now)
{
    if (lane->index == DATA + 1 && !told.posted[DATA + 1])
        told.before = told.posted[DATA];
    told.posted[lane->index]++;
}

static void landed(void *state, const struct path_lane *lane, size_t length, uint64_t posted, uint64_t when)
{
    told.landed[lane->index]++;
}

/* GPU i is next to interface i. */
static uint32_t near(void *context, struct place place, const struct transport_ops *ops)
{
    return 1u << (place.device - 1);
}

static struct script *start(void)
{
    static const struct path_policy policy = {.name = "nearest",
                                              .window = window,
                                              .pick = pick,
                                              .up = up,
                                              .posted = posted,
                                              .landed = landed,
                                              .credit = credit,
                                              .segment = segment};
    memset(&told, 0, sizeof told);
    return script_start((struct script_shape){
        .lanes = 1, .data_lanes = 2, .registers = true, .spread = true, .policy = &policy, .near = near});
}

static void carry(struct script *script, int from, int to)
{
    static uint32_t seq;
    struct payload *send = payload_new(true, ++seq, 7, 4 * SEGMENT), *recv = payload_new(false, seq, 7, 4 * SEGMENT);
    send->send.place.device = from;
    send->send.class = PATH_PATIENT;
    recv->recv.place.device = to;
    told.left = 0;
    memset(told.landed, 0, sizeof told.landed);
    payload_start(recv, script->side[1].link);
    payload_start(send, script->side[0].link);
    script_settle(script);
    assert_true(payload_pair_right((struct payload *[]){send, recv}));
    assert_int_equal(told.class, PATH_PATIENT);
    assert_int_equal(told.left, told.segment && told.segment < SEGMENT ? told.segment : SEGMENT);
    payload_free(send);
    payload_free(recv);
}

static void test_the_interface_next_to_the_gpu(void **state)
{
    struct script *script = start();
    assert_true(told.shown > 0);
    for (int gpu = 0; gpu < 2; gpu++) {
        carry(script, gpu + 1, 0);
        assert_int_equal(told.landed[DATA + gpu], 4);
        carry(script, 0, gpu + 1); /* by what the credit says */
        assert_int_equal(told.landed[DATA + gpu], 4);
    }
    assert_true(told.windows > 0);
    script_free(script);
}

/* What lies in another GPU's memory goes by another lane, and does not wait behind what was sent before. */
static void test_what_lies_elsewhere_does_not_wait(void **state)
{
    struct script *script = start();
    struct payload *pair[2][2];
    told.narrow = true;
    for (int gpu = 0; gpu < 2; gpu++)
        for (int sends = 0; sends < 2; sends++) {
            struct payload *one = pair[gpu][sends] = payload_new(sends, (uint32_t)(100 + gpu), 7, 16 * SEGMENT);
            if (sends)
                one->send.place.device = gpu + 1;
            payload_start(one, script->side[!sends].link);
        }
    script_settle(script);
    for (int gpu = 0; gpu < 2; gpu++) {
        assert_true(payload_pair_right((struct payload *[]){pair[gpu][1], pair[gpu][0]}));
        assert_int_equal(told.posted[DATA + gpu], 16);
        for (int sends = 0; sends < 2; sends++)
            payload_free(pair[gpu][sends]);
    }
    assert_true(told.before < 8);
    script_free(script);
}

/* The receiver's policy says how long segments are, but for what is no answer; it knows which lanes are wanted. */
static void test_segments_of_the_policy(void **state)
{
    static const uint64_t answers[] = {SEGMENT / 4, 0, 2 * SEGMENT};
    struct script *script = start();
    for (int i = 0; i < 3; i++) {
        told.segment = answers[i];
        carry(script, 0, 1);
        assert_int_equal(told.landed[DATA], i ? 4 : 16);
        assert_int_equal(told.offered, 1);
        carry(script, 2, 0);
        assert_int_equal(told.landed[DATA + 1], i ? 4 : 16);
        assert_int_equal(told.offered, 2);
    }
    script_free(script);
}

/* ---- What other processes do by the same interfaces ---- */

/* A process with bytes under way by interface 0, until it is killed. */
static pid_t another_process(uint64_t host, uint64_t bytes)
{
    const struct transport_nic first = {.name = "script", .port = 1};
    int ready[2];
    char word = 0;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        struct board *board = board_open(host);
        if (board)
            atomic_fetch_add(&board_use(board, nics_name(&first))->outstanding, bytes);
        if (write(ready[1], board ? "y" : "n", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    assert_int_equal(read(ready[0], &word, 1), 1);
    assert_int_equal(word, 'y');
    close(ready[0]);
    close(ready[1]);
    return pid;
}

static void test_other_processes_of_the_host(void **state)
{
    char id[32], path[BOARD_PATH];
    snprintf(id, sizeof id, "policy-%d", (int)getpid()); /* a board for this test alone */
    setenv("TUTTI_HOSTID", id, 1);
    param_reload();
    struct script *script = start();
    struct link_domain *domain = script->side[0].domain;
    struct board_use *mine = domain->nic[0].use;
    pid_t pid = another_process(domain->self.host, 12345);
    assert_non_null(mine);
    for (int i = 0; i < 4; i++) /* a look is for eight choices */
        carry(script, 1, 0);
    assert_int_equal(told.elsewhere, 12345);
    assert_int_equal(atomic_load(&mine->outstanding), 0);
    assert_int_equal(atomic_load(&mine->out), 0); /* all payloads were patient */
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    usleep(10000); /* whether a process lives is asked again */
    for (int i = 0; i < 4; i++)
        carry(script, 1, 0);
    assert_int_equal(told.elsewhere, 0);
    board_path(domain->self.host, path);
    script_free(script);
    unlink(path);
    unsetenv("TUTTI_HOSTID");
    param_reload();
}

/* ---- A policy that knows source ports late, and each peer's by its name ---- */

static struct {
    uint8_t peer[2][WIRE_UUID_BYTES];
    uint64_t since[2]; /* when it was first asked about the peer */
    int asked[2];
} agent;

static int source(const struct path_source *lane, uint64_t now)
{
    int side = memcmp(lane->peer->uuid, agent.peer[0], WIRE_UUID_BYTES) != 0;
    assert_memory_equal(lane->peer->uuid, agent.peer[side], WIRE_UUID_BYTES);
    agent.asked[side]++;
    if (!agent.since[side])
        agent.since[side] = now;
    return now - agent.since[side] < LATE ? -1 : 0xC000 + side * 16 + (int)lane->place;
}

static void test_source_ports_come_late(void **state)
{
    struct path_policy policy = script_policy;
    struct script_shape shape = {.lanes = 2, .policy = &policy};
    struct payload *pair[2];
    policy.source = source;
    memset(&agent, 0, sizeof agent);
    struct script *script = script_new(&shape);
    for (int side = 0; side < 2; side++)
        memcpy(agent.peer[side], script->side[side].self.uuid, WIRE_UUID_BYTES);
    uint64_t begin = clock_ns();
    script_get_link(script, 0);
    script_get_link(script, 1);
    payload_pair(script, 0, 1, 4 * SEGMENT, pair);
    for (int i = 0; i < 300 && !(pair[0]->done && pair[1]->done); i++) {
        usleep(10000);
        script_tick(script, 20);
        script_settle(script);
        bool early = clock_ns() - begin < LATE;
        assert_true(!early || !script->opened);
    }
    assert_true(payload_pair_right(pair));
    assert_true(clock_ns() - begin >= LATE);
    assert_true(agent.asked[0] > 2 && agent.asked[1] > 2); /* the side that accepts declined until it knew */
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < 2; i++)
            assert_int_equal(script->side[side].link->lane[i].carrier->source, 0xC000 + (1 - side) * 16 + i);
    assert_int_equal(script->side[0].lost + script->side[1].lost, 0);
    payload_pair_free(pair);
    script_free(script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_interface_next_to_the_gpu), cmocka_unit_test(test_what_lies_elsewhere_does_not_wait),
        cmocka_unit_test(test_segments_of_the_policy),        cmocka_unit_test(test_other_processes_of_the_host),
        cmocka_unit_test(test_source_ports_come_late),
    };
    return cmocka_run_group_tests(tests, script_setup, NULL);
}
