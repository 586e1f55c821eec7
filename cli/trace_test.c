/* SPDX-License-Identifier: Apache-2.0 */
/* tutti trace against real black boxes of real processes, living and killed. */
#include "cli/cli.h"
#include "cli/trace_stage.h"

#include <jansson.h>
#include <pty.h>
#include <stdio.h>

/* ---- Verdicts ---- */

static size_t occurrences(const char *text)
{
    size_t count = 0;
    for (const char *p = stage_output; (p = strstr(p, text)); p++)
        count++;
    return count;
}

static void three_wait_for_one(struct trace *trace, struct trace_comm *world, int rank)
{
    stage_calls(world, 10, 17);
    if (rank != 3)
        stage_wait(world, 17, rank + 1);
}

static void test_dead_rank(void **state)
{
    char sentence[128];
    stage_play(4, three_wait_for_one);
    pid_t dead = stage_ranks[3];
    stage_kill(3);
    assert_int_equal(stage_run("--stuck 0"), 0);
    snprintf(sentence, sizeof sentence,
             "VERDICT: rank 3 (process %d, dead) is waited for by ranks 0 1 2 in allreduce #17 of communicator world",
             dead);
    assert_shows(sentence);
    assert_shows("its last: allreduce #16, done");
    assert_shows("waits for rank 3,");
    assert_shows("3/6 s1");
}

static void test_rank_behind(void **state)
{
    stage_play(4, three_wait_for_one);
    assert_int_equal(stage_run("--stuck 0"), 0);
    assert_shows(") has not called allreduce #17 and is waited for by ranks 0 1 2 in allreduce #17");
}

static void test_nothing_wrong_yet(void **state)
{
    stage_play(4, three_wait_for_one);
    assert_int_equal(stage_run("--stuck 1h"), 2);
    assert_int_equal(stage_run("--stuck 60m"), 0);
    assert_hides("VERDICT");
}

/* All are dead together: the post-mortem still names the rank that had not called. */
static void test_all_dead(void **state)
{
    stage_play(4, three_wait_for_one);
    for (int i = 0; i < 4; i++)
        stage_kill(i);
    assert_int_equal(stage_run(""), 4);
    assert_shows("no black box of a living process here");
    assert_shows("4 dead processes are not shown: --dead shows");
    assert_int_equal(stage_run("--dead"), 0);
    assert_hides("not shown");
    assert_shows(", dead) has not called allreduce #17 and is waited for by ranks 0 1 2");
}

static void circle(struct trace *trace, struct trace_comm *world, int rank)
{
    stage_wait(world, 5, (rank + 1) % 3);
}

static void test_circle(void **state)
{
    stage_play(3, circle);
    assert_int_equal(stage_run("--stuck 0"), 0);
    assert_shows("VERDICT: ranks 0 1 2 wait for each other in allreduce #5");
}

static void different_calls(struct trace *trace, struct trace_comm *world, int rank)
{
    struct trace_op *op = trace_op_begin(world, 5, rank == 1 ? WIRE_BROADCAST : WIRE_REDUCE, TUTTI_INT8, -1, 0, 64, 64);
    trace_op_start(op, &stage_ring, 1, 1);
    trace_op_wait(op, 0, 0, 1 - rank);
}

static void test_mismatch(void **state)
{
    stage_play(2, different_calls);
    assert_int_equal(stage_run("--stuck 0"), 0);
    assert_shows("VERDICT: call #5 of communicator world is not the same on all ranks: rank ");
    assert_shows("called reduce of 64 int8, root 0");
    assert_shows("called broadcast of 64 int8, root 0");
    assert_int_equal(occurrences("VERDICT"), 1);
}

static void wait_for_stranger(struct trace *trace, struct trace_comm *world, int rank)
{
    stage_wait(trace_comm_open(trace, 77, "wide", rank, 64, 2), 3, 40);
}

static void test_absent_rank(void **state)
{
    stage_play(2, wait_for_stranger);
    assert_int_equal(stage_run("--stuck 0"), 0);
    assert_shows("VERDICT: rank 40 (no black box here: on another host, not traced, or never started) is waited for by "
                 "ranks 0 1 in "
                 "allreduce #3 of communicator wide");
}

