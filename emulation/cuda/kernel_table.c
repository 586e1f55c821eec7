/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels by name: those that the stand-in itself brings for its tests, and the library's, compiled for the CPU. */
#include "kernel.h"
#include "kernels/cuda_kernels.h"

#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>

/* at[block] = value: shows grids, parameters, order. */
static void run_store(const struct kernel_grid *grid, const unsigned at[3], void *const *params)
{
    uint32_t *words = *(uint32_t **)params[0];
    size_t block = at[0] + (size_t)grid->grid[0] * (at[1] + (size_t)grid->grid[1] * at[2]);
    words[block] = *(uint32_t *)params[1];
}

/* Every block waits until `count` blocks, of this and other launches, have come to the counter. */
static void run_meet(const struct kernel_grid *grid, const unsigned at[3], void *const *params)
{
    uint32_t *counter = *(uint32_t **)params[0], count = *(uint32_t *)params[1];
    __atomic_fetch_add(counter, 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(counter, __ATOMIC_ACQUIRE) < count)
        sched_yield();
}

/* *word += value, without any protection: shows whether launches follow one another. */
static void run_add(const struct kernel_grid *grid, const unsigned at[3], void *const *params)
{
    **(uint32_t **)params[0] += *(uint32_t *)params[1];
}

static const size_t pointer_word[] = {sizeof(void *), sizeof(uint32_t), 0};
static const struct kernel_entry own[] = {
    {"emulated_store", pointer_word, run_store},
    {"emulated_meet", pointer_word, run_meet},
    {"emulated_add", pointer_word, run_add},
};

/* ---- The library's ------------------------------------------------------------------------------------------------- */

#define LIBRARY_MOST 64

static struct library_kernel {
    struct kernel_entry entry; /* first: grids know only this */
    size_t params[2];
    const struct cuda_kernel *kernel;
} library[LIBRARY_MOST];
static size_t library_count;
static pthread_mutex_t library_lock = PTHREAD_MUTEX_INITIALIZER;

static void run_library(const struct kernel_grid *grid, const unsigned at[3], void *const *params)
{
    struct cuda_index size = {grid->grid[0], grid->grid[1], grid->grid[2]}, block = {at[0], at[1], at[2]};
    cuda_kernel_run_block(((const struct library_kernel *)grid->entry)->kernel, params[0], size, block);
}

static const struct kernel_entry *library_entry(const struct cuda_kernel *kernel)
{
    struct library_kernel *found = NULL;
    pthread_mutex_lock(&library_lock);
    for (size_t i = 0; i < library_count && !found; i++)
        if (library[i].kernel == kernel)
            found = &library[i];
    if (!found && library_count < LIBRARY_MOST) {
        found = &library[library_count++];
        found->kernel = kernel;
        found->params[0] = kernel->size;
        found->entry = (struct kernel_entry){kernel->name, found->params, run_library};
    }
    pthread_mutex_unlock(&library_lock);
    return found ? &found->entry : NULL;
}

const struct kernel_entry *kernel_entry_find(const char *name)
{
    for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++)
        if (!strcmp(own[i].name, name))
            return &own[i];
    const struct cuda_kernel *kernel = cuda_kernel_find(name);
    return kernel ? library_entry(kernel) : NULL;
}
