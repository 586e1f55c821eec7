/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where buffers lie: in the memory of CUDA devices, or, with TUTTI_NCCL_HOST=1, in host memory, so that NCCL programs
 * run on machines without one. The only file that knows the difference.
 */
#include "nccl/place.h"

#include <stdlib.h>
#include <string.h>

bool place_host(void)
{
    const char *text = getenv("TUTTI_NCCL_HOST");
    return text && *text && strcmp(text, "0") != 0;
}

void place_config(tutti_config_t *config, bool host, int device)
{
    config->device = host ? TUTTI_HOST : device == PLACE_CURRENT ? TUTTI_CURRENT_DEVICE : device;
}

tutti_result_t place_device(tutti_comm_t comm, bool host, int told, int *device)
{
    if (!host)
        return tutti_comm_device(comm, device);
    *device = told == PLACE_CURRENT ? 0 : told;
    return TUTTI_SUCCESS;
}

tutti_result_t place_alloc(void **pointer, size_t size)
{
    return place_host() ? tutti_mem_alloc(pointer, size) : tutti_device_mem_alloc(pointer, size);
}

tutti_result_t place_free(void *pointer)
{
    return place_host() ? tutti_mem_free(pointer) : tutti_device_mem_free(pointer);
}

tutti_result_t place_premul(tutti_op_t *op, const void *scalar, ncclScalarResidence_t residence, tutti_type_t type,
                            tutti_comm_t comm, bool host)
{
    if (residence == ncclScalarDevice && !host)
        return tutti_op_create_premul_sum_device(op, scalar, type, comm);
    return tutti_op_create_premul_sum(op, scalar, type, comm);
}

tutti_result_t place_memory(tutti_comm_t comm, bool host, size_t *device_bytes)
{
    size_t host_bytes;
    tutti_result_t result = tutti_comm_memory(comm, device_bytes, &host_bytes);
    if (host)
        *device_bytes = 0;
    return result;
}
