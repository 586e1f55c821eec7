/* SPDX-License-Identifier: Apache-2.0 */
/* The offsets of the fields are those of message_build(); 35 to 39 are zero. */
#include "rdmacm/message.h"

#include <arpa/inet.h>
#include <string.h>

#define MAGIC   0x5356434du
#define VERSION 1
#define BITS_24 0xffffffu

static void put32(uint8_t *at, uint32_t value)
{
    value = htonl(value);
    memcpy(at, &value, sizeof(value));
}

static void put16(uint8_t *at, uint16_t value)
{
    value = htons(value);
    memcpy(at, &value, sizeof(value));
}

static uint32_t get32(const uint8_t *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof(value));
    return ntohl(value);
}

static uint16_t get16(const uint8_t *at)
{
    uint16_t value;
    memcpy(&value, at, sizeof(value));
    return ntohs(value);
}

size_t message_build(const struct cm_message *message, uint8_t *out)
{
    memset(out, 0, MESSAGE_HEADER);
    put32(out, MAGIC);
    out[4] = VERSION;
    out[5] = (uint8_t)message->type;
    out[6] = message->private_size;
    out[7] = message->srq;
    put16(out + 8, message->space);
    put16(out + 10, message->port);
    put16(out + 12, message->source_port);
    out[14] = message->responder_resources;
    out[15] = message->initiator_depth;
    put32(out + 16, message->qpn);
    put32(out + 20, message->psn);
    put32(out + 24, message->qkey);
    put32(out + 28, message->status);
    out[32] = message->flow_control;
    out[33] = message->retry_count;
    out[34] = message->rnr_retry_count;
    memcpy(out + MESSAGE_HEADER, message->private_data, message->private_size);
    return MESSAGE_HEADER + message->private_size;
}

int message_parse(struct cm_message *message, const uint8_t *bytes, size_t size)
{
    static const uint8_t zero[5];
    if (size < MESSAGE_HEADER)
        return 0;
    if (get32(bytes) != MAGIC || bytes[4] != VERSION || !bytes[5] || bytes[5] >= CM_TYPES ||
        memcmp(bytes + 35, zero, sizeof(zero)))
        return -1;
    if (size < MESSAGE_HEADER + (size_t)bytes[6])
        return 0;
    *message = (struct cm_message){
        .type = (enum cm_message_type)bytes[5],
        .space = get16(bytes + 8),
        .port = get16(bytes + 10),
        .source_port = get16(bytes + 12),
        .qpn = get32(bytes + 16),
        .psn = get32(bytes + 20),
        .qkey = get32(bytes + 24),
        .status = get32(bytes + 28),
        .responder_resources = bytes[14],
        .initiator_depth = bytes[15],
        .flow_control = bytes[32],
        .retry_count = bytes[33],
        .rnr_retry_count = bytes[34],
        .srq = bytes[7],
        .private_size = bytes[6],
    };
    memcpy(message->private_data, bytes + MESSAGE_HEADER, message->private_size);
    return message->qpn > BITS_24 || message->psn > BITS_24 ? -1 : MESSAGE_HEADER + message->private_size;
}