/* Rank 1 cannot come to the call of "world": it stands still in "pair". The wait in "pair" is the cause, and the only
 * verdict. */
static void cascade(struct trace *trace, struct trace_comm *world, int rank)
{
    struct trace_comm *pair = trace_comm_open(trace, 78, "pair", rank, 2, 2);
    if (rank == 0)
        stage_wait(world, 1, 1);
    else
        stage_wait(pair, 2, -1);
}

static void test_cascade(void **state)
{
    stage_play(2, cascade);
    assert_int_equal(stage_run("--stuck 0"), 0);
    assert_shows(") stands still and names no rank that it waits for, in allreduce #2 of communicator pair");
    assert_int_equal(occurrences("VERDICT"), 1);
}

static void one_gave_up(struct trace *trace, struct trace_comm *world, int rank)
{
    if (rank == 0)
        trace_comm_failed(world, TUTTI_REMOTE_ERROR, 2, "rank 2 was silent");
    else
        stage_wait(world, 1, 0);
}

static void test_failed_rank(void **state)
{
    stage_play(2, one_gave_up);
    assert_int_equal(stage_run("--stuck 0"), 0);
    assert_shows("world: rank 0 of 2, failed");
    assert_shows("remote error: rank 2 was silent (rank 2)");
    assert_shows(
        "VERDICT: rank 2 (no black box here) was named as the cause: communicator world failed: rank 2 was silent");
    assert_int_equal(occurrences("VERDICT"), 1);
}

static void late_finisher(struct trace *trace, struct trace_comm *world, int rank)
{
    if (rank == 0)
        stage_wait(world, 9, 1);
    else
        stage_calls(world, 9, 10);
}

static void test_rank_ahead(void **state)
{
    stage_play(2, late_finisher);
    assert_int_equal(stage_run("--stuck 0"), 0);
    assert_shows("has called allreduce #9 itself but is waited for by rank 0");
}

/* ---- Listing ---- */

static void busy_life(struct trace *trace, struct trace_comm *world, int rank)
{
    struct trace_comm *pair = trace_comm_open(trace, 0x50 + (uint64_t)rank / 2, "pair", rank % 2, 2, 2);
    struct trace_about about = TRACE_NOTHING;
    about.lane = 1;
    about.peer_rank = 1 - rank;
    about.value1 = 3;
    stage_calls(world, 0, 300);
    trace_event(trace, WIRE_EVENT_LANE_DOWN, &about);
    struct trace_op *op =
        trace_op_begin(pair, 0, rank % 2 ? WIRE_RECV : WIRE_SEND, TUTTI_BFLOAT16, -1, 1 - rank % 2, 7, 14);
    trace_op_start(op, &stage_ring, 1, 1);
    trace_op_end(pair, op, TUTTI_SUCCESS);
    struct trace_op *quick = trace_op_begin(world, 300, WIRE_BARRIER, -1, -1, -1, 0, 0);
    trace_op_end(world, quick, TUTTI_SUCCESS);
    trace_count(trace, WIRE_COUNTER_SENT_TCP, 12345);
}

static void test_listing(void **state)
{
    stage_play(2, busy_life);
    assert_int_equal(stage_run("--stuck 100s"), 0); /* on a busy machine much is older than a second */
    assert_shows("world: rank 1 of 2, open, id 0000000000abcdef");
    assert_shows("barrier");
    assert_shows("at once");
    assert_shows("(251 more: --all-ops)");
    assert_shows("lane_down rank 1 lane 1 result 3");
    assert_hides("VERDICT");
    assert_hides("\033");
    assert_int_equal(stage_run("--all-ops"), 0);
    assert_hides("more: --all-ops");
}

static void test_filters(void **state)
{
    char arguments[64];
    stage_play(2, busy_life);
    snprintf(arguments, sizeof arguments, "--pid %d", stage_ranks[1]);
    assert_int_equal(stage_run(arguments), 0);
    assert_shows("rank 1 of 2");
    assert_hides("rank 0 of 2, open, id 0000000000abcdef");
    assert_int_equal(stage_run("--comm pair"), 0);
    assert_hides("world: ");
    assert_int_equal(stage_run("-c abcdef"), 0);
    assert_hides("pair: ");
    assert_shows("world: ");
    assert_int_equal(stage_run("--comm none"), 3);
    assert_shows("has a communicator \"none\"");
}

