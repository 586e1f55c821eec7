/* SPDX-License-Identifier: Apache-2.0 */
/* Memory in pieces, as PyTorch's expandable segments, for test programs that have the driver. */
#ifndef TUTTI_TESTS_COLLECTIVE_GPU_PIECE_H
#define TUTTI_TESTS_COLLECTIVE_GPU_PIECE_H

#include "device/cuda/driver.h"

#include <stdbool.h>
#include <stddef.h>

/* Fresh memory of a device at a reserved address, for that device alone. shareable: by file descriptor. */
void map_piece(const struct cuda_driver *cu, int device, CUdeviceptr at, size_t bytes, bool shareable);

#endif
