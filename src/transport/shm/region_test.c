/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/shm/region.h"
#include "base/memory.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void finds_what_lies_inside(void **state)
{
    uint32_t id, other;
    uint64_t offset;
    char *a = region_alloc(10000), *b = region_alloc(1);
    (void)state;
    assert_non_null(a);
    assert_non_null(b);
    assert_int_equal((uintptr_t)a % 4096, 0);
    for (int i = 0; i < 10000; i++)
        assert_int_equal(a[i], 0);
    assert_true(region_find(a + 100, 9900, &id, &offset));
    assert_int_equal(offset, 100);
    assert_true(region_find(b, 1, &other, &offset));
    assert_int_not_equal(id, other);
    assert_false(region_find(a + 100, 20000, &id, &offset));
    assert_false(region_find(&id, 1, &id, &offset));
    assert_false(region_find(a + 1, SIZE_MAX, &id, &offset));
    assert_true(region_free(a));
    assert_true(region_free(b));
}

static void frees_once(void **state)
{
    uint32_t id, frees = region_frees();
    uint64_t offset;
    char *a = region_alloc(4096);
    (void)state;
    assert_true(region_find(a, 4096, &id, &offset));
    assert_true(region_lives(id));
    assert_false(region_free(a + 1));
    assert_true(region_free(a));
    assert_false(region_free(a));
    assert_false(region_lives(id));
    assert_int_equal(region_frees(), frees + 1);
    assert_false(region_find(a, 1, &id, &offset));
}

static void lists_by_id(void **state)
{
    uint32_t first, second;
    uint64_t size, offset;
    int fd;
    char *a = region_alloc(5000), *b = region_alloc(4096);
    (void)state;
    assert_true(region_find(a, 1, &first, &offset));
    assert_true(region_next(first - 1, &second, &size, &fd));
    assert_int_equal(second, first);
    assert_int_equal(size, 8192);
    strcpy(a, "seen by all");
    char *view = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
    assert_string_equal(view, "seen by all");
    munmap(view, size);
    assert_true(memory_trust(fd, size));
    assert_false(memory_trust(fd, size + 1));
    assert_int_equal(ftruncate(fd, 10), -1); /* it cannot shrink under a peer's feet */
    close(fd);
    assert_true(region_next(first, &second, &size, &fd));
    assert_true(second > first);
    close(fd);
    assert_true(region_free(a));
    assert_true(region_free(b));
    assert_false(region_next(second, &first, &size, &fd));
}

static void refuses_the_impossible(void **state)
{
    (void)state;
    assert_null(region_alloc(0));
    assert_null(region_alloc(SIZE_MAX));
    assert_null(region_alloc((size_t)1 << 62));
    assert_false(memory_trust(STDIN_FILENO, 1));
    assert_false(memory_trust(-1, 1));
}

static void *churn(void *unused)
{
    uint32_t id;
    uint64_t offset;
    for (int i = 0; i < 200; i++) {
        char *area = region_alloc(4096);
        if (!area || !region_find(area, 4096, &id, &offset) || offset || !region_lives(id) || !region_free(area))
            return "failed";
    }
    return unused;
}

static void takes_many_threads(void **state)
{
    pthread_t threads[4];
    void *result;
    (void)state;
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, churn, NULL), 0);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], &result), 0);
        assert_null(result);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_what_lies_inside), cmocka_unit_test(frees_once),         cmocka_unit_test(lists_by_id),
        cmocka_unit_test(refuses_the_impossible), cmocka_unit_test(takes_many_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
