/* SPDX-License-Identifier: Apache-2.0 */
/* Extended reliable connections: one queue pair that sends, one that receives, and two shared receive queues of two
 * protection domains, of which each request names one. */
#include "verbs/engine.h"
#include "verbs/transport.h"
#include "verbs/verbs_testing.h"
#include "verbs/xrc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define MESSAGE 3000 /* bytes: three packets of 1 KiB */
#define SLOTS   8    /* receives of each queue */
#define BOTH    (IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS)
#define WHOLE   (IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ)

struct world {
    struct ibv_context *context;
    struct ibv_cq *sent;
    struct ibv_xrcd *xrcd;
    struct ibv_qp *sender, *receiver;
    struct ibv_pd *pd[2];
    struct ibv_mr *mr[2]; /* of all memory, in each domain */
    struct ibv_cq *cq[2];
    struct ibv_srq *srq[2];
    uint32_t number[2];
    uint8_t *memory; /* SIZE that is sent, and SIZE for each queue */
};

static struct ibv_xrcd *open_domain(struct ibv_context *context, int fd, int flags)
{
    struct ibv_xrcd_init_attr init = {BOTH, fd, flags};
    return ibv_open_xrcd(context, &init);
}

static struct ibv_srq *make_queue(struct ibv_context *context, struct ibv_pd *pd, struct ibv_xrcd *xrcd,
                                  struct ibv_cq *cq, uint32_t mask)
{
    struct ibv_srq_init_attr_ex init = {.attr = {.max_wr = SLOTS, .max_sge = 1}, .comp_mask = mask, .pd = pd};
    init.srq_type = IBV_SRQT_XRC;
    init.xrcd = xrcd;
    init.cq = cq;
    return ibv_create_srq_ex(context, &init);
}

static void connect_pair(struct world *world, uint8_t rnr)
{
    union ibv_gid gid;
    struct ibv_qp_init_attr_ex sends = {.send_cq = world->sent, .qp_type = IBV_QPT_XRC_SEND, .pd = world->pd[0]};
    struct ibv_qp_init_attr_ex receives = {.qp_type = IBV_QPT_XRC_RECV, .xrcd = world->xrcd};
    sends.cap = (struct ibv_qp_cap){16, 0, 1, 0, 0};
    sends.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    sends.send_ops_flags = IBV_QP_EX_WITH_SEND;
    receives.comp_mask = IBV_QP_INIT_ATTR_XRCD;
    assert_non_null(world->sender = ibv_create_qp_ex(world->context, &sends));
    assert_non_null(world->receiver = ibv_create_qp_ex(world->context, &receives));
    assert_int_equal(ibv_query_gid(world->context, 1, 0, &gid), 0);
    to_init(world->sender);
    to_init(world->receiver);
    assert_int_equal(to_rtr(world->sender, world->receiver->qp_num, &gid), 0);
    assert_int_equal(to_rtr(world->receiver, world->sender->qp_num, &gid), 0);
    assert_int_equal(to_rts(world->receiver, 14, 7, 7), 0);
    assert_int_equal(to_rts(world->sender, 14, 7, rnr), 0);
}

static void begin(struct world *world, uint8_t rnr)
{
    assert_non_null(world->context = open_loopback());
    assert_non_null(world->memory = calloc(3, SIZE));
    assert_non_null(world->sent = ibv_create_cq(world->context, 64, NULL, NULL, 0));
    assert_non_null(world->xrcd = open_domain(world->context, -1, O_CREAT));
    for (int i = 0; i < 2; i++) {
        assert_non_null(world->pd[i] = ibv_alloc_pd(world->context));
        assert_non_null(world->mr[i] = ibv_reg_mr(world->pd[i], world->memory, 3 * SIZE, ALL));
        assert_non_null(world->cq[i] = ibv_create_cq(world->context, 64, NULL, NULL, 0));
        world->srq[i] = make_queue(world->context, world->pd[i], world->xrcd, world->cq[i], WHOLE);
        assert_non_null(world->srq[i]);
        assert_int_equal(ibv_get_srq_num(world->srq[i], &world->number[i]), 0);
    }
    assert_int_not_equal(world->number[0], world->number[1]);
    connect_pair(world, rnr);
}

static void end(struct world *world)
{
    char answer[64];
    softverbs_control("clear", answer, sizeof(answer));
    assert_int_equal(ibv_close_xrcd(world->xrcd), EBUSY);
    assert_int_equal(ibv_destroy_qp(world->sender), 0);
    assert_int_equal(ibv_destroy_qp(world->receiver), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(world->srq[i] ? ibv_destroy_cq(world->cq[i]) : EBUSY, EBUSY);
        assert_int_equal(world->srq[i] ? ibv_destroy_srq(world->srq[i]) : 0, 0);
        assert_int_equal(ibv_destroy_cq(world->cq[i]), 0);
        assert_int_equal(ibv_dereg_mr(world->mr[i]), 0);
        assert_int_equal(ibv_dealloc_pd(world->pd[i]), 0);
    }
    assert_int_equal(ibv_close_xrcd(world->xrcd), 0);
    assert_int_equal(ibv_destroy_cq(world->sent), 0);
    assert_int_equal(ibv_close_device(world->context), 0);
    free(world->memory);
}

