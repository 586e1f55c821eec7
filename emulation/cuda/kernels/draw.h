/* SPDX-License-Identifier: Apache-2.0 */
/* For tests: what a trial looks like is drawn, always the same in one program. */
#ifndef TUTTI_EMULATION_CUDA_KERNELS_DRAW_H
#define TUTTI_EMULATION_CUDA_KERNELS_DRAW_H

#include "base/random.h"

#include <stdbool.h>
#include <stdlib.h>

static inline uint64_t random_next(void)
{
    static uint64_t state = 7;
    return mix64(state++);
}

static inline unsigned below(unsigned limit)
{
    return (unsigned)(random_next() % limit);
}

/* Of memory from its alignment, in bytes: none, whole words, any. */
static inline unsigned random_shift(void)
{
    return below(2) ? 0 : below(2) ? 4 * below(4) : below(16);
}

static inline bool quick(void)
{
    return getenv("TUTTI_TEST_QUICK") != NULL;
}

#endif
