/* SPDX-License-Identifier: Apache-2.0 */
/* Regions that a descriptor stands for: where they lie, what they refuse, who may go while they are used. */
#include "verbs/counters.h"
#include "verbs/dmabuf.h"
#include "verbs/pace.h"
#include "verbs/verbs_testing.h"

#include "base/clock.h"
#include "file_part.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define PAGES 8
#define BYTES ((size_t)PAGES * 4096)
#define IOVA  0x700000000100u /* as the offset, 0x100 behind a page's begin */

/* Memory as a device's driver would export it, and the driver's own mapping of it. */
struct memory {
    int fd;
    uint8_t *own;
};

static struct memory make_memory(const char *name)
{
    struct memory memory = {.fd = memfd_create(name, MFD_CLOEXEC)};
    assert_true(memory.fd >= 0);
    assert_int_equal(ftruncate(memory.fd, (off_t)BYTES), 0);
    memory.own = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, memory.fd, 0);
    assert_true(memory.own != MAP_FAILED);
    for (size_t i = 0; i < BYTES; i++)
        memory.own[i] = (uint8_t)(i * 13 + i / 4096);
    return memory;
}

static void drop_memory(struct memory *memory)
{
    munmap(memory->own, BYTES);
    close(memory->fd);
}

static void expect(struct pair *pair, enum ibv_wr_opcode opcode, uint32_t size, uint64_t remote, uint32_t rkey,
                   enum ibv_wc_status status)
{
    assert_int_equal(post(pair, 0, opcode, size, remote, rkey), 0);
    assert_int_equal(wait_for(pair->cq[0]).status, status);
}

static void data_moves_at_its_offset(void **state)
{
    struct pair pair;
    struct memory memory = make_memory("device0");
    setup(&pair, IBV_QPT_RC, 14, 7, 7);
    struct ibv_mr *mr = ibv_reg_dmabuf_mr(pair.pd, 0x1100, 0x3000, IOVA, memory.fd, ALL);
    assert_non_null(mr);
    assert_int_equal(mr->length, 0x3000);
    expect(&pair, IBV_WR_RDMA_READ, 0x3000, IOVA, mr->rkey, IBV_WC_SUCCESS);
    assert_memory_equal(pair.memory, memory.own + 0x1100, 0x3000);
    memset(pair.memory, 0x77, 100);
    expect(&pair, IBV_WR_RDMA_WRITE, 100, IOVA + 0x2f00, mr->rkey, IBV_WC_SUCCESS);
    assert_memory_equal(memory.own + 0x4000, pair.memory, 100);
    assert_int_equal(memory.own[0x3fff], (uint8_t)(0x3fff * 13 + 3));
    *(uint64_t *)(void *)(memory.own + 0x1108) = 41;
    expect(&pair, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, IOVA + 8, mr->rkey, IBV_WC_SUCCESS);
    assert_int_equal(*(uint64_t *)(void *)(memory.own + 0x1108), 42);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    teardown(&pair);
    drop_memory(&memory);
}

