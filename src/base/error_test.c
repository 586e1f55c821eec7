/* SPDX-License-Identifier: Apache-2.0 */
/* The sentences of failures: whole at any length, made of those before, kept over what cleaning up notes, each thread
 * its own. */
#include "base/error.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static char words[3000];

static void long_sentences_are_whole(void **state)
{
    (void)state;
    memset(words, 'a', sizeof words - 1);
    for (int length = 1; length < 1024; length++) {
        error_note(TUTTI_SYSTEM_ERROR, "%.*s", length, words);
        assert_int_equal(strlen(error_last()), length);
    }
    error_note(TUTTI_SYSTEM_ERROR, "%s", words);
    assert_int_equal(strlen(error_last()), 1023);
}

static void a_sentence_may_hold_the_last(void **state)
{
    (void)state;
    error_note(TUTTI_SYSTEM_ERROR, "the cause");
    assert_int_equal(error_note(TUTTI_REMOTE_ERROR, "the call: %s", error_last()), TUTTI_REMOTE_ERROR);
    assert_string_equal(error_last(), "the call: the cause");
}

/* There is one remedy, whatever opened the last file. */
static void too_many_files_have_a_remedy(void **state)
{
    (void)state;
    error_note(TUTTI_SYSTEM_ERROR, "cannot make an eventfd: %s", strerror(EMFILE));
    assert_string_equal(error_last(), "cannot make an eventfd: Too many open files; raise ulimit -n");
    error_note(TUTTI_SYSTEM_ERROR, "%s in this process; raise ulimit -n", strerror(EMFILE));
    assert_string_equal(error_last(), "Too many open files in this process; raise ulimit -n");
    error_note(TUTTI_SYSTEM_ERROR, "%.*s%s", 1023 - (int)strlen(strerror(EMFILE)), words, strerror(EMFILE));
    assert_int_equal(strlen(error_last()), 1023);
}

static void a_kept_sentence_comes_back(void **state)
{
    struct error_saved saved;
    (void)state;
    error_note(TUTTI_SYSTEM_ERROR, "the cause");
    error_save(&saved);
    error_note(TUTTI_SYSTEM_ERROR, "cleaning up failed, too");
    error_restore(&saved);
    assert_string_equal(error_last(), "the cause");
}

static void *another(void *unused)
{
    (void)unused;
    bool fresh = !*error_last();
    error_note(TUTTI_SYSTEM_ERROR, "of another thread");
    return fresh ? words : NULL;
}

static void threads_have_their_own(void **state)
{
    pthread_t thread;
    void *fresh = NULL;
    (void)state;
    error_note(TUTTI_SYSTEM_ERROR, "of this thread");
    assert_int_equal(pthread_create(&thread, NULL, another, NULL), 0);
    assert_int_equal(pthread_join(thread, &fresh), 0);
    assert_non_null(fresh);
    assert_string_equal(error_last(), "of this thread");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_sentences_are_whole),     cmocka_unit_test(a_sentence_may_hold_the_last),
        cmocka_unit_test(too_many_files_have_a_remedy), cmocka_unit_test(a_kept_sentence_comes_back),
        cmocka_unit_test(threads_have_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