static void test_damaged_neighbour(void **state)
{
    char path[160], text[10000];
    stage_play(1, busy_life);
    snprintf(path, sizeof path, "%s/tutti-%u-4000000-1.box", stage_dir, (unsigned)geteuid());
    memset(text, 'x', sizeof text);
    int fd = open(path, O_CREAT | O_WRONLY, 0600);
    assert_int_equal(write(fd, text, sizeof text), sizeof text);
    close(fd);
    assert_int_equal(stage_run(""), 0);
    assert_shows("1 dead process has left a box that cannot be read");
    assert_shows("world: rank 0 of 1");
    char living[160];
    snprintf(living, sizeof living, "%s/tutti-%u-%d-%ju.7.box", stage_dir, (unsigned)geteuid(), (int)getpid(),
             (uintmax_t)boxfile_start_time((uint32_t)getpid()));
    assert_int_equal(rename(path, living), 0);
    assert_int_equal(stage_run(""), 0);
    assert_shows("it is none, or not ready");
    assert_hides("has left a box");
}

static void test_wrong_options(void **state)
{
    assert_int_equal(stage_run("--nonsense"), 2);
    assert_int_equal(stage_run("--pid x"), 2);
    assert_int_equal(stage_run("--stuck x"), 2);
    assert_int_equal(stage_run("--pickle"), 2);
    assert_int_equal(stage_run("--dir /nonexistent/folder"), 1);
    assert_shows("looking for black boxes in /nonexistent/folder");
    assert_int_equal(stage_run("--dir /nonexistent/folder --clean"), 1);
    assert_int_equal(stage_run("/proc/self/exe"), 1);
    assert_shows("/proc/self/exe");
    assert_int_equal(stage_run("--pid 4000001"), 3);
    assert_shows("there is no process 4000001 here");
    assert_int_equal(stage_run(""), 4);
    assert_int_equal(stage_run("/nonexistent/box"), 3);
    assert_shows("opening the black box /nonexistent/box");
    assert_int_equal(stage_run("--help"), 0);
    assert_shows("--flight-recorder");
}

static void test_clean(void **state)
{
    char living[32];
    stage_play(3, busy_life);
    stage_kill(1);
    assert_int_equal(stage_run("--clean"), 0);
    assert_shows("removed 1 of 3");
    assert_int_equal(stage_run(""), 0);
    snprintf(living, sizeof living, "process %d (alive)", stage_ranks[0]);
    assert_shows(living);
    assert_hides("(dead)");
}

static void make_old_file(const char *name, const void *bytes, size_t size, int age)
{
    char path[160];
    snprintf(path, sizeof path, "%s/tutti-%u-%s.box", stage_dir, (unsigned)geteuid(), name);
    int fd = open(path, O_CREAT | O_WRONLY, 0600);
    assert_int_equal(write(fd, bytes, size), size);
    struct timespec then[2] = {{.tv_sec = time(NULL) - age}, {.tv_sec = time(NULL) - age}};
    assert_int_equal(futimens(fd, then), 0);
    close(fd);
}

static void test_clean_half_made(void **state)
{
    static const char zeros[10000], noise[10000] = "noise that is no box";
    make_old_file("4000000-1", zeros, sizeof zeros, 120);
    make_old_file("4000000-2", zeros, 0, 120);
    make_old_file("4000000-3", zeros, sizeof zeros, 0); /* may be in the making */
    make_old_file("4000000-4", noise, sizeof noise, 120);
    make_old_file("4000000-5", noise, sizeof noise, 100000);
    assert_int_equal(stage_run(""), 4);
    assert_hides("reading the black box"); /* a line for all, not one for each */
    assert_shows("5 dead processes have left a box that cannot be read");
    assert_int_equal(stage_run("--pid 4000000"), 3);
    assert_shows("reading the black box");
    assert_int_equal(stage_run("--clean"), 0);
    assert_shows("removed 3 of 5");
    assert_int_equal(stage_run("--dead"), 4);
    assert_shows("2 dead processes have left");
}

