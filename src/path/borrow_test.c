/* SPDX-License-Identifier: Apache-2.0 */
/* Interfaces that others own are used while they are idle, at both ends, with little under way; and their owners have
 * them back. First by the rule alone, then over scripted lanes, beside a process that owns one of two interfaces. */
#include "base/board.h"
#include "base/clock.h"
#include "base/param.h"
#include "link/flight.h"
#include "link/link_testing.h"
#include "link/nics.h"
#include "path/path.h"

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
#define BOUND   2
#define FOREVER (UINT64_MAX / 2)

static void borrow(const char *told)
{
    setenv("TUTTI_BORROW", told, 1);
    param_reload();
}

/* ---- The rule ---- */

static bool room;         /* of the own lane of allowed() */
static uint32_t segments; /* of this process, under way on its other one */

/* Of an own lane and another one: 1, 2, or both. */
static int allowed(struct path_nic *nic, bool idle, const struct path_payload *payload)
{
    struct path_lane own = {.index = 0, .nic = &nic[0], .room = room},
                     other = {.index = 1, .nic = &nic[1], .idle = idle, .segments = segments};
    const struct path_lane *lanes[] = {&own, &other}, *out[2];
    int mask = 0;
    for (int i = path_borrow(lanes, 2, payload, SEGMENT, out); i > 0; i--)
        mask |= 1 << out[i - 1]->index;
    return mask;
}

static void test_the_rule(void **state)
{
    struct path_payload payload = {.left = SEGMENT};
    struct path_nic nic[2] = {{.own = true}, {.owners = 1}};
    borrow("2");
    assert_int_equal(allowed(nic, true, &payload), 3);
    room = true;
    assert_int_equal(allowed(nic, true, &payload), 1); /* not before its own is full */
    room = false;
    assert_int_equal(allowed(nic, false, &payload), 1); /* at the peer it is not idle, */
    nic[1].busy = true;
    assert_int_equal(allowed(nic, true, &payload), 1); /* or here, */
    nic[1].busy = false;
    nic[1].lent = SEGMENT;
    assert_int_equal(allowed(nic, true, &payload), 3);
    nic[1].lent = SEGMENT + 1; /* or as much of it is borrowed as may be */
    assert_int_equal(allowed(nic, true, &payload), 1);
    nic[1].owners = 0; /* nobody is hurt here */
    nic[1].busy = true;
    assert_int_equal(allowed(nic, true, &payload), 3);
    assert_int_equal(allowed(nic, false, &payload), 1);
    nic[1].owners = 1;
    assert_int_equal(allowed(nic, true, &payload), 1);
    nic[0].slow = true; /* much more than those of others */
    assert_int_equal(allowed(nic, true, &payload), 3);
    nic[0].slow = false;
    nic[0].own = false; /* the one that it owns is down: any is better than none */
    nic[0].owners = 1;
    assert_int_equal(allowed(nic, false, &payload), 3);
    borrow("0");
    nic[1] = (struct path_nic){.owners = 1, .busy = true};
    assert_int_equal(allowed(nic, false, &payload), 3);
}

/* A payload of a GPU has the interface next to it, whoever owns that one. */
static void test_the_interface_of_a_gpu(void **state)
{
    struct path_nic nic[2] = {{.own = true, .owners = 1, .busy = true}, {.device = 1, .owners = 1, .busy = true}};
    struct path_payload payload = {.near = 2, .left = SEGMENT};
    borrow("2");
    assert_int_equal(allowed(nic, true, &payload), 2);
    nic[0].busy = false;
    assert_int_equal(allowed(nic, true, &payload), 2); /* the first lane is not idle at the peer */
    borrow("0");
    assert_int_equal(allowed(nic, true, &payload), 2); /* where nothing is borrowed, too */
    payload.near = 3;
    assert_int_equal(allowed(nic, true, &payload), 3);
    payload.near = 2;
    nic[0] = (struct path_nic){.own = true, .slow = true};
    borrow("-1"); /* by default it keeps to those */
    assert_int_equal(allowed(nic, true, &payload), 2);
    payload.near = 4; /* its own is down */
    assert_int_equal(allowed(nic, true, &payload), 3);
}

