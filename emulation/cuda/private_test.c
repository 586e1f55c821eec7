/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory that only the stand-in may touch: its own work does, and the program is told where it did. */
#include "cuda/tests/check.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define TWO_MIB ((size_t)2 << 20)

static CUdeviceptr memory;

static void begin(int device, size_t size)
{
    use_device(device);
    OK(cuMemAlloc_v2(&memory, size));
}

/* What a process says that does this, and whether it came to its end. */
static bool survives(void (*deed)(void), char *said, size_t size)
{
    int pipes[2], status;
    size_t n = 0;
    ssize_t more;
    assert_int_equal(pipe(pipes), 0);
    pid_t child = fork();
    if (!child) {
        dup2(pipes[1], STDERR_FILENO);
        signal(SIGSEGV, SIG_DFL); /* not the handler of the framework */
        deed();
        _exit(0);
    }
    close(pipes[1]);
    while ((more = read(pipes[0], said + n, size - 1 - n)) > 0)
        n += (size_t)more;
    said[n] = 0;
    close(pipes[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    return status == 0;
}

static void dies(void (*deed)(void), const char *what, const char *where)
{
    char said[65536];
    if (survives(deed, said, sizeof(said)))
        fail_msg("lived on, where \"%s\" was to be said of \"%s\": %s", what, where, said);
    if (!strstr(said, what) || !strstr(said, where) || !strstr(said, "private_test("))
        fail_msg("not \"%s\", \"%s\" and a place of this program in: %s", what, where, said);
}

static void lives(void (*deed)(void))
{
    char said[65536];
    if (!survives(deed, said, sizeof(said)))
        fail_msg("%s", said);
}

static void read_it(void)
{
    begin(1, 4096);
    _exit(*(volatile char *)AT(memory + 12) == 1);
}

static void write_it(void)
{
    begin(0, 10000);
    *(volatile char *)AT(memory + 9999) = 1;
}

static void copy_it(void)
{
    static char bytes[64];
    begin(2, 4096);
    memcpy(bytes, AT(memory), sizeof(bytes));
    _exit(memchr(bytes, 1, sizeof(bytes)) != NULL); /* or the compiler leaves the copy out */
}

/* All threads of a program are the CPU's. */
static void *in_thread(void *unused)
{
    *(volatile char *)AT(memory) = 1;
    return unused;
}

static void write_in_a_thread(void)
{
    pthread_t thread;
    begin(0, 4096);
    pthread_create(&thread, NULL, in_thread, NULL);
    pthread_join(thread, NULL);
}

static void touch(void *address)
{
    *(volatile char *)address = 1;
}

/* On a thread of the stand-in, but the program's code. */
static void write_in_a_host_function(void)
{
    begin(0, 4096);
    OK(cuLaunchHostFunc(NULL, touch, AT(memory)));
    OK(cuCtxSynchronize());
}

static const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                         .location = {CU_MEM_LOCATION_TYPE_DEVICE, 1}};
static const CUmemAccessDesc access_1 = {{CU_MEM_LOCATION_TYPE_DEVICE, 1}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

static void map_some(void)
{
    CUmemGenericAllocationHandle handle;
    use_device(1);
    OK(cuMemCreate(&handle, TWO_MIB, &prop, 0));
    OK(cuMemAddressReserve(&memory, TWO_MIB, 0, 0, 0));
    OK(cuMemMap(memory, TWO_MIB, 0, handle, 0));
    OK(cuMemSetAccess(memory, TWO_MIB, &access_1, 1));
}

static void write_mapped(void)
{
    map_some();
    touch(AT(memory + 5));
}

static void test_touches_are_told(void **state)
{
    dies(read_it, "the CPU read 0x", "byte 12 of 4096 of memory of GPU 1");
    dies(write_it, "the CPU wrote to 0x", "byte 9999 of 10000 of memory of GPU 0");
    dies(copy_it, "the CPU read 0x", "byte 0 of 4096 of memory of GPU 2");
    dies(write_in_a_thread, "the CPU wrote to 0x", "byte 0 of 4096 of memory of GPU 0");
    dies(write_in_a_host_function, "the CPU wrote to 0x", "byte 0 of 4096 of memory of GPU 0");
    dies(write_mapped, "the CPU wrote to 0x", "byte 5 of 2097152 of memory of GPU 1");
}

/* A program with a null pointer hears nothing of GPUs. */
static void touch_nothing(void)
{
    void *volatile nowhere = (void *)(uintptr_t)8;
    use_device(0);
    touch(nowhere);
}

static void test_other_faults_are_others(void **state)
{
    char said[65536];
    assert_false(survives(touch_nothing, said, sizeof(said)));
    assert_null(strstr(said, "emulated CUDA"));
}

static void work(CUdeviceptr at)
{
    unsigned words[4] = {1, 2, 3, 4}, back[4] = {0};
    OK(cuMemcpyHtoD_v2(at, words, sizeof(words)));
    OK(cuMemsetD32_v2(at + 4, 7, 1));
    OK(cuStreamWriteValue32_v2(NULL, at + 8, 9, 0));
    OK(cuStreamWaitValue32_v2(NULL, at + 8, 9, CU_STREAM_WAIT_VALUE_EQ));
    OK(cuMemcpyDtoDAsync_v2(at + 12, at + 8, 4, NULL));
    OK(cuMemcpyDtoH_v2(back, at, sizeof(back)));
    const unsigned want[4] = {1, 7, 9, 9};
    assert_memory_equal(back, want, sizeof(want));
}

static void work_on_all_kinds(void)
{
    CUdeviceptr pooled, managed;
    void *pinned;
    int fd = memfd_create("out", 0);
    begin(1, 4096);
    work(memory);
    assert_int_equal(write(fd, AT(memory), 16), -1); /* the kernel may not either */
    assert_int_equal(errno, EFAULT);
    OK(cuMemAllocAsync(&pooled, 4096, NULL));
    work(pooled);
    OK(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
    work(managed);
    touch(AT(managed));
    OK(cuMemAllocHost_v2(&pinned, 4096));
    work((uintptr_t)pinned);
    touch(pinned);
    map_some();
    work(memory);
    leave_device(1);
}

static void test_work_goes_on(void **state)
{
    lives(work_on_all_kinds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_touches_are_told),
                                       cmocka_unit_test(test_other_faults_are_others),
                                       cmocka_unit_test(test_work_goes_on)};
    if (pkey_alloc(0, PKEY_DISABLE_ACCESS) < 0) {
        fprintf(stderr, "private_test: SKIPPED: no protection keys: %s\n", strerror(errno));
        return 77;
    }
    setenv("TUTTI_EMULATED_PRIVATE", "1", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
