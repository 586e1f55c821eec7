/* SPDX-License-Identifier: Apache-2.0 */
/* Looks kernels up: those that the stand-in itself brings, for its tests, then the library's. */
#include "cuda/kernel.h"

#include "base/backoff.h"

#include <stdint.h>
#include <string.h>

/* at[block] = value: shows grids, parameters, order. */
static void run_store(const struct kernel_entry *entry, const struct kernel_grid *grid, const unsigned at[3],
                      void *const *params)
{
    uint32_t *words = *(uint32_t **)params[0];
    size_t block = at[0] + (size_t)grid->grid[0] * (at[1] + (size_t)grid->grid[1] * at[2]);
    words[block] = *(uint32_t *)params[1];
}

/* Every block waits until `count` blocks, of this and other launches, have come to the counter. */
static void run_meet(const struct kernel_entry *entry, const struct kernel_grid *grid, const unsigned at[3],
                     void *const *params)
{
    uint32_t *counter = *(uint32_t **)params[0], count = *(uint32_t *)params[1];
    __atomic_fetch_add(counter, 1, __ATOMIC_ACQ_REL);
    unsigned turn = 0;
    while (__atomic_load_n(counter, __ATOMIC_ACQUIRE) < count)
        backoff(&turn);
}

/* *word += value, without any protection: shows whether launches follow one another. */
static void run_add(const struct kernel_entry *entry, const struct kernel_grid *grid, const unsigned at[3],
                    void *const *params)
{
    **(uint32_t **)params[0] += *(uint32_t *)params[1];
}

static const struct kernel_entry own[] = {
    {"emulated_store", {sizeof(void *), sizeof(uint32_t)}, run_store, NULL},
    {"emulated_meet", {sizeof(void *), sizeof(uint32_t)}, run_meet, NULL},
    {"emulated_add", {sizeof(void *), sizeof(uint32_t)}, run_add, NULL},
};

bool kernel_entry_find(const char *name, struct kernel_entry *out)
{
    for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++)
        if (!strcmp(own[i].name, name)) {
            *out = own[i];
            return true;
        }
    return kernel_library_find(name, out);
}
