/* SPDX-License-Identifier: Apache-2.0 */
/* TUTTI_EMULATED_PRIVATE: device memory that only the stand-in's own threads may touch. */
#pragma once

#include "cuda/cuda_abi.h"

#include <stdbool.h>
#include <stddef.h>

/* What a signal handler calls to say in words which memory lies at an address. */
typedef void (*private_describe_fn)(const void *address, char *text, size_t size);

/* With the lock held. Says on stderr why the mode cannot be had. */
CUresult private_start(private_describe_fn describe);

/* Whether this thread may touch device memory from now on; returns whether it could. Without the mode all may. */
bool private_allow(bool may);

/* As mprotect, of device memory. 0 or -1 with errno. */
int private_protect(void *base, size_t size, int rights);
