/* SPDX-License-Identifier: Apache-2.0 */
/* In place of the kernels, where the build found no nvcc: no driver of a GPU loads this. */
#include "device/cuda/image.h"

const unsigned char cuda_image[] = "built without kernels";
const bool cuda_image_built = false;
