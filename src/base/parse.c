/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers with units, refused unless whole and in range of int64_t. */
#include "base/parse.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool parse_prefix(const char *text, int64_t *out, const char **rest)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || errno)
        return false;
    *out = value;
    *rest = end;
    return true;
}

static bool scale(int64_t value, int64_t unit, int64_t *out)
{
    return !__builtin_mul_overflow(value, unit, out);
}

bool parse_int(const char *text, int64_t *out)
{
    int64_t value;
    const char *rest;
    if (!parse_prefix(text, &value, &rest) || *rest)
        return false;
    *out = value;
    return true;
}

bool parse_size(const char *text, int64_t *out)
{
    static const char letters[] = "KMGT";
    int64_t value, unit = 1;
    const char *rest;
    if (!parse_prefix(text, &value, &rest))
        return false;
    for (int i = 0; letters[i]; i++)
        if (*rest == letters[i] || *rest == letters[i] + ('a' - 'A')) {
            unit = (int64_t)1 << (10 * (i + 1));
            rest++;
            break;
        }
    if (*rest && strcasecmp(rest, "b") != 0 && (unit == 1 || strcasecmp(rest, "ib") != 0))
        return false;
    return value >= 0 && scale(value, unit, out);
}

bool parse_ms(const char *text, int64_t *out)
{
    int64_t value;
    const char *rest;
    if (!parse_prefix(text, &value, &rest) || value < 0)
        return false;
    if (strcmp(rest, "ms") == 0)
        return scale(value, 1, out);
    if (!*rest || strcmp(rest, "s") == 0)
        return scale(value, 1000, out);
    return strcmp(rest, "m") == 0 && scale(value, 60000, out);
}

bool parse_bool(const char *text, int64_t *out)
{
    static const char *const words[] = {"0", "1", "no", "yes", "off", "on", "false", "true"};
    for (int i = 0; i < 8; i++)
        if (strcasecmp(text, words[i]) == 0) {
            *out = i & 1;
            return true;
        }
    return false;
}