/* A receive into it, and a send out of it: the local key. */
static void local_keys_reach_it(void **state)
{
    struct pair pair;
    struct memory memory = make_memory("device0");
    setup(&pair, IBV_QPT_RC, 14, 7, 7);
    struct ibv_mr *mr = ibv_reg_dmabuf_mr(pair.pd, 0, BYTES, 0x10000, memory.fd, ALL);
    assert_non_null(mr);
    struct ibv_sge to = {0x10000, 4096, mr->lkey}, from = {0x12000, 4096, mr->lkey};
    struct ibv_recv_wr receive = {.sg_list = &to, .num_sge = 1}, *bad_receive;
    struct ibv_send_wr send = {.sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
    assert_int_equal(ibv_post_recv(pair.qp[1], &receive, &bad_receive), 0);
    assert_int_equal(ibv_post_send(pair.qp[0], &send, &bad), 0);
    assert_int_equal(wait_for(pair.cq[1]).status, IBV_WC_SUCCESS);
    assert_memory_equal(memory.own, memory.own + 0x2000, 4096);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    teardown(&pair);
    drop_memory(&memory);
}

/* One access that ends the queue pair with this status; all around it is whole. */
static void refused(int access, enum ibv_wr_opcode opcode, uint64_t at, uint32_t key_change)
{
    struct pair pair;
    struct memory memory = make_memory("device0");
    setup(&pair, IBV_QPT_RC, 14, 7, 7);
    struct ibv_mr *mr = ibv_reg_dmabuf_mr(pair.pd, 0x1100, 0x1000, IOVA, memory.fd, access);
    assert_non_null(mr);
    memset(pair.memory, 0xee, 0x100);
    expect(&pair, opcode, 0x100, at, mr->rkey + key_change, IBV_WC_REM_ACCESS_ERR);
    for (size_t i = 0; i < BYTES; i++)
        assert_int_equal(memory.own[i], (uint8_t)(i * 13 + i / 4096));
    assert_int_equal(ibv_dereg_mr(mr), 0);
    teardown(&pair);
    drop_memory(&memory);
}

static void what_is_not_allowed_is_refused(void **state)
{
    refused(ALL, IBV_WR_RDMA_WRITE, IOVA + 0xf01, 0); /* ends a byte too late */
    refused(ALL, IBV_WR_RDMA_WRITE, IOVA - 1, 0);     /* begins a byte too early */
    refused(ALL, IBV_WR_RDMA_WRITE, 0x1100, 0);       /* the offset is no address */
    refused(ALL, IBV_WR_RDMA_READ, IOVA + 0x1000, 0); /* behind it */
    refused(ALL, IBV_WR_RDMA_WRITE, UINT64_MAX - 9, 0);
    refused(ALL, IBV_WR_RDMA_WRITE, IOVA, 1); /* another key */
    refused(IBV_ACCESS_REMOTE_READ, IBV_WR_RDMA_WRITE, IOVA, 0);
    refused(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, IBV_WR_RDMA_READ, IOVA, 0);
}

static void must_fail(struct pair *pair, uint64_t offset, size_t size, uint64_t iova, int fd, int access, int why)
{
    errno = 0;
    struct ibv_mr *mr = ibv_reg_dmabuf_mr(pair->pd, offset, size, iova, fd, access);
    assert_null(mr);
    assert_int_equal(errno, why);
}

static void bad_registrations_have_their_errno(void **state)
{
    struct pair pair;
    struct memory memory = make_memory("device0");
    int pipes[2], sealed = memfd_create("sealed", MFD_ALLOW_SEALING), plain = open("/proc/self/exe", O_RDONLY);
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(ftruncate(sealed, 4096), 0);
    assert_int_equal(fcntl(sealed, F_ADD_SEALS, F_SEAL_WRITE), 0);
    setup(&pair, IBV_QPT_RC, 14, 7, 7);
    must_fail(&pair, 0, 4096, 0, -1, ALL, EBADF);
    must_fail(&pair, 0, 4096, 0, pipes[0], ALL, EINVAL);
    must_fail(&pair, 0, 4096, 0, plain, IBV_ACCESS_REMOTE_READ, EINVAL); /* a file, and no memory */
    must_fail(&pair, 0, 4096, 0, sealed, ALL, EPERM);
    must_fail(&pair, 0, 0, 0, memory.fd, ALL, EINVAL);
    must_fail(&pair, 0, BYTES + 1, 0, memory.fd, ALL, EINVAL);
    must_fail(&pair, BYTES, 1, 0, memory.fd, ALL, EINVAL);
    must_fail(&pair, UINT64_MAX - 4095, 8192, 0, memory.fd, ALL, EINVAL);
    must_fail(&pair, 0, 8192, UINT64_MAX - 4095, memory.fd, ALL, EINVAL);
    must_fail(&pair, 0x100, 4096, 0x200, memory.fd, ALL, EINVAL); /* another place in the page */
    must_fail(&pair, 0, 4096, 0, memory.fd, IBV_ACCESS_REMOTE_WRITE, EINVAL);
    must_fail(&pair, 0, 4096, 0, memory.fd, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ZERO_BASED, EINVAL);
    must_fail(&pair, 0, 4096, 0, memory.fd, IBV_ACCESS_ON_DEMAND, EINVAL);
    must_fail(&pair, 0, 4096, 0, memory.fd, 1 << 19, EINVAL);
    teardown(&pair);
    drop_memory(&memory);
    close(sealed);
    close(plain);
    close(pipes[0]);
    close(pipes[1]);
}

/* As a driver exports pages 2 and 3 of its file. */
static void a_part_of_a_file_begins_at_its_first_page(void **state)
{
    struct pair pair;
    char path[40];
    struct memory memory = make_memory("device0");
    snprintf(path, sizeof(path), "/proc/self/fd/%d", memory.fd);
    int part = open(path, O_RDWR | O_CLOEXEC), copy;
    assert_int_equal(part_set(part, 8192, 8192), 0);
    assert_true((copy = dup(part)) >= 0);
    close(part);
    setup(&pair, IBV_QPT_RC, 14, 7, 7);
    must_fail(&pair, 0, 8193, 0, copy, ALL, EINVAL);
    must_fail(&pair, 4096, 4097, 0, copy, ALL, EINVAL);
    struct ibv_mr *mr = ibv_reg_dmabuf_mr(pair.pd, 4096, 4096, 0, copy, ALL);
    assert_non_null(mr);
    close(copy); /* the region stays */
    munmap(memory.own + 12288, 4096);
    expect(&pair, IBV_WR_RDMA_READ, 4096, 0, mr->rkey, IBV_WC_SUCCESS);
    for (size_t i = 0; i < 4096; i++)
        assert_int_equal(pair.memory[i], (uint8_t)((12288 + i) * 13 + 3));
    assert_int_equal(ibv_dereg_mr(mr), 0);
    teardown(&pair);
    drop_memory(&memory);
}

static int mappings_of(const char *name)
{
    char line[512];
    int found = 0;
    FILE *file = fopen("/proc/self/maps", "r");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file))
        found += strstr(line, name) != NULL;
    fclose(file);
    return found;
}

