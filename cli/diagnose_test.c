/* SPDX-License-Identifier: Apache-2.0 */
/* tutti diagnose on real processes with real black boxes: stopped, traced, in a namespace of their own, dead, copied.
 */
#include "cli/cli.h"
#include "cli/trace_stage.h"

#include <errno.h>
#include <jansson.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>

static int diagnose(const char *arguments)
{
    return stage_command(cmd_diagnose, arguments);
}

static void three_wait_for_one(struct trace *trace, struct trace_comm *world, int rank)
{
    stage_calls(world, 10, 17);
    if (rank != 3)
        stage_wait(world, 17, rank + 1);
}

static void circle(struct trace *trace, struct trace_comm *world, int rank)
{
    stage_wait(world, 5, (rank + 1) % 4);
}

static void healthy(struct trace *trace, struct trace_comm *world, int rank)
{
    stage_calls(world, 10, 17);
}

static void many_communicators(struct trace *trace, struct trace_comm *world, int rank)
{
    for (uint64_t i = 1; i < 8; i++)
        trace_comm_open(trace, STAGE_WORLD + i, "part", rank, 2, 2);
    stage_calls(world, 10, 17);
}

static void many_lanes(struct trace *trace, struct trace_comm *world, int rank)
{
    trace_count(trace, WIRE_COUNTER_LANES_UNRECORDED, 7);
    stage_calls(world, 10, 17);
}

static char state_of(pid_t pid)
{
    char path[64], text[512] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    boxfile_slurp(path, text, sizeof text);
    const char *after = strrchr(text, ')');
    return after ? after[2] : 0;
}

static void wait_for_state(pid_t pid, char state)
{
    while (state_of(pid) != state)
        usleep(1000);
}

/* ---- Hangs ---- */

static void test_stopped(void **state)
{
    char sentence[128], number[32];
    stage_play(4, circle);
    kill(stage_ranks[2], SIGSTOP);
    wait_for_state(stage_ranks[2], 'T');
    assert_int_equal(diagnose("--stuck 0 --apart 10ms"), 5);
    snprintf(sentence, sizeof sentence,
             "VERDICT: rank 2 (process %d) is stopped and is waited for by ranks 0 1 3 in allreduce #5",
             stage_ranks[2]);
    assert_shows(sentence);
    assert_shows("  other hang: stopped (certain)\n");
    assert_shows("says T (stopped)\n");
    assert_shows("none of these ranks moved between two looks");
    snprintf(sentence, sizeof sentence, "what to do: kill -CONT %d lets it go on", stage_ranks[2]);
    assert_shows(sentence);
    assert_int_equal(stage_run("--stuck 0"), 0);
    assert_shows(") is stopped and is waited for by ranks 0 1 3");
    snprintf(number, sizeof number, "--stuck 0 --apart 0 %d", stage_ranks[2]);
    assert_int_equal(diagnose(number), 5);
    assert_shows(") is stopped and has stood still in allreduce #5");
}

static void test_traced(void **state)
{
    char sentence[128];
    stage_play(4, circle);
    assert_int_equal(ptrace(PTRACE_SEIZE, stage_ranks[1], 0, 0), 0);
    assert_int_equal(ptrace(PTRACE_INTERRUPT, stage_ranks[1], 0, 0), 0);
    assert_int_equal(waitpid(stage_ranks[1], NULL, 0), stage_ranks[1]);
    assert_int_equal(diagnose("--stuck 0 --apart 10ms"), 5);
    snprintf(sentence, sizeof sentence, "rank 1 (process %d) is held by process %d (", stage_ranks[1], getpid());
    assert_shows(sentence);
    assert_shows("/stat says t (traced)");
    ptrace(PTRACE_DETACH, stage_ranks[1], 0, 0);
}

static void test_behind(void **state)
{
    stage_play(4, three_wait_for_one);
    assert_int_equal(diagnose("--stuck 0 --apart 300ms --stacks"), 5);
    assert_shows("\n  stacks:\n    thread ");
    assert_shows(": state S");
    assert_shows(
        ") has not called allreduce #17 and is waited for by ranks 0 1 2 in allreduce #17 of communicator world");
    assert_shows(": it sleeps, or waits for something");
    assert_shows("py-spy dump --pid ");
}

