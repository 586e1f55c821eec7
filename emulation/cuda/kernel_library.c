/* SPDX-License-Identifier: Apache-2.0 */
/* The library's kernels, compiled for the CPU. */
#include "cuda/kernel.h"

#include "cuda/kernels/cuda_kernels.h"

static void run(const struct kernel_entry *entry, const struct kernel_grid *grid, const unsigned at[3],
                void *const *params)
{
    struct cuda_index size = {grid->grid[0], grid->grid[1], grid->grid[2]}, block = {at[0], at[1], at[2]};
    cuda_kernel_run_block(entry->kernel, params[0], size, block);
}

bool kernel_library_find(const char *name, struct kernel_entry *out)
{
    const struct cuda_kernel *kernel = cuda_kernel_find(name);
    if (!kernel)
        return false;
    *out = (struct kernel_entry){.name = kernel->name, .params = {kernel->size}, .run = run, .kernel = kernel};
    return true;
}
