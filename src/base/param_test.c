/* SPDX-License-Identifier: Apache-2.0 */
/* Where settings come from: the environment, NCCL's names, files. */
#include "base/param.h"

#include "base/error.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/tutti-param-XXXXXX";

static void write_file(const char *name, const char *text)
{
    char path[100];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void files(void **state)
{
    char named[100];
    snprintf(named, sizeof named, "%s/named", folder);
    write_file(".nccl.conf", "# a comment\nNCCL_MAX_CTAS = 7 # another\nTUTTI_SPIN=11\n no value\nNCCL_MAX_CTAS=9\n");
    write_file("named", "NCCL_MAX_CTAS=5\n");
    setenv("HOME", folder, 1);
    param_reload();
    assert_int_equal(param_int(PARAM_BLOCKS), 7);
    assert_int_equal(param_int(PARAM_SPIN), 11);
    assert_string_equal(param_source(PARAM_BLOCKS), "NCCL_MAX_CTAS");
    setenv("NCCL_CONF_FILE", named, 1);
    param_reload();
    assert_int_equal(param_int(PARAM_BLOCKS), 5);
    assert_int_equal(param_int(PARAM_SPIN), 50);
    setenv("NCCL_MAX_CTAS", "3", 1);
    param_reload();
    assert_int_equal(param_int(PARAM_BLOCKS), 3);
    setenv("NCCL_MAX_NCHANNELS", "2", 1); /* the older name counts where the present one is not set */
    param_reload();
    assert_int_equal(param_int(PARAM_BLOCKS), 3);
    unsetenv("NCCL_MAX_CTAS");
    write_file("named", "");
    param_reload();
    assert_int_equal(param_int(PARAM_BLOCKS), 2);
    unsetenv("NCCL_MAX_NCHANNELS");
    unsetenv("NCCL_CONF_FILE");
}

/* A former name is read where the present one is not set, and a bad value of it is told by that name. */
static void renamed(void **state)
{
    setenv("NCCL_CONF_FILE", "/nowhere", 1);
    setenv("TUTTI_DIRECT_SLOTS", "8", 1);
    setenv("TUTTI_DIRECT_FROM", "1K", 1);
    param_reload();
    assert_int_equal(param_int(PARAM_SHARED_SLOTS), 8);
    assert_string_equal(param_source(PARAM_SHARED_SLOTS), "TUTTI_DIRECT_SLOTS");
    assert_int_equal(param_int(PARAM_PEER_FROM), 1024);
    setenv("TUTTI_SHARED_SLOTS", "16", 1);
    param_reload();
    assert_int_equal(param_int(PARAM_SHARED_SLOTS), 16);
    unsetenv("TUTTI_SHARED_SLOTS");
    setenv("TUTTI_DIRECT_SLOTS", "many", 1);
    param_reload();
    assert_int_equal(param_int(PARAM_SHARED_SLOTS), 4);
    assert_int_equal(param_check(), TUTTI_INVALID_ARGUMENT);
    unsetenv("TUTTI_DIRECT_SLOTS");
    unsetenv("TUTTI_DIRECT_FROM");
    unsetenv("NCCL_CONF_FILE");
    param_reload();
}

static void tune(const char *gpu)
{
    char text[400];
    snprintf(text, sizeof text, "{\"version\": 1, \"rules\": []%s%s}", *gpu ? ", \"gpu\": " : "", gpu);
    write_file("tune.json", text);
    param_reload();
}

/* The variable, else the row of the file, else the default. */
static void thresholds(void **state)
{
    char path[100];
    snprintf(path, sizeof path, "%s/tune.json", folder);
    setenv("TUTTI_TUNE_FILE", path, 1);
    tune("{\"comment\": \"here\", \"COPY_FROM\": 5000, \"LINES_TO\": 0, \"CHAIN_COPY_FROM\": 1099511627776}");
    assert_int_equal(param_check(), TUTTI_SUCCESS);
    assert_int_equal(param_int(PARAM_COPY_FROM), 5000);
    assert_string_equal(param_string(PARAM_COPY_FROM), "5000");
    assert_string_equal(param_source(PARAM_COPY_FROM), path);
    assert_int_equal(param_int(PARAM_LINES_TO), 0);
    assert_int_equal(param_int(PARAM_PEER_FROM), 512 << 10);
    assert_string_equal(param_source(PARAM_PEER_FROM), "default");
    setenv("TUTTI_COPY_FROM", "64K", 1);
    param_reload();
    assert_int_equal(param_int(PARAM_COPY_FROM), 64 << 10);
    assert_string_equal(param_source(PARAM_COPY_FROM), "TUTTI_COPY_FROM");
    unsetenv("TUTTI_COPY_FROM");
    tune(""); /* of a version before thresholds */
    assert_int_equal(param_check(), TUTTI_SUCCESS);
    assert_int_equal(param_int(PARAM_COPY_FROM), 4 << 20);
    write_file("tune.json", "{\"version\": 2, \"rules\": [], \"gpu\": {\"COPY_FROM\": 1}}");
    param_reload();
    assert_int_equal(param_int(PARAM_COPY_FROM), 4 << 20);
    unsetenv("TUTTI_TUNE_FILE");
}

/* One sentence, and nothing of the file is in force. */
static void wrong_thresholds(void **state)
{
    static const char *const wrong[][2] = {
        {"{\"LINES_TO\": 1, \"COPIES_FROM\": 1}", "\"COPIES_FROM\": want a threshold of this name"},
        {"{\"LINES_TO\": 1, \"BLOCKS\": 8}", "\"BLOCKS\": want a threshold of this name"},
        {"{\"LINES_TO\": 1, \"COPY_FROM\": -1}", "\"COPY_FROM\": want a number of bytes, 0 to 1099511627776; correct"},
        {"{\"LINES_TO\": 1, \"LINES_FROM\": 0}", "\"LINES_FROM\": want a number of bytes, 1 to 1099511627776"},
        {"{\"LINES_TO\": 1, \"COPY_FROM\": \"64K\"}", "\"COPY_FROM\": want a number of bytes"},
        {"{\"LINES_TO\": 1, \"COPY_FROM\": 1e3}", "\"COPY_FROM\": want a number of bytes"},
        {"{\"LINES_TO\": 1, \"COPY_FROM\": 1099511627777}", "\"COPY_FROM\": want a number of bytes"},
        {"{\"LINES_TO\": 1, \"LINES_TO\": 1}", "\"LINES_TO\": want one row of this name, not two"},
        {"{\"LINES_TO\": 1, \"\\u001b[2J\": 1}", "\"?[2J\": want a threshold of this name"}, /* it is printed */
        {"[]", "want an object"}};
    char path[100];
    snprintf(path, sizeof path, "%s/tune.json", folder);
    setenv("TUTTI_TUNE_FILE", path, 1);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        tune(wrong[i][0]);
        assert_int_equal(param_check(), TUTTI_INVALID_ARGUMENT);
        if (!strstr(error_last(), wrong[i][1]) || !strstr(error_last(), path))
            fail_msg("wanted '%s' in '%s'", wrong[i][1], error_last());
        assert_int_equal(param_int(PARAM_LINES_TO), 4 << 20);
    }
    tune("{\"LINES_TO\": 1, \"COPY_FROM\": 99999999999999999999}"); /* no JSON, which choice_open() tells */
    assert_int_equal(param_int(PARAM_LINES_TO), 4 << 20);
    unsetenv("TUTTI_TUNE_FILE");
    param_reload();
}

