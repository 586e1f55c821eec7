/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that are wrong: each is refused with a sentence that names the culprit, and the communicator works as before.
 */
#include "tutti/tutti.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static tutti_comm_t pair[2];
static int32_t in[8], out[8];

static void refused(tutti_result_t got, tutti_result_t want, const char *names)
{
    assert_int_equal(got, want);
    if (!strstr(tutti_get_last_error(NULL), names))
        fail_msg("\"%s\" does not name \"%s\"", tutti_get_last_error(NULL), names);
}

/* Nothing has changed: an allreduce of both ranks still works. */
static void still_works(void)
{
    int32_t one[2] = {3, 4}, sum[2] = {0, 0};
    assert_int_equal(tutti_group_start(), TUTTI_SUCCESS);
    for (int rank = 0; rank < 2; rank++)
        assert_int_equal(tutti_allreduce(&one[rank], &sum[rank], 1, TUTTI_INT32, TUTTI_SUM, pair[rank], NULL),
                         TUTTI_SUCCESS);
    assert_int_equal(tutti_group_end(), TUTTI_SUCCESS);
    for (int rank = 0; rank < 2; rank++)
        assert_int_equal(tutti_comm_synchronize(pair[rank]), TUTTI_SUCCESS);
    assert_int_equal(sum[0], 7);
    assert_int_equal(sum[1], 7);
}

static int make_pair(void **state)
{
    (void)state;
    return tutti_comm_init_all(pair, 2) != TUTTI_SUCCESS;
}

static int drop_pair(void **state)
{
    (void)state;
    tutti_comm_destroy(pair[0]);
    tutti_comm_destroy(pair[1]);
    return 0;
}

static void null_communicators(void **state)
{
    int number;
    const size_t one[2] = {1, 1};
    tutti_result_t result;
    tutti_comm_t child;
    (void)state;
    refused(tutti_allreduce(in, out, 1, TUTTI_INT32, TUTTI_SUM, NULL, NULL), TUTTI_INVALID_ARGUMENT,
            "communicator is NULL");
    refused(tutti_reduce(in, out, 1, TUTTI_INT32, TUTTI_SUM, 0, NULL, NULL), TUTTI_INVALID_ARGUMENT,
            "communicator is NULL");
    refused(tutti_broadcast(in, out, 1, TUTTI_INT32, 0, NULL, NULL), TUTTI_INVALID_ARGUMENT, "communicator is NULL");
    refused(tutti_allgather(in, out, 1, TUTTI_INT32, NULL, NULL), TUTTI_INVALID_ARGUMENT, "communicator is NULL");
    refused(tutti_reduce_scatter(in, out, 1, TUTTI_INT32, TUTTI_SUM, NULL, NULL), TUTTI_INVALID_ARGUMENT,
            "communicator is NULL");
    refused(tutti_alltoall(in, out, 1, TUTTI_INT32, NULL, NULL), TUTTI_INVALID_ARGUMENT, "communicator is NULL");
    refused(tutti_scan(in, out, 1, TUTTI_INT32, TUTTI_SUM, NULL, NULL), TUTTI_INVALID_ARGUMENT, "communicator is NULL");
    refused(tutti_allgatherv(in, out, one, NULL, TUTTI_INT32, NULL, NULL), TUTTI_INVALID_ARGUMENT,
            "communicator is NULL");
    refused(tutti_reduce_scatterv(in, one, NULL, out, TUTTI_INT32, TUTTI_SUM, NULL, NULL), TUTTI_INVALID_ARGUMENT,
            "communicator is NULL");
    refused(tutti_gather(in, out, 1, TUTTI_INT32, 0, NULL, NULL), TUTTI_INVALID_ARGUMENT, "communicator is NULL");
    refused(tutti_scatter(in, out, 1, TUTTI_INT32, 0, NULL, NULL), TUTTI_INVALID_ARGUMENT, "communicator is NULL");
    refused(tutti_barrier(NULL, NULL), TUTTI_INVALID_ARGUMENT, "communicator is NULL");
    refused(tutti_comm_suspend(NULL), TUTTI_INVALID_ARGUMENT, "communicator is NULL");
    refused(tutti_comm_resume(NULL), TUTTI_INVALID_ARGUMENT, "communicator is NULL");
    refused(tutti_send(in, 1, TUTTI_INT32, 0, NULL, NULL), TUTTI_INVALID_ARGUMENT, "communicator is NULL");
    refused(tutti_recv(out, 1, TUTTI_INT32, 0, NULL, NULL), TUTTI_INVALID_ARGUMENT, "communicator is NULL");
    refused(tutti_comm_count(NULL, &number), TUTTI_INVALID_ARGUMENT, "communicator is NULL");
    refused(tutti_comm_rank(NULL, &number), TUTTI_INVALID_ARGUMENT, "communicator is NULL");
    refused(tutti_comm_synchronize(NULL), TUTTI_INVALID_ARGUMENT, "communicator is NULL");
    refused(tutti_comm_finalize(NULL), TUTTI_INVALID_ARGUMENT, "communicator is NULL");
    refused(tutti_comm_abort(NULL), TUTTI_INVALID_ARGUMENT, "communicator is NULL");
    refused(tutti_comm_get_async_error(NULL, &result), TUTTI_INVALID_ARGUMENT, "communicator is NULL");
    refused(tutti_comm_split(NULL, 0, 0, &child, NULL), TUTTI_INVALID_ARGUMENT, "communicator is NULL");
    refused(tutti_comm_duplicate(NULL, &child, NULL), TUTTI_INVALID_ARGUMENT, "communicator is NULL");
    assert_int_equal(tutti_comm_destroy(NULL), TUTTI_SUCCESS);
    assert_int_equal(tutti_stream_destroy(NULL), TUTTI_SUCCESS);
}

