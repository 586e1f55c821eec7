/* SPDX-License-Identifier: Apache-2.0 */
/* Reads JSON front to back, value by value, without memory of its own: for small files of settings. */
#ifndef TUTTI_BASE_JSONREAD_H
#define TUTTI_BASE_JSONREAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct jsonread {
    const char *at, *end, *line_start;
    int line;
    unsigned depth;
    const char *error; /* what is wrong at this place; NULL: nothing so far */
};

enum jsonread_kind {
    JSONREAD_ABSENT,
    JSONREAD_STRING,
    JSONREAD_INTEGER,
    JSONREAD_BOOLEAN,
    JSONREAD_OBJECT,
    JSONREAD_ARRAY,
    JSONREAD_OTHER
};

#define JSONREAD_TEXT 64

struct jsonread_value {
    enum jsonread_kind kind;
    int64_t number;           /* of an integer or a boolean */
    char text[JSONREAD_TEXT]; /* of a string, its begin: letters other than ASCII are as they stand, or ?. Control
                               * characters are ? */
};

void jsonread_start(struct jsonread *json, const char *text, size_t length);

/* Each function below takes one value. False: it is not whole, or not of that kind, and `error` says what is wrong. */

/* Calls `each` at each value, which it must take; `key` is "" in an array. It may set `error` itself. */
typedef bool jsonread_each_fn(struct jsonread *json, const char *key, void *context);
bool jsonread_object(struct jsonread *json, jsonread_each_fn *each, void *context);
bool jsonread_array(struct jsonread *json, jsonread_each_fn *each, void *context);
/* Passes over what is in objects and arrays. */
bool jsonread_value(struct jsonread *json, struct jsonread_value *out);
/* Nothing is left. */
bool jsonread_end(struct jsonread *json);

/* What the next value is, as far as its first letter tells: numbers are JSONREAD_INTEGER. */
enum jsonread_kind jsonread_next(struct jsonread *json);
/* Of the place: from 1 on. */
int jsonread_column(const struct jsonread *json);

/* Are these bytes UTF-8? */
bool jsonread_is_text(const char *text, size_t length);

#endif
