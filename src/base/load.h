/* SPDX-License-Identifier: Apache-2.0 */
/* Libraries that are loaded when they are used, so that the program starts without them. */
#ifndef TUTTI_BASE_LOAD_H
#define TUTTI_BASE_LOAD_H

#include <stdbool.h>
#include <stddef.h>

struct load_symbol {
    void *to; /* a pointer that becomes the symbol's address */
    const char *name;
};

/* Fills in all from what dlopen() gave. The name of the first that is not there; NULL: none is missing. */
const char *load_fill(void *handle, const struct load_symbol *symbols, size_t count);
/* Opens the library, for good, and fills in all. False: it is not there, or lacks one. */
bool load_library(const char *name, const struct load_symbol *symbols, size_t count);

#endif