static void addresses(void **state)
{
    char text[TUTTI_ADDRESS_BYTES];
    struct in6_addr number;
    const char *transport = getenv("TUTTI_TRANSPORT");
    bool none = transport && strcmp(transport, "shm") == 0;
    (void)state;
    if (none)
        refused(tutti_comm_address(pair[0], 1, text, sizeof text), TUTTI_INVALID_USAGE, "rank 1 has no address");
    for (int rank = 0; rank < 2 && !none; rank++) {
        memset(text, 'x', sizeof text);
        assert_int_equal(tutti_comm_address(pair[1 - rank], rank, text, sizeof text), TUTTI_SUCCESS);
        assert_true(inet_pton(strchr(text, ':') ? AF_INET6 : AF_INET, text, &number) == 1);
    }
    refused(tutti_comm_address(pair[0], 2, text, sizeof text), TUTTI_INVALID_ARGUMENT, "rank is 2 of 2");
    refused(tutti_comm_address(pair[0], -1, text, sizeof text), TUTTI_INVALID_ARGUMENT, "rank is -1 of 2");
    if (!none)
        refused(tutti_comm_address(pair[0], 0, text, 3), TUTTI_INVALID_ARGUMENT, "3 bytes are too few");
    refused(tutti_comm_address(pair[0], 0, NULL, 0), TUTTI_INVALID_ARGUMENT, "NULL");
    refused(tutti_comm_address(NULL, 0, text, sizeof text), TUTTI_INVALID_ARGUMENT, "communicator is NULL");
}

static void pauses(void **state)
{
    (void)state;
    refused(tutti_expect_pause(pair[0], "x", -1), TUTTI_INVALID_ARGUMENT, "seconds is -1; want 0 to 604800");
    refused(tutti_expect_pause(pair[0], "x", 604801), TUTTI_INVALID_ARGUMENT, "seconds is 604801");
    refused(tutti_expect_pause(NULL, "x", 1), TUTTI_INVALID_ARGUMENT, "communicator is NULL");
    assert_int_equal(tutti_expect_pause(pair[0], "checkpoint", 604800), TUTTI_SUCCESS);
    assert_int_equal(tutti_expect_pause(pair[1], NULL, 0), TUTTI_SUCCESS);
}

