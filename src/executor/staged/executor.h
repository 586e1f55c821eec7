/* SPDX-License-Identifier: Apache-2.0 */
/* GPUs that share no memory: what they exchange is staged through the host. */
#ifndef TUTTI_EXECUTOR_STAGED_EXECUTOR_H
#define TUTTI_EXECUTOR_STAGED_EXECUTOR_H

#include "engine/executor.h"

extern const struct executor_kind executor_staged;

#endif
