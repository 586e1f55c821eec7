/* SPDX-License-Identifier: Apache-2.0 */
/* What each operation on GPUs does at its turn. */
#ifndef TUTTI_EXECUTOR_GPU_OPERATION_H
#define TUTTI_EXECUTOR_GPU_OPERATION_H

#include "executor/stream/base.h"

extern const struct stream_ops gpu_stream_ops;

#endif