static void wrong_arguments(void **state)
{
    tutti_comm_t comm = pair[0];
    size_t counts[2] = {1, 1}, offsets[2] = {0, 1}, wide[2] = {SIZE_MAX, 1}, other[2] = {2, 1};
    (void)state;
    refused(tutti_allreduce(in, out, 1, (tutti_type_t)12, TUTTI_SUM, comm, NULL), TUTTI_INVALID_ARGUMENT, "type is 12");
    refused(tutti_allreduce(in, out, 1, (tutti_type_t)-1, TUTTI_SUM, comm, NULL), TUTTI_INVALID_ARGUMENT, "type is -1");
    refused(tutti_allreduce(in, out, 1, TUTTI_INT32, (tutti_op_t)5, comm, NULL), TUTTI_INVALID_ARGUMENT, "operator 5");
    refused(tutti_allreduce(in, out, 1, TUTTI_INT32, (tutti_op_t)-1, comm, NULL), TUTTI_INVALID_ARGUMENT,
            "operator -1");
    refused(tutti_allreduce(NULL, out, 1, TUTTI_INT32, TUTTI_SUM, comm, NULL), TUTTI_INVALID_ARGUMENT, "send buffer");
    refused(tutti_allreduce(in, NULL, 1, TUTTI_INT32, TUTTI_SUM, comm, NULL), TUTTI_INVALID_ARGUMENT, "recv buffer");
    refused(tutti_allreduce(in, out, SIZE_MAX, TUTTI_INT32, TUTTI_SUM, comm, NULL), TUTTI_INVALID_ARGUMENT, "count");
    refused(tutti_allgather(in, out, SIZE_MAX / 8, TUTTI_INT32, comm, NULL), TUTTI_INVALID_ARGUMENT, "count");
    refused(tutti_broadcast(in, out, 1, TUTTI_INT32, 2, comm, NULL), TUTTI_INVALID_ARGUMENT, "rank 2");
    refused(tutti_broadcast(in, out, 1, TUTTI_INT32, -1, comm, NULL), TUTTI_INVALID_ARGUMENT, "rank -1");
    refused(tutti_reduce(in, out, 1, TUTTI_INT32, TUTTI_SUM, 7, comm, NULL), TUTTI_INVALID_ARGUMENT, "rank 7");
    refused(tutti_gather(in, out, 1, TUTTI_INT32, 2, comm, NULL), TUTTI_INVALID_ARGUMENT, "rank 2");
    refused(tutti_scatter(in, out, 1, TUTTI_INT32, 2, comm, NULL), TUTTI_INVALID_ARGUMENT, "rank 2");
    refused(tutti_send(in, 1, TUTTI_INT32, 2, comm, NULL), TUTTI_INVALID_ARGUMENT, "rank 2");
    refused(tutti_recv(NULL, 1, TUTTI_INT32, 1, comm, NULL), TUTTI_INVALID_ARGUMENT, "recv buffer");
    refused(tutti_send(in, 1, TUTTI_INT32, 0, comm, NULL), TUTTI_INVALID_USAGE, "itself");
    refused(tutti_alltoall(in, in, 1, TUTTI_INT32, comm, NULL), TUTTI_INVALID_USAGE, "in place");
    refused(tutti_alltoallv(in, NULL, offsets, out, counts, offsets, TUTTI_INT32, comm, NULL), TUTTI_INVALID_ARGUMENT,
            "send counts");
    refused(tutti_alltoallv(in, counts, offsets, out, counts, NULL, TUTTI_INT32, comm, NULL), TUTTI_INVALID_ARGUMENT,
            "recv counts");
    refused(tutti_alltoallv(in, wide, offsets, out, counts, offsets, TUTTI_INT32, comm, NULL), TUTTI_INVALID_ARGUMENT,
            "count");
    refused(tutti_alltoallv(in, counts, offsets, out, other, offsets, TUTTI_INT32, comm, NULL), TUTTI_INVALID_ARGUMENT,
            "itself 1");
    refused(tutti_scan(in, out, 1, TUTTI_INT32, TUTTI_AVG, comm, NULL), TUTTI_INVALID_USAGE, "no average");
    refused(tutti_scan(NULL, out, 1, TUTTI_INT32, TUTTI_SUM, comm, NULL), TUTTI_INVALID_ARGUMENT, "send buffer");
    refused(tutti_scan(in, out, 1, TUTTI_INT32, (tutti_op_t)5, comm, NULL), TUTTI_INVALID_ARGUMENT, "operator 5");
    refused(tutti_allgatherv(in, out, NULL, NULL, TUTTI_INT32, comm, NULL), TUTTI_INVALID_ARGUMENT, "counts are NULL");
    refused(tutti_allgatherv(in, out, wide, NULL, TUTTI_INT32, comm, NULL), TUTTI_INVALID_ARGUMENT, "count");
    refused(tutti_allgatherv(in, out, counts, wide, TUTTI_INT32, comm, NULL), TUTTI_INVALID_ARGUMENT, "overflow");
    refused(tutti_allgatherv(in, NULL, counts, NULL, TUTTI_INT32, comm, NULL), TUTTI_INVALID_ARGUMENT, "recv buffer");
    refused(tutti_allgatherv(NULL, out, counts, NULL, TUTTI_INT32, comm, NULL), TUTTI_INVALID_ARGUMENT, "send buffer");
    refused(tutti_allgatherv(in, out, counts, NULL, (tutti_type_t)12, comm, NULL), TUTTI_INVALID_ARGUMENT,
            "type is 12");
    refused(tutti_reduce_scatterv(in, NULL, NULL, out, TUTTI_INT32, TUTTI_SUM, comm, NULL), TUTTI_INVALID_ARGUMENT,
            "counts are NULL");
    refused(tutti_reduce_scatterv(NULL, other, NULL, out, TUTTI_INT32, TUTTI_SUM, comm, NULL), TUTTI_INVALID_ARGUMENT,
            "send buffer");
    refused(tutti_reduce_scatterv(in, other, NULL, NULL, TUTTI_INT32, TUTTI_SUM, comm, NULL), TUTTI_INVALID_ARGUMENT,
            "recv buffer");
    refused(tutti_reduce_scatterv(in, other, NULL, out, TUTTI_INT32, (tutti_op_t)5, comm, NULL), TUTTI_INVALID_ARGUMENT,
            "operator 5");
    still_works();
}

