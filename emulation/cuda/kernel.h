/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels compiled for the CPU, by name: what cuModuleGetFunction finds. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct kernel_grid {
    unsigned grid[3], block[3], shared;
    unsigned cluster; /* blocks that begin together; 0: each when there is room */
};

#define KERNEL_PARAMS_MOST 4

struct kernel_entry {
    const char *name;
    size_t params[KERNEL_PARAMS_MOST + 1]; /* sizes, ended by 0 */
    /* Runs one block. at: its index in the grid. params: a pointer to each parameter. Called from a thread of its own.
     */
    void (*run)(const struct kernel_entry *entry, const struct kernel_grid *grid, const unsigned at[3],
                void *const *params);
    const void *kernel; /* of the library's table */
};

bool kernel_entry_find(const char *name, struct kernel_entry *out);
bool kernel_library_find(const char *name, struct kernel_entry *out); /* the library's own */
