/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of `tutti tune`: where it is, what it consists of, and its thresholds of GPUs.
 *   {"version": 1, "comment": "where and when", "rules": [...],
 *    "gpu": {"comment": "where and when", "COPY_FROM": 4194304}}
 * algorithm/choice_file.c reads the rules. Each part is written by itself, and the others stay as they are.
 */
#ifndef TUTTI_BASE_TUNED_H
#define TUTTI_BASE_TUNED_H

#include "base/jsonread.h"
#include "tutti/tutti.h"

#include <stdio.h>

#define TUNED_VERSION_HERE 1
#define TUNED_CURE         "correct the file, or remove it and run tutti tune again"

enum tuned_part { TUNED_VERSION, TUNED_COMMENT, TUNED_RULES, TUNED_GPU, TUNED_PARTS };

/* ~/.config/tutti/tune.json; false without HOME. */
bool tuned_default_path(char *out, size_t size);
/* The file in force: `named`, or if that is "" the default one. False: there is none. */
bool tuned_path(const char *named, char *out, size_t size);

/* The bytes of a file, the caller's; NULL: errno says why not. */
char *tuned_read(const char *path, size_t *length);

/* A value as it stands in the file. NULL: it is not there. */
struct tuned_slice {
    const char *text;
    size_t length;
};

/* False: the text is no tuned file, or not of this version. */
bool tuned_parts(const char *text, size_t length, struct tuned_slice parts[TUNED_PARTS]);

/* Calls `take` with each row, which returns false and what it wants instead if it is wrong. False: `wrong` says which
 * row is. */
#define TUNED_WANT 100
typedef bool tuned_take_fn(const char *name, const struct jsonread_value *value, char want[TUNED_WANT], void *context);
#define TUNED_WRONG 200
bool tuned_rows(const struct tuned_slice *gpu, tuned_take_fn *take, void *context, char wrong[TUNED_WRONG]);

/* Writes the file, whole or not at all. A part is JSON; NULL: what the file that is there has, if that has any. */
tutti_result_t tuned_write(const char *path, const char *const parts[TUNED_PARTS]);

/* As a string of JSON. The text is UTF-8. */
void tuned_print_text(FILE *file, const char *text);

#endif