static void fault(const char *command)
{
    char answer[64];
    assert_int_equal(softverbs_control(command, answer, sizeof(answer)), 0);
}

static void post_to(struct world *world, int queue, uint64_t slot)
{
    struct ibv_sge sge = {(uintptr_t)world->memory + (size_t)(queue + 1) * SIZE + slot * MESSAGE, MESSAGE,
                          world->mr[queue]->lkey};
    struct ibv_recv_wr wr = {.wr_id = slot, .sg_list = &sge, .num_sge = 1}, *bad;
    assert_int_equal(ibv_post_srq_recv(world->srq[queue], &wr, &bad), 0);
}

static void request(struct world *world, uint32_t number, enum ibv_wr_opcode opcode, uint32_t size, uint64_t remote,
                    uint32_t rkey)
{
    struct ibv_sge sge = {(uintptr_t)world->memory, size, world->mr[0]->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED}, *bad;
    wr.imm_data = 77;
    wr.qp_type.xrc.remote_srqn = number;
    aim(&wr, remote, rkey, 5);
    assert_int_equal(ibv_post_send(world->sender, &wr, &bad), 0);
}

static enum ibv_wc_status status_of(struct world *world, uint32_t number, enum ibv_wr_opcode opcode, uint32_t size,
                                    uint64_t remote, uint32_t rkey)
{
    request(world, number, opcode, size, remote, rkey);
    return wait_for(world->sent).status;
}

static uint64_t place_of(const struct world *world, int queue)
{
    return (uintptr_t)world->memory + (size_t)(queue + 1) * SIZE;
}

static void fill(struct world *world, unsigned with)
{
    for (size_t i = 0; i < SIZE; i++)
        world->memory[i] = (uint8_t)(i * 7 + with);
}

/* In turns, by a network that loses some. */
static void messages_come_to_the_queue_that_they_name(void **state)
{
    struct world world;
    begin(&world, 7);
    fault("fault drop=0.05,dup=0.05,reorder=0.05,seed=3");
    for (unsigned i = 0; i < 6 * SLOTS; i++) {
        int queue = i / 3 % 2;
        uint64_t slot = i / 6;
        bool imm = i % 3 == 1;
        fill(&world, i);
        post_to(&world, queue, slot);
        if (i % 3 == 2) {
            struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(world.sender);
            ex->wr_flags = IBV_SEND_SIGNALED;
            ibv_wr_start(ex);
            ibv_wr_send(ex);
            ibv_wr_set_xrc_srqn(ex, world.number[queue]);
            ibv_wr_set_sge(ex, world.mr[0]->lkey, (uintptr_t)world.memory, MESSAGE);
            assert_int_equal(ibv_wr_complete(ex), 0);
        } else {
            request(&world, world.number[queue], imm ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND, MESSAGE, 0, 0);
        }
        assert_int_equal(wait_for(world.sent).status, IBV_WC_SUCCESS);
        struct ibv_wc wc = wait_for(world.cq[queue]);
        assert_int_equal(wc.status, IBV_WC_SUCCESS);
        assert_int_equal(wc.wr_id, slot);
        assert_int_equal(wc.byte_len, MESSAGE);
        assert_int_equal(wc.qp_num, world.receiver->qp_num);
        assert_int_equal(wc.wc_flags, imm ? IBV_WC_WITH_IMM : 0);
        assert_memory_equal(world.memory, (uint8_t *)(uintptr_t)place_of(&world, queue) + slot * MESSAGE, MESSAGE);
    }
    end(&world);
}

/* Keys are those of the named queue's domain, also when answers leave after another request has come, and when they are
 * asked for again. */
