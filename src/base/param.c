/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters: read environment and files once, keep the first complaint, answer from the table. */
#include "base/param.h"
#include "base/conf.h"
#include "base/error.h"
#include "base/guess.h"
#include "base/log.h"
#include "base/parse.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

extern char **environ;

#define LARGEST (1ll << 40) /* of a threshold: the largest size of any call */

static const struct param_row rows[PARAM_COUNT] = {
#define NUMBER(...)
#define OF_PARAMETER(...)
#define THRESHOLD(id, text, least, unit, measured, help)                                                               \
    [PARAM_##id] = {"TUTTI_" #id, "", PARAM_LEVEL_THRESHOLD, PARAM_KIND_SIZE, text, least, LARGEST, "", help, true},
#define PARAM(id, level, kind, text, min, max, choices, same, alias, help)                                             \
    [PARAM_##id] = {"TUTTI_" #id, alias, PARAM_LEVEL_##level, PARAM_KIND_##kind, text, min, max, choices, help, same},
#include "tables/params.tbl"
#include "tables/gpu.tbl"
#undef PARAM
#undef THRESHOLD
#undef NUMBER
#undef OF_PARAMETER
};

/* What settings were called before. */
static const char *const former[PARAM_COUNT] = {
#define RENAMED(id, former) [PARAM_##id] = "TUTTI_" former,
#include "tables/renamed.tbl"
#undef RENAMED
};

/* NCCL's older names. */
static const char *const older[PARAM_COUNT] = {
#define ALSO(id, variable) [PARAM_##id] = variable,
#define INSTEAD(...)
#include "tables/nccl.tbl"
#undef ALSO
#undef INSTEAD
};

static const struct {
    const char *variable, *text;
} instead[] = {
#define ALSO(...)
#define INSTEAD(variable, text) {variable, text},
#include "tables/nccl.tbl"
#undef ALSO
#undef INSTEAD
};

struct param_value param_values[PARAM_COUNT];
_Atomic bool param_loaded;
static char complaint[640];
static pthread_once_t once = PTHREAD_ONCE_INIT;

const struct param_row *param_row(enum param_id id)
{
    return &rows[id];
}

static bool parse_choice(const char *text, const char *choices, int64_t *out)
{
    size_t length = strlen(text);
    int64_t index = 0;
    for (const char *p = choices; *p; index++) {
        size_t word = strcspn(p, "|");
        if (word == length && strncasecmp(p, text, word) == 0) {
            *out = index;
            return true;
        }
        p += word + (p[word] == '|');
    }
    return false;
}

static bool parse_value(const struct param_row *row, const char *text, int64_t *out)
{
    switch (row->kind) {
    case PARAM_KIND_STRING:
        *out = 0;
        return true;
    case PARAM_KIND_CHOICE:
        return parse_choice(text, row->choices, out);
    case PARAM_KIND_BOOL:
        return parse_bool(text, out);
    case PARAM_KIND_SIZE:
        return parse_size(text, out) && *out >= row->min && *out <= row->max;
    case PARAM_KIND_MS:
        return parse_ms(text, out) && *out >= row->min && *out <= row->max;
    default:
        return parse_int(text, out) && *out >= row->min && *out <= row->max;
    }
}

static void describe_range(const struct param_row *row, char *out, size_t size)
{
    switch (row->kind) {
    case PARAM_KIND_CHOICE:
        snprintf(out, size, "one of %s", row->choices);
        break;
    case PARAM_KIND_BOOL:
        snprintf(out, size, "0 or 1");
        break;
    case PARAM_KIND_MS:
        snprintf(out, size, "a time such as 500ms or 30s, %lld to %lld ms", (long long)row->min, (long long)row->max);
        break;
    case PARAM_KIND_SIZE:
        snprintf(out, size, "bytes such as 4096, 64K or 1M, %lld to %lld", (long long)row->min, (long long)row->max);
        break;
    default:
        snprintf(out, size, "an integer, %lld to %lld", (long long)row->min, (long long)row->max);
    }
}

static const char *param_find(const char *name)
{
    const char *text = getenv(name);
    return text && *text ? text : conf_find(name);
}

/* By the setting's own name, then by its former one, then by NCCL's. */
static const char *find_any(enum param_id id, const char **source)
{
    const char *names[] = {rows[id].name, former[id], *rows[id].alias ? rows[id].alias : NULL, older[id]}, *text = NULL;
    for (int i = 0; i < 4 && !text; i++) {
        *source = names[i];
        text = names[i] ? param_find(names[i]) : NULL;
    }
    return text;
}

static void load_row(enum param_id id)
{
    const struct param_row *row = &rows[id];
    struct param_value *value = &param_values[id];
    const char *source, *text = find_any(id, &source);
    value->text = row->default_text;
    value->source = "default";
    if (!parse_value(row, row->default_text, &value->number))
        value->number = 0;
    if (!text)
        return;
    int64_t number;
    if (parse_value(row, text, &number)) {
        *value = (struct param_value){number, text, source};
    } else if (strncmp(source, "TUTTI_", 6) == 0 && !*complaint) {
        char range[200];
        describe_range(row, range, sizeof range);
        snprintf(complaint, sizeof complaint, "%s=%.100s: want %s", source, text, range);
    }
}

/* ---- The file of `tutti tune` ---- */

static char tuned_file[PATH_MAX], tuned_text[PARAM_COUNT][24]; /* its path, and its values */

/* The number of a threshold; PARAM_COUNT: there is none of this name. */
static int param_threshold(const char *name)
{
    int id = 0;
    while (id < PARAM_COUNT &&
           (rows[id].level != PARAM_LEVEL_THRESHOLD || strcmp(rows[id].name + strlen("TUTTI_"), name) != 0))
        id++;
    return id;
}

bool param_take_tuned(const char *name, const struct jsonread_value *value, char want[TUNED_WANT], void *tuned)
{
    int64_t *numbers = ((struct param_tuned *)tuned)->number;
    int id = param_threshold(name);
    if (id == PARAM_COUNT)
        snprintf(want, TUNED_WANT, "a threshold of this name (tutti env --all)");
    else if (numbers[id] >= 0)
        snprintf(want, TUNED_WANT, "one row of this name, not two");
    else
        snprintf(want, TUNED_WANT, "a number of bytes, %lld to %lld", (long long)rows[id].min, (long long)rows[id].max);
    if (id == PARAM_COUNT || numbers[id] >= 0 || value->kind != JSONREAD_INTEGER || value->number < rows[id].min ||
        value->number > rows[id].max)
        return false;
    numbers[id] = value->number;
    return true;
}

static void param_force_tuned(int id, int64_t number)
{
    if (number < 0 || strcmp(param_values[id].source, "default") != 0)
        return;
    snprintf(tuned_text[id], sizeof tuned_text[id], "%lld", (long long)number);
    param_values[id] = (struct param_value){number, tuned_text[id], tuned_file};
}

/* All thresholds of the file, or none. The reader of its rules tells what is wrong with the file as a whole. */
static void param_load_tuned(void)
{
    struct param_tuned tuned;
    struct tuned_slice parts[TUNED_PARTS];
    char wrong[TUNED_WRONG];
    size_t length;
    memset(&tuned, 0xff, sizeof tuned);
    char *text = tuned_path(param_values[PARAM_TUNE_FILE].text, tuned_file, sizeof tuned_file)
                     ? tuned_read(tuned_file, &length)
                     : NULL;
    if (text && tuned_parts(text, length, parts)) {
        bool right = tuned_rows(&parts[TUNED_GPU], param_take_tuned, &tuned, wrong);
        for (int id = 0; right && id < PARAM_COUNT; id++)
            param_force_tuned(id, tuned.number[id]);
        if (!right && !*complaint)
            snprintf(complaint, sizeof complaint, "choice table %.120s: \"gpu\": %s; " TUNED_CURE, tuned_file, wrong);
    }
    free(text);
}

static void base_param_load(void)
{
    *complaint = 0;
    conf_load();
    for (int id = 0; id < PARAM_COUNT; id++)
        load_row((enum param_id)id);
    param_load_tuned();
    atomic_store_explicit(&param_loaded, true, memory_order_release);
}

void param_load(void)
{
    pthread_once(&once, base_param_load);
}

void param_reload(void)
{
    pthread_once(&once, base_param_load);
    base_param_load();
}

const char *param_string(enum param_id id)
{
    pthread_once(&once, base_param_load);
    return param_values[id].text;
}

const char *param_source(enum param_id id)
{
    pthread_once(&once, base_param_load);
    return param_values[id].source;
}

static bool is(const char *variable, size_t length, const char *name)
{
    return name && strlen(name) == length && strncmp(name, variable, length) == 0;
}

/* By one of its names, which `variable` may go on behind. */
static bool known(const char *variable)
{
    size_t length = strcspn(variable, "=");
    for (int id = 0; id < PARAM_COUNT; id++)
        if (is(variable, length, rows[id].name) || is(variable, length, former[id]) ||
            is(variable, length, rows[id].alias) || is(variable, length, older[id]))
            return true;
    return false;
}

/* The stand-in drivers and the tests have variables of their own. */
static bool param_ours(const char *variable)
{
    return strncmp(variable, "TUTTI_", 6) == 0 && strncmp(variable, "TUTTI_EMULATED_", 15) != 0 &&
           strncmp(variable, "TUTTI_TEST_", 11) != 0;
}

/* The parameter whose name, or NCCL's name for it, was meant. Beginnings that all share are not compared. */
static const char *meant(const char *variable, int length)
{
    const char *names[2 * PARAM_COUNT];
    char word[64];
    size_t count = 0, skip = strcspn(variable, "_") + 1;
    snprintf(word, sizeof word, "%.*s", length - (int)skip, variable + skip);
    for (int id = 0; id < PARAM_COUNT; id++) {
        const char *all[] = {rows[id].name, rows[id].alias};
        for (int i = 0; i < 2; i++)
            if (strncmp(all[i], variable, skip) == 0)
                names[count++] = all[i] + skip;
    }
    const char *near = *word ? guess_name(word, names, count) : NULL;
    /* NCCL has more variables than there are here: only what is one letter wrong is none of them. */
    return near && (*variable == 'T' || guess_distance(word, near) == 1) ? near - skip : NULL;
}

struct param_listener {
    param_unknown_fn say;
    void *context;
};

static void tell_unknown(const char *variable, void *context)
{
    const struct param_listener *listener = context;
    bool conf = strncmp(variable, CONF_VARIABLE "=", sizeof CONF_VARIABLE) == 0;
    int length = (int)strcspn(variable, "=");
    if ((param_ours(variable) || (strncmp(variable, "NCCL_", 5) == 0 && !conf)) && !known(variable))
        listener->say(variable, length, meant(variable, length), listener->context);
}

void param_each_unknown(param_unknown_fn say, void *context)
{
    struct param_listener listener = {say, context};
    pthread_once(&once, base_param_load);
    for (char **variable = environ; variable && *variable; variable++)
        tell_unknown(*variable, &listener);
    conf_each(tell_unknown, &listener);
}

static const char *holds_instead(const char *variable, int length)
{
    for (size_t i = 0; i < sizeof instead / sizeof *instead; i++)
        if (is(variable, (size_t)length, instead[i].variable))
            return instead[i].text;
    return "tutti has nothing that it could mean (see tutti env)";
}

static void param_warn(const char *variable, int length, const char *name, void *context)
{
    if (name)
        log_warn("unknown variable %.*s is ignored. Did you mean %s? (see tutti env)", length, variable, name);
    else if (*variable == 'T')
        log_warn("unknown variable %.*s is ignored (see tutti env)", length, variable);
    else
        log_info("%.*s is set and has no effect here: %s", length, variable, holds_instead(variable, length));
}

/* A value of NCCL's variable that is none here stops nobody: NCCL may know it. */
static void warn_strange(enum param_id id)
{
    const char *source, *text = find_any(id, &source);
    char range[200];
    int64_t number;
    if (!text || strncmp(source, "TUTTI_", 6) == 0 || parse_value(&rows[id], text, &number))
        return;
    describe_range(&rows[id], range, sizeof range);
    log_info("%s=%.100s has no effect here: want %s", source, text, range);
}

static void warn_unknown(void)
{
    param_each_unknown(param_warn, NULL);
    for (int id = 0; id < PARAM_COUNT; id++)
        warn_strange((enum param_id)id);
}

tutti_result_t param_check(void)
{
    static pthread_once_t warned = PTHREAD_ONCE_INIT;
    pthread_once(&once, base_param_load);
    pthread_once(&warned, warn_unknown);
    return *complaint ? error_set(TUTTI_INVALID_ARGUMENT, "%s", complaint) : TUTTI_SUCCESS;
}
