/* SPDX-License-Identifier: Apache-2.0 */
/* The compiled kernels, as they lie in the library: fat binaries for cuModuleLoadData. None if it was built without
 * nvcc. */
#ifndef TUTTI_DEVICE_CUDA_KERNELS_IMAGES_H
#define TUTTI_DEVICE_CUDA_KERNELS_IMAGES_H

#include <stddef.h>

struct kernel_image {
    const unsigned char *start;
    size_t size;
};

/* A kernel is in one of these: a module is looked for in each, in order. Made by embed.sh. */
extern const struct kernel_image kernel_images[];
extern const size_t kernel_image_count;

#endif
