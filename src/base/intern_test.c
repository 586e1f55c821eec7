/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that many hold are one copy, which goes with its last holder. */
#include "base/intern.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#define THINGS 2000

struct thing {
    char same[100]; /* longer than what things are found by */
    int number;
};

static const void *hold(int number)
{
    struct thing thing = {.same = "process", .number = number};
    return intern(&thing, sizeof thing);
}

static void one_copy(void **state)
{
    const struct thing *a = hold(1), *b = hold(1), *other = hold(2);
    assert_non_null(a);
    assert_ptr_equal(a, b);
    assert_ptr_not_equal(a, other);
    assert_true(a->number == 1 && other->number == 2);
    assert_int_equal(2 * intern_share(a), intern_share(other));
    intern_release(a);
    assert_int_equal(intern_share(b), intern_share(other));
    assert_ptr_equal(intern_again(b), a);
    intern_release(a);
    intern_release(b);
    intern_release(other);
    intern_release(NULL);
    assert_int_equal(intern_memory(), 0);
}

static void many(void **state)
{
    static const void *held[THINGS];
    for (int i = 0; i < THINGS; i++)
        assert_non_null(held[i] = hold(i));
    for (int i = 0; i < THINGS; i++) {
        assert_int_equal(((const struct thing *)held[i])->number, i);
        assert_ptr_equal(hold(i), held[i]);
    }
    size_t memory = intern_memory();
    for (int i = 0; i < THINGS; i++)
        intern_release(held[i]);
    assert_int_equal(intern_memory(), memory);
    for (int i = THINGS - 1; i >= 0; i--)
        intern_release(held[i]);
    assert_int_equal(intern_memory(), 0);
}

static void *holds_and_releases(void *unused)
{
    for (int i = 0; i < 20000; i++) {
        const struct thing *thing = hold(i % 7);
        if (!thing || thing->number != i % 7)
            return (void *)1;
        intern_release(thing);
    }
    return unused;
}

static void threads(void **state)
{
    pthread_t thread[4];
    void *lost = NULL, *one;
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, holds_and_releases, NULL), 0);
    for (int i = 0; i < 4; i++) {
        pthread_join(thread[i], &one);
        lost = one ? one : lost;
    }
    assert_null(lost);
    assert_int_equal(intern_memory(), 0);
}

/* A child begins anew, and what it inherited is its parent's. */
static void a_child(void **state)
{
    int status;
    const void *held = hold(1);
    pid_t child = fork();
    if (child == 0) {
        bool right = intern_memory() == 0;
        const void *own = hold(1);
        intern_release(held);
        right = right && own && own != held;
        intern_release(own);
        _exit(right && intern_memory() == 0 ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    intern_release(held);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_copy), cmocka_unit_test(many), cmocka_unit_test(threads),
                                       cmocka_unit_test(a_child)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
