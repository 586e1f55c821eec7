/* SPDX-License-Identifier: Apache-2.0 */
/* Any x86-64: fp16 the portable way, stores around the cache. */
#include <immintrin.h>

#define pick_wide       pick_bits_wide
#define widen_f16_wide  widen_half_wide
#define narrow_f16_wide narrow_half_wide

INLINE void store_around(char *p, raw_wide x)
{
    _mm_stream_si128((__m128i *)p, (__m128i)x);
}

INLINE void store_fence(void)
{
    _mm_sfence();
}