/* ---- Files for other programs ---- */

static json_t *parse(const char *text)
{
    json_error_t error;
    json_t *value = json_loads(text, 0, &error);
    if (!value)
        fail_msg("line %d: %s", error.line, error.text);
    return value;
}

static json_t *parse_file(const char *path)
{
    json_error_t error;
    json_t *value = json_load_file(path, 0, &error);
    if (!value)
        fail_msg("%s line %d: %s", path, error.line, error.text);
    return value;
}

static void test_json(void **state)
{
    stage_play(4, three_wait_for_one);
    stage_kill(3);
    assert_int_equal(stage_run("--json --stuck 0"), 0);
    json_t *all = parse(stage_output), *verdict = json_array_get(json_object_get(all, "verdict"), 0);
    assert_int_equal(json_array_size(json_object_get(all, "processes")), 4);
    assert_int_equal(json_integer_value(json_object_get(verdict, "rank")), 3);
    assert_string_equal(json_string_value(json_object_get(verdict, "kind")), "dead");
    json_t *first = json_array_get(json_object_get(all, "processes"), 0);
    json_t *comm = json_array_get(json_object_get(first, "communicators"), 0);
    json_t *op = json_array_get(json_object_get(comm, "operations"), 7);
    assert_int_equal(json_integer_value(json_object_get(op, "seq")), 17);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(op, "waits"), "round")), 2);
    assert_true(json_is_null(json_object_get(op, "end_ns")));
    assert_int_equal(json_integer_value(json_object_get(json_object_get(first, "counters"), "operations")), 8);
    json_decref(all);
}

/* Slices of one track must not overlap, or the viewer draws nonsense. */
static void check_track(json_t *events, json_int_t pid, json_int_t tid)
{
    double end = -1;
    for (size_t i = 0; i < json_array_size(events); i++) {
        json_t *event = json_array_get(events, i);
        if (strcmp(json_string_value(json_object_get(event, "ph")), "X") != 0 ||
            json_integer_value(json_object_get(event, "pid")) != pid ||
            json_integer_value(json_object_get(event, "tid")) != tid)
            continue;
        double ts = json_real_value(json_object_get(event, "ts")), dur = json_real_value(json_object_get(event, "dur"));
        assert_true(ts >= 0 && dur >= 0 && ts > end - 0.002);
        end = ts + dur;
        assert_true(json_is_object(json_object_get(event, "args")) && json_is_string(json_object_get(event, "name")));
    }
}

static void test_perfetto(void **state)
{
    char arguments[128], path[100];
    size_t slices = 0, instants = 0, names = 0;
    stage_play(2, busy_life);
    snprintf(path, sizeof path, "%s/timeline.json", stage_dir);
    snprintf(arguments, sizeof arguments, "--perfetto %s", path);
    assert_int_equal(stage_run(arguments), 0);
    json_t *all = parse_file(path), *events = json_object_get(all, "traceEvents");
    for (size_t i = 0; i < json_array_size(events); i++) {
        json_t *event = json_array_get(events, i);
        const char *phase = json_string_value(json_object_get(event, "ph"));
        assert_true(json_is_integer(json_object_get(event, "pid")) && json_is_integer(json_object_get(event, "tid")));
        slices += *phase == 'X';
        instants += *phase == 'i';
        names += *phase == 'M';
    }
    assert_int_equal(slices, 2 * (WIRE_BOX_OPS + 1));
    assert_int_equal(instants, 2);
    assert_true(names >= 2 * 5);
    for (int place = 0; place < 2; place++)
        check_track(events, stage_ranks[0], 2 + 8 * place);
    json_decref(all);
    assert_int_equal(stage_run("--perfetto /nonexistent/file"), 1);
}

