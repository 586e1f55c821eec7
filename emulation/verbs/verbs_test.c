/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of the exported calls in one process on the loopback device: states, keys, statuses of every kind of failure,
 * faults, hostile packets, and closing in any order. Exit 77 where no packet socket may be opened. */
#include "verbs/counters.h"
#include "verbs/icrc.h"
#include "verbs/packet.h"
#include "verbs/qp_state.h"
#include "verbs/verbs_testing.h"
#include "verbs/wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static void every_operation_moves_data(void **state)
{
    struct pair pair;
    setup(&pair, IBV_QPT_RC, 14, 7, 7);
    memset(pair.memory, 0x5a, SIZE);
    assert_int_equal(post(&pair, 0, IBV_WR_RDMA_WRITE, 5001, remote_of(&pair, 1), pair.mr->rkey), 0);
    assert_int_equal(wait_for(pair.cq[0]).status, IBV_WC_SUCCESS);
    assert_memory_equal(pair.memory, pair.memory + SIZE, 5001);
    assert_int_equal(pair.memory[SIZE + 5001], 0);
    memset(pair.memory + SIZE, 0x77, SIZE);
    assert_int_equal(post(&pair, 0, IBV_WR_RDMA_READ, 3000, remote_of(&pair, 1), pair.mr->rkey), 0);
    assert_int_equal(wait_for(pair.cq[0]).status, IBV_WC_SUCCESS);
    assert_int_equal(pair.memory[2999], 0x77);
    assert_int_equal(pair.memory[3000], 0x5a);
    *(uint64_t *)(void *)(pair.memory + SIZE) = 41;
    assert_int_equal(post(&pair, 0, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, remote_of(&pair, 1), pair.mr->rkey), 0);
    struct ibv_wc wc = wait_for(pair.cq[0]);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.opcode, IBV_WC_FETCH_ADD);
    assert_int_equal(*(uint64_t *)(void *)(pair.memory + SIZE), 42);
    assert_int_equal(*(uint64_t *)(void *)pair.memory, 41);
    assert_int_equal(post_receive(&pair, 1, SIZE, pair.mr->lkey), 0);
    assert_int_equal(post(&pair, 0, IBV_WR_SEND, 100, 0, 0), 0);
    wc = wait_for(pair.cq[1]);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.byte_len, 100);
    assert_int_equal(wait_for(pair.cq[0]).status, IBV_WC_SUCCESS);
    teardown(&pair);
}

static enum ibv_wc_status fails_with(enum ibv_wr_opcode opcode, uint64_t offset, uint32_t size, uint32_t key_change,
                                     enum ibv_wc_status *peer)
{
    struct pair pair;
    setup(&pair, IBV_QPT_RC, 14, 7, 7);
    post_receive(&pair, 1, 64, pair.mr->lkey);
    post(&pair, 0, opcode, size, remote_of(&pair, 1) + offset, pair.mr->rkey + key_change);
    post(&pair, 0, IBV_WR_RDMA_WRITE, 8, remote_of(&pair, 1), pair.mr->rkey);
    enum ibv_wc_status status = wait_for(pair.cq[0]).status;
    assert_int_equal(wait_for(pair.cq[0]).status, IBV_WC_WR_FLUSH_ERR);
    *peer = wait_for(pair.cq[1]).status;
    for (size_t i = 0; i < SIZE; i++)
        assert_int_equal(pair.memory[SIZE + i], 0);
    teardown(&pair);
    return status;
}

