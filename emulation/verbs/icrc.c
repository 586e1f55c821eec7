/* SPDX-License-Identifier: Apache-2.0 */
/* CRC-32 by tables of eight, by carry-less multiplication where the processor has it (x86-64), by its CRC instruction
 * (aarch64). Sources: annex A17 of the InfiniBand specification for what is covered; Intel, "Fast CRC Computation for
 * Generic Polynomials Using PCLMULQDQ" (2009) for the folding. The constants are computed here, not copied. */
#include "verbs/icrc.h"
#include "verbs/packet.h"

#include <pthread.h>
#include <string.h>

#define KNOWN      16
#define POLYNOMIAL 0xedb88320u /* x^32 + ... reflected: bit 31 is x^0 */

typedef uint32_t (*crc_fn)(uint32_t state, uint8_t *to, const uint8_t *from, size_t size);

static uint32_t table[8][256];
static uint32_t start_state; /* after the eight bytes of ones that stand for InfiniBand's local route header */
static crc_fn crc_plain, crc_copying;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static uint64_t load64(const uint8_t *p)
{
    uint64_t value;
    memcpy(&value, p, 8);
    return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? value : __builtin_bswap64(value);
}

static uint32_t step8(uint32_t state, uint64_t word)
{
    word ^= state;
    return table[7][word & 255] ^ table[6][word >> 8 & 255] ^ table[5][word >> 16 & 255] ^ table[4][word >> 24 & 255] ^
           table[3][word >> 32 & 255] ^ table[2][word >> 40 & 255] ^ table[1][word >> 48 & 255] ^ table[0][word >> 56];
}

static uint32_t step4(uint32_t state, const uint8_t *p)
{
    return table[3][(state ^ p[0]) & 255] ^ table[2][(state >> 8 ^ p[1]) & 255] ^ table[1][(state >> 16 ^ p[2]) & 255] ^
           table[0][(state >> 24 ^ p[3]) & 255];
}

static uint32_t crc_tables(uint32_t state, uint8_t *to, const uint8_t *from, size_t size)
{
    if (to)
        memcpy(to, from, size);
    for (; size >= 8; from += 8, size -= 8)
        state = step8(state, load64(from));
    if (size >= 4) {
        state = step4(state, from);
        from += 4;
        size -= 4;
    }
    for (; size; from++, size--)
        state = state >> 8 ^ table[0][(state ^ *from) & 255];
    return state;
}

#if defined(__x86_64__)
#include <immintrin.h>

#define FOLDING __attribute__((target("pclmul,sse4.1")))
#define WIDE    __attribute__((target("pclmul,sse4.1,avx512f,vpclmulqdq")))
#define INLINE  inline __attribute__((always_inline))

static uint64_t fold256[2], fold64[2], fold16[2]; /* multipliers that move 16 bytes forward by 256, 64 and 16 bytes */

/* x^n modulo the polynomial, reflected, shifted for a multiplication of reflected operands. */
static uint64_t power(unsigned n)
{
    uint32_t r = 0x80000000u;
    while (n--)
        r = r >> 1 ^ (r & 1 ? POLYNOMIAL : 0);
    return (uint64_t)r << 1;
}

FOLDING static INLINE __m128i fold(__m128i x, __m128i by, __m128i next)
{
    return _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(x, by, 0x00), _mm_clmulepi64_si128(x, by, 0x11)), next);
}

FOLDING static INLINE __m128i multiplier(const uint64_t by[2])
{
    return _mm_set_epi64x((long long)by[1], (long long)by[0]);
}

FOLDING static INLINE __m128i take(uint8_t *to, const uint8_t *from, size_t at, bool copy)
{
    __m128i x = _mm_loadu_si128((const __m128i *)(const void *)(from + at));
    if (copy)
        _mm_storeu_si128((__m128i *)(void *)(to + at), x);
    return x;
}

/* Folds what is left into x[3]'s place and ends by tables. `at`: how far the four blocks of x reach. */
FOLDING static INLINE uint32_t finish(const __m128i x[4], size_t at, uint8_t *to, const uint8_t *from, size_t size,
                                      bool copy)
{
    const __m128i by16 = multiplier(fold16);
    __m128i all = fold(fold(fold(x[0], by16, x[1]), by16, x[2]), by16, x[3]);
    for (; size - at >= 16; at += 16)
        all = fold(all, by16, take(to, from, at, copy));
    uint8_t rest[16];
    _mm_storeu_si128((__m128i *)(void *)rest, all);
    uint32_t state = crc_tables(0, NULL, rest, sizeof(rest));
    return crc_tables(state, copy ? to + at : NULL, from + at, size - at);
}

