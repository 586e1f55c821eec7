/* SPDX-License-Identifier: Apache-2.0 */
/* The library's kernels, compiled for GPUs and embedded when the build found nvcc. */
#ifndef TUTTI_DEVICE_CUDA_IMAGE_H
#define TUTTI_DEVICE_CUDA_IMAGE_H

#include <stdbool.h>

/* A fat binary, as cuModuleLoadData() takes it; some other text in a build without kernels. */
extern const unsigned char cuda_image[];
extern const bool cuda_image_built;

#endif