static void errors_have_their_status(void **state)
{
    enum ibv_wc_status peer;
    assert_int_equal(fails_with(IBV_WR_RDMA_WRITE, 0, 8, 1, &peer), IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(peer, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(fails_with(IBV_WR_RDMA_WRITE, SIZE - 4, 8, 0, &peer), IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(fails_with(IBV_WR_RDMA_READ, SIZE, 1, 0, &peer), IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(fails_with(IBV_WR_ATOMIC_CMP_AND_SWP, 0, 8, 256, &peer), IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(fails_with(IBV_WR_ATOMIC_FETCH_AND_ADD, 4, 8, 0, &peer), IBV_WC_REM_INV_REQ_ERR);
    assert_int_equal(fails_with(IBV_WR_SEND, 0, 65, 0, &peer), IBV_WC_REM_INV_REQ_ERR);
    assert_int_equal(peer, IBV_WC_LOC_LEN_ERR);
}

static void local_errors_have_their_status(void **state)
{
    struct pair pair;
    setup(&pair, IBV_QPT_RC, 14, 7, 7);
    uint32_t good = pair.mr->lkey;
    pair.mr->lkey = 0x12345600;
    assert_int_equal(post(&pair, 0, IBV_WR_SEND, 8, 0, 0), 0);
    pair.mr->lkey = good;
    assert_int_equal(wait_for(pair.cq[0]).status, IBV_WC_LOC_PROT_ERR);
    assert_int_equal(pair.qp[0]->state, IBV_QPS_ERR);
    teardown(&pair);
    setup(&pair, IBV_QPT_RC, 14, 7, 7);
    assert_int_equal(post_receive(&pair, 1, 64, 0x12345600), 0);
    assert_int_equal(post(&pair, 0, IBV_WR_SEND, 8, 0, 0), 0);
    assert_int_equal(wait_for(pair.cq[0]).status, IBV_WC_REM_OP_ERR);
    assert_int_equal(wait_for(pair.cq[1]).status, IBV_WC_LOC_PROT_ERR);
    teardown(&pair);
}

/* The timeout comes 1 + retry_cnt times, each not before 4.096 us * 2^timeout. */
static void retries_take_their_time(uint8_t timeout, uint8_t retries)
{
    struct pair pair;
    struct timespec begin, end;
    char answer[64];
    setup(&pair, IBV_QPT_RC, timeout, retries, 1);
    uint64_t before = counter_read(COUNT_ack_timeout);
    assert_int_equal(softverbs_control("freeze soft_lo", answer, sizeof(answer)), 0);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    assert_int_equal(post(&pair, 0, IBV_WR_SEND, 8, 0, 0), 0);
    assert_int_equal(wait_for(pair.cq[0]).status, IBV_WC_RETRY_EXC_ERR);
    clock_gettime(CLOCK_MONOTONIC, &end);
    double ns = (double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec);
    assert_true(ns >= (1.0 + retries) * 4096 * (1u << timeout));
    assert_int_equal(counter_read(COUNT_ack_timeout) - before, 1 + retries);
    assert_int_equal(softverbs_control("thaw soft_lo", answer, sizeof(answer)), 0);
    teardown(&pair);
}

static void retries_end(void **state)
{
    struct pair pair;
    retries_take_their_time(12, 2);
    retries_take_their_time(14, 0);
    retries_take_their_time(10, 7);
    setup(&pair, IBV_QPT_RC, 14, 7, 1);
    assert_int_equal(post(&pair, 0, IBV_WR_SEND, 8, 0, 0), 0);
    assert_int_equal(wait_for(pair.cq[0]).status, IBV_WC_RNR_RETRY_EXC_ERR);
    teardown(&pair);
}

static void unreliable_services_deliver(void **state)
{
    struct pair pair;
    setup(&pair, IBV_QPT_UC, 0, 0, 0);
    memset(pair.memory, 3, SIZE);
    assert_int_equal(post_receive(&pair, 1, SIZE, pair.mr->lkey), 0);
    assert_int_equal(post(&pair, 0, IBV_WR_SEND, 9000, 0, 0), 0);
    assert_int_equal(wait_for(pair.cq[1]).byte_len, 9000);
    assert_memory_equal(pair.memory, pair.memory + SIZE, 9000);
    assert_int_equal(post(&pair, 0, IBV_WR_RDMA_READ, 8, remote_of(&pair, 1), pair.mr->rkey), EINVAL);
    teardown(&pair);
}

/* One page in the middle that nobody may read or write, or that only peers may not write. */
static void assert_forbidden_is_refused(struct ibv_pd *pd)
{
    int writes = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    char *memory = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_int_equal(mprotect(memory + 4096, 4096, PROT_NONE), 0);
    assert_null(ibv_reg_mr(pd, memory + 5, 3 * 4096 - 5, 0));
    assert_int_equal(errno, EFAULT);
    assert_int_equal(mprotect(memory + 4096, 4096, PROT_READ), 0);
    assert_null(ibv_reg_mr(pd, memory + 5, 3 * 4096 - 5, writes));
    assert_int_equal(errno, EFAULT);
    struct ibv_mr *mr = ibv_reg_mr(pd, memory + 5, 3 * 4096 - 5, 0);
    assert_non_null(mr);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    munmap(memory, 3 * 4096);
}

static void bad_arguments_change_nothing(void **state)
{
    struct pair pair;
    setup(&pair, IBV_QPT_RC, 14, 7, 7);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
    assert_int_equal(ibv_modify_qp(pair.qp[0], &attr, IBV_QP_STATE), EINVAL);
    assert_int_equal(pair.qp[0]->state, IBV_QPS_RTS);
    assert_null(ibv_reg_mr(pair.pd, pair.memory, 16, IBV_ACCESS_REMOTE_WRITE));
    assert_int_equal(errno, EINVAL);
    void *hole = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(hole, 4096);
    assert_null(ibv_reg_mr(pair.pd, hole, 16, IBV_ACCESS_LOCAL_WRITE));
    assert_int_equal(errno, EFAULT);
    assert_forbidden_is_refused(pair.pd);
    assert_null(ibv_create_cq(pair.context, 0, NULL, NULL, 0));
    assert_int_equal(ibv_dealloc_pd(pair.pd), EBUSY);
    assert_int_equal(ibv_destroy_cq(pair.cq[0]), EBUSY);
    for (int i = 0; i < 16; i++)
        assert_int_equal(post(&pair, 0, IBV_WR_SEND, 8, 0, 0), 0);
    assert_int_equal(post(&pair, 0, IBV_WR_SEND, 8, 0, 0), ENOMEM);
    teardown(&pair);
}

static void states_follow_the_specification(void **state)
{
    int init = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
    assert_true(qp_state_allows(IBV_QPT_RC, IBV_QPS_RESET, IBV_QPS_INIT, init | IBV_QP_ACCESS_FLAGS));
    assert_false(qp_state_allows(IBV_QPT_RC, IBV_QPS_RESET, IBV_QPS_INIT, init));
    assert_false(qp_state_allows(IBV_QPT_UD, IBV_QPS_RESET, IBV_QPS_INIT, init | IBV_QP_ACCESS_FLAGS));
    assert_false(qp_state_allows(IBV_QPT_RC, IBV_QPS_RESET, IBV_QPS_RTS, IBV_QP_STATE));
    for (int from = IBV_QPS_RESET; from <= IBV_QPS_ERR; from++) {
        assert_true(qp_state_allows(IBV_QPT_UC, (enum ibv_qp_state)from, IBV_QPS_ERR, IBV_QP_STATE));
        assert_true(qp_state_allows(IBV_QPT_UC, (enum ibv_qp_state)from, IBV_QPS_RESET, IBV_QP_STATE));
    }
}

static void source_port_is_chosen(void **state)
{
    struct pair pair;
    setup(&pair, IBV_QPT_RC, 14, 7, 7);
    uint64_t v = (uint64_t)pair.qp[0]->qp_num * pair.qp[1]->qp_num;
    v ^= v >> 20;
    v ^= v >> 40;
    uint32_t label = (uint32_t)(v & 0xfffff);
    assert_int_equal(softverbs_source_port(pair.qp[0]), label ? ibv_flow_label_to_udp_sport(label) : 0xc000);
    assert_int_equal(softverbs_set_source_port(pair.qp[0], 51234), 0);
    assert_int_equal(softverbs_source_port(pair.qp[0]), 51234);
    assert_int_equal(post(&pair, 0, IBV_WR_RDMA_WRITE, 8, remote_of(&pair, 1), pair.mr->rkey), 0);
    assert_int_equal(wait_for(pair.cq[0]).status, IBV_WC_SUCCESS);
    teardown(&pair);
}

static void calls_fail_on_demand(void **state)
{
    struct pair pair;
    char answer[128];
    setup(&pair, IBV_QPT_RC, 14, 7, 7);
    assert_int_equal(
        softverbs_control("fault fail-post-send=2,fail-reg=1,fail-poll=1,fail-modify=1", answer, sizeof(answer)), 0);
    assert_int_equal(post(&pair, 0, IBV_WR_RDMA_WRITE, 8, remote_of(&pair, 1), pair.mr->rkey), 0);
    assert_int_equal(post(&pair, 0, IBV_WR_RDMA_WRITE, 8, remote_of(&pair, 1), pair.mr->rkey), ENOMEM);
    assert_null(ibv_reg_mr(pair.pd, pair.memory, 16, 0));
    struct ibv_wc wc;
    assert_int_equal(ibv_poll_cq(pair.cq[0], 1, &wc), -1);
    assert_int_equal(wait_for(pair.cq[0]).status, IBV_WC_SUCCESS);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    assert_int_equal(ibv_modify_qp(pair.qp[0], &attr, IBV_QP_STATE), ENOMEM);
    snprintf(answer, sizeof(answer), "kill %u", pair.qp[1]->qp_num);
    assert_int_equal(softverbs_control(answer, answer, sizeof(answer)), 0);
    struct ibv_async_event event;
    assert_int_equal(ibv_get_async_event(pair.context, &event), 0);
    while (event.event_type == IBV_EVENT_COMM_EST) {
        ibv_ack_async_event(&event);
        assert_int_equal(ibv_get_async_event(pair.context, &event), 0);
    }
    assert_int_equal(event.event_type, IBV_EVENT_QP_FATAL);
    assert_ptr_equal(event.element.qp, pair.qp[1]);
    ibv_ack_async_event(&event);
    assert_int_not_equal(softverbs_control("fault drop=2", answer, sizeof(answer)), 0);
    assert_int_not_equal(softverbs_control("nonsense", answer, sizeof(answer)), 0);
    teardown(&pair);
}

/* A socket that sends what it likes to the emulator's port. */
static void send_hostile(const uint8_t *bytes, size_t size)
{
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(ROCE_UDP_PORT), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_true(fd >= 0);
    sendto(fd, bytes, size, 0, (struct sockaddr *)&to, sizeof(to));
    close(fd);
}

static void await_count(enum counter counter, uint64_t least)
{
    time_t end = time(NULL) + PATIENCE;
    while (counter_read(counter) < least && time(NULL) < end)
        poll(NULL, 0, 1);
    assert_true(counter_read(counter) >= least);
}

static void a_full_queue_is_an_error(void **state)
{
    struct pair pair;
    struct ibv_wc wc[5];
    struct ibv_async_event event;
    setup(&pair, IBV_QPT_RC, 14, 7, 7);
    assert_int_equal(ibv_resize_cq(pair.cq[0], 1), 0);
    assert_int_equal(pair.cq[0]->cqe, 4); /* adapters give more than was asked */
    for (int i = 0; i < 5; i++)
        assert_int_equal(post(&pair, 0, IBV_WR_RDMA_WRITE, 8, remote_of(&pair, 1), pair.mr->rkey), 0);
    assert_int_equal(ibv_get_async_event(pair.context, &event), 0);
    assert_int_equal(event.event_type, IBV_EVENT_CQ_ERR);
    assert_ptr_equal(event.element.cq, pair.cq[0]);
    ibv_ack_async_event(&event);
    assert_int_equal(ibv_poll_cq(pair.cq[0], 5, wc), 4);
    assert_int_equal(ibv_poll_cq(pair.cq[0], 1, wc), -1);
    teardown(&pair);
}

static bool has_event(const struct pair *pair)
{
    return poll(&(struct pollfd){.fd = pair->channel->fd, .events = POLLIN}, 1, 0) > 0;
}

static void take_event(const struct pair *pair, struct ibv_cq *from)
{
    struct ibv_cq *cq;
    void *user;
    assert_true(has_event(pair));
    assert_int_equal(ibv_get_cq_event(pair->channel, &cq, &user), 0);
    assert_ptr_equal(cq, from);
    ibv_ack_cq_events(cq, 1);
}

static void await_event(const struct pair *pair, bool solicited_only)
{
    time_t end = time(NULL) + PATIENCE;
    while (!has_event(pair) && time(NULL) < end)
        assert_int_equal(ibv_req_notify_cq(pair->cq[0], solicited_only), 0);
    take_event(pair, pair->cq[0]);
}

/* A queue that is armed after a completion came tells of it, as an mlx5 does: a program that looks once an event waits
 * for ever else. A completion that made an event makes no second one. */
static void arming_tells_of_what_came_before(void **state)
{
    struct pair pair;
    setup(&pair, IBV_QPT_RC, 14, 7, 7);
    assert_int_equal(ibv_req_notify_cq(pair.cq[0], 0), 0);
    assert_false(has_event(&pair));
    for (int i = 0; i < 2; i++)
        assert_int_equal(post(&pair, 0, IBV_WR_RDMA_WRITE, 8, remote_of(&pair, 1), pair.mr->rkey), 0);
    assert_int_equal(wait_for(pair.cq[0]).status, IBV_WC_SUCCESS); /* the other one comes, and nobody looks */
    take_event(&pair, pair.cq[0]);
    await_event(&pair, false);
    assert_int_equal(ibv_req_notify_cq(pair.cq[0], 0), 0);
    assert_false(has_event(&pair));
    assert_int_equal(wait_for(pair.cq[0]).status, IBV_WC_SUCCESS);
    teardown(&pair);
    setup(&pair, IBV_QPT_RC, 14, 7, 7);
    for (int i = 0; i < 2; i++)
        assert_int_equal(post(&pair, 0, IBV_WR_RDMA_WRITE, 8, remote_of(&pair, 1), pair.mr->rkey), 0);
    assert_int_equal(wait_for(pair.cq[0]).status, IBV_WC_SUCCESS);
    assert_int_equal(ibv_req_notify_cq(pair.cq[0], 1), 0); /* a WRITE's completion is not solicited */
    assert_false(has_event(&pair));
    assert_int_equal(post(&pair, 0, IBV_WR_RDMA_WRITE, 8, remote_of(&pair, 1), pair.mr->rkey + 1), 0);
    await_event(&pair, true);
    teardown(&pair);
}

static void hostile_packets_are_counted(void **state)
{
    struct pair pair;
    setup(&pair, IBV_QPT_RC, 14, 7, 7);
    struct packet packet = {
        .opcode = OP_WRITE_ONLY, .qpn = pair.qp[1]->qp_num, .psn = 0xfffffe, .va = remote_of(&pair, 1)};
    uint8_t bytes[64] = {0};
    packet.rkey = pair.mr->rkey;
    packet.dma_length = 32;
    packet_build(&packet, bytes);
    uint64_t icrc = counter_read(COUNT_dropped_icrc), opcode = counter_read(COUNT_dropped_opcode),
             brief = counter_read(COUNT_dropped_short);
    send_hostile(bytes, 12 + 16 + 32 + 4);
    await_count(COUNT_dropped_icrc, icrc + 1);
    bytes[0] = 0x1f;
    send_hostile(bytes, 64);
    await_count(COUNT_dropped_opcode, opcode + 1);
    bytes[0] = OP_READ_REQUEST;
    send_hostile(bytes, 20);
    await_count(COUNT_dropped_short, brief + 1);
    for (size_t i = 0; i < SIZE; i++)
        assert_int_equal(pair.memory[SIZE + i], 0);
    assert_int_equal(post(&pair, 0, IBV_WR_RDMA_WRITE, 8, remote_of(&pair, 1), pair.mr->rkey), 0);
    assert_int_equal(wait_for(pair.cq[0]).status, IBV_WC_SUCCESS);
    teardown(&pair);
}

static int foreign_calls;

static bool owns(const void *address, size_t size)
{
    return true;
}

static int copy(void *to, const void *from, size_t size)
{
    foreign_calls++;
    memcpy(to, from, size);
    return 0;
}

static void foreign_memory_is_copied(void **state)
{
    static const struct softverbs_memory hook = {owns, copy, copy};
    struct pair pair;
    softverbs_set_memory(&hook);
    setup(&pair, IBV_QPT_RC, 0, 7, 7); /* nothing is lost, and nothing is to be sent twice */
    memset(pair.memory, 0x21, SIZE);
    assert_int_equal(post(&pair, 0, IBV_WR_RDMA_WRITE, 3000, remote_of(&pair, 1), pair.mr->rkey), 0);
    assert_int_equal(wait_for(pair.cq[0]).status, IBV_WC_SUCCESS);
    assert_memory_equal(pair.memory, pair.memory + SIZE, 3000);
    assert_int_equal(foreign_calls, 6);
    teardown(&pair);
    softverbs_set_memory(NULL);
}

static int reads_left;

static int fail_once(void *to, const void *from, size_t size)
{
    memcpy(to, from, size);
    return reads_left-- ? 0 : EIO;
}

/* Several requests in one call. Without a timeout: what was not asked to be acknowledged would never be complete. */
static void post_chain(struct pair *pair, const enum ibv_wr_opcode *opcodes, int n, uint32_t size)
{
    struct ibv_sge sge = {(uintptr_t)pair->memory, size, pair->mr->lkey};
    struct ibv_send_wr wr[16] = {0}, *bad;
    for (int i = 0; i < n; i++) {
        wr[i] = (struct ibv_send_wr){.wr_id = (uint64_t)i, .sg_list = &sge, .num_sge = 1, .opcode = opcodes[i]};
        wr[i].send_flags = IBV_SEND_SIGNALED | (opcodes[i] == IBV_WR_RDMA_READ ? IBV_SEND_FENCE : 0);
        wr[i].next = i + 1 < n ? &wr[i + 1] : NULL;
        wr[i].wr.rdma.remote_addr = remote_of(pair, 1);
        wr[i].wr.rdma.rkey = pair->mr->rkey;
    }
    assert_int_equal(ibv_post_send(pair->qp[0], wr, &bad), 0);
}

static void every_request_of_a_stream_completes(void **state)
{
    static const enum ibv_wr_opcode opcodes[16] = {
        [3] = IBV_WR_RDMA_READ, [4] = IBV_WR_RDMA_READ, [9] = IBV_WR_RDMA_READ};
    struct pair pair;
    setup(&pair, IBV_QPT_RC, 0, 7, 7);
    for (int round = 0; round < 20; round++) {
        post_chain(&pair, opcodes, 16, 1 + 700 * (uint32_t)round);
        for (int i = 0; i < 16; i++) {
            struct ibv_wc wc = wait_for(pair.cq[0]);
            assert_int_equal(wc.status, IBV_WC_SUCCESS);
            assert_int_equal(wc.wr_id, i);
        }
    }
    teardown(&pair);
}

/* A frame for the request, and two for 64 packets of answer: 62 of them fill one. */
static void an_answer_fills_its_frames(void **state)
{
    struct pair pair;
    unsetenv("SOFTVERBS_HANDOVER");
    setup(&pair, IBV_QPT_RC, 0, 7, 7);
    if (!wire_joins())
        skip(); /* the kernel is too old */
    for (uint32_t i = 0; i < SIZE; i++)
        pair.memory[SIZE + i] = (uint8_t)(i * 7 + i / 251);
    uint64_t before = counter_read(COUNT_sent_frames);
    assert_int_equal(post(&pair, 0, IBV_WR_RDMA_READ, SIZE, remote_of(&pair, 1), pair.mr->rkey), 0);
    assert_int_equal(wait_for(pair.cq[0]).status, IBV_WC_SUCCESS);
    assert_memory_equal(pair.memory, pair.memory + SIZE, SIZE);
    assert_int_equal(counter_read(COUNT_sent_frames) - before, 3);
    teardown(&pair);
}

static void memory_that_fails_ends_its_request_only(void **state)
{
    static const struct softverbs_memory hook = {owns, fail_once, copy};
    static const enum ibv_wr_opcode opcodes[2] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE};
    for (int extra = 0; extra < 3; extra++) {
        struct pair pair;
        softverbs_set_memory(&hook);
        setup(&pair, IBV_QPT_RC, 0, 7, 7);
        reads_left = 3 + extra; /* then the last packet of the first request is read again */
        post_chain(&pair, opcodes, 2, 3000);
        assert_int_equal(wait_for(pair.cq[0]).status, IBV_WC_SUCCESS);
        assert_int_equal(wait_for(pair.cq[0]).status, IBV_WC_LOC_PROT_ERR);
        teardown(&pair);
        softverbs_set_memory(NULL);
    }
}

/* Writes, reads and sends by handing over. Without a timeout (0) nothing is sent twice. Returns how many packets handed
 * data over. */
static uint64_t hand_over(const char *fault, uint8_t timeout)
{
    struct pair pair;
    char answer[64];
    uint64_t before = counter_read(COUNT_sent_handed);
    assert_int_equal(setenv("SOFTVERBS_HANDOVER", "1", 1), 0);
    softverbs_control(fault, answer, sizeof(answer));
    setup(&pair, IBV_QPT_RC, timeout, 7, 7);
    for (uint32_t i = 0; i < SIZE; i++)
        pair.memory[i] = (uint8_t)(i * 7 + i / 251);
    assert_int_equal(post(&pair, 0, IBV_WR_RDMA_WRITE, 50001, remote_of(&pair, 1), pair.mr->rkey), 0);
    assert_int_equal(wait_for(pair.cq[0]).status, IBV_WC_SUCCESS);
    assert_memory_equal(pair.memory, pair.memory + SIZE, 50001);
    memset(pair.memory, 0, SIZE);
    assert_int_equal(post(&pair, 0, IBV_WR_RDMA_READ, 50001, remote_of(&pair, 1), pair.mr->rkey), 0);
    assert_int_equal(wait_for(pair.cq[0]).status, IBV_WC_SUCCESS);
    assert_memory_equal(pair.memory, pair.memory + SIZE, 50001);
    memset(pair.memory + SIZE, 0, SIZE);
    assert_int_equal(post_receive(&pair, 1, SIZE, pair.mr->lkey), 0);
    assert_int_equal(post(&pair, 0, IBV_WR_SEND, 50001, 0, 0), 0);
    assert_int_equal(wait_for(pair.cq[1]).byte_len, 50001);
    assert_memory_equal(pair.memory, pair.memory + SIZE, 50001);
    assert_int_equal(wait_for(pair.cq[0]).status, IBV_WC_SUCCESS);
    memset(pair.memory, 0x33, SIZE);
    assert_int_equal(post(&pair, 0, IBV_WR_RDMA_WRITE, 5000, remote_of(&pair, 1) + SIZE - 4999, pair.mr->rkey), 0);
    assert_int_equal(wait_for(pair.cq[0]).status, IBV_WC_REM_ACCESS_ERR);
    teardown(&pair);
    unsetenv("SOFTVERBS_HANDOVER");
    return counter_read(COUNT_sent_handed) - before;
}

static void data_is_handed_over(void **state)
{
    uint64_t dropped = counter_read(COUNT_dropped_handover);
    assert_int_equal(hand_over("clear", 0), 3 * 3 + 1); /* 49 packets are 3 times 16 and one */
    assert_int_equal(counter_read(COUNT_dropped_handover), dropped);
}

/* The first fetch is that of the question, one for each queue pair: a refusal leaves one of them with packets. Later
 * ones are lost packets. */
static void refused_data_goes_by_packets(void **state)
{
    uint64_t dropped = counter_read(COUNT_dropped_handover);
    assert_int_equal(hand_over("fault fail-hand=1", 0), 3); /* the answers to the READ */
    assert_int_equal(counter_read(COUNT_dropped_handover), dropped);
    for (int n = 3; n < 12; n++) {
        char fault[32];
        snprintf(fault, sizeof(fault), "fault fail-hand=%d", n);
        hand_over(fault, 16);
    }
    assert_int_equal(counter_read(COUNT_dropped_handover), dropped + 9);
}

/* A device may be closed first; what is left can still be destroyed. */
static void closing_in_the_wrong_order(void **state)
{
    struct pair pair;
    setup(&pair, IBV_QPT_RC, 14, 7, 7);
    assert_int_equal(ibv_close_device(pair.context), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ibv_destroy_qp(pair.qp[i]), 0);
        assert_int_equal(ibv_destroy_cq(pair.cq[i]), 0);
    }
    assert_int_equal(ibv_destroy_comp_channel(pair.channel), 0);
    assert_int_equal(ibv_dereg_mr(pair.mr), 0);
    assert_int_equal(ibv_dealloc_pd(pair.pd), 0);
    free(pair.memory);
}

static void a_thousand_queue_pairs(void **state)
{
    struct pair pair;
    static struct ibv_qp *many[5000];
    setup(&pair, IBV_QPT_RC, 14, 7, 7);
    struct ibv_qp_init_attr init = {
        .send_cq = pair.cq[0], .recv_cq = pair.cq[0], .qp_type = IBV_QPT_RC, .cap = {1, 1, 1, 1, 0}};
    for (int i = 0; i < 5000; i++)
        assert_non_null(many[i] = ibv_create_qp(pair.pd, &init));
    for (int i = 1; i < 5000; i++)
        assert_int_not_equal(many[i]->qp_num, many[i - 1]->qp_num);
    for (int i = 0; i < 5000; i++)
        assert_int_equal(ibv_destroy_qp(many[i]), 0);
    teardown(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states_follow_the_specification),
        cmocka_unit_test(every_operation_moves_data),
        cmocka_unit_test(errors_have_their_status),
        cmocka_unit_test(local_errors_have_their_status),
        cmocka_unit_test(retries_end),
        cmocka_unit_test(unreliable_services_deliver),
        cmocka_unit_test(bad_arguments_change_nothing),
        cmocka_unit_test(source_port_is_chosen),
        cmocka_unit_test(a_full_queue_is_an_error),
        cmocka_unit_test(arming_tells_of_what_came_before),
        cmocka_unit_test(calls_fail_on_demand),
        cmocka_unit_test(hostile_packets_are_counted),
        cmocka_unit_test(foreign_memory_is_copied),
        cmocka_unit_test(closing_in_the_wrong_order),
        cmocka_unit_test(a_thousand_queue_pairs),
        cmocka_unit_test(every_request_of_a_stream_completes),
        cmocka_unit_test(an_answer_fills_its_frames),
        cmocka_unit_test(data_is_handed_over),
        cmocka_unit_test(refused_data_goes_by_packets),
        cmocka_unit_test(memory_that_fails_ends_its_request_only),
    };
    struct ibv_context *context = open_loopback();
    if (!context) {
        fprintf(stderr, "verbs_test: SKIPPED: %s\n", strerror(errno));
        return 77;
    }
    ibv_close_device(context);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