/* What lies in a slot next to the second interface goes by that one while it is idle, also if the own one has room. */
static void test_what_lies_in_a_slot(void **state)
{
    struct path_nic nic[2] = {{.own = true, .owners = 1}, {.device = 1, .owners = 1}};
    struct path_payload payload = {.near = 1, .slot = 2, .relayed = 2, .left = SEGMENT};
    borrow("2");
    room = true;
    assert_int_equal(allowed(nic, true, &payload), 2);
    assert_int_equal(allowed(nic, false, &payload), 1); /* it is not idle there, */
    nic[1].busy = true;
    assert_int_equal(allowed(nic, true, &payload), 1); /* or here */
    nic[1].busy = false;
    nic[1].lent = SEGMENT + 1;
    assert_int_equal(allowed(nic, true, &payload), 1); /* others have borrowed all of it */
    segments = 1;
    assert_int_equal(allowed(nic, true, &payload), 0); /* this process has: the next is soon free */
    nic[1].lent = segments = 0;
    room = false;
    payload.slot = 0; /* what lies in none leaves that interface to what does */
    assert_int_equal(allowed(nic, true, &payload), 1);
    payload.relayed = 0;
    assert_int_equal(allowed(nic, true, &payload), 3);
    payload = (struct path_payload){.near = 4, .slot = 2, .relayed = 2, .left = SEGMENT}; /* its own is down */
    nic[1].busy = true;
    assert_int_equal(allowed(nic, true, &payload), 3);
}

/* ---- How long an owner wants its interface ---- */

#define SEEN 4 /* segments that a process sees at once */

/* From then on, ns. */
static uint64_t wanted(const struct board_use *use, uint64_t now)
{
    uint64_t out = atomic_load(&use->out);
    return out > now ? out - now : 0;
}

/* For 64 times as long as a segment takes, also where a process sees several at once, or once has not run for long. */
static void test_how_long_an_owner_wants_it(void **state)
{
    struct board_use use = {0};
    struct path_nic nic = {.own = true, .use = &use};
    uint64_t now = NS_PER_S, whole = 2 * 32 * NS_PER_MS;
    borrow("2");
    nics_serves(&nic, now);
    assert_int_equal(wanted(&use, now), NS_PER_S); /* before any has landed nobody knows */
    for (int turn = 0; turn < 40; turn++) {
        uint64_t posted = now;
        now += turn == 20 ? 100 * NS_PER_MS : SEEN * NS_PER_MS;
        for (int i = 0; i < SEEN; i++)
            nics_served(&nic, SEGMENT, posted, now);
        assert_true(turn < 10 || wanted(&use, now) >= whole / 2);
        assert_true(turn < 10 || wanted(&use, now) <= whole * 2);
    }
    uint64_t before = now; /* what landed long ago is heard of after a put */
    nics_serves(&nic, now += 10 * whole);
    nics_served(&nic, SEGMENT, before, before + NS_PER_MS);
    assert_true(wanted(&use, now) >= whole / 2);
}

/* ---- Another process ---- */

static struct {
    pid_t pid;
    int words[2], answers[2];
} neighbour;

/* Owns one of the interfaces, and wants it as it is told. */
static void neighbour_live(uint64_t host)
{
    const struct transport_nic second = {.name = "script", .port = 2};
    uint64_t names[2] = {nics_name(&(struct transport_nic){.name = "script", .port = 1}), nics_name(&second)};
    struct board *board = board_open(host);
    struct board_use *use = board && board_own(board, names, 2) == 1 ? board_use(board, names[1]) : NULL;
    char word = use ? 'y' : 'n';
    do {
        if (use && (word == 'o' || word == 'f'))
            atomic_store(&use->out, word == 'o' ? FOREVER : 0);
        if (use && (word == 'i' || word == 'f'))
            atomic_store(&use->in, word == 'i' ? FOREVER : 0);
        if (use)
            atomic_store(&use->outstanding, word == 's' ? 4 * SEGMENT : 0);
        if (use)
            atomic_store(&use->pace, word == 'q');
        if (write(neighbour.answers[1], &word, 1) != 1)
            _exit(1);
    } while (read(neighbour.words[0], &word, 1) == 1);
    _exit(0);
}

static void neighbour_answers(char word)
{
    char answer = 0;
    assert_int_equal(read(neighbour.answers[0], &answer, 1), 1);
    assert_int_equal(answer, word);
}

/* 'o': it sends; 'i': its peer sends to it; 'f': neither; 's': nor does it see what has become of its segments;
 * 'q': its interface is quick. */
static void tell(char word)
{
    assert_int_equal(write(neighbour.words[1], &word, 1), 1);
    neighbour_answers(word);
}

static void neighbour_begin(uint64_t host)
{
    assert_int_equal(pipe(neighbour.words), 0);
    assert_int_equal(pipe(neighbour.answers), 0);
    neighbour.pid = fork();
    if (neighbour.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        neighbour_live(host);
    }
    neighbour_answers('y');
}

