/* SPDX-License-Identifier: Apache-2.0 */
/* SipHash-2-4-128. Words are little-endian on every machine, so that all machines agree. */
#include "base/siphash.h"

#include <endian.h>
#include <string.h>

static uint64_t siphash_load(const uint8_t *bytes)
{
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    return le64toh(word);
}

static void store(uint8_t *bytes, uint64_t word)
{
    word = htole64(word);
    memcpy(bytes, &word, sizeof word);
}

static uint64_t rotate(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

static void siphash_rounds(uint64_t v[4], int count)
{
    for (int i = 0; i < count; i++) {
        v[0] += v[1];
        v[2] += v[3];
        v[1] = rotate(v[1], 13) ^ v[0];
        v[3] = rotate(v[3], 16) ^ v[2];
        v[0] = rotate(v[0], 32);
        v[2] += v[1];
        v[0] += v[3];
        v[1] = rotate(v[1], 17) ^ v[2];
        v[3] = rotate(v[3], 21) ^ v[0];
        v[2] = rotate(v[2], 32);
    }
}

static void absorb(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    siphash_rounds(v, 2);
    v[0] ^= word;
}

void siphash(const uint8_t key[SIPHASH_KEY], const void *data, size_t size, uint8_t out[SIPHASH_SIZE])
{
    uint64_t k0 = siphash_load(key), k1 = siphash_load(key + 8);
    uint64_t v[4] = {k0 ^ 0x736f6d6570736575ull, k1 ^ 0x646f72616e646f6dull ^ 0xee, k0 ^ 0x6c7967656e657261ull,
                     k1 ^ 0x7465646279746573ull};
    const uint8_t *bytes = data;
    uint8_t last[8] = {0};
    for (size_t i = 0; i + 8 <= size; i += 8)
        absorb(v, siphash_load(bytes + i));
    if (size % 8)
        memcpy(last, bytes + size - size % 8, size % 8);
    last[7] = (uint8_t)size;
    absorb(v, siphash_load(last));
    v[2] ^= 0xee;
    siphash_rounds(v, 4);
    store(out, v[0] ^ v[1] ^ v[2] ^ v[3]);
    v[1] ^= 0xdd;
    siphash_rounds(v, 4);
    store(out + 8, v[0] ^ v[1] ^ v[2] ^ v[3]);
}

bool siphash_equal(const uint8_t a[SIPHASH_SIZE], const uint8_t b[SIPHASH_SIZE])
{
    unsigned different = 0;
    for (int i = 0; i < SIPHASH_SIZE; i++)
        different |= (unsigned)(a[i] ^ b[i]);
    return different == 0;
}