/* `copy` is constant in each caller: the compiler makes two of it. */
FOLDING static INLINE uint32_t crc_fold(uint32_t state, uint8_t *to, const uint8_t *from, size_t size, bool copy)
{
    if (size < 128)
        return crc_tables(state, copy ? to : NULL, from, size);
    const __m128i by64 = multiplier(fold64);
    __m128i x[4];
    size_t at = 0;
    for (int k = 0; k < 4; k++, at += 16)
        x[k] = take(to, from, at, copy);
    x[0] = _mm_xor_si128(x[0], _mm_cvtsi32_si128((int)state));
    for (; size - at >= 64; at += 64)
        for (unsigned k = 0; k < 4; k++)
            x[k] = fold(x[k], by64, take(to, from, at + 16 * k, copy));
    return finish(x, at, to, from, size, copy);
}

FOLDING static uint32_t fold_plain(uint32_t state, uint8_t *to, const uint8_t *from, size_t size)
{
    return crc_fold(state, to, from, size, false);
}

FOLDING static uint32_t fold_copying(uint32_t state, uint8_t *to, const uint8_t *from, size_t size)
{
    return crc_fold(state, to, from, size, true);
}

WIDE static INLINE __m512i fold_wide(__m512i x, __m512i by, __m512i next)
{
    return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(x, by, 0x00), _mm512_clmulepi64_epi128(x, by, 0x11), next,
                                     0x96);
}

WIDE static INLINE __m512i take_wide(uint8_t *to, const uint8_t *from, size_t at, bool copy)
{
    __m512i x = _mm512_loadu_si512(from + at);
    if (copy)
        _mm512_storeu_si512(to + at, x);
    return x;
}

/* As crc_fold with four times as many bytes in a register. */
WIDE static INLINE uint32_t crc_wide(uint32_t state, uint8_t *to, const uint8_t *from, size_t size, bool copy)
{
    if (size < 512)
        return crc_fold(state, to, from, size, copy);
    const __m512i by256 = _mm512_broadcast_i32x4(multiplier(fold256)),
                  by64 = _mm512_broadcast_i32x4(multiplier(fold64));
    __m512i x[4];
    size_t at = 0;
    for (int k = 0; k < 4; k++, at += 64)
        x[k] = take_wide(to, from, at, copy);
    x[0] = _mm512_xor_si512(x[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)state)));
    for (; size - at >= 256; at += 256)
        for (unsigned k = 0; k < 4; k++)
            x[k] = fold_wide(x[k], by256, take_wide(to, from, at + 64 * k, copy));
    __m512i all = fold_wide(fold_wide(fold_wide(x[0], by64, x[1]), by64, x[2]), by64, x[3]);
    for (; size - at >= 64; at += 64)
        all = fold_wide(all, by64, take_wide(to, from, at, copy));
    __m128i parts[4];
    _mm512_storeu_si512(parts, all);
    return finish(parts, at, to, from, size, copy);
}

WIDE static uint32_t wide_plain(uint32_t state, uint8_t *to, const uint8_t *from, size_t size)
{
    return crc_wide(state, to, from, size, false);
}

WIDE static uint32_t wide_copying(uint32_t state, uint8_t *to, const uint8_t *from, size_t size)
{
    return crc_wide(state, to, from, size, true);
}

static void choose(void)
{
    fold256[0] = power(2048 + 32);
    fold256[1] = power(2048 - 32);
    fold64[0] = power(512 + 32);
    fold64[1] = power(512 - 32);
    fold16[0] = power(128 + 32);
    fold16[1] = power(128 - 32);
    bool have = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
    crc_plain = have ? fold_plain : crc_tables;
    crc_copying = have ? fold_copying : crc_tables;
    if (have && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq")) {
        crc_plain = wide_plain;
        crc_copying = wide_copying;
    }
}

#elif defined(__aarch64__)
#include <sys/auxv.h>

#define HWCAP_CRC32_BIT (1 << 7)

__attribute__((target("+crc"))) static uint32_t crc_instruction(uint32_t state, uint8_t *to, const uint8_t *from,
                                                                size_t size)
{
    if (to)
        memcpy(to, from, size);
    for (; size >= 8; from += 8, size -= 8)
        state = __builtin_aarch64_crc32x(state, load64(from));
    for (; size; from++, size--)
        state = __builtin_aarch64_crc32b(state, *from);
    return state;
}

static void choose(void)
{
    bool have = getauxval(AT_HWCAP) & HWCAP_CRC32_BIT;
    crc_plain = crc_copying = have ? crc_instruction : crc_tables;
}

#else
static void choose(void)
{
    crc_plain = crc_copying = crc_tables;
}
#endif