static void neighbour_kill(void)
{
    assert_int_equal(kill(neighbour.pid, SIGKILL), 0);
    assert_int_equal(waitpid(neighbour.pid, NULL, 0), neighbour.pid);
    neighbour.pid = 0;
    for (int i = 0; i < 2; i++) {
        close(neighbour.words[i]);
        close(neighbour.answers[i]);
    }
}

/* ---- Over scripted lanes ---- */

static struct path_policy counting;
static int put[LINK_MAX_LANES];
static char path[BOARD_PATH];
static uint32_t seq;

static void posted(void *state, const struct path_lane *lane, size_t length, uint64_t now)
{
    put[lane->index]++;
    path_stripe.posted(state, lane, length, now);
}

/* Segments of a payload of 32 that went by the neighbour's interface. */
static int carry(struct script *script)
{
    struct payload *pair[2];
    memset(put, 0, sizeof put);
    payload_pair(script, 0, ++seq, 32 * SEGMENT, pair);
    script_settle(script);
    assert_true(payload_pair_right(pair));
    payload_pair_free(pair);
    assert_true(put[DATA] + put[DATA + 1] >= 32);
    return put[DATA + 1];
}

static struct script *begin(bool confirms)
{
    char id[32];
    snprintf(id, sizeof id, "borrow-%d", (int)getpid()); /* a board for this test alone */
    setenv("TUTTI_HOSTID", id, 1);
    setenv("TUTTI_STRIPE", "turns", 1);   /* of the lanes that are left: what the clock says of these is chance */
    setenv("TUTTI_WINDOWS", "host=4", 1); /* what has not landed counts, on any lane */
    borrow("2");
    counting = path_stripe;
    counting.posted = posted;
    struct script *script = script_start((struct script_shape){
        .caps = confirms ? TRANSPORT_CONFIRMS : 0, .lanes = 1, .data_lanes = 2, .spread = true, .policy = &counting});
    board_path(script->side[0].domain->self.host, path);
    neighbour_begin(script->side[0].domain->self.host);
    usleep(6000); /* whether processes live is asked again */
    return script;
}

static void end(struct script *script)
{
    if (neighbour.pid)
        neighbour_kill();
    script_free(script);
    unlink(path);
    unsetenv("TUTTI_HOSTID");
    borrow("0");
}

static void test_idle_interfaces_carry(void **state)
{
    struct script *script = begin(false);
    struct link_domain *domain = script->side[0].domain;
    assert_true(carry(script) > 4);
    assert_true(domain->nic[0].own);
    assert_int_equal(domain->nic[1].owner, neighbour.pid);
    assert_int_equal(atomic_load(&domain->nic[1].use->waiting), 0); /* all has landed */
    tell('o');
    usleep(200);
    assert_int_equal(carry(script), 0);
    tell('q'); /* and this process's own one is slow: it would hold up its job */
    usleep(200);
    assert_true(carry(script) > 4);
    tell('f');
    usleep(200);
    assert_true(carry(script) > 4);
    tell('i'); /* both ends are on this host: the receiver says so */
    usleep(200);
    assert_int_equal(carry(script), 0);
    tell('f');
    tell('s'); /* it did not run for longer than it wanted its interface for */
    usleep(200);
    assert_true(carry(script) > 4);
    setenv("TUTTI_BORROW_WHILE", "fresh", 1); /* for comparison: the board is looked at for each segment, */
    param_reload();
    tell('o');
    assert_int_equal(carry(script), 0);
    setenv("TUTTI_BORROW_WHILE", "any", 1); /* or owners are not asked */
    param_reload();
    usleep(200);
    assert_true(carry(script) > 4);
    unsetenv("TUTTI_BORROW_WHILE");
    param_reload();
    neighbour_kill();
    usleep(10000);
    assert_true(carry(script) > 4);
    end(script);
}

/* What both sides have sent first on each lane arrives, and is reported; all messages do. */
static void step(struct script *script)
{
    for (int side = 0; side < 2; side++) {
        for (int index = DATA; index < DATA + 2; index++) {
            for (int i = 0; i < BOUND && !script->shape.caps; i++) /* it is in a socket's buffer */
                script_act(script, side, index, SCRIPT_SENT);
            script_act(script, side, index, SCRIPT_DELIVER);
            script_act(script, side, index, SCRIPT_SENT);
        }
        flight_tell(script->side[side].domain, true);
        while (script_act(script, side, 0, SCRIPT_DELIVER))
            ;
    }
}

/* The owner begins in the middle of a payload: from then on at most a batch goes by its interface, and never more than
 * the bound at once. */
