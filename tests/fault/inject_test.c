/* SPDX-License-Identifier: Apache-2.0 */
/* Does the injector fail the call it was asked to, no other, and count right? */
#include "inject.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

static void nth_call_fails(void **state)
{
    void *volatile kept[3];
    assert_true(inject_arm("malloc:2"));
    for (int i = 0; i < 3; i++)
        kept[i] = malloc(10);
    int error = errno;
    unsigned long count = inject_calls();
    assert_int_equal(inject_disarm(), 1);
    assert_int_equal(count, 3);
    assert_int_equal(error, ENOMEM);
    assert_non_null(kept[0]);
    assert_null(kept[1]);
    assert_non_null(kept[2]);
    free(kept[0]);
    free(kept[2]);
}

static void all_after_fail(void **state)
{
    assert_true(inject_arm("eventfd:2+"));
    int fds[3] = {eventfd(0, 0), eventfd(0, 0), eventfd(0, 0)};
    assert_int_equal(inject_disarm(), 2);
    assert_true(fds[0] >= 0);
    assert_int_equal(fds[1], -1);
    assert_int_equal(fds[2], -1);
    close(fds[0]);
}

static void any_counts_all(void **state)
{
    assert_true(inject_arm("any:3"));
    void *volatile one = malloc(1);
    int fd = eventfd(0, 0);
    int none = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(errno, EMFILE);
    assert_int_equal(inject_disarm(), 1);
    assert_non_null(one);
    assert_true(fd >= 0);
    assert_int_equal(none, -1);
    free(one);
    close(fd);
}

static void short_reads_and_writes(void **state)
{
    int pair[2];
    char out[8] = "abcdefg", in[8] = "", tail[4] = "";
    struct iovec pieces[2] = {{out, 2}, {out + 2, 6}}, parts[2] = {{in, 1}, {tail, 3}};
    struct msghdr whole = {.msg_iov = pieces, .msg_iovlen = 2}, some = {.msg_iov = parts, .msg_iovlen = 2};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    assert_true(inject_arm("short:3"));
    assert_int_equal(send(pair[0], out, 8, 0), 3);
    assert_int_equal(recv(pair[1], in, 2, 0), 2);
    assert_int_equal(sendmsg(pair[0], &whole, 0), 2);
    assert_int_equal(recvmsg(pair[1], &some, 0), 1);
    assert_int_equal(inject_disarm(), 3);
    assert_memory_equal(in, "cb", 2);
    close(pair[0]);
    close(pair[1]);
}

static void others_fail_too(void **state)
{
    static const char *const specifications[] = {"mmap:1", "memfd_create:1", "calloc:1", "realloc:1", "connect:1"};
    void *volatile fresh, *volatile grown, *volatile nothing = NULL; /* or the compiler makes malloc of it */
    for (size_t i = 0; i < sizeof specifications / sizeof *specifications; i++) {
        assert_true(inject_arm(specifications[i]));
        bool failed[] = {mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED,
                         memfd_create("x", 0) < 0, (fresh = calloc(1, 1)) == NULL,
                         (grown = realloc(nothing, 1)) == NULL, connect(-1, NULL, 0) < 0 && errno == ENETUNREACH};
        assert_int_equal(inject_disarm(), 1);
        free(fresh);
        free(grown);
        for (size_t k = 0; k < sizeof failed; k++)
            assert_int_equal(failed[k], k == i);
    }
}

static void nonsense_is_refused(void **state)
{
    assert_false(inject_arm("malloc"));
    assert_false(inject_arm("malloc:0"));
    assert_false(inject_arm("malloc:2x"));
    assert_false(inject_arm("nothing:1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nth_call_fails),  cmocka_unit_test(all_after_fail),
        cmocka_unit_test(any_counts_all),  cmocka_unit_test(short_reads_and_writes),
        cmocka_unit_test(others_fail_too), cmocka_unit_test(nonsense_is_refused),
    };
    if (!inject_present()) {
        fprintf(stderr, "SKIPPED: run with LD_PRELOAD=libinject.so\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
