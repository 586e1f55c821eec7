/* SPDX-License-Identifier: Apache-2.0 */
/* The executor of host memory. */
#ifndef TUTTI_ENGINE_HOST_H
#define TUTTI_ENGINE_HOST_H

#include "engine/executor.h"

extern const struct executor_ops host_executor_ops;

#endif
