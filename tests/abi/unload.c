/* SPDX-License-Identifier: Apache-2.0 */
/* unload LIBRARY: a plugin that uses the library and is unloaded, with a communicator that nobody has destroyed. */
#include "tutti/tutti.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define RANKS 2

typedef tutti_result_t (*init_all_fn)(tutti_comm_t *comms, int n);

static void look_up(void *library, const char *name, void *function)
{
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, sizeof symbol);
}

int main(int argc, char **argv)
{
    const struct timespec moment = {.tv_nsec = 200000000};
    for (int time = 0; time < 2; time++) {
        void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
        tutti_comm_t comms[RANKS];
        init_all_fn init_all;
        if (!library) {
            fprintf(stderr, "unload LIBRARY: %s\n", argc == 2 ? dlerror() : "no library");
            return 1;
        }
        look_up(library, "tutti_comm_init_all", &init_all);
        if (init_all(comms, RANKS) != TUTTI_SUCCESS)
            return 1;
        dlclose(library);
        nanosleep(&moment, NULL); /* the library's threads run on */
    }
    return 0;
}
