/* SPDX-License-Identifier: Apache-2.0 */
/* Pairs of numbers: how many zeros, then how many other bytes, which follow the pair. */
#include "base/sparse.h"

#include <stdint.h>
#include <string.h>

#define SPARSE_RUN   255u /* what one number says at most */
#define SPARSE_ZEROS 3u   /* this many end a run of others: a pair takes two bytes itself */

/* Most bytes are zeros: eight at a time. */
static size_t zeros_at(const unsigned char *from, size_t left)
{
    size_t count = 0, most = left < SPARSE_RUN ? left : SPARSE_RUN;
    for (uint64_t word; count + sizeof word <= most; count += sizeof word) {
        memcpy(&word, from + count, sizeof word);
        if (word)
            break;
    }
    while (count < most && !from[count])
        count++;
    return count;
}

static size_t others_at(const unsigned char *from, size_t left)
{
    size_t count = 0, zeros = 0;
    while (count < left && count < SPARSE_RUN && zeros < SPARSE_ZEROS)
        zeros = from[count++] ? 0 : zeros + 1;
    return zeros == SPARSE_ZEROS ? count - zeros : count;
}

size_t sparse_pack(const void *bytes, size_t size, void *out)
{
    const unsigned char *from = bytes;
    unsigned char *to = out;
    for (size_t at = 0; at < size;) {
        size_t zeros = zeros_at(from + at, size - at), others = others_at(from + at + zeros, size - at - zeros);
        *to++ = (unsigned char)zeros;
        *to++ = (unsigned char)others;
        memcpy(to, from + at + zeros, others);
        to += others;
        at += zeros + others;
    }
    return (size_t)(to - (unsigned char *)out);
}

size_t sparse_unpack(const void *packed, size_t length, void *out, size_t size)
{
    const unsigned char *from = packed;
    unsigned char *to = out;
    size_t at = 0, used = 0;
    while (at < size) {
        if (length - used < 2)
            return 0;
        size_t zeros = from[used], others = from[used + 1];
        used += 2;
        if (zeros + others == 0 || zeros + others > size - at || others > length - used)
            return 0;
        memset(to + at, 0, zeros);
        memcpy(to + at + zeros, from + used, others);
        at += zeros + others;
        used += others;
    }
    return used;
}
