/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory, or host memory with TUTTI_NCCL_HOST=1. */
#ifndef TUTTI_NCCL_PLACE_H
#define TUTTI_NCCL_PLACE_H

#include "nccl/names.h"

#define PLACE_CURRENT (-1) /* the calling thread's current device */

bool place_host(void);
void place_config(tutti_config_t *config, bool host, int device);
/* Of a communicator: the CUDA device's number, on host memory `told`. */
tutti_result_t place_device(tutti_comm_t comm, bool host, int told, int *device);
tutti_result_t place_alloc(void **pointer, size_t size);
tutti_result_t place_free(void *pointer);
tutti_result_t place_premul(tutti_op_t *op, const void *scalar, ncclScalarResidence_t residence, tutti_type_t type,
                            tutti_comm_t comm, bool host);
tutti_result_t place_memory(tutti_comm_t comm, bool host, size_t *device_bytes);

#endif
