/* SPDX-License-Identifier: Apache-2.0 */
/* For tests: what a trial looks like is drawn, always the same in one program. */
#ifndef TUTTI_EMULATION_CUDA_KERNELS_DRAW_H
#define TUTTI_EMULATION_CUDA_KERNELS_DRAW_H

#include "base/random.h"
#include "device/cuda/kernels/kernels.h"
#include "device/type.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static inline unsigned char *allocate(size_t bytes)
{
    unsigned char *at = malloc(bytes ? bytes : 1);
    if (!at)
        abort();
    return at;
}

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

/* How many of a random kind: half of `usual`, TUTTI_TEST_TIMES times as many, or a third if it is to be quick. */
static inline int how_many(int usual)
{
    const char *text = getenv("TUTTI_TEST_TIMES");
    int times = text ? atoi(text) : 1;
    if (quick())
        return (usual + 2) / 3;
    return (usual * (times > 1 ? times : 1) + 1) / 2;
}

/* Any bits, among them NaNs and infinities, or numbers about one, where sums round. */
static inline void random_fill(tutti_type_t type, unsigned char *p, size_t count)
{
    static const uint64_t one[TUTTI_TYPE_COUNT] = {1,      1,    1,   1, 1, 1, 0x3c00, 0x3f800000, 0x3ff0000000000000,
                                                   0x3f80, 0x38, 0x3c};
    static const uint64_t near_one[TUTTI_TYPE_COUNT] = {
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x87ff, 0x80ffffff, 0x801fffffffffffff, 0x80ff, 0x8f, 0x87};
    const size_t size = type_size(type);
    for (size_t i = 0; i < count; i++) {
        uint64_t bits = random_next();
        if (bits >> 62)
            bits = one[type] ^ (bits & near_one[type]);
        memcpy(p + i * size, &bits, size);
    }
}

static inline size_t random_bytes_of_message(void)
{
    switch (below(quick() ? 4 : 6)) {
    case 0:
        return 0;
    case 1:
        return below(20);
    case 2:
        return KERNEL_LL_BYTES * (1 + below(3)) - 1 + below(3);
    case 3:
        return below(9000);
    case 4:
        return below(400000);
    default:
        return below(40000);
    }
}

#endif
