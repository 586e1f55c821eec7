/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests of packet.c and icrc.c. */
#include "verbs/icrc.h"
#include "verbs/packet.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void every_opcode_round_trips(void **state)
{
    int known = 0;
    for (unsigned opcode = 0; opcode < 256; opcode++) {
        uint8_t bytes[PACKET_HEADERS_MAX + 8] = {0};
        struct packet in = {
            .opcode = (uint8_t)opcode, .solicited = true, .ack_request = true, .pkey = 0x8001, .qpn = 0xabcdef};
        in.apart = opcode % 2;
        struct packet out;
        if (!packet_flags((uint8_t)opcode))
            continue;
        known++;
        in.psn = 0x123456;
        in.va = 0x1122334455667788ull;
        in.rkey = 0xdeadbeef;
        in.dma_length = 77;
        in.swap_add = 5;
        in.compare = 6;
        in.original = 7;
        in.msn = 0x654321;
        in.syndrome = 0x61;
        in.imm = 0x01020304;
        in.invalidated = 0x0badcafe;
        in.flush = 0x11;
        in.qkey = 0x11111111;
        in.source_qpn = 0x222222;
        in.srqn = 0x333333;
        packet_build(&in, bytes);
        assert_int_equal(packet_parse(&out, bytes, packet_header_size((uint8_t)opcode) + PACKET_ICRC_SIZE), PACKET_OK);
        unsigned flags = packet_flags((uint8_t)opcode);
        assert_int_equal(out.qpn, in.qpn);
        assert_int_equal(out.psn, in.psn);
        assert_true(out.solicited && out.ack_request);
        assert_int_equal(out.apart, in.apart);
        assert_int_equal(out.va, flags & (HAS_RETH | HAS_ATOMIC_ETH) ? in.va : 0);
        assert_int_equal(out.dma_length, flags & HAS_RETH ? in.dma_length : 0);
        assert_int_equal(out.compare, flags & HAS_ATOMIC_ETH ? in.compare : 0);
        assert_int_equal(out.syndrome, flags & HAS_AETH ? in.syndrome : 0);
        assert_int_equal(out.original, flags & HAS_ATOMIC_ACK ? in.original : 0);
        assert_int_equal(out.imm, flags & HAS_IMM ? in.imm : 0);
        assert_int_equal(out.invalidated, flags & HAS_IETH ? in.invalidated : 0);
        assert_int_equal(out.flush, flags & HAS_FLUSH ? in.flush : 0);
        assert_int_equal(out.source_qpn, flags & HAS_DETH ? in.source_qpn : 0);
        assert_int_equal(out.srqn, flags & HAS_XRC ? in.srqn : 0);
    }
    assert_int_equal(known, 25 + 12 + 2 + 23 + 18);
}

static void bad_packets_are_named(void **state)
{
    uint8_t bytes[64] = {OP_SEND_ONLY, 0x40};
    struct packet out;
    assert_int_equal(packet_parse(&out, bytes, 15), PACKET_SHORT);
    assert_int_equal(packet_parse(&out, bytes, 16), PACKET_OK);
    assert_int_equal(packet_parse(&out, bytes, 18), PACKET_PAD);
    bytes[1] = 0x40 | 3 << 4;
    assert_int_equal(packet_parse(&out, bytes, 16), PACKET_PAD);
    assert_int_equal(packet_parse(&out, bytes, 20), PACKET_OK);
    assert_int_equal(out.length, 1);
    bytes[1] = 0x41;
    assert_int_equal(packet_parse(&out, bytes, 16), PACKET_VERSION);
    bytes[1] = 0x40;
    bytes[0] = 0xff;
    assert_int_equal(packet_parse(&out, bytes, 16), PACKET_OPCODE);
    bytes[0] = OP_ACK;
    assert_int_equal(packet_parse(&out, bytes, 16), PACKET_SHORT);
    assert_int_equal(packet_parse(&out, bytes, 24), PACKET_LONG);
}

static void sequence_numbers_wrap(void **state)
{
    assert_int_equal(psn_add(0xffffff, 1), 0);
    assert_int_equal(psn_diff(0, 0xffffff), 1);
    assert_int_equal(psn_diff(0xffffff, 0), -1);
    assert_int_equal(psn_diff(0x800000, 0), -0x800000);
}