static void check_dump(int rank)
{
    static const char *const keys[] = {"frames",
                                       "record_id",
                                       "pg_id",
                                       "process_group",
                                       "collective_seq_id",
                                       "p2p_seq_id",
                                       "op_id",
                                       "profiling_name",
                                       "time_created_ns",
                                       "input_sizes",
                                       "input_dtypes",
                                       "output_sizes",
                                       "output_dtypes",
                                       "state",
                                       "time_discovered_started_ns",
                                       "time_discovered_completed_ns",
                                       "retired",
                                       "timeout_ms",
                                       "is_p2p"};
    char path[100];
    snprintf(path, sizeof path, "%s/dump_%d", stage_dir, rank);
    json_t *dump = parse_file(path), *entries = json_object_get(dump, "entries");
    assert_string_equal(json_string_value(json_object_get(dump, "version")), "2.10");
    assert_int_equal(json_object_size(json_object_get(dump, "pg_config")), 2);
    assert_int_equal(json_object_size(json_object_get(dump, "pg_status")), 2);
    assert_int_equal(json_array_size(entries), WIRE_BOX_OPS + 1);
    for (size_t i = 0; i < json_array_size(entries); i++)
        for (size_t key = 0; key < sizeof keys / sizeof *keys; key++)
            assert_non_null(json_object_get(json_array_get(entries, i), keys[key]));
    json_t *pair =
        json_object_get(json_object_get(dump, "pg_config"), rank < 2 ? "0000000000000050" : "0000000000000051");
    assert_string_equal(json_string_value(json_object_get(pair, "ranks")), rank < 2 ? "[0, 1]" : "[2, 3]");
    json_t *p2p = json_array_get(entries, WIRE_BOX_OPS - 1);
    assert_string_equal(json_string_value(json_object_get(p2p, "profiling_name")),
                        rank % 2 ? "nccl:recv 1<-0" : "nccl:send 0->1");
    assert_true(json_is_true(json_object_get(p2p, "is_p2p")));
    /* A collective's number would make the analyzer take the two for one. */
    assert_true(json_integer_value(json_object_get(p2p, "p2p_seq_id")) > 1 << 30);
    json_decref(dump);
}

static void test_recorder(void **state)
{
    char arguments[128];
    stage_play(4, busy_life);
    snprintf(arguments, sizeof arguments, "--flight-recorder %s/dump_", stage_dir);
    assert_int_equal(stage_run(arguments), 0);
    for (int rank = 0; rank < 4; rank++)
        check_dump(rank);
    assert_int_equal(stage_run("--flight-recorder /nonexistent/folder/x"), 1);
}

/* Python agrees that the pickle holds what the JSON holds. Times of two readings may differ by the clock's rate. */
static void test_pickle(void **state)
{
    char arguments[160], command[512];
    if (system("python3 -c pass >/dev/null 2>&1") != 0)
        skip();
    stage_play(2, busy_life);
    for (int i = 0; i < 2; i++)
        stage_kill(i);
    snprintf(arguments, sizeof arguments, "--dead --flight-recorder %s/json_", stage_dir);
    assert_int_equal(stage_run(arguments), 0);
    snprintf(arguments, sizeof arguments, "--dead --pickle --flight-recorder %s/pickle_", stage_dir);
    assert_int_equal(stage_run(arguments), 0);
    snprintf(
        command, sizeof command,
        "python3 -c \"import json,pickle; d='%s/'\n"
        "def still(x):\n for e in x['entries']:\n  for k in [k for k in e if 'time_' in k or 'dur' in k]: "
        "e[k]=type(e[k])\n return x\n"
        "for r in '01': assert still(json.load(open(d+'json_'+r))) == still(pickle.load(open(d+'pickle_'+r,'rb')))\"",
        stage_dir);
    assert_int_equal(system(command), 0);
}

static void test_counters(void **state)
{
    stage_play(2, busy_life);
    assert_int_equal(stage_run("--counters"), 0);
    assert_shows("sent_bytes transport=\"tcp\"");
    assert_shows("12345");
}

/* ---- Follow ---- */

