/* SPDX-License-Identifier: Apache-2.0 */
/* For tests: two queue pairs of one process on the loopback device, and what is done with them. */
#ifndef VERBS_TESTING_H
#define VERBS_TESTING_H

#include "verbs/softverbs.h"

#include <infiniband/verbs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define SIZE     65536
#define PATIENCE 30 /* seconds until a completion that does not come fails the test */
#define ALL      (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

/* Two queue pairs of one process that talk to each other. */
struct pair {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel; /* of both queues */
    struct ibv_cq *cq[2];
    struct ibv_qp *qp[2];
    struct ibv_mr *mr;
    uint8_t *memory; /* SIZE for each side */
};

static inline struct ibv_context *open_loopback(void)
{
    struct ibv_context *context = NULL;
    int n = 0;
    struct ibv_device **list = ibv_get_device_list(&n);
    for (int i = 0; list && i < n; i++)
        if (!strcmp(ibv_get_device_name(list[i]), "soft_lo"))
            context = ibv_open_device(list[i]);
    ibv_free_device_list(list);
    return context;
}

static inline void to_init(struct ibv_qp *qp)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 0x1234, .qp_access_flags = ALL};
    int last = qp->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
    assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | last), 0);
}

static inline int to_rtr(struct ibv_qp *qp, uint32_t peer, const union ibv_gid *gid)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer, .rq_psn = 0xfffffe};
    attr.max_dest_rd_atomic = 4;
    attr.min_rnr_timer = 1;
    attr.ah_attr = (struct ibv_ah_attr){.is_global = 1, .port_num = 1, .grh = {.dgid = *gid}};
    int mask = IBV_QP_STATE;
    if (qp->qp_type != IBV_QPT_UD)
        mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    if (qp->qp_type != IBV_QPT_UD && qp->qp_type != IBV_QPT_UC)
        mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    return ibv_modify_qp(qp, &attr, mask);
}

static inline int to_rts(struct ibv_qp *qp, uint8_t timeout, uint8_t retries, uint8_t rnr)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTS, .timeout = timeout, .retry_cnt = retries, .rnr_retry = rnr, .sq_psn = 0xfffffe};
    attr.max_rd_atomic = 4;
    int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
    if (qp->qp_type != IBV_QPT_UD && qp->qp_type != IBV_QPT_UC)
        mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    return ibv_modify_qp(qp, &attr, mask);
}

static inline void make_qp(struct pair *pair, int side, enum ibv_qp_type type)
{
    struct ibv_qp_init_attr init = {.send_cq = pair->cq[side], .recv_cq = pair->cq[side], .qp_type = type};
    init.cap = (struct ibv_qp_cap){16, 16, 4, 4, 64};
    pair->qp[side] = ibv_create_qp(pair->pd, &init);
    assert_non_null(pair->qp[side]);
    to_init(pair->qp[side]);
}

static inline void setup(struct pair *pair, enum ibv_qp_type type, uint8_t timeout, uint8_t retries, uint8_t rnr)
{
    union ibv_gid gid;
    pair->context = open_loopback();
    assert_non_null(pair->context);
    assert_non_null(pair->pd = ibv_alloc_pd(pair->context));
    pair->memory = calloc(2, SIZE);
    assert_non_null(pair->mr = ibv_reg_mr(pair->pd, pair->memory, 2 * SIZE, ALL));
    assert_int_equal(ibv_query_gid(pair->context, 1, 0, &gid), 0);
    assert_non_null(pair->channel = ibv_create_comp_channel(pair->context));
    for (int i = 0; i < 2; i++) {
        assert_non_null(pair->cq[i] = ibv_create_cq(pair->context, 64, NULL, pair->channel, 0));
        make_qp(pair, i, type);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(to_rtr(pair->qp[i], pair->qp[!i]->qp_num, &gid), 0);
        assert_int_equal(to_rts(pair->qp[i], timeout, retries, rnr), 0);
    }
}

