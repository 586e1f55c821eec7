/* SPDX-License-Identifier: Apache-2.0 */
#include "base/memory.h"

#include "base/error.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

enum { BYTES = 1 << 16 };

static void make_and_map(void **state)
{
    int fd;
    void *base;
    (void)state;
    assert_int_equal(memory_make(BYTES, &fd), TUTTI_SUCCESS);
    assert_true(memory_trust(fd, BYTES));
    assert_false(memory_trust(fd, BYTES + 1));
    assert_int_equal(memory_map(fd, BYTES, &base), TUTTI_SUCCESS);
    memset(base, 1, BYTES);
    memory_give_back(base, BYTES);
    assert_int_equal(((char *)base)[BYTES / 2], 0);
    memory_unmap(base, BYTES);
    close(fd);
}

/* Then peers' memory must be sealed as before, and freed pages go back. */
static void a_lack_of_descriptors_passes(void **state)
{
    struct rlimit before, none;
    int fd = -1;
    getrlimit(RLIMIT_NOFILE, &before);
    none = before;
    none.rlim_cur = 0;
    setrlimit(RLIMIT_NOFILE, &none);
    tutti_result_t result = memory_make(BYTES, &fd);
    setrlimit(RLIMIT_NOFILE, &before);
    assert_int_equal(result, TUTTI_SYSTEM_ERROR);
    assert_non_null(strstr(error_last(), "cannot make 65536 bytes of shared memory: Too many open files"));
    int unsealed = memfd_create("unsealed", MFD_CLOEXEC);
    assert_int_equal(ftruncate(unsealed, BYTES), 0);
    assert_false(memory_trust(unsealed, BYTES));
    close(unsealed);
    make_and_map(state);
}

/* Small and large ones are zero, can be written, and go. */
static void zeros(void **state)
{
    (void)state;
    for (size_t size = 0; size <= 1 << 20; size = size ? 4 * size : 1) {
        unsigned char *bytes = memory_zeros(size);
        assert_non_null(bytes);
        for (size_t i = 0; i < size; i++) {
            assert_int_equal(bytes[i], 0);
            bytes[i] = 1;
        }
        memory_free_zeros(bytes, size);
    }
    assert_null(memory_zeros(SIZE_MAX / 2));
    memory_free_zeros(NULL, 1);
    memory_free_zeros(NULL, 1 << 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(make_and_map), cmocka_unit_test(a_lack_of_descriptors_passes),
                                       cmocka_unit_test(zeros)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
