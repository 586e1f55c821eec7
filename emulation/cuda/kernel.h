/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels compiled for the CPU, by name: what cuModuleGetFunction finds. */
#pragma once

#include <stddef.h>

struct kernel_entry;

struct kernel_grid {
    unsigned grid[3], block[3], shared;
    const struct kernel_entry *entry; /* what is being run */
};

struct kernel_entry {
    const char *name;
    const size_t *params; /* sizes, ended by 0 */
    /* Runs one block. at: its index in the grid. params: a pointer to each parameter. Called from a thread of its own. */
    void (*run)(const struct kernel_grid *grid, const unsigned at[3], void *const *params);
};

const struct kernel_entry *kernel_entry_find(const char *name); /* NULL: there is none */
