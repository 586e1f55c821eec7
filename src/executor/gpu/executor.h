/* SPDX-License-Identifier: Apache-2.0 */
/* GPUs that reach one another: kernels and copy engines. */
#ifndef TUTTI_EXECUTOR_GPU_EXECUTOR_H
#define TUTTI_EXECUTOR_GPU_EXECUTOR_H

#include "engine/executor.h"

extern const struct executor_kind executor_gpu;

#endif
