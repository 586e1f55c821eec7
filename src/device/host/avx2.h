/* SPDX-License-Identifier: Apache-2.0 */
/* AVX2 and F16C: choice by mask, fp16 (the low half of a vector is part 0, the high half part 1), stores around the
 * cache. */
#include <immintrin.h>

INLINE raw_wide pick_wide(raw_wide mask, raw_wide yes, raw_wide no)
{
    return (raw_wide)_mm256_blendv_epi8((__m256i)no, (__m256i)yes, (__m256i)mask);
}

INLINE void widen_f16_wide(raw_wide *parts, raw_wide x)
{
    parts[0] = (raw_wide)_mm256_cvtph_ps(_mm256_castsi256_si128((__m256i)x));
    parts[1] = (raw_wide)_mm256_cvtph_ps(_mm256_extracti128_si256((__m256i)x, 1));
}

INLINE raw_wide narrow_f16_wide(const raw_wide *parts)
{
    __m128i low = _mm256_cvtps_ph((__m256)parts[0], _MM_FROUND_TO_NEAREST_INT);
    __m128i high = _mm256_cvtps_ph((__m256)parts[1], _MM_FROUND_TO_NEAREST_INT);
    __m256i x = _mm256_set_m128i(high, low);
    __m256i nan = _mm256_cmpgt_epi16(_mm256_and_si256(x, _mm256_set1_epi16(0x7fff)), _mm256_set1_epi16(0x7c00));
    return (raw_wide)_mm256_blendv_epi8(x, _mm256_set1_epi16(0x7e00), nan);
}

INLINE void store_around(char *p, raw_wide x)
{
    _mm256_stream_si256((__m256i *)p, (__m256i)x);
}

INLINE void store_fence(void)
{
    _mm_sfence();
}
