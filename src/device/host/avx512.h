/* SPDX-License-Identifier: Apache-2.0 */
/* AVX-512: fp16 (the low half of a vector is part 0, the high half part 1), stores around the cache. */
#include <immintrin.h>

#define pick_wide pick_bits_wide

INLINE void widen_f16_wide(raw_wide *parts, raw_wide x)
{
    parts[0] = (raw_wide)_mm512_cvtph_ps(_mm512_castsi512_si256((__m512i)x));
    parts[1] = (raw_wide)_mm512_cvtph_ps(_mm512_extracti64x4_epi64((__m512i)x, 1));
}

INLINE raw_wide narrow_f16_wide(const raw_wide *parts)
{
    __m256i low = _mm512_cvtps_ph((__m512)parts[0], _MM_FROUND_TO_NEAREST_INT);
    __m256i high = _mm512_cvtps_ph((__m512)parts[1], _MM_FROUND_TO_NEAREST_INT);
    __m512i x = _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
    __mmask32 nan = _mm512_cmpgt_epi16_mask(_mm512_and_si512(x, _mm512_set1_epi16(0x7fff)), _mm512_set1_epi16(0x7c00));
    return (raw_wide)_mm512_mask_mov_epi16(x, nan, _mm512_set1_epi16(0x7e00));
}

INLINE void store_around(char *p, raw_wide x)
{
    _mm512_stream_si512((__m512i *)p, (__m512i)x);
}

INLINE void store_fence(void)
{
    _mm_sfence();
}