static void wrong_operators(void **state)
{
    tutti_op_t op = (tutti_op_t)99, many[64];
    int32_t two = 2;
    (void)state;
    refused(tutti_op_create_premul_sum(NULL, &two, TUTTI_INT32, pair[0]), TUTTI_INVALID_ARGUMENT, "op");
    refused(tutti_op_create_premul_sum(&op, NULL, TUTTI_INT32, pair[0]), TUTTI_INVALID_ARGUMENT, "scalar");
    refused(tutti_op_create_premul_sum(&op, &two, (tutti_type_t)40, pair[0]), TUTTI_INVALID_ARGUMENT, "type is 40");
    assert_int_equal(op, 99);
    refused(tutti_op_destroy(TUTTI_SUM, pair[0]), TUTTI_INVALID_ARGUMENT, "operator 0");
    refused(tutti_op_destroy((tutti_op_t)9, pair[0]), TUTTI_INVALID_ARGUMENT, "operator 9");
    for (int i = 0; i < 64; i++)
        assert_int_equal(tutti_op_create_premul_sum(&many[i], &two, TUTTI_INT32, pair[0]), TUTTI_SUCCESS);
    refused(tutti_op_create_premul_sum(&op, &two, TUTTI_INT32, pair[0]), TUTTI_INVALID_USAGE, "64 operators");
    refused(tutti_allreduce(in, out, 1, TUTTI_FLOAT32, many[3], pair[0], NULL), TUTTI_INVALID_ARGUMENT, "made for");
    refused(tutti_allreduce(in, out, 1, TUTTI_INT32, many[3], pair[1], NULL), TUTTI_INVALID_ARGUMENT, "operator");
    for (int i = 0; i < 64; i++)
        assert_int_equal(tutti_op_destroy(many[i], pair[0]), TUTTI_SUCCESS);
    refused(tutti_op_destroy(many[0], pair[0]), TUTTI_INVALID_ARGUMENT, "destroyed before");
    still_works();
}

static void wrong_inits(void **state)
{
    tutti_comm_t comm = NULL;
    tutti_unique_id_t id;
    tutti_config_t config = TUTTI_CONFIG_INITIALIZER;
    (void)state;
    memset(&id, 0, sizeof id);
    refused(tutti_get_unique_id(NULL), TUTTI_INVALID_ARGUMENT, "id is NULL");
    refused(tutti_comm_init_rank(NULL, 1, &id, 0, NULL), TUTTI_INVALID_ARGUMENT, "comm is NULL");
    refused(tutti_comm_init_rank(&comm, 1, NULL, 0, NULL), TUTTI_INVALID_ARGUMENT, "id is NULL");
    refused(tutti_comm_init_rank(&comm, 0, &id, 0, NULL), TUTTI_INVALID_ARGUMENT, "nranks is 0");
    refused(tutti_comm_init_rank(&comm, 2, &id, 2, NULL), TUTTI_INVALID_ARGUMENT, "rank is 2");
    refused(tutti_comm_init_rank(&comm, 2, &id, -1, NULL), TUTTI_INVALID_ARGUMENT, "rank is -1");
    config.size = 1;
    refused(tutti_comm_init_rank(&comm, 1, &id, 0, &config), TUTTI_INVALID_ARGUMENT, "config.size is 1");
    config = (tutti_config_t)TUTTI_CONFIG_INITIALIZER;
    config.blocking = 2;
    refused(tutti_comm_init_rank(&comm, 1, &id, 0, &config), TUTTI_INVALID_ARGUMENT, "config.blocking is 2");
    config.blocking = 1;
    config.timeout_ms = -5;
    refused(tutti_comm_init_rank(&comm, 1, &id, 0, &config), TUTTI_INVALID_ARGUMENT, "config.timeout_ms is -5");
    config = (tutti_config_t)TUTTI_CONFIG_INITIALIZER;
    config.blocks = 65;
    refused(tutti_comm_init_rank(&comm, 1, &id, 0, &config), TUTTI_INVALID_ARGUMENT, "config.blocks is 65");
    config.blocks = 64;
    config.policy = 3;
    refused(tutti_comm_init_rank(&comm, 1, &id, 0, &config), TUTTI_INVALID_ARGUMENT, "config.policy is 3");
    refused(tutti_comm_init_all(NULL, 2), TUTTI_INVALID_ARGUMENT, "comms");
    refused(tutti_comm_init_all(&comm, 0), TUTTI_INVALID_ARGUMENT, "n is 0");
    assert_null(comm);
}

