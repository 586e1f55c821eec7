/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers as people write them. Each returns false, and leaves *out alone, unless the whole text is one value. */
#ifndef TUTTI_BASE_PARSE_H
#define TUTTI_BASE_PARSE_H

#include <stdbool.h>
#include <stdint.h>

bool parse_int(const char *text, int64_t *out);
bool parse_size(const char *text, int64_t *out); /* 4096, 64K, 1M, 2G: powers of 1024; an optional B or iB may follow */
bool parse_ms(const char *text, int64_t *out);   /* 250ms, 30s, 2m; a bare number is seconds */
bool parse_bool(const char *text, int64_t *out); /* 0 1 no yes off on false true */

#endif
