/* SPDX-License-Identifier: Apache-2.0 */
/* Any text as an override or as a tuned table: an error or a table that chooses, never a crash. libFuzzer. */
#include "algorithm/choice.h"

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct choice_table *table = NULL;
    if (size == 0)
        return 0;
    bool file = data[0] == '{';
    if ((file ? open_file(data, size, &table) : open_override(data, size, &table)) == TUTTI_SUCCESS) {
        choose(table);
        choice_close(table);
    }
    return 0;
}
