/* SPDX-License-Identifier: Apache-2.0 */
/* For choice.c: rules from the built-in table and from files, and the override. */
#ifndef TUTTI_ALGORITHM_CHOICE_RULES_H
#define TUTTI_ALGORITHM_CHOICE_RULES_H

#include "algorithm/choice.h"

#define CHOICE_NAMES 8

/* What TUTTI_ALGO says of one collective. */
struct choice_override {
    const struct algorithm *list[CHOICE_NAMES];
    int count;
    bool exclude;  /* the list is what must not run */
    bool specific; /* from an item that names the collective */
};

struct choice_list {
    struct choice_rule *rules;
    int count;
};

/* `source` is what error messages call the text. */
tutti_result_t choice_parse_override(const char *text, const char *source,
                                     struct choice_override overrides[COLL_COUNT]);

/* The rules of a file; the caller frees list->rules. On failure *list is left alone. */
tutti_result_t choice_load(const char *path, struct choice_list *list);

#endif