static void groups(void **state)
{
    (void)state;
    refused(tutti_group_end(), TUTTI_INVALID_USAGE, "without tutti_group_start");
    tutti_group_start();
    memset(out, 9, sizeof out);
    assert_int_equal(tutti_allreduce(in, out, 8, TUTTI_INT32, TUTTI_SUM, pair[0], NULL), TUTTI_SUCCESS);
    assert_int_equal(tutti_broadcast(in, out, 1, TUTTI_INT32, 5, pair[1], NULL), TUTTI_INVALID_ARGUMENT);
    assert_int_equal(tutti_group_end(), TUTTI_INVALID_ARGUMENT);
    assert_int_equal(out[0], 0x09090909); /* nothing was issued */
    tutti_group_start();
    tutti_group_start();
    int32_t sent[2] = {11, 12}, got[2] = {0, 0};
    for (int rank = 0; rank < 2; rank++) {
        assert_int_equal(tutti_send(&sent[rank], 1, TUTTI_INT32, rank, pair[rank], NULL), TUTTI_SUCCESS);
        assert_int_equal(tutti_recv(&got[rank], 1, TUTTI_INT32, rank, pair[rank], NULL), TUTTI_SUCCESS);
    }
    assert_int_equal(tutti_group_end(), TUTTI_SUCCESS);
    assert_int_equal(tutti_group_end(), TUTTI_SUCCESS);
    for (int rank = 0; rank < 2; rank++)
        assert_int_equal(tutti_comm_synchronize(pair[rank]), TUTTI_SUCCESS);
    assert_memory_equal(sent, got, sizeof got);
    still_works();
}

static void groups_are_cancelled(void **state)
{
    tutti_comm_t made = NULL;
    tutti_unique_id_t id;
    (void)state;
    double seconds = 0;
    refused(tutti_group_cancel(), TUTTI_INVALID_USAGE, "without tutti_group_start");
    refused(tutti_group_estimate(&seconds), TUTTI_INVALID_USAGE, "without tutti_group_start");
    assert_int_equal(tutti_get_unique_id(&id), TUTTI_SUCCESS);
    memset(out, 9, sizeof out);
    tutti_group_start();
    tutti_group_start();
    assert_int_equal(tutti_comm_init_rank(&made, 1, &id, 0, NULL), TUTTI_SUCCESS);
    assert_int_equal(tutti_allreduce(in, out, 8, TUTTI_INT32, TUTTI_SUM, pair[0], NULL), TUTTI_SUCCESS);
    assert_int_equal(tutti_group_estimate(&seconds), TUTTI_SUCCESS); /* what is made has no ranks yet */
    assert_true(seconds > 0 && seconds < 1);
    assert_int_equal(tutti_group_cancel(), TUTTI_SUCCESS);
    assert_int_equal(tutti_group_end(), TUTTI_SUCCESS);
    assert_int_equal(tutti_allreduce(in, out, 8, TUTTI_INT32, TUTTI_SUM, pair[1], NULL), TUTTI_SUCCESS);
    refused(tutti_group_end(), TUTTI_INVALID_USAGE, "cancelled");
    assert_null(made);
    assert_int_equal(out[0], 0x09090909);
    still_works();
}

static void communicators_rest(void **state)
{
    tutti_comm_t alone;
    tutti_result_t how = TUTTI_INTERNAL_ERROR;
    (void)state;
    assert_int_equal(tutti_comm_init_all(&alone, 1), TUTTI_SUCCESS);
    refused(tutti_comm_resume(alone), TUTTI_INVALID_USAGE, "not suspended");
    assert_int_equal(tutti_comm_suspend(alone), TUTTI_SUCCESS);
    refused(tutti_comm_suspend(alone), TUTTI_INVALID_USAGE, "tutti_comm_resume()");
    refused(tutti_allreduce(in, out, 8, TUTTI_INT32, TUTTI_SUM, alone, NULL), TUTTI_INVALID_USAGE, "suspended");
    refused(tutti_comm_shrink(alone, NULL, 0, &alone, NULL), TUTTI_INVALID_USAGE, "suspended");
    assert_int_equal(tutti_comm_get_async_error(alone, &how), TUTTI_SUCCESS);
    assert_int_equal(how, TUTTI_SUCCESS);
    tutti_group_start();
    refused(tutti_comm_resume(alone), TUTTI_INVALID_USAGE, "group");
    assert_int_equal(tutti_group_end(), TUTTI_INVALID_USAGE);
    assert_int_equal(tutti_comm_resume(alone), TUTTI_SUCCESS);
    assert_int_equal(tutti_allreduce(in, out, 8, TUTTI_INT32, TUTTI_SUM, alone, NULL), TUTTI_SUCCESS);
    assert_int_equal(tutti_comm_suspend(alone), TUTTI_SUCCESS);
    assert_int_equal(tutti_comm_destroy(alone), TUTTI_SUCCESS);
}

