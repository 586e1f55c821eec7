/* SPDX-License-Identifier: Apache-2.0 */
/* Mapping peers' buffers, by one thread for each GPU of the process. */
#ifndef TUTTI_EXECUTOR_GPU_IMPORT_H
#define TUTTI_EXECUTOR_GPU_IMPORT_H

#include "base/attend.h"
#include "device/cuda/driver.h"
#include "tutti/tutti.h"

#include <stdbool.h>
#include <stdint.h>

struct gpu;

/* What the importer knows of one executor. */
struct gpu_importer {
    struct attended attended;
    uint64_t pause; /* between looks for what is under way; us */
};

tutti_result_t import_start(struct gpu *gpu);
void import_stop(struct gpu *gpu);
/* The address of a buffer that has just been offered: waits for the answer to the offer. 0: the buffer cannot be
 * mapped. */
tutti_result_t import_wait(struct gpu *gpu, int peer, uint32_t offer, CUdeviceptr *out);
/* Closes old imports if nothing is under way. Returns whether some are left. */
bool import_close_old(struct gpu *gpu);

#endif
