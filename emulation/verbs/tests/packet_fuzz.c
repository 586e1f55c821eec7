/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer: frames as they come from the packet socket, and the headers alone; what parses must build again to the
 * same bytes. */
#include "verbs/icrc.h"
#include "verbs/packet.h"
#include "verbs/wire.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t *low, *high;

static void require(bool condition)
{
    if (!condition)
        abort();
}

static void round_trip(const uint8_t *bytes, size_t size)
{
    struct packet packet, again;
    uint8_t built[PACKET_HEADERS_MAX];
    if (packet_parse(&packet, bytes, size))
        return;
    size_t headers = packet_header_size(packet.opcode);
    require(headers <= sizeof(built) && headers + packet.length + packet.pad + PACKET_ICRC_SIZE == size);
    require(packet.payload == bytes + headers);
    packet_build(&packet, built);
    uint8_t whole[PACKET_HEADERS_MAX + PACKET_ICRC_SIZE] = {0};
    memcpy(whole, built, headers);
    whole[1] &= 0xcf; /* no payload in this one, so no pad */
    require(!packet_parse(&again, whole, headers + PACKET_ICRC_SIZE));
    require(again.psn == packet.psn && again.qpn == packet.qpn && again.va == packet.va && again.rkey == packet.rkey);
    require(again.imm == packet.imm && again.invalidated == packet.invalidated && again.srqn == packet.srqn);
    require(again.syndrome == packet.syndrome && again.original == packet.original && again.flush == packet.flush);
}

static void deliver(const struct arrival *arrival)
{
    require(arrival->bytes >= low && arrival->bytes + arrival->size <= high);
    icrc_check(&arrival->flow, arrival->bytes, arrival->size);
    round_trip(arrival->bytes, arrival->size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 3)
        return 0;
    size_t segment = (size_t)(data[0] << 8 | data[1]);
    uint8_t *copy = malloc(size - 2); /* exact bounds, for the address sanitizer */
    if (!copy)
        return 0;
    memcpy(copy, data + 2, size - 2);
    low = copy;
    high = copy + size - 2;
    wire_split(copy, size - 2, segment & 1 ? segment : 0, 1, deliver);
    round_trip(copy, size - 2);
    free(copy);
    return 0;
}