static void test_dead_and_copied(void **state)
{
    char command[256];
    stage_play(4, three_wait_for_one);
    for (int i = 0; i < 4; i++)
        stage_kill(i);
    assert_int_equal(diagnose(""), 4);
    assert_shows("no black box of a living process here; 4 of dead ones: --dead looks at them");
    snprintf(command, sizeof command, "mkdir %s/copies && cp %s/*.box %s/copies", stage_dir, stage_dir, stage_dir);
    assert_int_equal(system(command), 0);
    assert_int_equal(diagnose("--dead"), 5);
    assert_shows("has not called allreduce #17 and is waited for by ranks 0 1 2");
    snprintf(command, sizeof command, "--dead --dir %s/copies", stage_dir);
    assert_int_equal(diagnose(command), 5);
    assert_shows("has not called allreduce #17 and is waited for by ranks 0 1 2");
}

/* The Flight Recorder's form, written by tutti and read again, has the same culprit. */
static void test_recorder(void **state)
{
    char arguments[320];
    stage_play(4, three_wait_for_one);
    for (int pickle = 0; pickle < 2; pickle++) {
        snprintf(arguments, sizeof arguments, "%s--flight-recorder %s/rank_", pickle ? "--pickle " : "", stage_dir);
        assert_int_equal(stage_run(arguments), 0);
        snprintf(arguments, sizeof arguments, "--stuck 0 %s/rank_0 %s/rank_1 %s/rank_2 %s/rank_3", stage_dir, stage_dir,
                 stage_dir, stage_dir);
        assert_int_equal(diagnose(arguments), 5);
        assert_shows("VERDICT: rank 3 has not called allreduce #17 and is waited for by ranks 0 1 2 in allreduce #17 "
                     "of communicator world");
    }
    snprintf(arguments, sizeof arguments, "mkdir -p %s/all/node && mv %s/rank_? %s/all/node && echo a >%s/all/log",
             stage_dir, stage_dir, stage_dir, stage_dir);
    assert_int_equal(system(arguments), 0);
    snprintf(arguments, sizeof arguments, "--stuck 0 %s/all", stage_dir);
    assert_int_equal(diagnose(arguments), 5);
    assert_shows("VERDICT: rank 3 has not called allreduce #17 and is waited for by ranks 0 1 2 in allreduce #17 ");
    assert_shows("\nread: 4 ranks by the Flight Recorder, 1 files that are neither a black box nor a dump\n");
}

/* A dump from before the first call, or in a form that names no groups. */
static void test_no_communicator(void **state)
{
    char arguments[320];
    stage_play(1, healthy);
    snprintf(arguments, sizeof arguments, "echo '{\"version\": \"2.9\", \"entries\": []}' >%s/rank_0", stage_dir);
    assert_int_equal(system(arguments), 0);
    snprintf(arguments, sizeof arguments, "%s/rank_0", stage_dir);
    assert_int_equal(diagnose(arguments), 4);
    assert_shows("nothing can be said: 1 process, and no communicator in what was read\n");
}

/* A rank that ended before it could dump. */
static void test_one_dump_lacks(void **state)
{
    char arguments[320];
    stage_play(3, healthy);
    snprintf(arguments, sizeof arguments, "--flight-recorder %s/rank_", stage_dir);
    assert_int_equal(stage_run(arguments), 0);
    snprintf(arguments, sizeof arguments, "%s/rank_0 %s/rank_2", stage_dir, stage_dir);
    assert_int_equal(diagnose(arguments), 4);
    assert_shows("not all was there to look at: of communicator world these ranks have no dump: 1\n");
    snprintf(arguments, sizeof arguments, "%s/rank_0 %s/rank_1 %s/rank_2", stage_dir, stage_dir, stage_dir);
    assert_int_equal(diagnose(arguments), 0);
}

/* The folder of the black boxes has room for these and for one communicator each, as a container's /dev/shm. */
static void test_no_room(void **state)
{
    if (mount("tmpfs", stage_dir, "tmpfs", 0, "size=520k") != 0)
        skip();
    stage_play(2, many_communicators);
    int status = diagnose("--stuck 0 --apart 10ms");
    for (int i = 0; i < 2; i++)
        stage_kill(i);
    assert_int_equal(umount(stage_dir), 0);
    assert_int_equal(status, 4);
    assert_shows("not in the black boxes, whose folder or table was full: make room ");
    assert_shows("nothing wrong was found in what was there: 2 processes");
}

