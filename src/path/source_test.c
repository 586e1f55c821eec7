/* SPDX-License-Identifier: Apache-2.0 */
/* Source ports by the plan in TUTTI_PATHS, and by an agent, whose end of the socket is the test's. */
#include "base/clock.h"
#include "base/param.h"
#include "path/dnlb.h"
#include "path/path.h"
#include "wire/lease.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

static void plan(const char *text)
{
    setenv("TUTTI_PATHS", text, 1);
    setenv("TUTTI_IB_LANES", "3", 1);
    param_reload();
}

/* Lanes of a link take the interfaces in turn: those of one are consecutive in the plan. */
static void lanes_have_the_ports_of_the_plan(void **state)
{
    plan("8:5,0");
    for (unsigned place = 0; place < 6; place++) {
        struct path_source lane = {.device = place % 2, .nics = 2, .place = place};
        assert_int_equal(path_planned_source(&lane, 0), dnlb_port(place % 2 ? 0 : 5, 3, place / 2, 8));
    }
    plan("8:5,3:0"); /* the second interface is at a leaf of 3 uplinks */
    for (unsigned place = 0; place < 6; place++) {
        struct path_source lane = {.device = place % 2, .nics = 2, .place = place};
        assert_int_equal(path_planned_source(&lane, 0), dnlb_port(place % 2 ? 0 : 5, 3, place / 2, place % 2 ? 3 : 8));
    }
    assert_int_equal(path_planned_source(&(struct path_source){.device = 0, .nics = 2, .place = 0}, 0),
                     0xC000 + 7 * 0x800);
    assert_int_equal(
        path_planned_source(&(struct path_source){.device = 0, .nics = 2, .place = 8, .messages = true}, 0),
        0xC000 + 5 * 0x800); /* messages: NIC 5 of the leaf has them on uplink 5 */
}

static void no_plan_is_no_port(void **state)
{
    static const char *const texts[] = {"", "8", "8:x", "8:1"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        plan(texts[i]);
        assert_int_equal(path_planned_source(&(struct path_source){.device = 1, .nics = 2, .place = 1}, 0), 0);
    }
}

static struct wire_process peer;

static struct path_source lane_of(uint16_t index)
{
    return (struct path_source){.peer = &peer, .nics = 1, .place = index, .index = index, .known = true};
}

static int ask_for(uint16_t index, uint64_t now)
{
    const struct path_source lane = lane_of(index);
    return path_lane_source(&lane, now);
}

static struct wire_lease_ask hear_ask(int agent)
{
    struct wire_lease_ask ask;
    assert_int_equal(recv(agent, &ask, sizeof ask, 0), sizeof ask);
    assert_int_equal(ask.magic, WIRE_LEASE_ASK);
    return ask;
}

static void give(int agent, uint32_t number, uint16_t port)
{
    const struct wire_lease_answer answer = {.magic = WIRE_LEASE_ANSWER, .number = number, .port = port};
    assert_int_equal(send(agent, &answer, sizeof answer, MSG_NOSIGNAL), sizeof answer);
}

/* The time is an argument: the wait is 200 ms, and a lane that is asked for again within 1 s is the same opening. */
static void an_agent_gives_ports_or_the_plan_does(void **state)
{
    char folder[] = "/tmp/tutti-lease-XXXXXX";
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    const uint64_t ms = NS_PER_MS, t = 1000 * NS_PER_S;
    plan("8:5");
    const int planned = dnlb_port(5, 3, 0, 8);
    assert_non_null(mkdtemp(folder));
    snprintf(at.sun_path, sizeof at.sun_path, "%s/paths", folder);
    setenv("TUTTI_PATH_AGENT", at.sun_path, 1);
    param_reload();
    assert_int_equal(ask_for(0, t), planned); /* there is no agent: the plan, at once */
    int door = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_true(bind(door, (struct sockaddr *)&at, sizeof at) == 0 && listen(door, 4) == 0);
    assert_int_equal(ask_for(0, t + 1500 * ms), -1); /* it is asked */
    int agent = accept(door, NULL, NULL);
    struct wire_lease_ask ask = hear_ask(agent);
    assert_int_equal(ask.parts, 3);
    assert_int_equal(ask.flags, 0);
    assert_int_equal(ask_for(0, t + 1600 * ms), -1);
    give(agent, ask.number, 0xC123);
    give(agent, ask.number + 1, 0xC999); /* of no lane: nobody's */
    assert_int_equal(ask_for(0, t + 1650 * ms), 0xC123);
    assert_int_equal(ask_for(0, t + 2000 * ms), 0xC123); /* the peer had declined */
    assert_int_equal(path_leased_port(peer.uuid, 0, 0xC123, t), 0xC123);
    give(agent, ask.number, 0xC200); /* the master moves it while it lives */
    assert_int_equal(path_leased_port(peer.uuid, 0, 0xC123, t), 0xC200);
    assert_int_equal(path_leased_port(peer.uuid, 0, 0xC200, t), 0xC200); /* it has followed */
    give(agent, ask.number, 80);                                         /* no port of a plan */
    assert_int_equal(path_leased_port(peer.uuid, 0, 0xC200, t), 0);
    give(agent, ask.number, 0xC300);
    assert_int_equal(path_leased_port(peer.uuid, 0, 0xC200, t), 0xC300); /* which it cannot have while it lives: */
    struct path_source moves = lane_of(0);
    moves.moves = true;
    assert_int_equal(path_lane_source(&moves, t + 8000 * ms), 0xC300); /* it is opened anew, and nobody is asked */
    give(agent, ask.number, 0xC400);
    assert_int_equal(path_leased_port(peer.uuid, 0, 0xC300, t), 0xC400);
    assert_int_equal(ask_for(0, t + 9000 * ms), -1); /* it was up, and failed before it followed */
    ask = hear_ask(agent);
    assert_int_equal(ask.flags, WIRE_LEASE_AGAIN);
    assert_int_equal(ask.port, 0xC300);
    give(agent, ask.number, 0xC500); /* the lane lives after all, as when both ends had opened it: it follows */
    assert_int_equal(path_leased_port(peer.uuid, 0, 0xC300, t), 0xC500);
    give(agent, ask.number, 0);
    assert_int_equal(ask_for(0, t + 9001 * ms), planned); /* there is no path */
    assert_int_equal(ask_for(1, t + 10000 * ms), -1);
    ask = hear_ask(agent);
    assert_int_equal(ask_for(1, t + 10199 * ms), -1);
    assert_int_equal(ask_for(1, t + 10200 * ms), dnlb_port(5, 3, 1, 8)); /* its time is over */
    assert_int_equal(ask_for(2, t + 10300 * ms), dnlb_port(5, 3, 2, 8)); /* and no other lane's is spent */
    give(agent, ask.number, 0xC321);                                     /* too late for the opening */
    assert_int_equal(path_leased_port(peer.uuid, 1, 0, t + 10400 * ms), 0xC321);
    close(agent);
    assert_int_equal(ask_for(3, t + 20000 * ms), dnlb_port(5, 3, 3, 8)); /* the agent has gone */
    assert_int_equal(path_leased_port(peer.uuid, 1, 0, t + 20000 * ms), 0);
    close(door);
    unlink(at.sun_path);
    rmdir(folder);
    unsetenv("TUTTI_PATH_AGENT");
    param_reload();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lanes_have_the_ports_of_the_plan),
        cmocka_unit_test(no_plan_is_no_port),
        cmocka_unit_test(an_agent_gives_ports_or_the_plan_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
