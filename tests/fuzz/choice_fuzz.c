/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any text as an override, or as a file of `tutti tune`: an error, or a table that chooses and thresholds that are
 * right; never a crash. Also files whose thresholds are drawn from names and values.
 */
#include "algorithm/choice.h"
#include "base/param.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Log lines of refused inputs would be most of the run time. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    setenv("TUTTI_DEBUG", "none", 1);
    return 0;
}

static void choose(const struct choice_table *table)
{
    for (int coll = 0; coll < COLL_COUNT; coll++)
        for (int n = 1; n < 100; n = 2 * n + 1) {
            struct shape shape = {(enum coll)coll, n, 0};
            const struct algorithm *algorithm =
                choice_pick(table, shape.coll, n, (size_t)n << n % 30, (uint32_t)n & 1, (enum choice_class)(n / 2 & 1));
            if (!algorithm || !schedule_fits(algorithm, &shape))
                abort();
        }
    if (choice_hash(table) != choice_hash(table))
        abort();
}

/* What is a file to the one reader is one to the other, which takes no number that a variable could not have. */
static void take_thresholds(const uint8_t *data, size_t size)
{
    struct tuned_slice parts[TUNED_PARTS];
    struct param_tuned tuned;
    char wrong[TUNED_WRONG];
    memset(&tuned, 0xff, sizeof tuned);
    if (!tuned_parts((const char *)data, size, parts))
        return;
    for (int part = 0; part < TUNED_PARTS; part++)
        if (parts[part].text && (parts[part].text < (const char *)data || !parts[part].length ||
                                 parts[part].text + parts[part].length > (const char *)data + size))
            abort();
    bool right = tuned_rows(&parts[TUNED_GPU], param_take_tuned, &tuned, wrong);
    if (right == (*wrong != 0))
        abort();
    for (int id = 0; id < PARAM_COUNT; id++) {
        const struct param_row *row = param_row((enum param_id)id);
        if (tuned.number[id] != -1 &&
            (row->level != PARAM_LEVEL_THRESHOLD || tuned.number[id] < row->min || tuned.number[id] > row->max))
            abort();
    }
}

static tutti_result_t open_file(const uint8_t *data, size_t size, struct choice_table **table)
{
    char path[40];
    int file = memfd_create("table", 0);
    if (file < 0 || write(file, data, size) != (ssize_t)size)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    tutti_result_t result = choice_open_with("", path, table);
    close(file);
    return result;
}

static tutti_result_t open_override(const uint8_t *data, size_t size, struct choice_table **table)
{
    char *text = strndup((const char *)data, size);
    tutti_result_t result = text ? choice_open_with(text, NULL, table) : TUTTI_SYSTEM_ERROR;
    free(text);
    return result;
}

/* Two bytes name each row. Random bytes alone never are a file. */
static size_t build(const uint8_t *data, size_t size, char *out, size_t room)
{
    static const char *const names[] = {"COPY_FROM", "LINES_FROM", "PEER_MOST", "comment", "BLOCKS", "\\u001b[2J", ""};
    static const char *const values[] = {"4096",
                                         "0",
                                         "1099511627776",
                                         "1099511627777",
                                         "-1",
                                         "1e3",
                                         "\"64K\"",
                                         "true",
                                         "\"\"",
                                         "null",
                                         "[1]",
                                         "{\"a\": 1}",
                                         "1",
                                         "01",
                                         "99999999999999999999"};
    size_t used = (size_t)snprintf(out, room, "{\"version\": 1, \"rules\": [], \"gpu\": {");
    for (size_t i = 0; i + 1 < size && used + 100 < room; i += 2)
        used += (size_t)snprintf(out + used, room - used, "%s\"%s\": %s", i ? ", " : "",
                                 names[data[i] % (sizeof names / sizeof *names)],
                                 values[data[i + 1] % (sizeof values / sizeof *values)]);
    return used + (size_t)snprintf(out + used, room - used, "}}");
}

static void take_built(const uint8_t *data, size_t size)
{
    char text[2048];
    size_t length = build(data, size % 9, text, sizeof text); /* with more rows some are always wrong */
    take_thresholds((const uint8_t *)text, length);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct choice_table *table = NULL;
    if (size == 0)
        return 0;
    bool file = data[0] == '{';
    take_thresholds(data, size);
    take_built(data, size);
    if ((file ? open_file(data, size, &table) : open_override(data, size, &table)) == TUTTI_SUCCESS) {
        choose(table);
        choice_close(table);
    }
    return 0;
}