static void test_too_many_lanes(void **state)
{
    stage_play(2, many_lanes);
    assert_int_equal(diagnose("--stuck 0 --apart 10ms"), 0);
    assert_shows("14 lanes had no place in the black boxes, each of which has 256\n");
}

/* ---- Another program, and a wait in the kernel ---- */

static void become_sleep(int signal)
{
    execl("/bin/sleep", "sleep", "600", NULL);
}

/* A process whose child has not come back from vfork is in state D. */
static void wait_in_kernel(int signal)
{
    if (vfork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
}

static void two_wait_for_two(struct trace *trace, struct trace_comm *world, int rank)
{
    signal(SIGUSR1, become_sleep);
    signal(SIGUSR2, wait_in_kernel);
    stage_calls(world, 10, 17);
    if (rank < 2)
        stage_wait(world, 17, rank + 2);
}

static void test_other_program(void **state)
{
    char path[64], name[32] = "", sentence[128];
    stage_play(4, two_wait_for_two);
    kill(stage_ranks[3], SIGUSR2);
    wait_for_state(stage_ranks[3], 'D');
    assert_int_equal(diagnose("--stuck 0 --apart 10ms"), 5);
    assert_shows("/stat says D: it waits in the kernel, for a disk, a network file system or a device, in ");
    snprintf(sentence, sizeof sentence,
             "no debugger gets in, and it may not end before that is over: cat /proc/%d/stack", stage_ranks[3]);
    assert_shows(sentence);
    kill(stage_ranks[2], SIGUSR1);
    for (snprintf(path, sizeof path, "/proc/%d/comm", stage_ranks[2]); strcmp(name, "sleep\n") != 0; usleep(1000))
        boxfile_slurp(path, name, sizeof name);
    assert_int_equal(diagnose("--stuck 0 --apart 10ms --dead"), 5);
    snprintf(sentence, sizeof sentence, "rank 2 (process %d) has become another program (sleep) and is waited for by ",
             stage_ranks[2]);
    assert_shows(sentence);
    assert_shows("other hang: replaced (certain)");
    kill(stage_ranks[2], SIGKILL); /* and now it has ended, though nobody has waited for it */
    wait_for_state(stage_ranks[2], 'Z');
    assert_int_equal(diagnose("--stuck 0 --apart 10ms --dead"), 5);
    assert_shows("other hang: dead (certain)");
}

/* ---- Control groups ---- */

/* Makes a group of the first version below this controller, or of the second. False: not allowed here. */
static bool make_group(char *folder, size_t size, const char *controller)
{
    const char *const mounts[] = {controller, "unified", ""};
    for (size_t i = 0; i < 3; i++) {
        snprintf(folder, size, "/sys/fs/cgroup/%s", mounts[i]);
        if (access(folder, W_OK) == 0 &&
            snprintf(folder, size, "/sys/fs/cgroup/%s/tutti-diagnose-%d", mounts[i], getpid()) &&
            mkdir(folder, 0755) == 0)
            return true;
    }
    return false;
}

static bool put(const char *folder, const char *file, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0)
        close(fd);
    return done;
}

static void join(const char *folder, pid_t pid)
{
    char number[16];
    snprintf(number, sizeof number, "%d", pid);
    assert_true(put(folder, "cgroup.procs", number));
}

static void remove_group(const char *folder, int rank)
{
    stage_kill(rank);
    while (rmdir(folder) != 0 && errno == EBUSY)
        usleep(1000);
}

static void test_frozen(void **state)
{
    char folder[128], sentence[256];
    if (!make_group(folder, sizeof folder, "freezer"))
        skip();
    stage_play(4, three_wait_for_one);
    join(folder, stage_ranks[3]);
    assert_true(put(folder, "cgroup.freeze", "1") || put(folder, "freezer.state", "FROZEN"));
    int status = diagnose("--stuck 0 --apart 10ms");
    assert_true(put(folder, "cgroup.freeze", "0") || put(folder, "freezer.state", "THAWED"));
    remove_group(folder, 3);
    assert_int_equal(status, 5);
    assert_shows("other hang: stopped (certain)");
    assert_shows(") is frozen and is waited for by ranks 0 1 2 in allreduce #17");
    snprintf(sentence, sizeof sentence, "control group /tutti-diagnose-%d is frozen: no process of it runs", getpid());
    assert_shows(sentence);
}

static void hoard(int signal)
{
    for (;;) {
        char *bytes = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        if (bytes != MAP_FAILED)
            memset(bytes, 1, 1 << 20);
    }
}

