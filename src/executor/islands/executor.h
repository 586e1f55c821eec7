/* SPDX-License-Identifier: Apache-2.0 */
/* GPUs of several hosts, by islands and rails. */
#ifndef TUTTI_EXECUTOR_ISLANDS_EXECUTOR_H
#define TUTTI_EXECUTOR_ISLANDS_EXECUTOR_H

#include "engine/executor.h"

extern const struct executor_kind executor_islands;

#endif
