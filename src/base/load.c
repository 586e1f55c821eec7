/* SPDX-License-Identifier: Apache-2.0 */
#include "base/load.h"

#include <dlfcn.h>
#include <string.h>

const char *load_fill(void *handle, const struct load_symbol *symbols, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        void *symbol = dlsym(handle, symbols[i].name);
        if (!symbol)
            return symbols[i].name;
        memcpy(symbols[i].to, &symbol, sizeof symbol);
    }
    return NULL;
}

bool load_library(const char *name, const struct load_symbol *symbols, size_t count)
{
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    return library && !load_fill(library, symbols, count);
}