static void memory_is_that_of_the_queue(void **state)
{
    struct world world;
    begin(&world, 7);
    fault("fault drop=0.05,dup=0.05,delay=0.05,seed=4");
    for (unsigned i = 0; i < 8; i++) {
        uint64_t place = place_of(&world, 0);
        fill(&world, i);
        assert_int_equal(status_of(&world, world.number[0], IBV_WR_RDMA_WRITE, 20000, place, world.mr[0]->rkey),
                         IBV_WC_SUCCESS);
        assert_memory_equal(world.memory, (uint8_t *)(uintptr_t)place, 20000);
        memset(world.memory, 0, SIZE);
        post_to(&world, 1, 0);
        request(&world, world.number[0], IBV_WR_RDMA_READ, 20000, place, world.mr[0]->rkey);
        request(&world, world.number[1], IBV_WR_RDMA_WRITE_WITH_IMM, 0, place, world.mr[1]->rkey);
        request(&world, world.number[1], IBV_WR_RDMA_READ, 20000, place, world.mr[1]->rkey);
        for (int n = 0; n < 3; n++)
            assert_int_equal(wait_for(world.sent).status, IBV_WC_SUCCESS);
        assert_int_equal(wait_for(world.cq[1]).opcode, IBV_WC_RECV_RDMA_WITH_IMM);
        assert_memory_equal(world.memory, (uint8_t *)(uintptr_t)place, 20000);
        uint64_t was, is;
        memcpy(&was, (uint8_t *)(uintptr_t)place, sizeof(was));
        assert_int_equal(status_of(&world, world.number[1], IBV_WR_ATOMIC_FETCH_AND_ADD, 8, place, world.mr[1]->rkey),
                         IBV_WC_SUCCESS);
        memcpy(&is, (uint8_t *)(uintptr_t)place, sizeof(is));
        assert_int_equal(is, was + 5);
    }
    fault("clear");
    assert_int_equal(status_of(&world, world.number[1], IBV_WR_RDMA_WRITE, 8, place_of(&world, 0), world.mr[0]->rkey),
                     IBV_WC_REM_ACCESS_ERR);
    end(&world);
}

enum wrong { NO_QUEUE, QUEUE_OF_ANOTHER_DOMAIN, QUEUE_THAT_IS_GONE, QUEUE_THAT_GOES, WRONGS };

static void a_queue_that_is_not_there_is_refused(void **state)
{
    for (enum wrong how = NO_QUEUE; how < WRONGS; how++) {
        struct world world;
        begin(&world, 7);
        struct ibv_xrcd *other = open_domain(world.context, -1, O_CREAT);
        struct ibv_srq *srq = make_queue(world.context, world.pd[0], other, world.cq[0], WHOLE);
        uint32_t number = world.number[1];
        assert_non_null(srq);
        if (how == NO_QUEUE)
            number = 0xffffff;
        if (how == QUEUE_OF_ANOTHER_DOMAIN)
            assert_int_equal(ibv_get_srq_num(srq, &number), 0);
        if (how == QUEUE_THAT_GOES) /* has no receive yet, so the request is tried again */
            request(&world, number, IBV_WR_SEND, MESSAGE, 0, 0);
        if (how >= QUEUE_THAT_IS_GONE) {
            assert_int_equal(ibv_destroy_srq(world.srq[1]), 0);
            world.srq[1] = NULL;
        }
        if (how != QUEUE_THAT_GOES)
            request(&world, number, IBV_WR_SEND, MESSAGE, 0, 0);
        assert_int_equal(wait_for(world.sent).status, IBV_WC_REM_INV_REQ_ERR);
        struct ibv_async_event event;
        do { /* after IBV_EVENT_COMM_EST perhaps */
            assert_int_equal(ibv_get_async_event(world.context, &event), 0);
            ibv_ack_async_event(&event);
        } while (event.event_type != IBV_EVENT_QP_ACCESS_ERR);
        assert_ptr_equal(event.element.qp, world.receiver);
        assert_int_equal(ibv_destroy_srq(srq), 0);
        assert_int_equal(ibv_close_xrcd(other), 0);
        end(&world);
    }
}

/* A part of a message comes for the queue of this number. */
static void receive_part(struct world *world, unsigned opcode, uint32_t number)
{
    static const uint8_t bytes[1024];
    struct qp *qp = (struct qp *)world->receiver;
    struct packet packet = {.opcode = (uint8_t)(SERVICE_XRC | opcode), .srqn = number, .span = 1};
    packet.payload = bytes;
    packet.length = sizeof(bytes);
    engine_lock();
    packet.psn = qp->resp.psn;
    responder_request(qp, &packet);
    engine_unlock();
}

/* A sender of ours never does that. */
static void a_message_stays_in_its_queue(void **state)
{
    for (int changes = 0; changes < 2; changes++) {
        struct world world;
        begin(&world, 7);
        post_to(&world, 0, 0);
        post_to(&world, 1, 0);
        receive_part(&world, OP_SEND_FIRST, world.number[0]);
        receive_part(&world, OP_SEND_LAST, world.number[changes]);
        struct ibv_wc wc = wait_for(world.cq[0]);
        assert_int_equal(wc.status, changes ? IBV_WC_WR_FLUSH_ERR : IBV_WC_SUCCESS);
        assert_int_equal(ibv_poll_cq(world.cq[1], 1, &wc), 0);
        end(&world);
    }
}

