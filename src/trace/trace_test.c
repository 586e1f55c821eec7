/* SPDX-License-Identifier: Apache-2.0 */
/* Writer and reader of the black box together: what was written is read, whatever happens in between. */
#include "trace/trace_testing.h"
#include "wire/boxfile.h"
#include "wire/boxread.h"

#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80 /* of Linux 5.6 */
#endif

static const struct wire_name ring = {"ring"};

static struct trace_op *begin(struct trace_comm *comm, uint64_t seq)
{
    return trace_op_begin(comm, seq, WIRE_ALLREDUCE, TUTTI_FLOAT32, TUTTI_SUM, -1, 1024, 4096);
}

static void test_round_trip(void **state)
{
    struct trace *trace = trace_open();
    assert_non_null(trace);
    struct trace_comm *comm = trace_comm_open(trace, 0xabc, "world", 1, 4, 2);
    assert_non_null(comm);
    struct trace_op *quick = begin(comm, 1);
    trace_op_name(quick, &ring, 6, 1);
    trace_op_end(comm, quick, TUTTI_SUCCESS);
    struct trace_op *slow = trace_op_begin(comm, 2, WIRE_REDUCE, TUTTI_BFLOAT16, 77, 3, 10, 20);
    trace_op_start(slow, &ring, 6, 2);
    trace_op_wait(slow, 1, 0, 0);
    trace_op_wait(slow, 5, 1, 3);
    struct trace_op *bad = trace_op_begin(comm, 3, WIRE_BARRIER, -1, -1, -1, 0, 0);
    trace_op_start(bad, &ring, 1, 1);
    trace_count(trace, WIRE_COUNTER_REGISTERING, 17);
    uint64_t since = trace_now();
    usleep(1000);
    trace_op_waited(bad, since);
    trace_op_end(comm, bad, TUTTI_REMOTE_ERROR);
    begin(comm, 4);

    struct blackbox *box = must_read(trace_path(trace));
    assert_true(box->alive);
    assert_int_equal(box->torn, 0);
    assert_int_equal(box->header.pid, getpid());
    assert_int_equal(box->comm_count, 1);
    const struct blackbox_comm *seen = &box->comms[0];
    assert_string_equal(seen->name, "world");
    assert_true(seen->id == 0xabc && seen->rank == 1 && seen->nranks == 4 && seen->local_ranks == 2);
    assert_int_equal(seen->op_count, 4);
    const struct blackbox_op *op = &seen->ops[0];
    assert_true(op->seq == 1 && op->count == 1024 && op->bytes == 4096 && op->state == WIRE_OP_DONE && op->root == -1);
    assert_true(op->begin > 0 && op->begin <= box->now && op->start == 0 && op->end == 0);
    assert_string_equal(op->algorithm, "ring");
    op = &seen->ops[1];
    assert_true(op->state == WIRE_OP_RUNNING && op->root == 3 && op->wait_peer == 3 && op->wait_round == 5 &&
                op->wait_slice == 1);
    assert_true(op->begin <= op->start && op->start <= op->wait_since && op->wait_since <= box->now);
    assert_string_equal(blackbox_op_name(op->op), "premul");
    assert_string_equal(blackbox_type_name(op->type), "bfloat16");
    assert_string_equal(blackbox_collective_name(op->collective), "reduce");
    assert_true(op->rounds == 6 && op->slices == 2);
    op = &seen->ops[2];
    assert_true(op->state == WIRE_OP_DONE && op->result == TUTTI_REMOTE_ERROR && op->end >= op->start && op->end > 0);
    assert_int_equal(op->registering, 17);
    assert_true(op->waited > 1 && op->waited <= 1 + op->end - op->begin && seen->ops[1].waited == 0);
    assert_string_equal(blackbox_op_name(op->op), "");
    assert_int_equal(seen->ops[3].state, WIRE_OP_ENQUEUED);
    assert_int_equal(box->counters[WIRE_COUNTER_OPERATIONS], 4);
    blackbox_free(box);
    trace_comm_close(comm);
    box = must_read(trace_path(trace));
    assert_int_equal(box->comms[0].state, WIRE_COMM_CLOSED);
    blackbox_free(box);
    trace_close(trace, false);
    assert_int_equal(boxes_left(), 0);
}

