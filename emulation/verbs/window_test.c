/* SPDX-License-Identifier: Apache-2.0 */
/* What adapters do with memory besides registering it: windows, keys that are taken back, registering anew, memory on
 * demand, parent domains; and requests that they refuse. */
#include "verbs/packet.h"
#include "verbs/verbs_testing.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static struct ibv_wc do_request(const struct pair *pair, int side, struct ibv_send_wr *wr)
{
    struct ibv_send_wr *bad;
    wr->send_flags |= IBV_SEND_SIGNALED;
    assert_int_equal(ibv_post_send(pair->qp[side], wr, &bad), 0);
    return wait_for(pair->cq[side]);
}

static enum ibv_wc_status write_with(struct pair *pair, uint64_t remote, uint32_t rkey)
{
    assert_int_equal(post(pair, 0, IBV_WR_RDMA_WRITE, 8, remote, rkey), 0);
    return wait_for(pair->cq[0]).status;
}

static struct ibv_mr *bindable(struct pair *pair)
{
    struct ibv_mr *mr = ibv_reg_mr(pair->pd, pair->memory + SIZE, SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
    assert_non_null(mr);
    return mr;
}

static struct ibv_mw_bind_info part_of(struct pair *pair, struct ibv_mr *mr, uint64_t length, unsigned access)
{
    return (struct ibv_mw_bind_info){length ? mr : NULL, length ? remote_of(pair, 1) + 64 : 0, length, access};
}

static void bind_1(struct pair *pair, struct ibv_mw *mw, struct ibv_mr *mr, uint64_t length, unsigned access)
{
    struct ibv_mw_bind bind = {.wr_id = 3, .send_flags = IBV_SEND_SIGNALED};
    bind.bind_info = part_of(pair, mr, length, access);
    uint32_t before = mw->rkey;
    assert_int_equal(ibv_bind_mw(pair->qp[1], mw, &bind), 0);
    assert_int_not_equal(mw->rkey, before);
    struct ibv_wc wc = wait_for(pair->cq[1]);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.opcode, IBV_WC_BIND_MW);
}

static enum ibv_wc_status bind_2(struct pair *pair, struct ibv_mw *mw, struct ibv_mr *mr, uint32_t rkey)
{
    struct ibv_send_wr wr = {.wr_id = 4, .opcode = IBV_WR_BIND_MW};
    wr.bind_mw.mw = mw;
    wr.bind_mw.rkey = rkey;
    wr.bind_mw.bind_info = part_of(pair, mr, 128, IBV_ACCESS_REMOTE_WRITE);
    return do_request(pair, 1, &wr).status;
}

/* The key of a region that gives peers nothing does not serve them, that of a window on it does: in its bounds, for
 * what it gives, until the next bind. */
static void a_window_shows_a_part(void **state)
{
    struct pair pair;
    for (int wrong = 0; wrong < 5; wrong++) {
        setup(&pair, IBV_QPT_RC, 14, 7, 7);
        struct ibv_mr *mr = bindable(&pair);
        struct ibv_mw *mw = ibv_alloc_mw(pair.pd, IBV_MW_TYPE_1);
        uint64_t begin = remote_of(&pair, 1) + 64;
        assert_non_null(mw);
        bind_1(&pair, mw, mr, 128, wrong == 4 ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE);
        memset(pair.memory, 0x44, 8);
        if (wrong != 4) {
            assert_int_equal(write_with(&pair, begin + 120, mw->rkey), IBV_WC_SUCCESS);
            assert_int_equal(pair.memory[SIZE + 64 + 120], 0x44);
        }
        assert_int_equal(ibv_dereg_mr(mr), EBUSY);
        uint32_t old = mw->rkey;
        if (wrong == 3)
            bind_1(&pair, mw, mr, 0, 0);
        assert_int_equal(write_with(&pair,
                                    wrong == 1   ? begin + 121
                                    : wrong == 2 ? begin - 1
                                                 : begin,
                                    wrong == 0 ? mr->rkey : old),
                         IBV_WC_REM_ACCESS_ERR);
        assert_int_equal(ibv_dealloc_mw(mw), 0);
        assert_int_equal(ibv_dereg_mr(mr), 0);
        teardown(&pair);
    }
}

