/* SPDX-License-Identifier: Apache-2.0 */
/* Any processor: fp16 the portable way; the compiler has no portable store around the cache, so the usual one. */
#define pick_wide       pick_bits_wide
#define widen_f16_wide  widen_half_wide
#define narrow_f16_wide narrow_half_wide

INLINE void store_around(char *p, raw_wide x)
{
    store_wide(p, x);
}

INLINE void store_fence(void)
{
}
