/* SPDX-License-Identifier: Apache-2.0 */
/* Complaints and numbers for all commands. */
#include "cli/cli.h"

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

static bool text_is_alone;

void text_alone(void)
{
    text_is_alone = true;
}

static void complain(const char *command, const char *format, va_list args)
{
    text_flush();
    fprintf(stderr, "%s%s: ", text_is_alone ? "" : "tutti ", command);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
}

int usage_error(const char *command, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    complain(command, format, args);
    va_end(args);
    fprintf(stderr, text_is_alone ? "See: %s --help\n" : "See: tutti help %s\n", command);
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

bool program_path(char *out, size_t size)
{
    ssize_t length = readlink("/proc/self/exe", out, size - 1);
    if (length <= 0)
        return false;
    out[length] = 0;
    return true;
}