enum taken_back { BY_NOBODY, LOCALLY, BY_THE_PEER, BY_DEALLOC, WAYS };

static void take_back(struct pair *pair, struct ibv_mw *mw, uint32_t key, enum taken_back how)
{
    struct ibv_send_wr wr = {.opcode = how == LOCALLY ? IBV_WR_LOCAL_INV : IBV_WR_SEND_WITH_INV};
    wr.invalidate_rkey = key;
    if (how == LOCALLY) {
        struct ibv_wc wc = do_request(pair, 1, &wr);
        assert_int_equal(wc.status, IBV_WC_SUCCESS);
        assert_int_equal(wc.opcode, IBV_WC_LOCAL_INV);
    } else if (how == BY_THE_PEER) {
        assert_int_equal(post_receive(pair, 1, 64, pair->mr->lkey), 0);
        assert_int_equal(do_request(pair, 0, &wr).status, IBV_WC_SUCCESS);
        struct ibv_wc wc = wait_for(pair->cq[1]);
        assert_int_equal(wc.status, IBV_WC_SUCCESS);
        assert_int_equal(wc.wc_flags, IBV_WC_WITH_INV);
        assert_int_equal(wc.invalidated_rkey, key);
    } else if (how == BY_DEALLOC) {
        assert_int_equal(ibv_dealloc_mw(mw), 0);
    }
}

static void a_key_is_taken_back(void **state)
{
    for (enum taken_back how = BY_NOBODY; how < WAYS; how++) {
        struct pair pair;
        setup(&pair, IBV_QPT_RC, 14, 7, 7);
        struct ibv_mr *mr = bindable(&pair);
        struct ibv_mw *mw = ibv_alloc_mw(pair.pd, IBV_MW_TYPE_2);
        assert_non_null(mw);
        uint32_t key = ibv_inc_rkey(mw->rkey);
        assert_int_equal(bind_2(&pair, mw, mr, key), IBV_WC_SUCCESS);
        assert_int_equal(write_with(&pair, remote_of(&pair, 1) + 64, key), IBV_WC_SUCCESS);
        take_back(&pair, mw, key, how);
        if (how == LOCALLY || how == BY_THE_PEER) /* may be bound again */
            assert_int_equal(bind_2(&pair, mw, mr, ibv_inc_rkey(key)), IBV_WC_SUCCESS);
        if (how == BY_NOBODY) /* may not, and another queue pair's peer may not use the key */
            assert_int_equal(bind_2(&pair, mw, mr, ibv_inc_rkey(key)), IBV_WC_MW_BIND_ERR);
        else
            assert_int_equal(write_with(&pair, remote_of(&pair, 1) + 64, key), IBV_WC_REM_ACCESS_ERR);
        if (how != BY_DEALLOC)
            assert_int_equal(ibv_dealloc_mw(mw), 0);
        assert_int_equal(ibv_dereg_mr(mr), 0);
        teardown(&pair);
    }
}