/* The check value of CRC-32: "123456789" gives cbf43926. */
static void crc_is_that_of_ethernet(void **state)
{
    struct icrc_flow flow = {0};
    icrc_begin(&flow, (const uint8_t[PACKET_BTH_SIZE]){0}, 0); /* makes the tables */
    assert_int_equal(~icrc_add(0xffffffffu, "123456789", 9), 0xcbf43926u);
}

/* The fast way and the plain one agree at every length and alignment, and the copy is one. */
static void crc_folds_like_tables(void **state)
{
    static uint8_t from[4200], to[4200];
    for (size_t i = 0; i < sizeof(from); i++)
        from[i] = (uint8_t)(i * 37 ^ i >> 5);
    for (size_t size = 0; size < 4100; size += size < 300 ? 1 : 61) {
        const uint8_t *at = from + size % 17;
        uint32_t slow = 0x12345678;
        for (size_t i = 0; i < size; i++)
            slow = icrc_add(slow, at + i, 1);
        assert_int_equal(icrc_add(0x12345678, at, size), slow);
        memset(to, 0, sizeof(to));
        assert_int_equal(icrc_copy(0x12345678, to, at, size), slow);
        assert_memory_equal(to, at, size);
        assert_int_equal(to[size], 0);
    }
}

/* The reserved byte is masked, everything else counts. */
static void icrc_depends_on_every_covered_byte(void **state)
{
    struct icrc_flow flow = {
        .source = {10, 0, 0, 1}, .destination = {10, 0, 0, 2}, .source_port = 50000, .ip_id = 7, .ip_fragment = 0x4000};
    uint8_t bytes[32] = {OP_SEND_ONLY, 0x40, 0xff, 0xff, 0, 0, 0, 17, 0x80, 0, 0, 1};
    icrc_end(icrc_add(icrc_begin(&flow, bytes, sizeof(bytes)), bytes + 12, 16), bytes + 28);
    assert_true(icrc_check(&flow, bytes, sizeof(bytes)));
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] ^= 0x10;
        assert_int_equal(icrc_check(&flow, bytes, sizeof(bytes)),
                         i == 4); /* byte 4 of the base header is reserved: masked */
        bytes[i] ^= 0x10;
    }
    flow.ip_id++;
    assert_false(icrc_check(&flow, bytes, sizeof(bytes)));
    flow.ip_id--;
    flow.source_port++;
    assert_false(icrc_check(&flow, bytes, sizeof(bytes)));
    assert_false(icrc_check(&flow, bytes, 3));
}

/* As Linux 6.12's rxe sent one, and as the specification has it. */
static void a_flush_of_rxe_is_taken(void **state)
{
    static const uint8_t sent[] = {0x1c, 0x00, 0xff, 0xff, 0x00, 0xab, 0x08, 0x35, 0x80, 0x00, 0x00, 0x4e,
                                   0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x56, 0x53, 0x2c, 0x08, 0x2b, 0x40,
                                   0x50, 0x3b, 0x14, 0xdf, 0x00, 0x00, 0x00, 0x38, 0xae, 0xa4, 0x7a, 0xf8};
    struct icrc_flow flow = {.source = {10, 99, 0, 2}, .destination = {10, 99, 0, 1}, .source_port = 0xe4c3};
    uint8_t bytes[sizeof(sent)];
    struct packet packet;
    flow.ip_id = 0xa285;
    flow.ip_fragment = 0x4000;
    memcpy(bytes, sent, sizeof(sent));
    assert_true(icrc_check(&flow, bytes, sizeof(bytes)));
    assert_int_equal(packet_parse(&packet, bytes, sizeof(bytes)), PACKET_OK);
    assert_true(packet.flush == FLUSH_GLOBAL && packet.dma_length == 56);
    icrc_end(icrc_add(icrc_begin(&flow, bytes, sizeof(bytes)), bytes + 12, 20), bytes + 32);
    assert_memory_equal(bytes + 32, "\xb0\xd3\xb0\x9d", 4);
    assert_true(icrc_check(&flow, bytes, sizeof(bytes)));
    memcpy(bytes + 32, sent + 32, 4);
    bytes[31] ^= 1;
    assert_false(icrc_check(&flow, bytes, sizeof(bytes)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_flush_of_rxe_is_taken),
        cmocka_unit_test(every_opcode_round_trips),
        cmocka_unit_test(bad_packets_are_named),
        cmocka_unit_test(sequence_numbers_wrap),
        cmocka_unit_test(crc_is_that_of_ethernet),
        cmocka_unit_test(crc_folds_like_tables),
        cmocka_unit_test(icrc_depends_on_every_covered_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
