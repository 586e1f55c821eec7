/* SPDX-License-Identifier: Apache-2.0 */
/* Readers of a black box while threads and processes write it: every record that is read is whole. */
#include "base/param.h"
#include "trace/trace.h"
#include "wire/boxread.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static const struct wire_name ring = {"ring"};
static char dir[64];

static int make_dir(void **state)
{
    strcpy(dir, "/tmp/tutti-race-XXXXXX");
    assert_non_null(mkdtemp(dir));
    setenv("TUTTI_TRACE_DIR", dir, 1);
    param_reload();
    return 0;
}

static int remove_dir(void **state)
{
    return rmdir(dir);
}

static struct blackbox *must_read(const char *path)
{
    struct blackbox *box;
    assert_int_equal(blackbox_read(path, &box), TUTTI_SUCCESS);
    return box;
}

static _Atomic bool stop;

/* Operation n has count n, bytes 3n, and waits for peer n & 1023 in round n & 4095. */
static void *write_on(void *arg)
{
    struct trace_comm *comm = arg;
    for (uint64_t n = 1; !atomic_load(&stop); n++) {
        struct trace_op *op = trace_op_begin(comm, n, WIRE_ALLREDUCE, TUTTI_INT8, TUTTI_SUM, (int)(n & 127), n, 3 * n);
        if (n & 1)
            trace_op_start(op, &ring, (uint32_t)n, 1);
        for (uint32_t i = 0; i < 3; i++)
            trace_op_wait(op, (uint32_t)(n & 4095), i, (int)(n & 1023));
        trace_op_end(comm, op, (tutti_result_t)(n % 7));
    }
    return NULL;
}

static void check_consistent(const struct blackbox_op *op)
{
    assert_true(op->count == op->seq && op->bytes == 3 * op->seq && op->root == (int)(op->seq & 127));
    if (op->wait_since)
        assert_true(op->wait_peer == (int)(op->seq & 1023) && op->wait_round == (op->seq & 4095) &&
                    op->wait_since >= op->begin);
    if (op->rounds)
        assert_int_equal(op->rounds, (uint32_t)op->seq);
    if (op->state == WIRE_OP_DONE)
        assert_true(op->result == (int)(op->seq % 7) && op->end >= op->begin);
}

/* With sanitizers a tenth: in TSan one takes a third of a second. */
static int looks(int count)
{
    return getenv("TUTTI_TEST_QUICK") ? count / 10 : count;
}

/* Looks `count` times, and first of all until something is written. */
static void check_snapshots(const char *path, int count)
{
    size_t seen = 0;
    for (int i = 0; i < count || !seen; i++) {
        struct blackbox *box = must_read(path);
        for (size_t c = 0; c < box->comm_count; c++) {
            for (size_t j = 0; j < box->comms[c].op_count; j++)
                check_consistent(&box->comms[c].ops[j]);
            seen += box->comms[c].op_count;
        }
        blackbox_free(box);
    }
}

static void test_reader_beside_writer_thread(void **state)
{
    struct trace *trace = trace_open();
    pthread_t thread;
    atomic_store(&stop, false);
    assert_int_equal(pthread_create(&thread, NULL, write_on, trace_comm_open(trace, 1, "w", 0, 1, 1)), 0);
    check_snapshots(trace_path(trace), looks(300));
    atomic_store(&stop, true);
    pthread_join(thread, NULL);
    trace_close(trace, false);
}

static void test_reader_beside_writer_process(void **state)
{
    struct trace *trace = trace_open();
    struct trace_comm *comm = trace_comm_open(trace, 1, "w", 0, 1, 1);
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        atomic_store(&stop, false);
        write_on(comm);
    }
    check_snapshots(trace_path(trace), looks(300));
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    check_snapshots(trace_path(trace), 1);
    trace_close(trace, false);
}

/* Communicators that come and go while someone reads. */
static void *churn(void *arg)
{
    for (uint64_t n = 0; !atomic_load(&stop); n++) {
        struct trace_comm *comm = trace_comm_open(arg, n, "churn", (int)(n % 8), 8, 1);
        trace_op_end(comm, trace_op_begin(comm, n, WIRE_ALLREDUCE, 0, 0, (int)(n & 127), n, 3 * n),
                     (tutti_result_t)(n % 7));
        struct trace_about about = TRACE_NOTHING;
        about.value1 = n;
        about.value2 = ~n;
        trace_event(arg, WIRE_EVENT_COMM_INIT, &about);
        trace_comm_close(comm);
    }
    return NULL;
}

static void test_reader_beside_churn(void **state)
{
    struct trace *trace = trace_open();
    pthread_t threads[2];
    atomic_store(&stop, false);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, churn, trace), 0);
    for (int i = 0; i < looks(100); i++) {
        struct blackbox *box = must_read(trace_path(trace));
        for (size_t c = 0; c < box->comm_count; c++)
            assert_true(box->comms[c].rank == (int)(box->comms[c].id % 8));
        for (size_t e = 0; e < box->event_count; e++)
            assert_true(box->events[e].kind != WIRE_EVENT_COMM_INIT || box->events[e].value1 == ~box->events[e].value2);
        blackbox_free(box);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    trace_close(trace, false);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, make_dir, remove_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_reader_beside_writer_thread),
        CASE(test_reader_beside_writer_process),
        CASE(test_reader_beside_churn),
    };
    return cmocka_run_group_tests_name("trace race", tests, NULL, NULL);
}