/* A window of type 2 is its queue pair's alone; a key that nobody has cannot be taken back. */
static void strangers_keys_do_not_serve(void **state)
{
    struct pair pair;
    setup(&pair, IBV_QPT_RC, 14, 7, 7);
    struct ibv_mr *mr = bindable(&pair);
    struct ibv_mw *mw = ibv_alloc_mw(pair.pd, IBV_MW_TYPE_2);
    uint32_t key = ibv_inc_rkey(mw->rkey);
    assert_int_equal(bind_2(&pair, mw, mr, key), IBV_WC_SUCCESS);
    memcpy(pair.memory + SIZE, "untouched", 9);
    assert_int_equal(post(&pair, 1, IBV_WR_RDMA_WRITE, 8, remote_of(&pair, 1) + 64, key), 0);
    assert_int_equal(wait_for(pair.cq[1]).status, IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    teardown(&pair);
    setup(&pair, IBV_QPT_RC, 14, 7, 7);
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND_WITH_INV, .invalidate_rkey = pair.mr->rkey};
    assert_int_equal(post_receive(&pair, 1, 64, pair.mr->lkey), 0);
    assert_int_equal(do_request(&pair, 0, &wr).status, IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(wait_for(pair.cq[1]).status, IBV_WC_MW_BIND_ERR);
    teardown(&pair);
}

/* Requests that send nothing keep their place among those that do, also where packets are lost and sent again. */
static void requests_that_send_nothing_keep_their_place(void **state)
{
    struct pair pair;
    char answer[64];
    setup(&pair, IBV_QPT_RC, 10, 7, 7);
    struct ibv_mr *mr = bindable(&pair);
    struct ibv_mw *mw = ibv_alloc_mw(pair.pd, IBV_MW_TYPE_2);
    uint32_t key = mw->rkey;
    softverbs_control("fault drop=0.05,seed=5", answer, sizeof(answer));
    for (int round = 0; round < 50; round++) {
        struct ibv_sge sge = {(uintptr_t)pair.memory, 2500, pair.mr->lkey};
        struct ibv_send_wr wr[4] = {{.opcode = IBV_WR_RDMA_WRITE},
                                    {.opcode = IBV_WR_BIND_MW},
                                    {.opcode = IBV_WR_RDMA_READ},
                                    {.opcode = IBV_WR_LOCAL_INV}},
                           *bad;
        for (int i = 0; i < 4; i++) {
            wr[i].wr_id = (uint64_t)i;
            wr[i].send_flags = IBV_SEND_SIGNALED;
            wr[i].next = i < 3 ? &wr[i + 1] : NULL;
            wr[i].sg_list = &sge;
            wr[i].num_sge = i % 2 == 0;
            wr[i].wr.rdma.remote_addr = remote_of(&pair, 1);
            wr[i].wr.rdma.rkey = pair.mr->rkey;
        }
        key = ibv_inc_rkey(key);
        wr[1].bind_mw.mw = mw;
        wr[1].bind_mw.rkey = wr[3].invalidate_rkey = key;
        wr[1].bind_mw.bind_info = part_of(&pair, mr, 128, IBV_ACCESS_REMOTE_WRITE);
        assert_int_equal(ibv_post_send(pair.qp[0], wr, &bad), 0);
        for (int i = 0; i < 4; i++) {
            struct ibv_wc wc = wait_for(pair.cq[0]);
            assert_int_equal(wc.status, IBV_WC_SUCCESS);
            assert_int_equal(wc.wr_id, i);
        }
    }
    softverbs_control("fault drop=0", answer, sizeof(answer));
    assert_int_equal(ibv_dealloc_mw(mw), 0);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    teardown(&pair);
}

static void a_region_is_registered_anew(void **state)
{
    struct pair pair;
    setup(&pair, IBV_QPT_RC, 14, 7, 7);
    struct ibv_pd *other = ibv_alloc_pd(pair.context);
    struct ibv_mr *mr = ibv_reg_mr(pair.pd, pair.memory + SIZE, 4096, IBV_ACCESS_LOCAL_WRITE);
    assert_int_equal(ibv_rereg_mr(mr, 0, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_INPUT);
    assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, NULL, 16, 0), IBV_REREG_MR_ERR_INPUT);
    assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_WRITE),
                     IBV_REREG_MR_ERR_CMD);
    assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ALL), 0);
    assert_int_equal(write_with(&pair, remote_of(&pair, 1), mr->rkey), IBV_WC_SUCCESS);
    assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, pair.memory + SIZE + 4096, 4096, 0), 0);
    assert_ptr_equal(mr->addr, pair.memory + SIZE + 4096);
    assert_int_equal(write_with(&pair, remote_of(&pair, 1) + 8191 - 7, mr->rkey), IBV_WC_SUCCESS);
    assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, other, NULL, 0, 0), 0);
    assert_int_equal(ibv_dealloc_pd(other), EBUSY);
    assert_int_equal(write_with(&pair, remote_of(&pair, 1) + 4096, mr->rkey), IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    assert_int_equal(ibv_dealloc_pd(other), 0);
    teardown(&pair);
}

