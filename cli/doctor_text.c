/* SPDX-License-Identifier: Apache-2.0 */
/* Texts for the checks of tutti doctor. */
#include "cli/doctor.h"
#include "diagnosis/phrase.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>
#include <sys/resource.h>

void doctor_found(struct doctor_result *out, const char *format, ...)
{
    size_t used = strlen(out->found);
    va_list args;
    va_start(args, format);
    vsnprintf(out->found + used, sizeof out->found - used, format, args);
    va_end(args);
}

void doctor_complain(struct doctor_result *out, enum doctor_state state, const char *cost, const char *remedy, ...)
{
    if (state <= out->state)
        return;
    va_list args;
    va_start(args, remedy);
    vsnprintf(out->remedy, sizeof out->remedy, remedy, args);
    va_end(args);
    snprintf(out->cost, sizeof out->cost, "%s", cost);
    out->state = state;
}

const char *doctor_state_name(enum doctor_state state)
{
    static const char *const names[] = {"ok", "warn", "wrong"};
    return names[state];
}

struct phrase doctor_limit(uint64_t limit)
{
    struct phrase word;
    if (limit == RLIM_INFINITY)
        snprintf(word.text, sizeof word.text, "unlimited");
    else
        snprintf(word.text, sizeof word.text, "%" PRIu64, limit);
    return word;
}
