/* SPDX-License-Identifier: Apache-2.0 */
/* TUTTI_EMULATED_PRIVATE: device memory that only the stand-in's own threads may touch. */
#pragma once

#include "cuda/cuda_abi.h"

#include <stdbool.h>

CUresult private_start(void); /* with the lock held; says on stderr why the mode cannot be had */

/* Whether this thread may touch device memory from now on; returns whether it could. Without the mode all may. */
bool private_allow(bool may);

/* As mprotect, of device memory. 0 or -1 with errno. */
int private_protect(void *base, size_t size, int rights);