static void one_hoards(struct trace *trace, struct trace_comm *world, int rank)
{
    signal(SIGUSR1, hoard);
    three_wait_for_one(trace, world, rank);
}

/* The kernel's log names the process that it has killed, and the group whose limit that was. */
static void test_out_of_memory(void **state)
{
    char folder[128], sentence[256];
    if (access("/dev/kmsg", R_OK) != 0 || !make_group(folder, sizeof folder, "memory"))
        skip();
    if (!put(folder, "memory.max", "33554432") && !put(folder, "memory.limit_in_bytes", "33554432")) {
        rmdir(folder);
        skip();
    }
    put(folder, "memory.swap.max", "0");
    stage_play(4, one_hoards);
    join(folder, stage_ranks[3]);
    kill(stage_ranks[3], SIGUSR1);
    wait_for_state(stage_ranks[3], 'Z');
    int status = diagnose("--stuck 0 --apart 10ms");
    remove_group(folder, 3);
    assert_int_equal(status, 5);
    assert_shows("other hang: dead (certain)");
    snprintf(sentence, sizeof sentence, "the kernel has killed it for memory, says its log: the limit was that of ");
    assert_shows(sentence);
    snprintf(sentence, sizeof sentence, "/tutti-diagnose-%d\n", getpid());
    assert_shows(sentence);
}

static void compute(int signal)
{
    for (volatile int i = 0;;)
        i++;
}

static void one_computes(struct trace *trace, struct trace_comm *world, int rank)
{
    signal(SIGUSR1, compute);
    three_wait_for_one(trace, world, rank);
}

/* A twentieth of a processor: the group of a real process is named. */
static void test_real_quota(void **state)
{
    char folder[128], path[160], sentence[256], text[2048] = "";
    if (!make_group(folder, sizeof folder, "cpu"))
        skip();
    if (!put(folder, "cpu.max", "5000 100000") && !put(folder, "cpu.cfs_quota_us", "5000")) {
        rmdir(folder);
        skip();
    }
    stage_play(4, one_computes);
    join(folder, stage_ranks[3]);
    kill(stage_ranks[3], SIGUSR1);
    snprintf(path, sizeof path, "%s/cpu.stat", folder);
    while (!strstr(text, "nr_throttled ") || strstr(text, "nr_throttled 0\n"))
        boxfile_slurp(path, text, sizeof text);
    int status = diagnose("--stuck 0 --apart 1s");
    remove_group(folder, 3);
    assert_true(status == 5 || status == 6);
    snprintf(sentence, sizeof sentence, "control group /tutti-diagnose-%d: its quota of processors was used up for ",
             getpid());
    assert_shows(sentence);
}

/* ---- A namespace of its own ---- */

static void stand_still(int ready)
{
    struct trace *trace = trace_open();
    stage_wait(trace_comm_open(trace, STAGE_WORLD, "world", 1, 2, 2), 3, 0);
    if (write(ready, "x", 1) == 1)
        for (;;)
            pause();
    _exit(1);
}

/* Process 1 of a new namespace plays; its keeper ends with it. False: not allowed here. */
static pid_t play_inside(int ready)
{
    pid_t keeper = fork();
    if (keeper)
        return keeper;
    if (unshare(CLONE_NEWPID | CLONE_NEWNS) != 0)
        _exit(77);
    pid_t inside = fork();
    if (inside == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 || mount("proc", "/proc", "proc", 0, NULL) != 0)
            _exit(77);
        stand_still(ready);
    }
    int status;
    waitpid(inside, &status, 0);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 0);
}

static pid_t child_of(pid_t parent)
{
    char path[64], text[64] = "";
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", parent, parent);
    boxfile_slurp(path, text, sizeof text);
    return atoi(text);
}

static void test_namespace(void **state)
{
    int ready[2], status;
    char byte;
    assert_int_equal(pipe(ready), 0);
    pid_t keeper = play_inside(ready[1]);
    close(ready[1]);
    if (read(ready[0], &byte, 1) != 1) {
        waitpid(keeper, &status, 0);
        close(ready[0]);
        skip();
    }
    close(ready[0]);
    pid_t inside = child_of(keeper);
    kill(inside, SIGSTOP);
    wait_for_state(inside, 'T');
    assert_int_equal(diagnose("--stuck 0 --apart 10ms"), 5);
    kill(inside, SIGKILL);
    kill(keeper, SIGKILL);
    waitpid(keeper, NULL, 0);
    assert_shows("VERDICT: rank 1 (process 1) is stopped");
}