static void groups_keep_what_they_use(void **state)
{
    tutti_comm_t both[2], child = (tutti_comm_t)1;
    tutti_stream_t stream;
    (void)state;
    assert_int_equal(tutti_comm_init_all(both, 2), TUTTI_SUCCESS);
    assert_int_equal(tutti_stream_create(&stream), TUTTI_SUCCESS);
    tutti_group_start();
    assert_int_equal(tutti_allreduce(in, out, 8, TUTTI_INT32, TUTTI_SUM, both[0], stream), TUTTI_SUCCESS);
    refused(tutti_comm_destroy(both[0]), TUTTI_INVALID_USAGE, "open group");
    refused(tutti_comm_finalize(both[0]), TUTTI_INVALID_USAGE, "open group");
    refused(tutti_stream_destroy(stream), TUTTI_INVALID_USAGE, "this stream");
    assert_int_equal(tutti_comm_abort(NULL), TUTTI_INVALID_ARGUMENT);
    refused(tutti_group_end(), TUTTI_INVALID_USAGE, "on this communicator"); /* the first error, and its sentence */
    assert_int_equal(tutti_stream_destroy(stream), TUTTI_SUCCESS);
    assert_int_equal(tutti_comm_abort(both[1]), TUTTI_SUCCESS);
    tutti_group_start();
    assert_int_equal(tutti_comm_duplicate(both[1], &child, NULL), TUTTI_REMOTE_ERROR);
    assert_int_equal(tutti_group_end(), TUTTI_REMOTE_ERROR);
    for (int rank = 0; rank < 2; rank++)
        assert_int_equal(tutti_comm_destroy(both[rank]), TUTTI_SUCCESS);
    still_works();
}

/* Messages of one communicator, and behind them whatever else: all take part, in their order. */
static void groups_of_messages(void **state)
{
    enum { MANY = 20 };
    tutti_comm_t comm;
    tutti_stream_t stream;
    int sent[MANY], got[MANY] = {0};
    (void)state;
    assert_int_equal(tutti_comm_init_all(&comm, 1), TUTTI_SUCCESS);
    assert_int_equal(tutti_stream_create(&stream), TUTTI_SUCCESS);
    for (int few = 1; few <= MANY; few++) {
        tutti_group_start();
        for (int i = 0; i < few; i++) {
            sent[i] = 100 * few + i;
            assert_int_equal(tutti_send(&sent[i], 1, TUTTI_INT32, 0, comm, stream), TUTTI_SUCCESS);
            assert_int_equal(tutti_recv(&got[i], 1, TUTTI_INT32, 0, comm, stream), TUTTI_SUCCESS);
            if (i == few / 2)
                assert_int_equal(tutti_allreduce(in, out, 8, TUTTI_INT32, TUTTI_SUM, comm, stream), TUTTI_SUCCESS);
        }
        assert_int_equal(tutti_group_end(), TUTTI_SUCCESS);
        assert_int_equal(tutti_stream_synchronize(stream), TUTTI_SUCCESS);
        assert_memory_equal(got, sent, (size_t)few * sizeof *got);
    }
    tutti_group_start();
    assert_int_equal(tutti_send(sent, 1, TUTTI_INT32, 0, comm, stream), TUTTI_SUCCESS);
    refused(tutti_comm_destroy(comm), TUTTI_INVALID_USAGE, "this communicator");
    refused(tutti_stream_destroy(stream), TUTTI_INVALID_USAGE, "this stream");
    refused(tutti_group_end(), TUTTI_INVALID_USAGE, "this communicator");
    assert_int_equal(tutti_stream_destroy(stream), TUTTI_SUCCESS);
    assert_int_equal(tutti_comm_destroy(comm), TUTTI_SUCCESS);
}

static void groups_leave_nothing_out(void **state)
{
    tutti_comm_t made = NULL;
    tutti_unique_id_t id;
    (void)state;
    assert_int_equal(tutti_get_unique_id(&id), TUTTI_SUCCESS);
    tutti_group_start();
    assert_int_equal(tutti_comm_init_rank(&made, 1, &id, 0, NULL), TUTTI_SUCCESS);
    refused(tutti_barrier(made, NULL), TUTTI_INVALID_USAGE, "still being made");
    refused(tutti_send(in, 1, TUTTI_INT32, 0, made, NULL), TUTTI_INVALID_USAGE, "still being made");
    refused(tutti_comm_destroy(made), TUTTI_INVALID_USAGE, "open group");
    refused(tutti_group_end(), TUTTI_INVALID_USAGE, "still being made");
    assert_null(made);
    tutti_group_start();
    setenv("MASTER_ADDR", "127.0.0.1", 1); /* a launcher's variable, and nothing says who this process is */
    assert_int_equal(tutti_comm_init_from_env(&made, NULL), TUTTI_INVALID_USAGE);
    unsetenv("MASTER_ADDR");
    memset(out, 9, sizeof out);
    for (int rank = 0; rank < 2; rank++)
        assert_int_equal(tutti_allreduce(in, out, 8, TUTTI_INT32, TUTTI_SUM, pair[rank], NULL), TUTTI_SUCCESS);
    assert_int_equal(tutti_group_end(), TUTTI_INVALID_USAGE);
    assert_int_equal(out[0], 0x09090909);
    tutti_group_start();
    refused(tutti_comm_init_all(&made, 0), TUTTI_INVALID_ARGUMENT, "n is 0");
    refused(tutti_group_end(), TUTTI_INVALID_ARGUMENT, "n is 0");
    still_works();
}

