/* SPDX-License-Identifier: Apache-2.0 */
/* What two connection managers say to each other on a stream: the messages of the InfiniBand connection manager by
 * name and content, in a layout of our own. All numbers are in network order on the wire. */
#ifndef RDMACM_MESSAGE_H
#define RDMACM_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

#define MESSAGE_HEADER  40
#define MESSAGE_PRIVATE 255
#define MESSAGE_MAX     (MESSAGE_HEADER + MESSAGE_PRIVATE)

enum cm_message_type {
    CM_REQ = 1,
    CM_HELD, /* the request lies in the queue of a listener */
    CM_REP,
    CM_RTU,
    CM_REJ,
    CM_DREQ,
    CM_DREP,
    CM_SIDR_REQ,
    CM_SIDR_REP,
    CM_TYPES
};

struct cm_message {
    enum cm_message_type type;
    uint16_t space;       /* RDMA_PS_* */
    uint16_t port;        /* that the request is for */
    uint16_t source_port; /* that the request is from */
    uint32_t qpn, psn;    /* of the sender; 24 bits */
    uint32_t qkey;
    uint32_t status; /* reason of a rejection, result of a SIDR request */
    uint8_t responder_resources, initiator_depth, flow_control, retry_count, rnr_retry_count, srq;
    uint8_t private_size;
    uint8_t private_data[MESSAGE_PRIVATE];
};

/* The bytes used, at most MESSAGE_MAX. */
size_t message_build(const struct cm_message *message, uint8_t *out);

/* The bytes that the message takes at the start of `bytes`; 0: more are needed; -1: no message. */
int message_parse(struct cm_message *message, const uint8_t *bytes, size_t size);

#endif