/* ---- The command ---- */

static void test_nothing_wrong(void **state)
{
    stage_play(3, healthy);
    assert_int_equal(diagnose("--stuck 0 --apart 10ms"), 0);
    assert_shows("nothing wrong was found: 3 processes, 1 communicator, looked at twice or more, 10.0 ms apart\n");
    assert_int_equal(diagnose("--stuck 0 --apart 0"), 0);
    assert_shows("looked at once");
}

/* All ranks are on one host: there is no network to report on. */
static void test_network(void **state)
{
    stage_play(3, healthy);
    assert_int_equal(diagnose("--network --apart 0"), 0);
    assert_shows("NETWORK: job world, 3 ranks on 1 host: nothing is remembered of data between hosts, so nothing is ");
    assert_shows("\n  STEPS OF 1 CALL, the latest ");
    assert_shows("nothing wrong was found");
    assert_int_equal(diagnose("--network --apart 0 --json"), 0);
    json_t *all = json_loads(stage_output, 0, NULL), *job = json_array_get(json_object_get(all, "network"), 0);
    assert_int_equal(json_integer_value(json_object_get(job, "ranks")), 3);
    assert_int_equal(json_integer_value(json_object_get(job, "ranks_without_lanes")), 3);
    assert_true(json_is_integer(json_object_get(json_object_get(job, "time_ns"), "receiver late")));
    assert_int_equal(json_array_size(json_object_get(job, "interfaces")), 0);
    json_decref(all);
    assert_int_equal(diagnose("--network --apart 0 no-such-communicator"), 3);
}

static void test_statuses(void **state)
{
    assert_int_equal(diagnose(""), 4);
    assert_int_equal(diagnose("--nonsense"), 2);
    assert_int_equal(diagnose("--apart x"), 2);
    assert_int_equal(diagnose("--stuck 2h"), 2);
    assert_int_equal(diagnose("99999999999999999999"), 2);
    assert_int_equal(diagnose("4000001"), 3);
    assert_int_equal(diagnose("no-such-communicator"), 3);
    assert_int_equal(diagnose("/nonexistent/box"), 3);
    assert_int_equal(diagnose("/proc/self/exe"), 1);
    assert_int_equal(diagnose("--dir /nonexistent/folder"), 1);
    assert_int_equal(diagnose("--history /nonexistent/days"), 3);
    assert_int_equal(diagnose("--history /proc/self/exe"), 1);
    assert_int_equal(diagnose("--history /dev/null"), 0);
    assert_shows("HOST, LAST 7 DAYS");
    assert_int_equal(diagnose("--help"), 0);
}

static void test_json(void **state)
{
    stage_play(4, circle);
    kill(stage_ranks[2], SIGSTOP);
    wait_for_state(stage_ranks[2], 'T');
    assert_int_equal(diagnose("--stuck 0 --apart 10ms --json world"), 5);
    json_t *all = json_loads(stage_output, 0, NULL), *finding = json_array_get(json_object_get(all, "findings"), 0);
    assert_int_equal(json_array_size(json_object_get(all, "findings")), 1);
    assert_string_equal(json_string_value(json_object_get(finding, "kind")), "stopped");
    assert_string_equal(json_string_value(json_object_get(finding, "class")), "other hang");
    assert_int_equal(json_integer_value(json_object_get(finding, "pid")), stage_ranks[2]);
    assert_int_equal(json_integer_value(json_object_get(finding, "world_rank")), 2);
    assert_true(json_is_null(json_object_get(finding, "peer")));
    assert_true(json_array_size(json_object_get(finding, "evidence")) >= 3);
    json_decref(all);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, stage_make_dir, stage_remove_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_stopped),    CASE(test_traced),          CASE(test_behind),         CASE(test_dead_and_copied),
        CASE(test_recorder),   CASE(test_no_communicator), CASE(test_one_dump_lacks), CASE(test_no_room),
        CASE(test_namespace),  CASE(test_nothing_wrong),   CASE(test_network),        CASE(test_statuses),
        CASE(test_json),       CASE(test_other_program),   CASE(test_frozen),         CASE(test_out_of_memory),
        CASE(test_real_quota), CASE(test_too_many_lanes),
    };
    return cmocka_run_group_tests_name("cli diagnose", tests, NULL, NULL);
}