/* In every place of the queue there was an operation of another kind. */
static void some_end_before_they_begin(void **state)
{
    tutti_comm_t both[2];
    int32_t word = 0, counts[2] = {0};
    size_t none[2] = {0};
    (void)state;
    assert_int_equal(tutti_comm_init_all(both, 2), TUTTI_SUCCESS);
    for (int i = 0; i < 64; i++) {
        for (int rank = 0; rank < 2; rank++)
            assert_int_equal(tutti_broadcast(in, &out[rank], 1, TUTTI_INT32, 0, both[rank], NULL), TUTTI_SUCCESS);
        for (int rank = 0; rank < 2; rank++)
            assert_int_equal(tutti_comm_synchronize(both[rank]), TUTTI_SUCCESS);
    }
    assert_int_equal(tutti_broadcast(in, &out[0], 1, TUTTI_INT32, 1, both[0], NULL), TUTTI_SUCCESS); /* nobody sends */
    assert_int_equal(tutti_recv(&word, 1, TUTTI_INT32, 1, both[0], NULL), TUTTI_SUCCESS);
    assert_int_equal(tutti_alltoallv(counts, none, none, &word, none, none, TUTTI_INT32, both[0], NULL), TUTTI_SUCCESS);
    assert_int_equal(tutti_comm_abort(both[0]), TUTTI_SUCCESS);
    assert_int_equal(tutti_comm_synchronize(both[0]), TUTTI_REMOTE_ERROR);
    for (int rank = 0; rank < 2; rank++)
        tutti_comm_destroy(both[rank]);
}

static void after_the_end(void **state)
{
    tutti_comm_t comms[2];
    tutti_result_t error = TUTTI_SUCCESS;
    (void)state;
    assert_int_equal(tutti_comm_init_all(comms, 2), TUTTI_SUCCESS);
    assert_int_equal(tutti_comm_finalize(comms[0]), TUTTI_SUCCESS);
    refused(tutti_barrier(comms[0], NULL), TUTTI_INVALID_USAGE, "finalized");
    assert_int_equal(tutti_comm_abort(comms[1]), TUTTI_SUCCESS);
    assert_int_equal(tutti_barrier(comms[1], NULL), TUTTI_REMOTE_ERROR);
    assert_non_null(strstr(tutti_get_last_error(comms[1]), "aborted by rank 1"));
    assert_int_equal(tutti_comm_get_async_error(comms[1], &error), TUTTI_SUCCESS);
    assert_int_equal(error, TUTTI_REMOTE_ERROR);
    assert_int_equal(tutti_comm_destroy(comms[0]), TUTTI_SUCCESS);
    assert_int_equal(tutti_comm_destroy(comms[1]), TUTTI_SUCCESS);
}

/* The other rank's calls are this thread's too: none may wait for them. */
static void one_thread_may_call_much_for_one_rank_first(void **state)
{
    enum { CALLS = 3000 };
    static int32_t from[2][CALLS], to[2][CALLS];
    tutti_comm_t both[2];
    (void)state;
    assert_int_equal(tutti_comm_init_all(both, 2), TUTTI_SUCCESS);
    for (int rank = 0; rank < 2; rank++)
        for (int i = 0; i < CALLS; i++) {
            from[rank][i] = i + rank;
            assert_int_equal(tutti_allreduce(&from[rank][i], &to[rank][i], 1, TUTTI_INT32, TUTTI_SUM, both[rank], NULL),
                             TUTTI_SUCCESS);
        }
    for (int rank = 0; rank < 2; rank++)
        assert_int_equal(tutti_comm_synchronize(both[rank]), TUTTI_SUCCESS);
    for (int rank = 0; rank < 2; rank++)
        for (int i = 0; i < CALLS; i++)
            assert_int_equal(to[rank][i], 2 * i + 1);
    for (int rank = 0; rank < 2; rank++)
        assert_int_equal(tutti_comm_destroy(both[rank]), TUTTI_SUCCESS);
}

