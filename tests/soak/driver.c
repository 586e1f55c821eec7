/* SPDX-License-Identifier: Apache-2.0 */
/* The driver, loaded as a program's runtime library would. */
#include "soak.h"

#include <dlfcn.h>

struct driver cu;

int driver_load(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    bool all = library != NULL;
#define CALL(name, symbol, ...) all = all && (*(void **)&cu.name = dlsym(library, symbol)) != NULL;
#include "driver.h"
#undef CALL
    return all && cu.Init(0) == 0 ? 0 : -1;
}
