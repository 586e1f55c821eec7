/* SPDX-License-Identifier: Apache-2.0 */
/* A thousand queue pairs of one process with traffic on all of them, with a socket for each and with fewer. And a
 * process with open queue pairs and nothing to do uses no processor time. Exit 77 where no packet socket may be opened.
 */
#include <infiniband/verbs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#include <cmocka.h>

#define QPS      1000
#define SIZE     3000 /* three packets */
#define ROUNDS   4
#define MANY     16384 /* descriptors that the process may have: a quarter are for sockets of source ports, */
#define FEW      1024  /* or too few of them */
#define PATIENCE 60    /* seconds until completions that do not come fail the test */
#define ACCESS   (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

static rlim_t descriptors; /* 0: the process may not have MANY */
static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static struct ibv_qp *qps[QPS];
static uint8_t *memory; /* SIZE bytes to send for each queue pair, then SIZE bytes where its peer's land */

static uint8_t pattern(int round, int qp, int at)
{
    return (uint8_t)(at * 7 ^ at >> 8 ^ qp * 31 ^ qp >> 8 ^ round * 101);
}

static uint8_t *source(int qp)
{
    return memory + (size_t)qp * 2 * SIZE;
}

static uint8_t *target(int qp)
{
    return source(qp) + SIZE;
}

static struct ibv_context *open_loopback(void)
{
    struct ibv_context *found = NULL;
    int n = 0;
    struct ibv_device **list = ibv_get_device_list(&n);
    for (int i = 0; list && i < n; i++)
        if (!strcmp(ibv_get_device_name(list[i]), "soft_lo"))
            found = ibv_open_device(list[i]);
    ibv_free_device_list(list);
    return found;
}

static void connect_to(struct ibv_qp *qp, uint32_t peer, const union ibv_gid *gid)
{
    struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ACCESS};
    struct ibv_qp_attr rtr = {
        .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer, .min_rnr_timer = 1};
    struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS, .timeout = 16, .retry_cnt = 7, .rnr_retry = 7};
    rtr.ah_attr = (struct ibv_ah_attr){.is_global = 1, .port_num = 1, .grh = {.dgid = *gid}};
    assert_int_equal(ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), 0);
    assert_int_equal(ibv_modify_qp(qp, &rtr,
                                   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
                     0);
    assert_int_equal(ibv_modify_qp(qp, &rts,
                                   IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                                       IBV_QP_MAX_QP_RD_ATOMIC),
                     0);
}

static int make(void **state)
{
    union ibv_gid gid;
    struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC,
                                    .cap = {.max_send_wr = 4, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
    memory = calloc(QPS, 2 * SIZE);
    assert_non_null(memory);
    assert_int_equal(ibv_query_gid(context, 1, 0, &gid), 0);
    assert_non_null(pd = ibv_alloc_pd(context));
    assert_non_null(cq = ibv_create_cq(context, 4 * QPS, NULL, NULL, 0));
    assert_non_null(mr = ibv_reg_mr(pd, memory, (size_t)QPS * 2 * SIZE, ACCESS));
    init.send_cq = init.recv_cq = cq;
    for (int i = 0; i < QPS; i++)
        assert_non_null(qps[i] = ibv_create_qp(pd, &init));
    for (int i = 0; i < QPS; i++)
        connect_to(qps[i], qps[i ^ 1]->qp_num, &gid);
    return 0;
}

static int unmake(void **state)
{
    for (int i = 0; i < QPS; i++)
        assert_int_equal(ibv_destroy_qp(qps[i]), 0);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
    free(memory);
    return 0;
}

/* Each writes to its neighbour. */
static void post_all(int round)
{
    for (int i = 0; i < QPS; i++) {
        struct ibv_sge list = {(uintptr_t)source(i), SIZE, mr->lkey};
        struct ibv_send_wr wr = {.wr_id = (uint64_t)i, .sg_list = &list, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED},
                           *bad;
        wr.opcode = IBV_WR_RDMA_WRITE;
        wr.wr.rdma.remote_addr = (uintptr_t)target(i ^ 1);
        wr.wr.rdma.rkey = mr->rkey;
        for (int k = 0; k < SIZE; k++)
            source(i)[k] = pattern(round, i, k);
        assert_int_equal(ibv_post_send(qps[i], &wr, &bad), 0);
    }
}

/* The sum of numbers that no two sockets share: another one, another sum. */
static uint64_t sockets(int *count)
{
    uint64_t sum = 0;
    struct stat about;
    *count = 0;
    for (int fd = 0; fd < MANY; fd++)
        if (!fstat(fd, &about) && S_ISSOCK(about.st_mode)) {
            sum += about.st_ino;
            ++*count;
        }
    return sum;
}

static void every_queue_pair_moves_its_data(void **state)
{
    static bool done[QPS];
    int count = 0, first_count = 0;
    uint64_t first = 0;
    for (int round = 0; round < ROUNDS; round++) {
        time_t end = time(NULL) + PATIENCE;
        memset(done, 0, sizeof(done));
        post_all(round);
        for (int left = QPS; left;) {
            struct ibv_wc wc[16];
            int n = ibv_poll_cq(cq, 16, wc);
            assert_true(n >= 0 && time(NULL) < end);
            for (int i = 0; i < n; i++, left--) {
                assert_int_equal(wc[i].status, IBV_WC_SUCCESS);
                assert_false(done[wc[i].wr_id]);
                done[wc[i].wr_id] = true;
            }
        }
        for (int i = 0; i < QPS; i++)
            for (int k = 0; k < SIZE; k++)
                assert_int_equal(target(i)[k], pattern(round, i ^ 1, k));
        first = round ? first : sockets(&first_count);
    }
    if (descriptors == MANY) { /* none was closed and opened anew */
        assert_true(sockets(&count) == first);
        assert_int_equal(count, first_count);
    }
    if (descriptors == FEW)
        assert_in_range(first_count, 1, FEW / 2);
}

static long used_ticks(void)
{
    unsigned long user = 0, kernel = 0;
    FILE *file = fopen("/proc/self/stat", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &kernel),
                     2);
    fclose(file);
    return (long)(user + kernel);
}

static uint64_t used_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Timers and the thread's last look end soon after the traffic; from then on a second costs nothing but this
 * measurement. */
static void idle_costs_nothing(void **state)
{
    uint64_t least = UINT64_MAX;
    long least_ticks = 1000;
    for (int i = 0; i < 20 && (least > 1000000 || least_ticks); i++) {
        uint64_t before = used_ns();
        long ticks = used_ticks();
        nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
        ticks = used_ticks() - ticks;
        before = used_ns() - before;
        least = before < least ? before : least;
        least_ticks = ticks < least_ticks ? ticks : least_ticks;
    }
    assert_true(least <= 1000000);
    assert_int_equal(least_ticks, 0);
}

/* The device looks at both when it is opened: how many descriptors there may be, and whether packets go by sockets. */
static int run_with(rlim_t most, const char *frames, const struct CMUnitTest *tests, size_t count)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = most;
    descriptors = setrlimit(RLIMIT_NOFILE, &limit) ? 0 : most;
    setenv("SOFTVERBS_FRAMES", frames, 1);
    context = open_loopback();
    if (!context)
        return 77;
    int failed = _cmocka_run_group_tests(frames, tests, count, make, unmake);
    return ibv_close_device(context) ? 1 : failed;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_queue_pair_moves_its_data),
        cmocka_unit_test(idle_costs_nothing),
    };
    int failed = run_with(MANY, "1", tests, 2);
    return failed ? failed : run_with(MANY, "0", tests, 1) + run_with(FEW, "0", tests, 1);
}