/* On demand all memory of the process is one region: what is there is copied, what is not ends its request only. */
static void memory_on_demand_may_be_missing(void **state)
{
    struct pair pair;
    for (int missing = 0; missing < 3; missing++) {
        setup(&pair, IBV_QPT_RC, 14, 7, 7);
        struct ibv_mr *all = ibv_reg_mr(pair.pd, NULL, SIZE_MAX, ALL | IBV_ACCESS_ON_DEMAND);
        assert_non_null(all);
        uint8_t *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        struct ibv_sge part = {(uintptr_t)page, 4096, all->lkey};
        assert_int_equal(
            ibv_advise_mr(pair.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, IBV_ADVISE_MR_FLAG_FLUSH, &part, 1), 0);
        memset(pair.memory, 0x61, 8);
        assert_int_equal(write_with(&pair, (uintptr_t)page + 8, all->rkey), IBV_WC_SUCCESS);
        assert_int_equal(page[15], 0x61);
        assert_int_equal(post(&pair, 0, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, (uintptr_t)page, all->rkey), 0);
        assert_int_equal(wait_for(pair.cq[0]).status, IBV_WC_SUCCESS);
        assert_int_equal(page[0], 1);
        munmap(page, 4096);
        assert_int_equal(ibv_advise_mr(pair.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_FLAG_FLUSH, &part, 1),
                         EFAULT);
        part.lkey = pair.mr->lkey + 1;
        assert_int_equal(ibv_advise_mr(pair.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &part, 1), ENOENT);
        enum ibv_wr_opcode opcode = missing == 1 ? IBV_WR_ATOMIC_FETCH_AND_ADD : IBV_WR_RDMA_WRITE;
        if (missing == 2)
            pair.mr->lkey = all->lkey; /* and the local side's is not there */
        uint8_t *memory = pair.memory;
        pair.memory = missing == 2 ? page : memory;
        assert_int_equal(post(&pair, 0, opcode, 8, missing == 2 ? (uintptr_t)memory : (uintptr_t)page, all->rkey), 0);
        assert_int_equal(wait_for(pair.cq[0]).status, missing == 2 ? IBV_WC_LOC_PROT_ERR : IBV_WC_REM_OP_ERR);
        pair.memory = memory;
        assert_int_equal(ibv_dereg_mr(all), 0);
        teardown(&pair);
    }
}

static void a_parent_domain_stands_for_its_own(void **state)
{
    struct pair pair;
    setup(&pair, IBV_QPT_RC, 14, 7, 7);
    struct ibv_td_init_attr none = {0};
    struct ibv_td *td = ibv_alloc_td(pair.context, &none);
    struct ibv_parent_domain_init_attr init = {.pd = pair.pd, .td = td};
    struct ibv_pd *parent = ibv_alloc_parent_domain(pair.context, &init);
    assert_non_null(parent);
    struct ibv_mr *mr = ibv_reg_mr(parent, pair.memory + SIZE, 64, ALL);
    assert_int_equal(write_with(&pair, remote_of(&pair, 1), mr->rkey), IBV_WC_SUCCESS);
    assert_int_equal(ibv_dealloc_td(td), EBUSY);
    assert_int_equal(ibv_dealloc_pd(parent), EBUSY);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    assert_int_equal(ibv_dealloc_pd(parent), 0);
    assert_int_equal(ibv_dealloc_td(td), 0);
    init.comp_mask = 1u << 30;
    assert_null(ibv_alloc_parent_domain(pair.context, &init));
    assert_int_equal(errno, EINVAL);
    teardown(&pair);
}

/* Other calls of verbs may come between the ibv_wr_* calls of one request. */
static void eight_bytes_are_written_at_once(void **state)
{
    struct pair pair;
    uint64_t value = 0x1122334455667788;
    for (uint64_t off = 0; off < 8; off += 4) {
        setup(&pair, IBV_QPT_RC, 14, 7, 7);
        struct ibv_qp_ex *ex = remake_extended(&pair, IBV_QP_EX_WITH_ATOMIC_WRITE);
        ibv_wr_start(ex);
        ex->wr_id = 5;
        ex->wr_flags = IBV_SEND_SIGNALED;
        assert_int_equal(ibv_dereg_mr(ibv_reg_mr(pair.pd, pair.memory, 64, 0)), 0);
        ibv_wr_atomic_write(ex, pair.mr->rkey, remote_of(&pair, 1) + off, &value);
        assert_int_equal(ibv_wr_complete(ex), 0);
        struct ibv_wc wc = wait_for(pair.cq[0]);
        assert_int_equal(wc.status, off ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_SUCCESS);
        if (!off) {
            assert_int_equal(wc.opcode, IBV_WC_ATOMIC_WRITE);
            assert_memory_equal(pair.memory + SIZE, &value, 8);
        }
        teardown(&pair);
    }
}

