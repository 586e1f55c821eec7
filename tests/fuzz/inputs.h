/* SPDX-License-Identifier: Apache-2.0 */
/* What fuzzers share: the end of one that has found something, and texts, as they are or made of words, which get
 * further into a parser. */
#ifndef TUTTI_FUZZ_INPUTS_H
#define TUTTI_FUZZ_INPUTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static inline void must(bool holds)
{
    if (!holds)
        abort();
}

/* The caller frees the text, which ends with a zero byte; of bytes as they are, others may come before. *length:
 * without it; NULL: nobody wants to know. */
static inline char *text_of(const char *const *words, size_t count, const uint8_t *data, size_t size, size_t *length)
{
    size_t longest = 0;
    for (size_t i = 0; i < count; i++)
        longest = strlen(words[i]) > longest ? strlen(words[i]) : longest;
    char *text = calloc(size + 1, longest + 1), *end = text;
    must(text);
    if (size && data[0] % 2)
        end = (char *)memcpy(text, data, size) + size;
    else
        for (size_t i = 1; i < size; i++)
            end = stpcpy(end, words[data[i] % count]);
    if (length)
        *length = (size_t)(end - text);
    return text;
}

#endif