/* Each part is written by itself. */
static void written(void **state)
{
    const char *const rules[TUNED_PARTS] = {[TUNED_COMMENT] = "\"a\"", [TUNED_RULES] = "[1]"},
                      *const gpu[TUNED_PARTS] = {[TUNED_GPU] = "{\"COPY_FROM\": 7}"};
    struct tuned_slice parts[TUNED_PARTS];
    char path[100];
    size_t length;
    snprintf(path, sizeof path, "%s/tune.json", folder);
    for (int first = 0; first < 2; first++) {
        unlink(path);
        assert_int_equal(tuned_write(path, first ? gpu : rules), TUTTI_SUCCESS);
        assert_int_equal(tuned_write(path, first ? rules : gpu), TUTTI_SUCCESS);
        char *text = tuned_read(path, &length);
        assert_non_null(text);
        assert_true(tuned_parts(text, length, parts));
        assert_memory_equal(parts[TUNED_COMMENT].text, "\"a\"", 3);
        assert_memory_equal(parts[TUNED_RULES].text, "[1]", 3);
        assert_memory_equal(parts[TUNED_GPU].text, "{\"COPY_FROM\": 7}", 16);
        free(text);
    }
    write_file("tune.json", "no file of tutti tune");
    assert_int_equal(tuned_write(path, gpu), TUTTI_SUCCESS);
    char *text = tuned_read(path, &length);
    assert_true(text && tuned_parts(text, length, parts));
    assert_memory_equal(parts[TUNED_RULES].text, "[]", 2);
    free(text);
}

