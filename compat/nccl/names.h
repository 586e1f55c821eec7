/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's names and tutti's, for the files of libnccl.so.2: all below the exported names stands on tutti.h alone.
 * docs/reference/compat-nccl.md. */
#ifndef TUTTI_NCCL_NAMES_H
#define TUTTI_NCCL_NAMES_H

#define NCCL_WITHOUT_CUDA_HEADERS 1
#pragma GCC visibility push(default)
#include "nccl/nccl.h"
#pragma GCC visibility pop
#include "tutti/tutti.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LIBRARY_VERSION 22809

/* Gives an exported function its twin: the same code under the name with p. */
#define TWIN(name) extern __typeof__(name) p##name __attribute__((alias(#name), visibility("default")))

#endif