/* A queue pair of the second handles reaches the memory of the first ones, through itself. */
static void through_itself(struct pair *pair, struct ibv_context *context, struct ibv_pd *pd, const struct ibv_mr *mr)
{
    struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC, .cap = {4, 4, 1, 1, 0}};
    union ibv_gid gid;
    init.send_cq = init.recv_cq = ibv_create_cq(context, 8, NULL, NULL, 0);
    struct ibv_qp *qp = ibv_create_qp(pd, &init);
    assert_non_null(qp);
    to_init(qp);
    assert_int_equal(ibv_query_gid(context, 1, 0, &gid), 0);
    assert_int_equal(to_rtr(qp, qp->qp_num, &gid), 0);
    assert_int_equal(to_rts(qp, 14, 7, 7), 0);
    struct ibv_sge sge = {(uintptr_t)pair->memory, 100, mr->lkey};
    struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1}, *bad;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = remote_of(pair, 1);
    wr.wr.rdma.rkey = mr->rkey;
    memset(pair->memory, 0x66, 100);
    assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
    assert_int_equal(wait_for(init.send_cq).status, IBV_WC_SUCCESS);
    assert_memory_equal(pair->memory, pair->memory + SIZE, 100);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_destroy_cq(init.send_cq), 0);
}

static void what_is_imported_is_the_same(void **state)
{
    struct pair pair;
    setup(&pair, IBV_QPT_RC, 14, 7, 7);
    int foreign = dup(0);
    struct ibv_context *context = ibv_import_device(dup(pair.context->cmd_fd)), *other = open_loopback();
    assert_non_null(context);
    struct ibv_pd *pd = ibv_import_pd(context, pair.pd->handle);
    assert_non_null(pd);
    struct ibv_mr *mr = ibv_import_mr(pd, pair.mr->handle);
    assert_non_null(mr);
    assert_null(mr->addr);
    through_itself(&pair, context, pd, mr);
    assert_int_equal(ibv_dealloc_pd(pair.pd), EBUSY);
    assert_int_equal(ibv_dereg_mr(mr), EINVAL);
    assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_CMD);
    assert_null(ibv_import_pd(other, pair.pd->handle)); /* another file */
    assert_int_equal(errno, ENOENT);
    assert_null(ibv_import_pd(context, pair.pd->handle + 1000));
    assert_null(ibv_import_mr(pd, pair.mr->handle + 1000));
    assert_int_equal(errno, ENOENT);
    struct ibv_pd *elsewhere = ibv_alloc_pd(pair.context);
    assert_null(ibv_import_mr(elsewhere, pair.mr->handle));
    assert_null(ibv_import_device(foreign));
    assert_int_equal(errno, EOPNOTSUPP);
    close(foreign);
    assert_null(ibv_import_device(foreign));
    assert_int_equal(errno, EBADF);
    ibv_unimport_mr(pair.mr); /* these two were not imported: nothing happens */
    ibv_unimport_pd(pair.pd);
    ibv_unimport_mr(mr);
    ibv_unimport_pd(pd);
    assert_int_equal(ibv_dealloc_pd(elsewhere), 0);
    assert_int_equal(ibv_close_device(other), 0);
    assert_int_equal(ibv_close_device(context), 0);
    teardown(&pair); /* nothing of it is used any more */
}

