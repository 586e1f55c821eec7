/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parameters: environment variables declared once, in tables/params.tbl; and thresholds of tables/gpu.tbl, which the
 * file of `tutti tune` gives where no variable does. Values are read at first use and never change after. A bad value
 * is an error that param_check() returns by name; until then its default is in force. So is that of all thresholds
 * where the file has a bad one.
 */
#ifndef TUTTI_BASE_PARAM_H
#define TUTTI_BASE_PARAM_H

#include "base/tuned.h"
#include "tutti/tutti.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum param_kind {
    PARAM_KIND_INT,
    PARAM_KIND_SIZE,
    PARAM_KIND_BOOL,
    PARAM_KIND_MS,
    PARAM_KIND_STRING,
    PARAM_KIND_CHOICE
};

/* Whom a parameter is for. */
enum param_level { PARAM_LEVEL_USER, PARAM_LEVEL_TUNING, PARAM_LEVEL_THRESHOLD, PARAM_LEVEL_TEST, PARAM_LEVELS };

#define NUMBER(...)
#define OF_PARAMETER(...)
enum param_id {
#define PARAM(id, ...)     PARAM_##id,
#define THRESHOLD(id, ...) PARAM_##id,
#include "tables/params.tbl"
#include "tables/gpu.tbl"
#undef PARAM
#undef THRESHOLD
    PARAM_COUNT
};

/* How many must be the same on all ranks. */
#define PARAM(id, level, kind, text, min, max, choices, same, ...) +(same)
#define THRESHOLD(...)                                             +1
enum {
    PARAM_SAME_COUNT = 0
#include "tables/params.tbl"
#include "tables/gpu.tbl"
};
#undef PARAM
#undef THRESHOLD
#undef NUMBER
#undef OF_PARAMETER

struct param_row {
    const char *name;  /* TUTTI_... */
    const char *alias; /* NCCL's name for it, "" if none */
    enum param_level level;
    enum param_kind kind;
    const char *default_text;
    int64_t min, max;       /* of numbers */
    const char *choices;    /* "a|b|c" for PARAM_KIND_CHOICE; the value is the index */
    const char *help;       /* one line */
    bool same_on_all_ranks; /* ranks that disagree are refused at init, by name */
};

const struct param_row *param_row(enum param_id id);

struct param_value {
    int64_t number;
    const char *text;
    const char *source;
};

extern struct param_value param_values[PARAM_COUNT] __attribute__((visibility("hidden")));
extern _Atomic bool param_loaded __attribute__((visibility("hidden")));

/* Reads the environment, at the first call. */
void param_load(void);

/* Values: integers, sizes in bytes, booleans 0/1, times in milliseconds, choices by index. */
static inline int64_t param_int(enum param_id id)
{
    if (!atomic_load_explicit(&param_loaded, memory_order_acquire))
        param_load();
    return param_values[id].number;
}
/* The text in force, and where it came from: "default", the variable's name, or the path of the file of `tutti tune`.
 */
const char *param_string(enum param_id id);
const char *param_source(enum param_id id);

/* A row of that file, as tuned_rows() takes it: into numbers of parameters, of which those that are not there are -1.
 */
struct param_tuned {
    int64_t number[PARAM_COUNT];
};
tuned_take_fn param_take_tuned;

/* TUTTI_INVALID_ARGUMENT naming the first variable with a bad value; warns about unknown variables once. */
tutti_result_t param_check(void);

/* For each variable of the environment or NCCL's file whose name begins as a parameter's and that is none: the text up
 * to its value, the length of its name, and the parameter that was meant, NULL if none is near. */
typedef void (*param_unknown_fn)(const char *variable, int length, const char *meant, void *context);
void param_each_unknown(param_unknown_fn say, void *context);

/* Reads the environment again. For tests and tools, before any other thread runs. */
void param_reload(void);

#endif