static void one_thread_may_run_both_streams(void **state)
{
    tutti_stream_t stream;
    tutti_comm_t more[2];
    int32_t one[2] = {1, 2}, first[2], second[2] = {0, 0};
    (void)state;
    refused(tutti_stream_create(NULL), TUTTI_INVALID_ARGUMENT, "stream is NULL");
    refused(tutti_stream_synchronize(NULL), TUTTI_INVALID_ARGUMENT, "stream is NULL");
    assert_int_equal(tutti_comm_init_all(more, 2), TUTTI_SUCCESS);
    tutti_stream_t streams[2];
    for (int rank = 0; rank < 2; rank++) {
        assert_int_equal(tutti_stream_create(&streams[rank]), TUTTI_SUCCESS);
        stream = streams[rank];
        assert_int_equal(tutti_allreduce(&one[rank], &first[rank], 1, TUTTI_INT32, TUTTI_SUM, pair[rank], stream),
                         TUTTI_SUCCESS);
        assert_int_equal(tutti_allreduce(&first[rank], &second[rank], 1, TUTTI_INT32, TUTTI_SUM, more[rank], stream),
                         TUTTI_SUCCESS);
    }
    for (int rank = 0; rank < 2; rank++) {
        assert_int_equal(tutti_stream_synchronize(streams[rank]), TUTTI_SUCCESS);
        assert_int_equal(second[rank], 6);
        tutti_stream_destroy(streams[rank]);
        tutti_comm_destroy(more[rank]);
    }
}

/* In a process of its own: settings are read once. */
/* Ranks need not have sent and received equally much to meet in a collective. */
static void messages_of_some(void **state)
{
    tutti_comm_t trio[3];
    int32_t one[3] = {3, 4, 5}, sum[3] = {0, 0, 0}, got = 0;
    (void)state;
    assert_int_equal(tutti_comm_init_all(trio, 3), TUTTI_SUCCESS);
    assert_int_equal(tutti_group_start(), TUTTI_SUCCESS);
    assert_int_equal(tutti_send(&one[0], 1, TUTTI_INT32, 1, trio[0], NULL), TUTTI_SUCCESS);
    assert_int_equal(tutti_recv(&got, 1, TUTTI_INT32, 0, trio[1], NULL), TUTTI_SUCCESS);
    assert_int_equal(tutti_group_end(), TUTTI_SUCCESS);
    assert_int_equal(tutti_group_start(), TUTTI_SUCCESS);
    for (int rank = 0; rank < 3; rank++)
        assert_int_equal(tutti_allreduce(&one[rank], &sum[rank], 1, TUTTI_INT32, TUTTI_SUM, trio[rank], NULL),
                         TUTTI_SUCCESS);
    assert_int_equal(tutti_group_end(), TUTTI_SUCCESS);
    for (int rank = 0; rank < 3; rank++)
        assert_int_equal(tutti_comm_synchronize(trio[rank]), TUTTI_SUCCESS);
    assert_int_equal(got, 3);
    for (int rank = 0; rank < 3; rank++)
        assert_int_equal(sum[rank], 12);
    for (int rank = 0; rank < 3; rank++)
        assert_int_equal(tutti_comm_destroy(trio[rank]), TUTTI_SUCCESS);
}

static void bad_setting(const char *name, const char *value)
{
    pid_t pid = fork();
    if (pid == 0) {
        tutti_unique_id_t id;
        setenv(name, value, 1);
        tutti_result_t result = tutti_get_unique_id(&id);
        const char *said = tutti_get_last_error(NULL);
        _exit(result == TUTTI_INVALID_ARGUMENT && strstr(said, name) && strstr(said, value) ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (status)
        fail_msg("%s=%s was not refused by name", name, value);
}

static void bad_settings(void **state)
{
    (void)state;
    bad_setting("TUTTI_TIMEOUT", "soon");
    bad_setting("TUTTI_TCP_LANES", "17");
    bad_setting("TUTTI_TRANSPORT", "pigeon");
    bad_setting("TUTTI_SEGMENT", "-1");
    bad_setting("TUTTI_TRACE", "maybe");
}

int main(void)
{
    const struct CMUnitTest before[] = {cmocka_unit_test(bad_settings)}; /* forks before there are threads */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(null_communicators),
        cmocka_unit_test(addresses),
        cmocka_unit_test(pauses),
        cmocka_unit_test(wrong_arguments),
        cmocka_unit_test(wrong_operators),
        cmocka_unit_test(wrong_inits),
        cmocka_unit_test(groups),
        cmocka_unit_test(one_thread_may_run_both_streams),
        cmocka_unit_test(messages_of_some),
        cmocka_unit_test(some_end_before_they_begin),
        cmocka_unit_test(groups_are_cancelled),
        cmocka_unit_test(communicators_rest),
        cmocka_unit_test(groups_keep_what_they_use),
        cmocka_unit_test(groups_of_messages),
        cmocka_unit_test(groups_leave_nothing_out),
        cmocka_unit_test(after_the_end),
        cmocka_unit_test(one_thread_may_call_much_for_one_rank_first),
    };
    setenv("TUTTI_DEBUG", "none", 0);
    return cmocka_run_group_tests(before, NULL, NULL) + cmocka_run_group_tests(tests, make_pair, drop_pair);
}