static void deregistering_unmaps(void **state)
{
    struct pair pair;
    struct memory memory = make_memory("device0");
    setup(&pair, IBV_QPT_RC, 14, 7, 7);
    int before = mappings_of("/memfd:device0");
    struct ibv_mr *mr = ibv_reg_dmabuf_mr(pair.pd, 0x1000, 0x1000, 0, memory.fd, ALL);
    assert_non_null(mr);
    assert_int_equal(mappings_of("/memfd:device0"), before + 1);
    uint32_t stale = mr->rkey;
    assert_int_equal(ibv_dereg_mr(mr), 0);
    assert_int_equal(mappings_of("/memfd:device0"), before);
    expect(&pair, IBV_WR_RDMA_WRITE, 64, 0, stale, IBV_WC_REM_ACCESS_ERR);
    teardown(&pair);
    drop_memory(&memory);
}

/* A child has the mapping, too: what it does with it, and its end, change nothing for its parent. */
static void a_child_changes_nothing(void **state)
{
    struct pair pair;
    int status = -1;
    struct memory memory = make_memory("device0");
    setup(&pair, IBV_QPT_RC, 14, 7, 7);
    struct ibv_mr *mr = ibv_reg_dmabuf_mr(pair.pd, 0, BYTES, 0, memory.fd, ALL);
    assert_non_null(mr);
    pid_t child = fork();
    if (!child)
        _exit(ibv_dereg_mr(mr) != 0 || mappings_of("/memfd:device0") != 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    memset(pair.memory, 0x31, 4096);
    expect(&pair, IBV_WR_RDMA_WRITE, 4096, 4096, mr->rkey, IBV_WC_SUCCESS);
    assert_memory_equal(memory.own + 4096, pair.memory, 4096);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    teardown(&pair);
    drop_memory(&memory);
}

/* Whether a write that both ends have heard of is in the memory. */
static bool is_there(const struct memory *memory, uint8_t value)
{
    return memory->own[4096] == value && memory->own[8191] == value;
}

static void write_and_hear(struct pair *pair, const struct ibv_mr *mr, uint8_t value)
{
    memset(pair->memory, value, 4096);
    assert_int_equal(post_receive(pair, 1, 64, pair->mr->lkey), 0);
    expect(pair, IBV_WR_RDMA_WRITE_WITH_IMM, 4096, 4096, mr->rkey, IBV_WC_SUCCESS);
    assert_int_equal(wait_for(pair->cq[1]).opcode, IBV_WC_RECV_RDMA_WITH_IMM);
}

static void control(const char *command)
{
    char answer[200];
    assert_int_equal(softverbs_control(command, answer, sizeof(answer)), 0);
}

static void a_missing_flush_is_found(void **state)
{
    struct pair pair;
    struct memory memory = make_memory("device0"), other = make_memory("device0");
    setup(&pair, IBV_QPT_RC, 14, 7, 7);
    struct ibv_mr *mr = ibv_reg_dmabuf_mr(pair.pd, 0, BYTES, 0, memory.fd, ALL);
    struct ibv_mr *alike = ibv_reg_dmabuf_mr(pair.pd, 0, BYTES, 0, other.fd, ALL);
    assert_true(mr && alike);
    write_and_hear(&pair, mr, 1);
    assert_true(is_there(&memory, 1)); /* without the fault */
    control("fault posted=1");
    write_and_hear(&pair, mr, 2);
    write_and_hear(&pair, mr, 3);
    assert_true(is_there(&memory, 1)); /* no flush: the program sees what was there before */
    expect(&pair, IBV_WR_RDMA_READ, 8, remote_of(&pair, 1), pair.mr->rkey, IBV_WC_SUCCESS);
    assert_true(is_there(&memory, 1)); /* a read of other memory flushes nothing */
    expect(&pair, IBV_WR_RDMA_READ, 1, 4096, mr->rkey, IBV_WC_SUCCESS);
    assert_true(is_there(&memory, 3));
    write_and_hear(&pair, mr, 4);
    expect(&pair, IBV_WR_RDMA_READ, 1, 0, alike->rkey, IBV_WC_SUCCESS);
    assert_true(is_there(&memory, 4)); /* memory of the same device */
    write_and_hear(&pair, mr, 5);
    softverbs_flush("device1");
    assert_true(is_there(&memory, 4));
    softverbs_flush("device0");
    assert_true(is_there(&memory, 5));
    write_and_hear(&pair, mr, 6);
    control("flush");
    assert_true(is_there(&memory, 6));
    write_and_hear(&pair, mr, 7);
    expect(&pair, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 4096 + 8, mr->rkey, IBV_WC_SUCCESS);
    assert_true(is_there(&memory, 7));
    write_and_hear(&pair, mr, 8);
    control("fault posted=0");
    assert_true(is_there(&memory, 8));
    control("fault posted=1");
    write_and_hear(&pair, mr, 9);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    assert_true(is_there(&memory, 9));
    assert_int_equal(ibv_dereg_mr(alike), 0);
    teardown(&pair);
    drop_memory(&memory);
    drop_memory(&other);
}

/* FLUSH as later <verbs.h> have it: ours lack its names. */
#define WITH_FLUSH   (1 << 11)
#define ACCESS_FLUSH (1 << 8)
#define WC_FLUSH     8

struct later_qp_ex {
    struct ibv_qp_ex ex;
    void (*wr_flush)(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote, size_t size, uint8_t type, uint8_t level);
};

static int flush(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote, size_t size, uint8_t type, uint8_t level)
{
    ibv_wr_start(ex);
    ex->wr_flags = IBV_SEND_SIGNALED;
    ((struct later_qp_ex *)ex)->wr_flush(ex, rkey, remote, size, type, level);
    return ibv_wr_complete(ex);
}

/* Also when its request comes twice, and late. */
static void a_flush_brings_what_was_written(void **state)
{
    static const struct flush_case {
        bool allowed; /* by the region */
        uint64_t remote;
        size_t size;
        uint8_t type, level;
        enum ibv_wc_status status;
    } cases[] = {
        {true, 4096, 4096, 1, 0, IBV_WC_SUCCESS},
        {true, UINT64_MAX, UINT32_MAX, 1, 1, IBV_WC_SUCCESS}, /* the whole region, wherever */
        {true, BYTES - 8, 9, 1, 0, IBV_WC_REM_ACCESS_ERR},
        {false, 4096, 4096, 1, 0, IBV_WC_REM_ACCESS_ERR},
        {true, 4096, 4096, 2, 0, IBV_WC_REM_ACCESS_ERR}, /* no memory of ours lasts */
        {true, 4096, 4096, 0, 0, IBV_WC_REM_INV_REQ_ERR},
        {true, 4096, 4096, 1, 2, IBV_WC_REM_INV_REQ_ERR},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct flush_case *each = &cases[i];
        struct pair pair;
        struct memory memory = make_memory("device0");
        struct ibv_qp_attr attr = {.qp_access_flags = ALL | ACCESS_FLUSH};
        setup(&pair, IBV_QPT_RC, 14, 7, 7);
        struct ibv_qp_ex *ex = remake_extended(&pair, WITH_FLUSH);
        assert_int_equal(ibv_modify_qp(pair.qp[1], &attr, IBV_QP_ACCESS_FLAGS), 0);
        struct ibv_mr *mr =
            ibv_reg_dmabuf_mr(pair.pd, 0, BYTES, 0, memory.fd, each->allowed ? ALL | ACCESS_FLUSH : ALL);
        assert_non_null(mr);
        control("fault posted=1,opcode=28,dup=0.5,delay=0.5,seed=3");
        write_and_hear(&pair, mr, 1);
        assert_false(is_there(&memory, 1));
        assert_int_equal(flush(ex, mr->rkey, each->remote, each->size, each->type, each->level), 0);
        struct ibv_wc wc = wait_for(pair.cq[0]);
        assert_int_equal(wc.status, each->status);
        assert_true(wc.status || (int)wc.opcode == WC_FLUSH);
        assert_int_equal(is_there(&memory, 1), !wc.status);
        if (!i) {
            assert_int_equal(flush(ex, mr->rkey, 0, (size_t)UINT32_MAX + 1, 1, 0), EINVAL);
            write_and_hear(&pair, mr, 2); /* what follows is as it was */
            assert_int_equal(flush(ex, mr->rkey, 0, BYTES, 1, 0), 0);
            assert_int_equal(wait_for(pair.cq[0]).status, IBV_WC_SUCCESS);
            assert_true(is_there(&memory, 2));
        }
        assert_int_equal(ibv_dereg_mr(mr), 0);
        teardown(&pair);
        drop_memory(&memory);
    }
}

/* A send out of the memory is a read by the adapter, a receive into it a write. */
static void messages_are_posted_too(void **state)
{
    struct pair pair;
    struct memory memory = make_memory("device0");
    setup(&pair, IBV_QPT_RC, 14, 7, 7);
    struct ibv_mr *mr = ibv_reg_dmabuf_mr(pair.pd, 0, BYTES, 0, memory.fd, ALL);
    assert_non_null(mr);
    control("fault posted=1");
    struct ibv_sge in = {4096, 4096, mr->lkey}, out = {0, 64, mr->lkey};
    struct ibv_recv_wr receive = {.sg_list = &in, .num_sge = 1}, *bad_receive;
    struct ibv_send_wr send = {.sg_list = &out, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED},
                       *bad;
    memset(pair.memory, 11, 4096);
    assert_int_equal(ibv_post_recv(pair.qp[1], &receive, &bad_receive), 0);
    expect(&pair, IBV_WR_SEND, 4096, 0, 0, IBV_WC_SUCCESS);
    assert_int_equal(wait_for(pair.cq[1]).status, IBV_WC_SUCCESS);
    assert_false(is_there(&memory, 11));
    assert_int_equal(post_receive(&pair, 0, 64, pair.mr->lkey), 0);
    assert_int_equal(ibv_post_send(pair.qp[1], &send, &bad), 0);
    assert_int_equal(wait_for(pair.cq[1]).status, IBV_WC_SUCCESS);
    assert_int_equal(wait_for(pair.cq[0]).status, IBV_WC_SUCCESS);
    assert_true(is_there(&memory, 11));
    assert_int_equal(ibv_dereg_mr(mr), 0);
    teardown(&pair);
    drop_memory(&memory);
}

static const struct rdma_device near_device = {.ibv = {.name = "near"}}, far_device = {.ibv = {.name = "far"}};

/* Each of n moves as much as goes, in a second of time that is counted, not waited for. */
static void move_for_a_second(struct pace *pace, enum pace_way way, uint64_t *moved, int n)
{
    struct pace_turn turns[4] = {{0}};
    uint64_t begin = 10 * NS_PER_S;
    for (uint64_t now = begin; now < begin + NS_PER_S; now += 20 * NS_PER_US)
        for (int i = 0; i < n; i++)
            while (pace_may(pace, way, &turns[i], now) && moved[i] < 1000000000) {
                pace_charge(pace, way, 4096, now);
                pace_took(&turns[i], 4096);
                moved[i] += 4096;
            }
}

static void expect_about(uint64_t value, uint64_t wanted)
{
    assert_in_range(value, wanted - wanted / 50, wanted + wanted / 50);
}

/* 800 mbit are 100 MB in a second, and four that share them have a quarter each. */
static void a_pair_has_its_rate(void **state)
{
    uint64_t moved[4] = {0}, gpu = dmabuf_memory("tutti-emulated-gpu12");
    assert_true(pace_set("gpu12@far=800mbit,gpu12@*=1.6gbit"));
    struct pace *far = pace_of(&far_device, gpu, NULL), *near = pace_of(&near_device, gpu, NULL);
    move_for_a_second(far, PACE_INTO_MEMORY, moved, 1);
    expect_about(moved[0], 100000000);
    moved[0] = 0;
    move_for_a_second(far, PACE_OUT_OF_MEMORY, moved, 1); /* in that second again: the other way is free */
    expect_about(moved[0], 100000000);
    moved[0] = 0;
    move_for_a_second(near, PACE_INTO_MEMORY, moved, 4); /* and the other pair, too */
    for (int i = 0; i < 4; i++)
        expect_about(moved[i], 50000000);
    assert_ptr_equal(pace_of(&far_device, gpu, NULL), far);
    assert_null(pace_of(&far_device, dmabuf_memory("tutti-emulated-gpu1"), NULL));
    assert_null(pace_of(&far_device, 0, moved));
    memset(moved, 0, sizeof(moved));
    move_for_a_second(NULL, PACE_INTO_MEMORY, moved, 1); /* no rate: as much as is wanted at once */
    assert_true(moved[0] >= 1000000000);
    assert_true(pace_set("node0@far=1gbit, host@near=1gbit,*@near=2gbit"));
    assert_non_null(pace_of(&far_device, 0, moved)); /* memory of the only node there is */
    assert_ptr_not_equal(pace_of(&near_device, 0, moved), pace_of(&near_device, gpu, NULL));
    assert_ptr_not_equal(pace_of(&near_device, gpu + 1, NULL), pace_of(&near_device, gpu, NULL));
    assert_true(pace_set("node7@far=1gbit"));
    assert_null(pace_of(&far_device, 0, moved));
    static const char *const bad[] = {"gpu1",
                                      "gpu1@far",
                                      "gpu1@far=",
                                      "@far=1gbit",
                                      "gpu1@=1gbit",
                                      "gpu1@far=0gbit",
                                      "gpu1@far=-1gbit",
                                      "gpu1@far=1",
                                      "gpu1@far=infgbit",
                                      "gpu1@far=1gbits",
                                      "node7@far=1gbit,x",
                                      "gpu1=1gbit@far",
                                      "gpu1@far=1e30gbit"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(pace_set(bad[i]));
    assert_true(pace_set(""));
}

/* How often requests of this kind waited for memory of this name: 256 KiB of 32 KiB each. Without a timeout, so that
 * nothing is sent twice. */
static uint64_t waits_of(const char *name, enum ibv_wr_opcode opcode, bool local)
{
    struct pair pair;
    struct ibv_sge sge;
    char answer[512], rate[80];
    struct memory memory = make_memory(name);
    setup(&pair, IBV_QPT_RC, 0, 7, 7);
    struct ibv_mr *mr = ibv_reg_dmabuf_mr(pair.pd, 0, BYTES, 0x700000000000, memory.fd, ALL);
    assert_non_null(mr);
    uint64_t before = counter_read(COUNT_waited_for_rate);
    struct ibv_send_wr wr = {.opcode = opcode, .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED}, *bad;
    sge = (struct ibv_sge){local ? 0x700000000000 : remote_of(&pair, 0), BYTES, local ? mr->lkey : pair.mr->lkey};
    wr.wr.rdma.remote_addr = local ? remote_of(&pair, 1) : 0x700000000000;
    wr.wr.rdma.rkey = local ? pair.mr->rkey : mr->rkey;
    for (int i = 0; i < 8; i++)
        assert_int_equal(ibv_post_send(pair.qp[0], &wr, &bad), 0);
    for (int i = 0; i < 8; i++)
        assert_int_equal(wait_for(pair.cq[0]).status, IBV_WC_SUCCESS);
    assert_memory_equal(memory.own, pair.memory + (local ? SIZE : 0), BYTES);
    softverbs_control("rates", answer, sizeof(answer));
    snprintf(rate, sizeof(rate), "%s@soft_lo 2000000 bytes/s, read ", name + strlen("tutti-emulated-"));
    const char *line = strstr(answer, rate);
    assert_true(line || strstr(name, "gpu0"));
    if (line)
        assert_int_equal(strtoull(line + strlen(rate), NULL, 10) % (8 * BYTES), 0); /* each byte once */
    assert_int_equal(ibv_dereg_mr(mr), 0);
    teardown(&pair);
    drop_memory(&memory);
    return counter_read(COUNT_waited_for_rate) - before;
}

/* At 16 mbit 32 KiB take 16 ms: all that touches the far memory waits for it, at either end, and the near one does not
 * know. */
static void far_memory_is_waited_for(void **state)
{
    char answer[128];
    assert_int_equal(softverbs_control("rates gpu1@soft_lo=16mbit", answer, sizeof(answer)), 0);
    for (int local = 0; local < 2; local++) {
        assert_true(waits_of("tutti-emulated-gpu1", IBV_WR_RDMA_WRITE, local) >= 1);
        assert_true(waits_of("tutti-emulated-gpu1", IBV_WR_RDMA_READ, local) >= 1);
        assert_int_equal(waits_of("tutti-emulated-gpu0", IBV_WR_RDMA_WRITE, local), 0);
    }
    assert_int_equal(softverbs_control("rates gpu1", answer, sizeof(answer)), EINVAL);
    assert_true(pace_set(""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(data_moves_at_its_offset),
        cmocka_unit_test(local_keys_reach_it),
        cmocka_unit_test(what_is_not_allowed_is_refused),
        cmocka_unit_test(bad_registrations_have_their_errno),
        cmocka_unit_test(a_part_of_a_file_begins_at_its_first_page),
        cmocka_unit_test(deregistering_unmaps),
        cmocka_unit_test(a_child_changes_nothing),
        cmocka_unit_test(a_missing_flush_is_found),
        cmocka_unit_test(a_flush_brings_what_was_written),
        cmocka_unit_test(messages_are_posted_too),
        cmocka_unit_test(a_pair_has_its_rate),
        cmocka_unit_test(far_memory_is_waited_for),
    };
    struct ibv_context *context = open_loopback();
    if (!context) {
        fprintf(stderr, "dmabuf_test: SKIPPED: %s\n", strerror(errno));
        return 77;
    }
    ibv_close_device(context);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
