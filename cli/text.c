/* SPDX-License-Identifier: Apache-2.0 */
/* Complaints, numbers and near-miss names for all commands. */
#include "cli.h"

#include "base/parse.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int first_failure; /* errno */

void text_flush(void)
{
    if (fflush(stdout) == EOF && !first_failure)
        first_failure = errno;
}

const char *text_lost(void)
{
    text_flush();
    if (first_failure)
        return strerror(first_failure);
    return ferror(stdout) ? "a part was lost" : NULL;
}

static void complain(const char *command, const char *format, va_list args)
{
    text_flush();
    fprintf(stderr, "tutti %s: ", command);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
}

int usage_error(const char *command, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    complain(command, format, args);
    va_end(args);
    fprintf(stderr, "See: tutti help %s\n", command);
    return EXIT_USAGE;
}

int failure(const char *command, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    complain(command, format, args);
    va_end(args);
    return EXIT_FAILED;
}

bool text_int(const char *text, int64_t low, int64_t high, int *out)
{
    int64_t value;
    if (!parse_int(text, &value) || value < low || value > high)
        return false;
    *out = (int)value;
    return true;
}

enum { LONGEST_NAME = 63 };

void text_size(int64_t size, char *out, size_t room)
{
    static const char letters[] = "\0KMGT";
    int unit = 0;
    while (unit < 4 && size && size % 1024 == 0) {
        size /= 1024;
        unit++;
    }
    snprintf(out, room, "%lld%.1s", (long long)size, &letters[unit]);
}

static int least(int a, int b, int c)
{
    int d = a < b ? a : b;
    return d < c ? d : c;
}

/* Levenshtein's distance, one row at a time. */
static int distance(const char *a, const char *b)
{
    int row[LONGEST_NAME + 1];
    int length = (int)strlen(b);
    for (int j = 0; j <= length; j++)
        row[j] = j;
    for (int i = 0; a[i]; i++) {
        int diagonal = row[0];
        row[0] = i + 1;
        for (int j = 0; j < length; j++) {
            int above = row[j + 1];
            row[j + 1] = least(above + 1, row[j] + 1, diagonal + (a[i] != b[j]));
            diagonal = above;
        }
    }
    return row[length];
}

const char *text_nearest(const char *word, const char *const *names, size_t count)
{
    const char *best = NULL;
    int best_distance = 1 + (int)strlen(word) / 3;
    if (strlen(word) > LONGEST_NAME)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        bool begins = strncmp(names[i], word, strlen(word)) == 0;
        int far = begins ? 0 : distance(word, names[i]);
        if (far <= best_distance) {
            best = names[i];
            best_distance = far - 1;
        }
    }
    return best;
}

bool program_path(char *out, size_t size)
{
    ssize_t length = readlink("/proc/self/exe", out, size - 1);
    if (length <= 0)
        return false;
    out[length] = 0;
    return true;
}
