/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of black boxes: a folder of their own for each test, and what lies in it. */
#ifndef TUTTI_TRACE_TRACE_TESTING_H
#define TUTTI_TRACE_TRACE_TESTING_H

#include "base/param.h"
#include "trace/trace.h"
#include "wire/boxfile.h"
#include "wire/boxread.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[] = "/tmp/tutti-trace-XXXXXX";

static inline void use_dir(const char *path)
{
    setenv("TUTTI_TRACE_DIR", path, 1);
    param_reload();
}

static inline int make_dir(void **state)
{
    strcpy(dir + strlen(dir) - 6, "XXXXXX");
    assert_non_null(mkdtemp(dir));
    unsetenv("TUTTI_TRACE");
    use_dir(dir);
    return 0;
}

static inline int remove_dir(void **state)
{
    char **paths;
    size_t count;
    assert_int_equal(boxfile_list(dir, &paths, &count), TUTTI_SUCCESS);
    for (size_t i = 0; i < count; i++)
        unlink(paths[i]);
    boxfile_free(paths, count);
    assert_int_equal(rmdir(dir), 0);
    return 0;
}

static inline size_t boxes_left(void)
{
    char **paths;
    size_t count;
    assert_int_equal(boxfile_list(dir, &paths, &count), TUTTI_SUCCESS);
    boxfile_free(paths, count);
    return count;
}

static inline struct blackbox *must_read(const char *path)
{
    struct blackbox *box;
    assert_int_equal(blackbox_read(path, &box), TUTTI_SUCCESS);
    return box;
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, make_dir, remove_dir)

#endif