static void test_follow_ends_by_itself(void **state)
{
    int go[2], ready[2];
    char byte, path[128], *argv[] = {"trace", "--follow", NULL};
    assert_int_equal(pipe(go), 0);
    assert_int_equal(pipe(ready), 0);
    stage_ranks[0] = fork();
    if (stage_ranks[0] == 0) {
        struct trace *trace = trace_open();
        struct trace_comm *world = trace_comm_open(trace, STAGE_WORLD, "world", 0, 1, 1);
        stage_calls(world, 0, 20);
        if (write(ready[1], "x", 1) != 1 || read(go[0], &byte, 1) != 1)
            _exit(1);
        stage_calls(world, 20, 24);
        trace_comm_close(world);
        trace_close(trace, false);
        _exit(0);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    snprintf(path, sizeof path, "%s/follow", stage_dir);
    pid_t follower = fork();
    if (follower == 0) {
        int fd = open(path, O_CREAT | O_RDWR, 0600);
        dup2(fd, STDOUT_FILENO);
        exit(cmd_trace(2, argv));
    }
    struct stat info;
    while (stat(path, &info) != 0 || info.st_size == 0)
        usleep(1000); /* until the first look has been printed */
    assert_int_equal(write(go[1], "x", 1), 1);
    int status;
    assert_int_equal(waitpid(follower, &status, 0), follower);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    int fd = open(path, O_RDONLY);
    ssize_t got = read(fd, stage_output, sizeof stage_output - 1);
    stage_output[got < 0 ? 0 : got] = 0;
    close(fd);
    assert_hides("allreduce #14 ");
    assert_int_equal(occurrences("allreduce #15 "), 1);
    assert_int_equal(occurrences("allreduce #23 "), 1); /* done just before the box was removed */
    assert_shows("has ended");
    waitpid(stage_ranks[0], NULL, 0);
    stage_ranks[0] = 0;
    for (int i = 0; i < 2; i++) {
        close(go[i]);
        close(ready[i]);
    }
    assert_int_equal(stage_run("--follow"), 4);
    assert_shows("no living process");
}

/* A window of 80 columns still shows who waits for whom. */
static void test_follow_on_a_terminal(void **state)
{
    struct winsize window = {.ws_row = 24, .ws_col = 80};
    char *argv[] = {"trace", "--follow", NULL};
    int terminal;
    size_t used = 0;
    stage_play(2, circle);
    pid_t follower = forkpty(&terminal, NULL, NULL, &window);
    if (follower == 0)
        exit(cmd_trace(2, argv));
    memset(stage_output, 0, sizeof stage_output);
    while (used + 1 < sizeof stage_output && !strstr(stage_output, "\033[0m")) {
        ssize_t got = read(terminal, stage_output + used, sizeof stage_output - 1 - used);
        assert_true(got > 0);
        used += (size_t)got;
    }
    assert_shows("rank 0    waits for rank 1, ");
    kill(follower, SIGKILL);
    waitpid(follower, NULL, 0);
    close(terminal);
}

static void test_summary(void **state)
{
    stage_play(4, three_wait_for_one);
    assert_int_equal(stage_run("--summary --stuck 60m"), 0);
    assert_shows("world: 4 of 4 ranks here, 4 alive, 3 in a call, 0 failed; calls 7 to 8; id 0000000000abcdef\n4 "
                 "processes, nothing stands still");
    assert_int_equal(stage_run("--summary --stuck 0"), 5);
    assert_int_equal(strncmp(stage_output, "VERDICT: rank 3 (process", 24), 0);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, stage_make_dir, stage_remove_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_dead_rank),
        CASE(test_rank_behind),
        CASE(test_nothing_wrong_yet),
        CASE(test_all_dead),
        CASE(test_circle),
        CASE(test_mismatch),
        CASE(test_absent_rank),
        CASE(test_cascade),
        CASE(test_failed_rank),
        CASE(test_rank_ahead),
        CASE(test_listing),
        CASE(test_filters),
        CASE(test_damaged_neighbour),
        CASE(test_wrong_options),
        CASE(test_clean),
        CASE(test_clean_half_made),
        CASE(test_json),
        CASE(test_perfetto),
        CASE(test_recorder),
        CASE(test_pickle),
        CASE(test_counters),
        CASE(test_follow_ends_by_itself),
        CASE(test_follow_on_a_terminal),
        CASE(test_summary),
    };
    return cmocka_run_group_tests_name("cli trace", tests, NULL, NULL);
}