static void test_the_owner_is_back(void **state)
{
    for (int i = 0; i < 4; i++) {
        struct script *script = begin(i / 2);
        struct link *link = script->side[0].link;
        struct payload *pair[2];
        bool told = false;
        memset(put, 0, sizeof put);
        payload_pair(script, 0, ++seq, 128 * SEGMENT, pair);
        for (int turn = 0; turn < 10000 && !(pair[0]->done && pair[1]->done); turn++) {
            step(script);
            assert_true(link->lane[DATA + 1].view.segments <= BOUND);
            if (!told && put[DATA + 1] >= 4) {
                told = true;
                tell("oi"[i % 2]);
                memset(put, 0, sizeof put);
            }
        }
        assert_true(told && payload_pair_right(pair));
        assert_true(put[DATA] > 32);
        assert_true(put[DATA + 1] <= 8);
        payload_pair_free(pair);
        end(script);
    }
}

/* The own interface dies: the other one carries all, though its owner wants it. When it is back, it is alone again. */
static void test_the_own_interface_dies(void **state)
{
    struct script *script = begin(false);
    tell('o');
    usleep(200);
    assert_int_equal(carry(script), 0);
    for (int side = 0; side < 2; side++)
        script_act(script, side, DATA, SCRIPT_KILL);
    for (int side = 0; side < 2; side++)
        script_act(script, side, DATA, SCRIPT_DOWN);
    assert_int_equal(carry(script), 32);
    script_tick(script, 2000);
    script_settle(script);
    assert_int_equal(script->side[0].link->lane[DATA].state, LANE_UP);
    carry(script); /* a lane that comes back waits for TUTTI_FAILBACK only beside backups */
    assert_int_equal(carry(script), 0);
    end(script);
}

/* The borrowed one dies: what it had goes again by the own one. */
static void test_a_borrowed_interface_dies(void **state)
{
    struct script *script = begin(false);
    struct payload *pair[2];
    memset(put, 0, sizeof put);
    payload_pair(script, 0, ++seq, 32 * SEGMENT, pair);
    for (int i = 0; i < 100 && !put[DATA + 1]; i++)
        for (int side = 0; side < 2; side++)
            script_act_all(script, side, SCRIPT_DELIVER);
    assert_true(put[DATA + 1] > 0);
    for (int side = 0; side < 2; side++)
        script_act(script, side, DATA + 1, SCRIPT_KILL);
    for (int side = 0; side < 2; side++)
        script_act(script, side, DATA + 1, SCRIPT_DOWN);
    assert_int_equal(atomic_load(&script->side[0].domain->nic[1].use->waiting), 0);
    script_settle(script);
    assert_true(payload_pair_right(pair));
    payload_pair_free(pair);
    end(script);
}

/* Borrowers that are told to stop send for a round trip more: an owner at the far end is spared for long after. */
static void test_an_owner_far_away(void **state)
{
    struct script *script = begin(false);
    const uint64_t trip = 25 * NS_PER_MS;
    for (int side = 0; side < 2; side++) {
        struct link_lane *lane = &script->side[side].link->lane[DATA];
        lane->carrier->trip = lane->view.trip = trip;
    }
    struct wire_message head = {.kind = WIRE_CREDIT};
    carry(script);
    nics_say(script->side[0].link, &head);
    nics_hear(script->side[1].link, &head); /* whose interfaces they are */
    uint64_t begun = clock_ns();
    carry(script);
    struct path_nic *nic = &script->side[1].domain->nic[0];
    assert_true(atomic_load(&nic->use->in) >= begun + 32 * trip);
    nics_say(script->side[1].link, &head);
    assert_true(head.idle >> script->side[1].link->lane[DATA].bit & 1); /* it knows that itself; */
    nic->came_by = NULL;                                                /* another peer is told */
    nics_say(script->side[1].link, &head);
    assert_false(head.idle >> script->side[1].link->lane[DATA].bit & 1);
    end(script);
}

/* Steps until the sender knows whether the second interface is idle at the peer, for three batches at most. */
static bool hears(struct script *script, bool idle)
{
    const struct link_lane *lane = &script->side[0].link->lane[DATA + 1];
    usleep(200); /* a look at the board is old */
    for (int end = put[DATA] + put[DATA + 1] + 24; nics_is_idle(lane) != idle && put[DATA] + put[DATA + 1] < end;)
        step(script);
    return nics_is_idle(lane) == idle;
}