static void setup(void)
{
    for (unsigned i = 0; i < 256; i++) {
        uint32_t r = i;
        for (int bit = 0; bit < 8; bit++)
            r = r >> 1 ^ (r & 1 ? POLYNOMIAL : 0);
        table[0][i] = r;
    }
    for (unsigned i = 0; i < 256; i++)
        for (unsigned k = 1; k < 8; k++)
            table[k][i] = table[k - 1][i] >> 8 ^ table[0][table[k - 1][i] & 255];
    uint8_t ones[8];
    memset(ones, 0xff, sizeof(ones));
    start_state = crc_tables(0xffffffffu, NULL, ones, sizeof(ones));
    choose();
}

uint32_t icrc_add(uint32_t state, const void *data, size_t size)
{
    return crc_plain(state, NULL, data, size);
}

uint32_t icrc_copy(uint32_t state, void *restrict to, const void *restrict from, size_t size)
{
    return crc_copying(state, to, from, size);
}

static void put16(uint8_t *p, size_t value)
{
    p[0] = (uint8_t)(value >> 8);
    p[1] = (uint8_t)value;
}

/* Fields that routers may change (type of service, time to live, flow label, checksums) count as all ones. */
static uint32_t after_udp(const struct icrc_flow *flow, size_t size)
{
    uint8_t bytes[48];
    size_t ip = flow->v6 ? 40 : 20;
    memset(bytes, 0xff, sizeof(bytes));
    if (flow->v6) {
        bytes[0] = 0x6f;
        put16(bytes + 4, size + 8);
        bytes[6] = 17;
        memcpy(bytes + 8, flow->source, 16);
        memcpy(bytes + 24, flow->destination, 16);
    } else {
        bytes[0] = 0x45;
        put16(bytes + 2, size + 28);
        put16(bytes + 4, flow->ip_id);
        put16(bytes + 6, flow->ip_fragment);
        bytes[9] = 17;
        memcpy(bytes + 12, flow->source, 4);
        memcpy(bytes + 16, flow->destination, 4);
    }
    put16(bytes + ip, flow->source_port);
    put16(bytes + ip + 2, ROCE_UDP_PORT);
    put16(bytes + ip + 4, size + 8);
    return crc_tables(start_state, NULL, bytes, ip + 8);
}

static bool same_flow(const struct icrc_flow *a, const struct icrc_flow *b)
{
    return a->v6 == b->v6 && a->source_port == b->source_port && a->ip_id == b->ip_id &&
           a->ip_fragment == b->ip_fragment && !memcmp(a->source, b->source, sizeof(a->source)) &&
           !memcmp(a->destination, b->destination, sizeof(a->destination));
}

/* The packets of a super-packet differ in their identification only, and those of the next one are the same again. */
uint32_t icrc_begin(const struct icrc_flow *flow, const uint8_t *bth, size_t size)
{
    static _Thread_local struct {
        struct icrc_flow flow;
        size_t size;
        uint32_t state;
    } known[KNOWN];
    uint8_t bytes[PACKET_BTH_SIZE];
    unsigned k = flow->ip_id % KNOWN;
    pthread_once(&once, setup);
    if (!size || known[k].size != size || !same_flow(&known[k].flow, flow)) {
        known[k].flow = *flow;
        known[k].size = size;
        known[k].state = after_udp(flow, size);
    }
    memcpy(bytes, bth, PACKET_BTH_SIZE);
    bytes[4] = 0xff; /* reserved: counts as ones, too */
    return crc_tables(known[k].state, NULL, bytes, PACKET_BTH_SIZE);
}

void icrc_end(uint32_t state, uint8_t *out)
{
    state = ~state;
    for (int i = 0; i < 4; i++)
        out[i] = (uint8_t)(state >> (8 * i));
}

bool icrc_check(const struct icrc_flow *flow, const uint8_t *bytes, size_t size)
{
    if (size < PACKET_BTH_SIZE + PACKET_ICRC_SIZE)
        return false;
    uint32_t state = icrc_begin(flow, bytes, size);
    const uint8_t *end = bytes + size - PACKET_ICRC_SIZE;
    uint8_t right[4];
    state = icrc_add(state, bytes + PACKET_BTH_SIZE, size - PACKET_BTH_SIZE - PACKET_ICRC_SIZE);
    icrc_end(state, right);
    if (!memcmp(right, end, PACKET_ICRC_SIZE))
        return true;
    icrc_end(icrc_add(state, bytes, size - PACKET_ICRC_SIZE), right);
    return bytes[0] == OP_FLUSH && !memcmp(right, end, PACKET_ICRC_SIZE);
}