static void what_adapters_refuse(void **state)
{
    struct pair pair;
    struct ibv_gid_entry entries[32];
    setup(&pair, IBV_QPT_RC, 14, 7, 7);
    struct ibv_qp_init_attr raw = {
        .send_cq = pair.cq[0], .recv_cq = pair.cq[0], .qp_type = IBV_QPT_RAW_PACKET, .cap = {1, 1, 1, 1, 0}};
    assert_null(ibv_create_qp(pair.pd, &raw));
    assert_int_equal(errno, EOPNOTSUPP);
    ssize_t n = ibv_query_gid_table(pair.context, entries, 32, 0);
    assert_true(n > 1);
    assert_int_equal(ibv_query_gid_table(pair.context, entries, (size_t)n, 0), n);
    assert_int_equal(ibv_query_gid_table(pair.context, entries, (size_t)n - 1, 0), -EINVAL);
    uint8_t *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_null(ibv_reg_mr(pair.pd, page, 4096, IBV_ACCESS_LOCAL_WRITE));
    assert_int_equal(errno, EFAULT);
    struct ibv_mr *mr = ibv_reg_mr(pair.pd, page, 4096, IBV_ACCESS_REMOTE_READ);
    assert_non_null(mr);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    munmap(page, 4096);
    struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};
    assert_int_equal(ibv_query_rt_values_ex(pair.context, &values), 0);
    assert_true(values.comp_mask == IBV_VALUES_MASK_RAW_CLOCK && values.raw_clock.tv_nsec > 0);
    teardown(&pair);
}

/* Of a time that receivers which are not ready ask for adapters take five bits. */
static void a_long_wait_wraps(void **state)
{
    struct pair pair;
    struct ibv_qp_attr attr = {.min_rnr_timer = 33};
    struct ibv_qp_init_attr init;
    setup(&pair, IBV_QPT_RC, 14, 7, 7);
    assert_int_equal(ibv_modify_qp(pair.qp[0], &attr, IBV_QP_MIN_RNR_TIMER), 0);
    assert_int_equal(ibv_query_qp(pair.qp[0], &attr, IBV_QP_MIN_RNR_TIMER, &init), 0);
    assert_int_equal(attr.min_rnr_timer, 1);
    teardown(&pair);
}

/* A queue that overran ends the queue pairs that complete into it. */
static void an_overrun_ends_queue_pairs(void **state)
{
    struct pair pair;
    struct ibv_async_event event;
    setup(&pair, IBV_QPT_RC, 14, 7, 7);
    assert_int_equal(ibv_resize_cq(pair.cq[0], 1), 0);
    for (int i = 0; i < 5; i++)
        assert_int_equal(post(&pair, 0, IBV_WR_RDMA_WRITE, 8, remote_of(&pair, 1), pair.mr->rkey), 0);
    bool fatal = false;
    while (!fatal) {
        struct pollfd wait = {.fd = pair.context->async_fd, .events = POLLIN};
        assert_int_equal(poll(&wait, 1, PATIENCE * 1000), 1);
        assert_int_equal(ibv_get_async_event(pair.context, &event), 0);
        fatal = event.event_type == IBV_EVENT_QP_FATAL && event.element.qp == pair.qp[0];
        ibv_ack_async_event(&event);
    }
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    assert_int_equal(ibv_query_qp(pair.qp[0], &attr, IBV_QP_STATE, &init), 0);
    assert_int_equal(attr.qp_state, IBV_QPS_ERR);
    teardown(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_window_shows_a_part),
        cmocka_unit_test(a_key_is_taken_back),
        cmocka_unit_test(strangers_keys_do_not_serve),
        cmocka_unit_test(requests_that_send_nothing_keep_their_place),
        cmocka_unit_test(a_region_is_registered_anew),
        cmocka_unit_test(memory_on_demand_may_be_missing),
        cmocka_unit_test(a_parent_domain_stands_for_its_own),
        cmocka_unit_test(eight_bytes_are_written_at_once),
        cmocka_unit_test(what_is_imported_is_the_same),
        cmocka_unit_test(what_adapters_refuse),
        cmocka_unit_test(a_long_wait_wraps),
        cmocka_unit_test(an_overrun_ends_queue_pairs),
    };
    struct ibv_context *context = open_loopback();
    if (!context) {
        fprintf(stderr, "window_test: SKIPPED: %s\n", strerror(errno));
        return 77;
    }
    ibv_close_device(context);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
