/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory for adapters: its descriptors, and the software adapter that works on them. */
#include "cuda/tests/check.h"
#include "verbs/verbs_testing.h"

#include "file_part.h"

#include <errno.h>
#include <unistd.h>

#define TWO_MIB ((size_t)2 << 20)

static CUresult export(int *fd, CUdeviceptr address, size_t size)
{
    *fd = -1;
    return cuMemGetHandleForAddressRange(fd, address, size, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
}

static void set_words(CUdeviceptr address, size_t size, unsigned first)
{
    for (unsigned i = 0; i < size / 4096; i++)
        OK(cuMemsetD32_v2(address + (size_t)i * 4096, first + i, 1024));
    OK(cuCtxSynchronize());
}

static void expect_word(CUdeviceptr address, unsigned word)
{
    unsigned got = 0;
    OK(cuMemcpyDtoH_v2(&got, address, sizeof(got)));
    assert_int_equal(got, word);
}

static void write_to(struct pair *pair, const struct ibv_mr *mr, uint64_t at, uint32_t size)
{
    assert_int_equal(post(pair, 0, IBV_WR_RDMA_WRITE, size, at, mr->rkey), 0);
    assert_int_equal(wait_for(pair->cq[0]).status, IBV_WC_SUCCESS);
}

static void read_from(struct pair *pair, const struct ibv_mr *mr, uint64_t at, uint32_t size)
{
    assert_int_equal(post(pair, 0, IBV_WR_RDMA_READ, size, at, mr->rkey), 0);
    assert_int_equal(wait_for(pair->cq[0]).status, IBV_WC_SUCCESS);
}

static int attribute(CUdevice_attribute which)
{
    int value = -1;
    OK(cuDeviceGetAttribute(&value, which, 0));
    return value;
}

static void test_attributes(void **state)
{
    OK(cuInit(0));
    assert_int_equal(attribute(CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED), 1);
    assert_int_equal(attribute(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED), 1);
    assert_int_equal(attribute(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING), 100);
}

/* A part of an allocation: the descriptor begins at the part, as the adapter's offset does. */
static void test_allocated(void **state)
{
    struct pair pair;
    CUdeviceptr a;
    int fd;
    use_device(0);
    OK(cuMemAlloc_v2(&a, 10 * 4096 - 5));
    OK(cuMemsetD8_v2(a, 0, 10 * 4096 - 5));
    set_words(a, 9 * 4096, 100);
    OK(export(&fd, a + 2 * 4096, 3 * 4096));
    setup(&pair, IBV_QPT_RC, 14, 7, 7);
    struct ibv_mr *mr = ibv_reg_dmabuf_mr(pair.pd, 0, 3 * 4096, a + 2 * 4096, fd, ALL);
    assert_non_null(mr);
    assert_null(ibv_reg_dmabuf_mr(pair.pd, 4096, 3 * 4096, 0, fd, ALL));
    assert_int_equal(errno, EINVAL);
    close(fd);
    read_from(&pair, mr, a + 4 * 4096, 4);
    assert_int_equal(*(unsigned *)(void *)pair.memory, 104);
    memset(pair.memory, 0x42, 4096);
    write_to(&pair, mr, a + 3 * 4096, 4096);
    expect_word(a + 3 * 4096 + 4092, 0x42424242);
    expect_word(a + 4 * 4096, 104);
    expect_word(a + 3 * 4096 - 4, 102);
    OK(cuMemFree_v2(a)); /* the adapter's mapping stays */
    read_from(&pair, mr, a + 4 * 4096, 4);
    assert_int_equal(*(unsigned *)(void *)pair.memory, 104);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    teardown(&pair);
    leave_device(0);
}

static void test_bad_ranges(void **state)
{
    CUdeviceptr a, managed;
    void *pinned;
    int fd;
    use_device(0);
    OK(cuMemAlloc_v2(&a, 2 * 4096));
    OK(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
    OK(cuMemAllocHost_v2(&pinned, 4096));
    FAILS(export(&fd, a + 512, 4096), CUDA_ERROR_INVALID_VALUE);
    FAILS(export(&fd, a, 4000), CUDA_ERROR_INVALID_VALUE);
    FAILS(export(&fd, a, 0), CUDA_ERROR_INVALID_VALUE);
    FAILS(export(&fd, 0, 4096), CUDA_ERROR_INVALID_VALUE);
    FAILS(export(&fd, a, 3 * 4096), CUDA_ERROR_INVALID_VALUE);
    FAILS(export(&fd, a + 2 * 4096, 4096), CUDA_ERROR_INVALID_VALUE);
    FAILS(export(&fd, managed, 4096), CUDA_ERROR_NOT_SUPPORTED);
    FAILS(export(&fd, (uintptr_t)pinned, 4096), CUDA_ERROR_NOT_SUPPORTED);
    FAILS(cuMemGetHandleForAddressRange(NULL, a, 4096, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0),
          CUDA_ERROR_INVALID_VALUE);
    FAILS(cuMemGetHandleForAddressRange(&fd, a, 4096, 2, 0), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuMemGetHandleForAddressRange(&fd, a, 4096, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 1),
          CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(fd, -1);
    setenv("TUTTI_EMULATED_DMABUF", "0", 1);
    config_reload();
    assert_int_equal(attribute(CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED), 0);
    FAILS(export(&fd, a, 4096), CUDA_ERROR_NOT_SUPPORTED);
    unsetenv("TUTTI_EMULATED_DMABUF");
    config_reload();
    OK(cuMemFreeHost(pinned));
    OK(cuMemFree_v2(managed));
    OK(cuMemFree_v2(a));
    leave_device(0);
}

/* Neighbours in address space are one descriptor if they are neighbours in memory, too. */
static void test_mapped(void **state)
{
    static const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                             .location = {CU_MEM_LOCATION_TYPE_DEVICE, 1},
                                             .allocFlags = {.gpuDirectRDMACapable = 1}};
    static const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 1}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle, other;
    struct pair pair;
    CUdeviceptr at;
    int fd, capable;
    use_device(1);
    OK(cuMemCreate(&handle, 2 * TWO_MIB, &prop, 0));
    OK(cuMemCreate(&other, TWO_MIB, &prop, 0));
    OK(cuMemAddressReserve(&at, 3 * TWO_MIB, 0, 0, 0));
    OK(cuMemMap(at, TWO_MIB, 0, handle, 0));
    OK(cuMemMap(at + TWO_MIB, TWO_MIB, TWO_MIB, handle, 0));
    OK(cuMemMap(at + 2 * TWO_MIB, TWO_MIB, 0, other, 0));
    OK(cuMemSetAccess(at, 3 * TWO_MIB, &access, 1));
    OK(cuPointerGetAttribute(&capable, CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, at));
    assert_int_equal(capable, 1);
    FAILS(export(&fd, at + TWO_MIB, 2 * TWO_MIB), CUDA_ERROR_NOT_SUPPORTED);
    OK(export(&fd, at + TWO_MIB - 4096, 8192));
    setup(&pair, IBV_QPT_RC, 14, 7, 7);
    struct ibv_mr *mr = ibv_reg_dmabuf_mr(pair.pd, 0, 8192, 0, fd, ALL);
    assert_non_null(mr);
    close(fd);
    memset(pair.memory, 0x55, 8192);
    write_to(&pair, mr, 0, 8192);
    expect_word(at + TWO_MIB - 4096, 0x55555555);
    expect_word(at + TWO_MIB + 4092, 0x55555555);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    teardown(&pair);
    OK(cuMemUnmap(at, 3 * TWO_MIB));
    OK(cuMemAddressFree(at, 3 * TWO_MIB));
    OK(cuMemRelease(handle));
    OK(cuMemRelease(other));
    leave_device(1);
}

static size_t free_bytes(void)
{
    size_t bytes;
    OK(cuMemGetInfo_v2(&bytes, NULL));
    return bytes;
}

/* Freed memory counts as used while an adapter, or a descriptor, holds it. */
static void test_held(void **state)
{
    struct pair pair;
    CUdeviceptr a;
    int fd;
    use_device(0);
    size_t before = free_bytes();
    OK(cuMemAlloc_v2(&a, 4096));
    OK(export(&fd, a, 4096));
    setup(&pair, IBV_QPT_RC, 14, 7, 7);
    struct ibv_mr *mr = ibv_reg_dmabuf_mr(pair.pd, 0, 4096, 0, fd, ALL);
    OK(cuMemFree_v2(a));
    assert_int_equal(free_bytes(), before - 4096);
    close(fd);
    assert_int_equal(free_bytes(), before - 4096);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    assert_int_equal(free_bytes(), before);
    teardown(&pair);
    leave_device(0);
}

/* What an adapter wrote is not seen by the device before the driver's flush, or a read. */
static void test_flush(void **state)
{
    struct pair pair;
    CUdeviceptr a;
    char answer[100];
    int fd;
    use_device(1);
    OK(cuMemAlloc_v2(&a, 4096));
    OK(cuMemsetD8_v2(a, 0, 4096));
    OK(export(&fd, a, 4096));
    setup(&pair, IBV_QPT_RC, 14, 7, 7);
    struct ibv_mr *mr = ibv_reg_dmabuf_mr(pair.pd, 0, 4096, 0, fd, ALL);
    assert_non_null(mr);
    close(fd);
    assert_int_equal(attribute(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS), 1);
    softverbs_control("fault posted=1", answer, sizeof(answer));
    memset(pair.memory, 0x11, 4096);
    write_to(&pair, mr, 0, 4096);
    expect_word(a, 0);
    use_device(0);
    OK(cuFlushGPUDirectRDMAWrites(0, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER)); /* of another device */
    leave_device(0);
    use_device(1);
    expect_word(a, 0);
    FAILS(cuFlushGPUDirectRDMAWrites(0, 0), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuFlushGPUDirectRDMAWrites(1, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER), CUDA_ERROR_INVALID_VALUE);
    OK(cuFlushGPUDirectRDMAWrites(0, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER));
    expect_word(a, 0x11111111);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    teardown(&pair);
    OK(cuMemFree_v2(a));
    leave_device(1);
    leave_device(1);
}

/* softverbs knows the memory of each GPU by its name, so that each may have a rate through each adapter. */
static void test_rates(void **state)
{
    struct pair pair;
    CUdeviceptr a;
    int fd;
    char answer[512];
    setup(&pair, IBV_QPT_RC, 14, 7, 7);
    assert_int_equal(softverbs_control("rates gpu1@soft_lo=8gbit,host@*=16gbit", answer, sizeof(answer)), 0);
    for (int gpu = 0; gpu < 2; gpu++) {
        use_device(gpu);
        OK(cuMemAlloc_v2(&a, 4096));
        OK(export(&fd, a, 4096));
        struct ibv_mr *mr = ibv_reg_dmabuf_mr(pair.pd, 0, 4096, 0, fd, ALL);
        assert_non_null(mr);
        write_to(&pair, mr, 0, 1000 << gpu);
        assert_int_equal(ibv_dereg_mr(mr), 0);
        close(fd);
        OK(cuMemFree_v2(a));
    }
    assert_int_equal(softverbs_control("rates", answer, sizeof(answer)), 0);
    assert_string_equal(answer, "gpu1@soft_lo 1000000000 bytes/s, read 0 bytes, written 2000 bytes\n");
    teardown(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attributes), cmocka_unit_test(test_allocated), cmocka_unit_test(test_bad_ranges),
        cmocka_unit_test(test_mapped),     cmocka_unit_test(test_held),      cmocka_unit_test(test_flush),
        cmocka_unit_test(test_rates),
    };
    struct ibv_context *context = open_loopback();
    if (!context) {
        fprintf(stderr, "rdma_test: SKIPPED: %s\n", strerror(errno));
        return 77;
    }
    ibv_close_device(context);
    if (getenv("TUTTI_EMULATED_PRIVATE") && cuInit(0)) {
        fprintf(stderr, "rdma_test: SKIPPED: no protection keys\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