static inline void teardown(struct pair *pair)
{
    char answer[64];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ibv_destroy_qp(pair->qp[i]), 0);
        assert_int_equal(ibv_destroy_cq(pair->cq[i]), 0);
    }
    assert_int_equal(ibv_destroy_comp_channel(pair->channel), 0);
    assert_int_equal(ibv_dereg_mr(pair->mr), 0);
    assert_int_equal(ibv_dealloc_pd(pair->pd), 0);
    softverbs_control("clear", answer, sizeof(answer));
    assert_int_equal(ibv_close_device(pair->context), 0);
    free(pair->memory);
}

/* At memory of the peer. An atomic operation adds, or compares with, `number`. */
static inline void aim(struct ibv_send_wr *wr, uint64_t remote, uint32_t rkey, uint64_t number)
{
    bool atomic = wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
    if (atomic) {
        wr->wr.atomic.remote_addr = remote;
        wr->wr.atomic.rkey = rkey;
        wr->wr.atomic.compare_add = number;
    } else {
        wr->wr.rdma.remote_addr = remote;
        wr->wr.rdma.rkey = rkey;
    }
}

static inline int post(struct pair *pair, int side, enum ibv_wr_opcode opcode, uint32_t size, uint64_t remote,
                       uint32_t rkey)
{
    struct ibv_sge sge = {(uintptr_t)pair->memory + (size_t)side * SIZE, size, pair->mr->lkey};
    struct ibv_send_wr wr = {.wr_id = 7,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = opcode,
                             .send_flags = IBV_SEND_SIGNALED},
                       *bad;
    aim(&wr, remote, rkey, 1);
    return ibv_post_send(pair->qp[side], &wr, &bad);
}

static inline int post_receive(struct pair *pair, int side, uint32_t size, uint32_t lkey)
{
    struct ibv_sge sge = {(uintptr_t)pair->memory + (size_t)side * SIZE, size, lkey};
    struct ibv_recv_wr wr = {.wr_id = 9, .sg_list = &sge, .num_sge = 1}, *bad;
    return ibv_post_recv(pair->qp[side], &wr, &bad);
}

static inline struct ibv_wc wait_for(struct ibv_cq *cq)
{
    struct ibv_wc wc;
    time_t end = time(NULL) + PATIENCE;
    int n = 0;
    while (!(n = ibv_poll_cq(cq, 1, &wc)) && time(NULL) < end)
        ;
    assert_int_equal(n, 1);
    return wc;
}

static inline uint64_t remote_of(const struct pair *pair, int side)
{
    return (uintptr_t)pair->memory + (size_t)side * SIZE;
}

/* The first queue pair anew, for the ibv_wr_* calls of these operations; connected to the second. */
static inline struct ibv_qp_ex *remake_extended(struct pair *pair, uint64_t operations)
{
    struct ibv_qp_init_attr_ex init = {.send_cq = pair->cq[0], .recv_cq = pair->cq[0], .qp_type = IBV_QPT_RC};
    struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
    union ibv_gid gid;
    init.cap = (struct ibv_qp_cap){4, 4, 1, 1, 0};
    init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    init.pd = pair->pd;
    init.send_ops_flags = operations;
    assert_int_equal(ibv_destroy_qp(pair->qp[0]), 0);
    assert_non_null(pair->qp[0] = ibv_create_qp_ex(pair->context, &init));
    assert_int_equal(ibv_query_gid(pair->context, 1, 0, &gid), 0);
    assert_int_equal(ibv_modify_qp(pair->qp[1], &reset, IBV_QP_STATE), 0);
    for (int i = 0; i < 2; i++)
        to_init(pair->qp[i]);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(to_rtr(pair->qp[i], pair->qp[!i]->qp_num, &gid), 0);
        assert_int_equal(to_rts(pair->qp[i], 14, 7, 7), 0);
    }
    return ibv_qp_to_qp_ex(pair->qp[0]);
}

#endif