static void test_over_at_once(void **state)
{
    struct trace *trace = trace_open();
    struct trace_comm *comm = trace_comm_open(trace, 1, "w", 0, 2, 2);
    uint64_t what = trace_what(WIRE_BROADCAST, TUTTI_FLOAT32, -1, 1);
    trace_op_passed(comm, 1, what, 7, 28, &ring, TUTTI_SUCCESS);
    trace_op_passed(comm, 2, what, 7, 28, &ring, TUTTI_REMOTE_ERROR);
    trace_op_passed(comm, 3, trace_what(WIRE_SEND, TUTTI_INT8, -1, 0), 5, 5, NULL, TUTTI_SUCCESS);
    trace_op_passed(NULL, 4, what, 7, 28, &ring, TUTTI_SUCCESS);
    struct blackbox *box = must_read(trace_path(trace));
    const struct blackbox_op *op = &box->comms[0].ops[1], *message = &box->comms[0].ops[2];
    assert_true(box->comms[0].op_count == 3 && box->comms[0].ops[0].result == TUTTI_SUCCESS &&
                op->result == TUTTI_REMOTE_ERROR);
    assert_true(op->state == WIRE_OP_DONE && op->seq == 2 && op->begin && op->start == 0 && op->end == 0);
    assert_true(op->collective == WIRE_BROADCAST && op->type == TUTTI_FLOAT32 && op->root == 1 && op->count == 7 &&
                op->bytes == 28);
    assert_true(message->state == WIRE_OP_DONE && message->collective == WIRE_SEND && message->root == 0 &&
                message->seq == 3);
    assert_true(box->counters[WIRE_COUNTER_OPERATIONS] == 3 && box->counters[WIRE_COUNTER_OPERATIONS_AT_ONCE] == 3);
    assert_string_equal(op->algorithm, "ring");
    assert_string_equal(message->algorithm, "");
    blackbox_free(box);
    trace_close(trace, false);
}

