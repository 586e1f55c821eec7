/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks on the stand-in driver's GPUs, whose memory the processor can read and write as any other: TUTTI_TEST_GPU=1 and
 * the driver in the library path.
 */
#ifndef TUTTI_TESTS_COLLECTIVE_GPU_H
#define TUTTI_TESTS_COLLECTIVE_GPU_H

#include "tutti/tutti.h"

#include <stdbool.h>

bool gpu_wanted(void);
/* Makes a device current to this thread, or ends the program. Devices are counted round: a GPU may serve some ranks. */
void gpu_select(int ordinal);
/* A copy between memory of the program and of its GPU, in any direction, or within one of them. */
void gpu_bytes_copy(void *to, const void *from, size_t size);
/* A config for ranks that are to be where gpu_wanted() says. */
tutti_config_t gpu_config(void);

#endif
