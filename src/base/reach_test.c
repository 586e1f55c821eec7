/* SPDX-License-Identifier: Apache-2.0 */
#include "base/reach.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#define PAGES 4

static size_t page(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static unsigned char *pages(void)
{
    unsigned char *all = mmap(NULL, PAGES * page(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(all != MAP_FAILED);
    memset(all, 0xa5, PAGES * page());
    return all;
}

static void all_is_there(void **state)
{
    unsigned char *all = pages();
    (void)state;
    assert_null(reach_unreadable(all, PAGES * page()));
    assert_null(reach_unwritable(all, PAGES * page()));
    assert_true(reach_ends_readable(all + 1, PAGES * page() - 1));
    assert_true(reach_ends_writable(all + 1, PAGES * page() - 1));
    for (size_t i = 0; i < PAGES * page(); i++)
        assert_int_equal(all[i], 0xa5); /* asking changes nothing */
    assert_null(reach_unreadable(NULL, 0));
    assert_true(reach_ends_readable(NULL, 0) && reach_ends_writable(NULL, 0));
    assert_false(reach_ends_readable(NULL, 1));
    munmap(all, PAGES * page());
}

/* From one byte in front of the third page, which may not be touched, or not be written. */
static void a_page_is_protected(void **state)
{
    unsigned char *all = pages(), *third = all + 2 * page();
    (void)state;
    assert_int_equal(mprotect(third, page(), PROT_NONE), 0);
    assert_ptr_equal(reach_unreadable(all + 5, PAGES * page() - 5), third);
    assert_ptr_equal(reach_unwritable(all + 5, PAGES * page() - 5), third);
    assert_ptr_equal(reach_unreadable(third + 7, 1), third + 7);
    assert_true(reach_ends_readable(all, 2 * page()));
    assert_false(reach_ends_readable(all, 2 * page() + 1));
    assert_int_equal(mprotect(third, page(), PROT_READ), 0);
    assert_null(reach_unreadable(all, PAGES * page()));
    assert_ptr_equal(reach_unwritable(all, PAGES * page()), third);
    assert_true(reach_ends_writable(third - 1, 1));
    assert_false(reach_ends_writable(third - 1, 2));
    munmap(all, PAGES * page());
}

static void a_page_is_not_mapped(void **state)
{
    unsigned char *all = pages(), *second = all + page();
    (void)state;
    munmap(second, page());
    assert_ptr_equal(reach_unreadable(all, PAGES * page()), second);
    assert_ptr_equal(reach_unwritable(all, PAGES * page()), second);
    munmap(all, PAGES * page());
}

/* A file that became shorter: a load from there gets SIGBUS. */
static void a_file_ends(void **state)
{
    char path[] = "/tmp/tutti-reach-XXXXXX";
    int file = mkstemp(path);
    (void)state;
    unlink(path);
    assert_int_equal(ftruncate(file, PAGES * (off_t)page()), 0);
    unsigned char *all = mmap(NULL, PAGES * page(), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    assert_null(reach_unwritable(all, PAGES * page()));
    assert_int_equal(ftruncate(file, (off_t)page()), 0);
    assert_ptr_equal(reach_unreadable(all, PAGES * page()), all + page());
    assert_ptr_equal(reach_unwritable(all, PAGES * page()), all + page());
    munmap(all, PAGES * page());
    close(file);
}

/* A copy that would raise a signal in the middle is refused, whichever end has the hole; a good one is whole. */
static void a_copy_meets_a_hole(void **state)
{
    unsigned char *from = pages(), *to = pages(), *third = from + 2 * page();
    (void)state;
    memset(from, 0x11, PAGES * page());
    assert_true(reach_copy(to + 3, from + 1, PAGES * page() - 3));
    assert_true(to[2] == 0xa5 && to[3] == 0x11 && to[PAGES * page() - 1] == 0x11);
    assert_int_equal(mprotect(third, page(), PROT_NONE), 0);
    assert_false(reach_copy(to, from, PAGES * page()));
    assert_true(reach_copy(to, from, 2 * page()));
    assert_int_equal(mprotect(third, page(), PROT_READ), 0);
    assert_false(reach_copy(from, to, PAGES * page()));
    assert_true(reach_copy(NULL, NULL, 0));
    munmap(from, PAGES * page());
    munmap(to, PAGES * page());
}

static _Atomic bool over;

static void *count(void *word)
{
    for (int i = 0; i < 200000; i++)
        atomic_fetch_add((_Atomic uint32_t *)word, 1);
    atomic_store(&over, true);
    return NULL;
}

/* Asking while another thread stores there takes nothing back. */
static void asking_disturbs_nobody(void **state)
{
    static _Atomic uint32_t word;
    pthread_t thread;
    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, count, (void *)&word), 0);
    while (!atomic_load(&over))
        assert_true(reach_ends_writable((const void *)&word, sizeof word));
    pthread_join(thread, NULL);
    assert_int_equal(atomic_load(&word), 200000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_is_there), cmocka_unit_test(a_page_is_protected), cmocka_unit_test(a_page_is_not_mapped),
        cmocka_unit_test(a_file_ends),  cmocka_unit_test(a_copy_meets_a_hole), cmocka_unit_test(asking_disturbs_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