static void test_private_and_sparse(void **state)
{
    struct trace *trace = trace_open();
    struct stat info;
    assert_int_equal(stat(trace_path(trace), &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    assert_true(info.st_size == WIRE_BOX_BYTES && info.st_blocks * 512 < 256 * 1024);
    trace_close(trace, false);
}

static void test_ring_wraps(void **state)
{
    struct trace *trace = trace_open();
    struct trace_comm *comm = trace_comm_open(trace, 1, "w", 0, 1, 1);
    for (uint64_t seq = 0; seq < 3 * WIRE_BOX_OPS + 7; seq++)
        trace_op_end(comm, begin(comm, seq), TUTTI_SUCCESS);
    struct blackbox *box = must_read(trace_path(trace));
    assert_int_equal(box->comms[0].op_count, WIRE_BOX_OPS);
    for (size_t i = 0; i < WIRE_BOX_OPS; i++)
        assert_int_equal(box->comms[0].ops[i].seq, 2 * WIRE_BOX_OPS + 7 + i);
    blackbox_free(box);
    trace_close(trace, false);
}

/* What a GPU carries out is called, issued, perhaps seen waiting, and seen to be over. */
static void test_on_a_gpu(void **state)
{
    static const struct wire_name kernel = {"one-shot"};
    struct trace *trace = trace_open();
    struct trace_comm *comm = trace_comm_open(trace, 1, "w", 0, 2, 2);
    struct trace_op *op[4];
    for (uint64_t i = 0; i < 4; i++) {
        op[i] = trace_op_call(comm, i, i ? WIRE_ALLREDUCE : WIRE_GROUP, TUTTI_INT8, -1, -1, 5, 5, 6ull | 9ull << 32);
        assert_int_equal(trace_op_place(comm, op[i]), i);
    }
    for (int i = 0; i < 3; i++)
        trace_op_issued(op[i], &kernel, 2, i == 2 ? 5ull | 3ull << 32 : 0);
    trace_op_step(op[2], wire_op_step(WIRE_REDUCE, 1000, 3, 5));
    trace_op_seen_waiting(op[0]);
    trace_op_seen_done(op[0], TUTTI_REMOTE_ERROR);
    trace_op_seen_waiting(op[1]);
    trace_op_seen_waiting(op[1]);
    trace_op_captured(comm, begin(comm, 4), &kernel, 0, 0);
    struct blackbox *box = must_read(trace_path(trace));
    const struct blackbox_op *seen = box->comms[0].ops;
    assert_true(seen[0].device && seen[0].state == WIRE_OP_DONE && seen[0].result == TUTTI_REMOTE_ERROR &&
                seen[0].sends_to == 6);
    assert_true(seen[0].recvs_from == 9 && seen[0].start >= seen[0].begin && seen[0].end >= seen[0].start &&
                !seen[0].head_since);
    assert_true(seen[1].state == WIRE_OP_RUNNING && seen[1].start && seen[1].head_since == seen[0].end);
    assert_true(seen[2].state == WIRE_OP_ENQUEUED && seen[3].state == WIRE_OP_ENQUEUED && !seen[2].start);
    assert_string_equal(seen[2].algorithm, "one-shot");
    assert_true(seen[2].rounds == 2 && seen[2].sends_to == 5 && seen[2].recvs_from == 3);
    assert_true(seen[2].step == wire_op_step(WIRE_REDUCE, 255, 3, 5) && !seen[2].slices && !seen[1].step);
    assert_string_equal(seen[3].algorithm, "");
    assert_true(seen[4].captured && !seen[4].device && !seen[4].sends_to && seen[4].state == WIRE_OP_DONE &&
                box->comms[0].captured == 1);
    blackbox_free(box);
    trace_close(trace, false);
}

static void test_room(void **state)
{
    struct trace *trace = trace_open();
    struct trace_comm *comm = trace_comm_open(trace, 1, "w", 0, 1, 1);
    struct trace_op *first = begin(comm, 0);
    for (uint64_t seq = 1; seq < WIRE_BOX_OPS; seq++) {
        assert_true(trace_comm_room(comm));
        begin(comm, seq);
    }
    assert_false(trace_comm_room(comm));
    trace_op_seen_done(first, TUTTI_SUCCESS);
    assert_true(trace_comm_room(comm));
    trace_close(trace, false);
}

/* A communicator's place may be given to another one, which has a ledger of its own. */
static void test_ledger(void **state)
{
    struct trace *trace = trace_open();
    struct trace_comm *comm = trace_comm_open(trace, 1, "w", 0, 1, 1);
    trace_comm_memory(NULL, WIRE_MEMORY_BULK, 1);
    trace_comm_memory(comm, WIRE_MEMORY_BULK, 7000);
    trace_comm_memory(comm, WIRE_MEMORY_MAILBOX, 30);
    trace_comm_memory(comm, WIRE_MEMORY_BULK, 2000);
    struct blackbox *box = must_read(trace_path(trace));
    assert_true(box->comms[0].memory[WIRE_MEMORY_BULK] == 9000 && blackbox_memory(&box->comms[0], "device") == 9000);
    assert_true(blackbox_memory(&box->comms[0], "pinned") == 30 && blackbox_memory(&box->comms[0], NULL) == 9030);
    assert_string_equal(blackbox_memory_row(WIRE_MEMORY_BULK)->name, "bulk");
    assert_string_equal(blackbox_memory_row(WIRE_MEMORY_COUNT)->name, "?");
    blackbox_free(box);
    trace_comm_close(comm);
    for (int i = 0; i < WIRE_BOX_COMMS; i++)
        assert_non_null(trace_comm_open(trace, 2, "x", 0, 1, 1));
    box = must_read(trace_path(trace));
    for (size_t i = 0; i < box->comm_count; i++)
        assert_int_equal(blackbox_memory(&box->comms[i], NULL), 0);
    blackbox_free(box);
    trace_close(trace, false);
}

/* An unfinished operation is never overwritten: newer ones are counted instead. */
static void test_unfinished_stay(void **state)
{
    struct trace *trace = trace_open();
    struct trace_comm *comm = trace_comm_open(trace, 1, "w", 0, 1, 1);
    struct trace_op *first = begin(comm, 0);
    trace_op_start(first, &ring, 1, 1);
    for (uint64_t seq = 1; seq < WIRE_BOX_OPS; seq++)
        assert_non_null(begin(comm, seq));
    assert_null(begin(comm, WIRE_BOX_OPS));
    assert_null(begin(comm, WIRE_BOX_OPS + 1));
    trace_op_wait(NULL, 0, 0, 0);
    struct blackbox *box = must_read(trace_path(trace));
    assert_int_equal(box->comms[0].ops[0].seq, 0);
    assert_int_equal(box->comms[0].unrecorded, 2);
    assert_int_equal(box->comms[0].newest_unrecorded, WIRE_BOX_OPS + 1);
    assert_int_equal(box->counters[WIRE_COUNTER_OPERATIONS_UNRECORDED], 2);
    blackbox_free(box);
    trace_op_end(comm, first, TUTTI_SUCCESS);
    assert_non_null(begin(comm, WIRE_BOX_OPS + 2));
    trace_close(trace, false);
}

static void test_events(void **state)
{
    struct trace *trace = trace_open();
    for (unsigned i = 0; i < WIRE_BOX_EVENTS + 5; i++) {
        struct trace_about about = TRACE_NOTHING;
        about.lane = 2;
        about.peer_pid = 99;
        about.value1 = i;
        trace_event(trace, WIRE_EVENT_LANE_DOWN, &about);
    }
    struct blackbox *box = must_read(trace_path(trace));
    assert_int_equal(box->event_count, WIRE_BOX_EVENTS);
    assert_int_equal(box->events[0].value1, 5);
    const struct blackbox_event *last = &box->events[WIRE_BOX_EVENTS - 1];
    assert_true(last->value1 == WIRE_BOX_EVENTS + 4 && last->lane == 2 && last->peer_pid == 99 &&
                last->peer_rank == -1);
    assert_true(last->time > 0 && last->time <= box->now);
    assert_string_equal(blackbox_event_row(last->kind)->name, "lane_down");
    assert_string_equal(blackbox_event_row(9999)->name, "?");
    blackbox_free(box);
    trace_close(trace, false);
}

static void test_failed_keeps_the_file(void **state)
{
    struct trace *trace = trace_open();
    struct trace_comm *comm = trace_comm_open(trace, 1, "a\033[31mb", 0, 2, 1);
    trace_comm_failed(comm, TUTTI_REMOTE_ERROR, 1, "rank 1 died");
    trace_comm_close(comm);
    trace_close(trace, false);
    assert_int_equal(boxes_left(), 1);
    char **paths;
    size_t count;
    assert_int_equal(boxfile_list(dir, &paths, &count), TUTTI_SUCCESS);
    struct blackbox *box = must_read(paths[0]);
    assert_false(box->alive);
    const struct blackbox_comm *comm_seen = &box->comms[0];
    assert_true(comm_seen->state == WIRE_COMM_FAILED && comm_seen->culprit == 1 &&
                comm_seen->result == TUTTI_REMOTE_ERROR);
    assert_string_equal(comm_seen->sentence, "rank 1 died");
    assert_string_equal(comm_seen->name, "a?[31mb"); /* nothing that a terminal would obey */
    blackbox_free(box);
    boxfile_free(paths, count);
}

static void test_abort(void **state)
{
    struct trace *trace = trace_open();
    struct trace_comm *comm = trace_comm_open(trace, 1, NULL, 0, 2, 1);
    trace_comm_aborted(comm);
    struct blackbox *box = must_read(trace_path(trace));
    assert_int_equal(box->comms[0].state, WIRE_COMM_ABORTED);
    blackbox_free(box);
    trace_close(trace, false);
}

/* Waits for rank 1 in its second operation, until it is killed. */
static void wait_in_vain(int ready)
{
    struct trace *trace = trace_open();
    struct trace_comm *comm = trace_comm_open(trace, 5, "world", 0, 2, 2);
    trace_op_end(comm, begin(comm, 16), TUTTI_SUCCESS);
    struct trace_op *op = begin(comm, 17);
    trace_op_start(op, &ring, 4, 1);
    trace_op_wait(op, 2, 0, 1);
    trace_expect_pause(trace, "nothing", 1000 * NS_PER_S);
    if (write(ready, "x", 1) == 1)
        pause();
    _exit(1);
}

/* Children of this process have other clocks than it. */
static bool shift_clocks(void)
{
    static const char offsets[] = "monotonic 5000 0\nboottime 1000000 0\n";
    if (unshare(CLONE_NEWTIME) != 0)
        return false;
    int fd = open("/proc/self/timens_offsets", O_WRONLY);
    bool shifted = write(fd, offsets, sizeof offsets - 1) == sizeof offsets - 1;
    close(fd);
    return shifted;
}

/* A process in a time namespace: its start and its times are those of other clocks. */
static void test_other_clocks(void **state)
{
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (!shift_clocks() && write(ready[1], "-", 1) == 1)
            _exit(0);
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            wait_in_vain(ready[1]);
        }
        wait(NULL);
        _exit(0);
    }
    char byte;
    assert_int_equal(read(ready[0], &byte, 1), 1);
    if (byte == 'x') {
        char **paths;
        size_t count;
        assert_int_equal(boxfile_list(dir, &paths, &count), TUTTI_SUCCESS);
        assert_int_equal(count, 1);
        struct blackbox *box = must_read(paths[0]);
        const struct blackbox_op *last = &box->comms[0].ops[1];
        assert_true(box->alive);
        assert_true(last->wait_since <= box->now && box->now - last->wait_since < 100 * NS_PER_S);
        assert_true(box->expected_since <= box->now && box->now - box->expected_since < 100 * NS_PER_S);
        assert_true(box->expected_until == box->expected_since + 1000 * NS_PER_S);
        kill((pid_t)box->header.pid, SIGKILL);
        blackbox_free(box);
        boxfile_free(paths, count);
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(ready[0]);
    close(ready[1]);
    if (byte != 'x')
        skip(); /* not allowed here, or the kernel has none */
}

static void test_killed(void **state)
{
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0)
        wait_in_vain(ready[1]);
    char byte;
    assert_int_equal(read(ready[0], &byte, 1), 1);
    char **paths;
    size_t count;
    assert_int_equal(boxfile_list(dir, &paths, &count), TUTTI_SUCCESS);
    assert_int_equal(count, 1);
    struct blackbox *box = must_read(paths[0]);
    assert_true(box->alive);
    blackbox_free(box);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    box = must_read(paths[0]);
    assert_false(box->alive);
    assert_int_equal(box->header.pid, child);
    assert_int_equal(box->comms[0].op_count, 2);
    const struct blackbox_op *last = &box->comms[0].ops[1];
    assert_true(last->seq == 17 && last->state == WIRE_OP_RUNNING && last->wait_peer == 1 && last->wait_round == 2);
    assert_true(box->now >= last->wait_since && box->now <= clock_ns());
    blackbox_free(box);
    boxfile_free(paths, count);
    close(ready[0]);
    close(ready[1]);
}