/* What a process writes that is told of these variables. */
static void log_of(const char *variable, const char *value, char *out, size_t size)
{
    char path[100];
    snprintf(path, sizeof path, "%s/log", folder);
    setenv("TUTTI_DEBUG", "info", 1);
    setenv("TUTTI_DEBUG_FILE", path, 1);
    setenv(variable, value, 1);
    param_reload();
    assert_int_equal(param_check(), TUTTI_SUCCESS);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    size_t got = fread(out, 1, size - 1, file);
    out[got] = 0;
    fclose(file);
    unsetenv(variable);
}

/* What was meant is told: of NCCL's variables, of which there are more, only where one letter is wrong. */
static void unused(void **state)
{
    char text[4000];
    setenv("NCCL_MAX_CTAS", "3", 1);
    setenv("NCCL_CONF_FILE", "/nowhere", 1);
    setenv("TUTTI_DIRECT_MOST", "1M", 1);
    setenv("TUTTI_TRANSPROT", "tcp", 1);
    setenv("TUTTI_XYZZYXYZZY", "1", 1);
    setenv("TUTTI_TEST_X", "1", 1);
    setenv("NCCL_SOCKET_IFNAM", "eth0", 1);
    setenv("NCCL_CROSS_NIC", "1", 1);
    setenv("NCCL_NET_GDR_LEVEL", "LOCAL", 1);
    setenv("NCCL_MIN_NCHANNELS", "2", 1);
    log_of("NCCL_LOCAL_REGISTER", "1", text, sizeof text);
    assert_non_null(strstr(text, "NCCL_LOCAL_REGISTER is set and has no effect here"));
    assert_null(strstr(text, "NCCL_MAX_CTAS"));
    assert_null(strstr(text, "NCCL_CONF_FILE"));
    assert_null(strstr(text, "TUTTI_DIRECT_MOST"));
    assert_non_null(strstr(text, "unknown variable TUTTI_TRANSPROT is ignored. Did you mean TUTTI_TRANSPORT? (see"));
    assert_non_null(strstr(text, "unknown variable TUTTI_XYZZYXYZZY is ignored (see tutti env)"));
    assert_non_null(strstr(text, "unknown variable NCCL_SOCKET_IFNAM is ignored. Did you mean NCCL_SOCKET_IFNAME?"));
    assert_null(strstr(text, "TUTTI_TEST_X"));
    assert_non_null(strstr(text, "NCCL_CROSS_NIC is set and has no effect here: the i-th lane"));
    assert_non_null(strstr(text, "NCCL_NET_GDR_LEVEL=LOCAL has no effect here: want one of LOC|PIX"));
    assert_null(strstr(text, "NCCL_MIN_NCHANNELS"));
}

static int clean(void **state)
{
    static const char *const names[] = {".nccl.conf", "named", "log", "tune.json"};
    char path[100];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(files),      cmocka_unit_test(unused),
                                       cmocka_unit_test(renamed), /* from here on warnings open the log */
                                       cmocka_unit_test(thresholds), cmocka_unit_test(wrong_thresholds),
                                       cmocka_unit_test(written)};
    if (!mkdtemp(folder))
        return 1;
    return cmocka_run_group_tests(tests, NULL, clean);
}
