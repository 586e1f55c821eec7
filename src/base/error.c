/* SPDX-License-Identifier: Apache-2.0 */
/* Thread-local error sentences. */
#include "base/error.h"
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char last[sizeof((struct error_saved *)NULL)->sentence];

/* The sentence before may be a part of the new one. */
static void error_record(const char *format, va_list args)
{
    char fresh[sizeof last];
    vsnprintf(fresh, sizeof fresh, format, args);
    strcpy(last, fresh);
    if (strstr(last, strerror(EMFILE)) && !strstr(last, "ulimit -n"))
        snprintf(last + strlen(last), sizeof last - strlen(last), "; raise ulimit -n");
}

tutti_result_t error_set(tutti_result_t code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    error_record(format, args);
    va_end(args);
    log_warn("%s: %s", error_name(code), last);
    return code;
}

tutti_result_t error_note(tutti_result_t code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    error_record(format, args);
    va_end(args);
    return code;
}

const char *error_last(void)
{
    return last;
}

void error_save(struct error_saved *out)
{
    strcpy(out->sentence, last);
}

void error_restore(const struct error_saved *saved)
{
    strcpy(last, saved->sentence);
}

#define ERROR(id, text) text,
static const char *const names[] = {
#include "tables/errors.tbl"
};
#undef ERROR

const char *error_name(tutti_result_t code)
{
    return (unsigned)code < TUTTI_RESULT_COUNT ? names[code] : "unknown result";
}