/* A child of the process neither removes the file nor keeps it alive. */
static void test_fork_leaves_it(void **state)
{
    struct trace *trace = trace_open();
    pid_t child = fork();
    if (child == 0) {
        trace_close(trace, false);
        _exit(0);
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
    struct blackbox *box = must_read(trace_path(trace));
    assert_true(box->alive);
    blackbox_free(box);
    trace_close(trace, false);
}

static void test_disabled(void **state)
{
    setenv("TUTTI_TRACE", "0", 1);
    param_reload();
    struct trace *trace = trace_open();
    assert_null(trace);
    assert_string_equal(trace_path(trace), "");
    struct trace_comm *comm = trace_comm_open(trace, 1, "x", 0, 1, 1);
    assert_null(comm);
    struct trace_op *op = begin(comm, 1);
    assert_null(op);
    trace_op_name(op, &ring, 1, 1);
    trace_op_start(op, &ring, 1, 1);
    trace_op_wait(op, 0, 0, -1);
    trace_op_end(comm, op, TUTTI_SUCCESS);
    trace_comm_failed(comm, TUTTI_REMOTE_ERROR, 0, "x");
    trace_comm_aborted(comm);
    trace_comm_close(comm);
    trace_event(trace, WIRE_EVENT_PROBE, &(struct trace_about)TRACE_NOTHING);
    trace_count(trace, WIRE_COUNTER_SLEEPS, 1);
    trace_close(trace, true);
    assert_int_equal(boxes_left(), 0);
}

static void test_many_communicators(void **state)
{
    struct trace *trace = trace_open();
    struct trace_comm *comms[WIRE_BOX_COMMS];
    for (int i = 0; i < WIRE_BOX_COMMS; i++) {
        comms[i] = trace_comm_open(trace, (uint64_t)i, "c", 0, 1, 1);
        assert_non_null(comms[i]);
    }
    assert_null(trace_comm_open(trace, 1000, "late", 0, 1, 1));
    trace_comm_failed(comms[3], TUTTI_REMOTE_ERROR, -1, "x");
    trace_comm_close(comms[3]);
    trace_op_end(comms[7], begin(comms[7], 1), TUTTI_SUCCESS);
    trace_comm_close(comms[7]);
    trace_comm_close(comms[5]);
    struct trace_comm *again = trace_comm_open(trace, 1001, "again", 0, 1, 1);
    assert_ptr_equal(again, comms[7]); /* ended well, longest ago */
    struct blackbox *box = must_read(trace_path(trace));
    assert_int_equal(box->comm_count, WIRE_BOX_COMMS);
    assert_int_equal(box->counters[WIRE_COUNTER_COMMS_UNRECORDED], 1);
    assert_int_equal(box->comms[7].op_count, 0);
    assert_string_equal(box->comms[7].name, "again");
    blackbox_free(box);
    assert_ptr_equal(trace_comm_open(trace, 1002, "b", 0, 1, 1), comms[5]);
    assert_ptr_equal(trace_comm_open(trace, 1003, "c", 0, 1, 1), comms[3]);
    trace_close(trace, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_round_trip),
        CASE(test_over_at_once),
        CASE(test_private_and_sparse),
        CASE(test_ring_wraps),
        CASE(test_unfinished_stay),
        CASE(test_on_a_gpu),
        CASE(test_room),
        CASE(test_ledger),
        CASE(test_events),
        CASE(test_failed_keeps_the_file),
        CASE(test_abort),
        CASE(test_other_clocks),
        CASE(test_killed),
        CASE(test_fork_leaves_it),
        CASE(test_disabled),
        CASE(test_many_communicators),
    };
    return cmocka_run_group_tests_name("trace", tests, NULL, NULL);
}
