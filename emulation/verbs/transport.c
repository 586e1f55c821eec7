/* SPDX-License-Identifier: Apache-2.0 */
/* One packet: headers, payload, pad and ICRC into the wire's buffer. */
#include "verbs/transport.h"
#include "verbs/counters.h"

#include <string.h>

int transport_fill_pieces(void *arg, uint8_t *to, uint32_t size, uint32_t *crc)
{
    const struct transport_pieces *pieces = arg;
    hand_describe(pieces->pieces, pieces->n, to);
    *crc = icrc_add(*crc, to, size);
    count(sent_handed);
    return 0;
}

int transport_send(const struct path *path, struct packet *packet, uint32_t size, payload_fn fill, void *arg)
{
    struct icrc_flow flow;
    size_t headers = packet_header_size(packet->opcode);
    packet->pad = (uint8_t)(-size & 3);
    packet->pkey = PKEY_DEFAULT;
    size_t total = headers + size + packet->pad + PACKET_ICRC_SIZE;
    uint8_t *bytes = wire_begin(path, total, &flow), *at = bytes + headers;
    packet_build(packet, bytes);
    uint32_t crc = icrc_begin(&flow, bytes, total);
    crc = icrc_add(crc, bytes + PACKET_BTH_SIZE, headers - PACKET_BTH_SIZE);
    if (packet->twice)
        crc = icrc_add(crc, bytes, headers);
    int err = size ? fill(arg, at, size, &crc) : 0;
    if (err) {
        wire_cancel();
        return err;
    }
    memset(at + size, 0, packet->pad);
    icrc_end(icrc_add(crc, at + size, packet->pad), at + size + packet->pad);
    wire_commit();
    return 0;
}