/* What is idle is said again if the sender has heard otherwise meanwhile, or if it could not be said. */
static void test_what_the_sender_knows(void **state)
{
    struct script *script = begin(true);
    struct payload *pair[2][2];
    payload_pair(script, 0, ++seq, 256 * SEGMENT, pair[0]);
    assert_true(hears(script, true));
    tell('i');
    assert_true(hears(script, false));
    tell('f');
    usleep(200);
    payload_pair(script, 0, ++seq, 256 * SEGMENT, pair[1]);
    while (script_act(script, 0, 0, SCRIPT_DELIVER) || script_act(script, 1, 0, SCRIPT_DELIVER))
        ;
    assert_true(nics_is_idle(&script->side[0].link->lane[DATA + 1])); /* the credit says it */
    tell('i');
    assert_true(hears(script, false));
    tell('f');
    assert_true(hears(script, true) && script_act(script, 1, 0, SCRIPT_FULL));
    tell('i');
    assert_false(hears(script, false));
    assert_true(script_act(script, 1, 0, SCRIPT_ROOM) && hears(script, false));
    script_settle(script);
    for (int i = 0; i < 2; i++) {
        assert_true(payload_pair_right(pair[i]));
        payload_pair_free(pair[i]);
    }
    end(script);
}

/* Whatever carried segments first. */
static void test_an_interface_of_each_transport(void **state)
{
    struct script *script = begin(false);
    struct link_domain *domain = script->side[0].domain;
    int transport = script->side[0].link->planned[0], own = 0;
    nics_list(domain, transport);
    for (int i = 0; i < domain->nics; i++)
        own += domain->nic[i].own && domain->nic[i].ops == domain->ops[transport];
    assert_int_equal(own, 1);
    struct path_nic nic[] = {{.ops = domain->ops[0], .own = true, .pace = 100}, {.ops = domain->ops[1], .theirs = 1}};
    nics_compare(nic, 2);
    assert_false(nic[0].slow); /* those of the other transport do not count */
    nic[1].ops = nic[0].ops;
    nics_compare(nic, 2);
    assert_true(nic[0].slow);
    end(script);
}

/* A domain whose peer has died closes with segments under way; another one of the process stays on the board. */
static void test_a_domain_closes(void **state)
{
    struct script *script = begin(false);
    struct payload *pair[2];
    struct board_use *use = script->side[0].domain->nic[1].use;
    payload_pair(script, 0, ++seq, 32 * SEGMENT, pair);
    for (int i = 0; i < 100 && !atomic_load(&use->waiting); i++)
        for (int side = 0; side < 2; side++)
            script_act_all(script, side, SCRIPT_DELIVER);
    assert_true(atomic_load(&use->waiting) && script_act(script, 0, 0, SCRIPT_KILL));
    for (int side = 0; side < 2; side++) {
        script_act(script, side, 0, SCRIPT_DOWN);
        link_mourn(script->side[side].domain, link_peer(script->side[side].link)->uuid);
    }
    link_domain_close(script->side[0].domain);
    script->side[0].domain = NULL;
    assert_int_equal(atomic_load(&use->waiting) + atomic_load(&use->outstanding), 0);
    end(script);
    payload_pair_free(pair);
}

/* Only one end takes part: the other end's interfaces count as idle, and it may use all itself. */
static void test_a_peer_that_does_not_take_part(void **state)
{
    struct script *script = begin(false);
    tell('i');
    borrow("0");
    struct wire_message head = {.kind = WIRE_CREDIT};
    nics_say(script->side[0].link, &head);
    assert_int_equal(head.own, 0);
    assert_int_equal(head.idle, UINT16_MAX);
    assert_true(carry(script) > 4);
    borrow("2");
    usleep(200);
    carry(script); /* what was said before is heard */
    assert_int_equal(carry(script), 0);
    end(script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_rule),
        cmocka_unit_test(test_the_interface_of_a_gpu),
        cmocka_unit_test(test_what_lies_in_a_slot),
        cmocka_unit_test(test_how_long_an_owner_wants_it),
        cmocka_unit_test(test_idle_interfaces_carry),
        cmocka_unit_test(test_the_owner_is_back),
        cmocka_unit_test(test_the_own_interface_dies),
        cmocka_unit_test(test_a_borrowed_interface_dies),
        cmocka_unit_test(test_an_owner_far_away),
        cmocka_unit_test(test_what_the_sender_knows),
        cmocka_unit_test(test_an_interface_of_each_transport),
        cmocka_unit_test(test_a_domain_closes),
        cmocka_unit_test(test_a_peer_that_does_not_take_part),
    };
    return cmocka_run_group_tests(tests, script_setup, NULL);
}
