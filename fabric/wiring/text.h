/* SPDX-License-Identifier: Apache-2.0 */
/* Text that grows: batches for iproute2, JSON, SVG. A failed allocation is remembered and reported once, by text_ok. */
#ifndef TUTTI_WIRING_TEXT_H
#define TUTTI_WIRING_TEXT_H

#include "tutti/tutti.h"

#include <stdbool.h>
#include <stddef.h>

struct text {
    char *data; /* always terminated once anything was added; NULL before */
    size_t length, capacity;
    bool failed;
};

void text_add(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_append(struct text *text, const char *data, size_t length);
/* TUTTI_SYSTEM_ERROR if memory ran out on the way. */
tutti_result_t text_ok(const struct text *text);
void text_clear(struct text *text);
void text_free(struct text *text);
/* Writes everything to a descriptor. */
tutti_result_t text_write(const struct text *text, int fd, const char *name);

#endif
