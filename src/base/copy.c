/* SPDX-License-Identifier: Apache-2.0 */
/* Streaming copy: whole lines with non-temporal stores, the ragged ends with memcpy. */
#include "base/copy.h"
#include "base/cpu.h"

#include <stdint.h>
#include <string.h>

#define WORTH_IT 1024 /* bytes; below, memcpy */

#if defined(__x86_64__)
#include <emmintrin.h>

static void stream_lines(char *to, const char *from, size_t lines)
{
    for (size_t i = 0; i < lines; i++, to += CACHE_LINE, from += CACHE_LINE) {
        __m128i a = _mm_loadu_si128((const __m128i *)from), b = _mm_loadu_si128((const __m128i *)(from + 16));
        __m128i c = _mm_loadu_si128((const __m128i *)(from + 32)), d = _mm_loadu_si128((const __m128i *)(from + 48));
        _mm_stream_si128((__m128i *)to, a);
        _mm_stream_si128((__m128i *)(to + 16), b);
        _mm_stream_si128((__m128i *)(to + 32), c);
        _mm_stream_si128((__m128i *)(to + 48), d);
    }
    _mm_sfence(); /* streaming stores are not ordered by a release */
}
#elif defined(__aarch64__)
static void stream_lines(char *to, const char *from, size_t lines)
{
    for (size_t i = 0; i < lines; i++, to += CACHE_LINE, from += CACHE_LINE)
        __asm__ volatile("ldp q0, q1, [%1]\n\tldp q2, q3, [%1, #32]\n\t"
                         "stnp q0, q1, [%0]\n\tstnp q2, q3, [%0, #32]"
                         :
                         : "r"(to), "r"(from)
                         : "v0", "v1", "v2", "v3", "memory");
}
#else
static void stream_lines(char *to, const char *from, size_t lines)
{
    memcpy(to, from, lines * CACHE_LINE);
}
#endif

void copy_stream(void *to, const void *from, size_t size)
{
    char *out = to;
    const char *in = from;
    size_t head = -(uintptr_t)out % CACHE_LINE;
    if (size < WORTH_IT) {
        memcpy(to, from, size);
        return;
    }
    memcpy(out, in, head);
    size_t lines = (size - head) / CACHE_LINE, body = head + lines * CACHE_LINE;
    stream_lines(out + head, in + head, lines);
    memcpy(out + body, in + body, size - body);
}