/* A queue that is destroyed while a message comes takes its receive along. */
static void a_queue_goes_in_the_middle_of_a_message(void **state)
{
    struct world world;
    struct ibv_wc wc;
    begin(&world, 7);
    post_to(&world, 1, 0);
    receive_part(&world, OP_SEND_FIRST, world.number[1]);
    assert_int_equal(ibv_destroy_srq(world.srq[1]), 0);
    world.srq[1] = NULL;
    receive_part(&world, OP_SEND_LAST, world.number[1]);
    assert_int_equal(((struct qp *)world.receiver)->state, IBV_QPS_ERR);
    assert_int_equal(ibv_poll_cq(world.cq[1], 1, &wc), 0);
    end(&world);
}

static void opens(struct ibv_context *context, int fd, int flags, int err)
{
    struct ibv_xrcd *xrcd = open_domain(context, fd, flags);
    assert_int_equal(xrcd ? 0 : errno, err);
    if (xrcd)
        assert_int_equal(ibv_close_xrcd(xrcd), 0);
}

static void a_file_stands_for_a_domain(void **state)
{
    struct ibv_context *context = open_loopback();
    int file = memfd_create("domain", MFD_CLOEXEC), same = dup(file), closed = dup(file);
    close(closed);
    opens(context, -1, 0, EINVAL);
    opens(context, closed, O_CREAT, EBADF);
    opens(context, file, O_CREAT | O_RDWR, EINVAL);
    opens(context, file, 0, EAGAIN);
    opens(context, file, O_CREAT | O_EXCL, 0);
    opens(context, file, 0, EAGAIN); /* went with its last handle */
    struct ibv_xrcd *first = open_domain(context, file, O_CREAT), *second = open_domain(context, same, 0);
    assert_true(first && second);
    opens(context, same, O_CREAT | O_EXCL, EINVAL);
    struct ibv_pd *pd = ibv_alloc_pd(context);
    struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0);
    struct ibv_srq *srq = make_queue(context, pd, first, cq, WHOLE);
    uint32_t number;
    assert_non_null(srq);
    assert_int_equal(ibv_get_srq_num(srq, &number), 0);
    assert_int_equal(ibv_close_xrcd(first), EBUSY);
    engine_lock();
    assert_ptr_equal(xrc_find((struct xrcd *)second, number), srq);
    engine_unlock();
    assert_int_equal(ibv_destroy_srq(srq), 0);
    assert_int_equal(ibv_close_xrcd(first), 0);
    opens(context, file, 0, 0);
    assert_int_equal(ibv_close_xrcd(second), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
    assert_int_equal(ibv_close_device(context), 0);
    close(file);
    close(same);
}

static void wrong_calls_are_refused(void **state)
{
    struct world world;
    struct ibv_recv_wr receive = {.wr_id = 1}, *bad_receive;
    struct ibv_send_wr send = {.opcode = IBV_WR_SEND}, *bad;
    begin(&world, 7);
    assert_null(make_queue(world.context, world.pd[0], world.xrcd, NULL, WHOLE & ~(uint32_t)IBV_SRQ_INIT_ATTR_CQ));
    assert_int_equal(errno, EINVAL);
    assert_null(make_queue(world.context, world.pd[0], NULL, world.cq[0], WHOLE & ~(uint32_t)IBV_SRQ_INIT_ATTR_XRCD));
    assert_int_equal(errno, EINVAL);
    assert_int_equal(ibv_post_send(world.receiver, &send, &bad), EINVAL);
    assert_int_equal(ibv_post_recv(world.receiver, &receive, &bad_receive), EINVAL);
    assert_int_equal(ibv_post_recv(world.sender, &receive, &bad_receive), EINVAL);
    send.opcode = IBV_WR_ATOMIC_WRITE;
    assert_int_equal(ibv_post_send(world.sender, &send, &bad), EINVAL);
    struct ibv_srq_init_attr plain = {.attr = {.max_wr = 1, .max_sge = 1}};
    struct ibv_srq *srq = ibv_create_srq(world.pd[0], &plain);
    uint32_t number;
    assert_int_equal(ibv_get_srq_num(srq, &number), EINVAL);
    assert_int_equal(ibv_destroy_srq(srq), 0);
    end(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_stands_for_a_domain),
        cmocka_unit_test(wrong_calls_are_refused),
        cmocka_unit_test(messages_come_to_the_queue_that_they_name),
        cmocka_unit_test(memory_is_that_of_the_queue),
        cmocka_unit_test(a_queue_that_is_not_there_is_refused),
        cmocka_unit_test(a_message_stays_in_its_queue),
        cmocka_unit_test(a_queue_goes_in_the_middle_of_a_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
