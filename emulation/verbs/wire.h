/* SPDX-License-Identifier: Apache-2.0 */
/* RoCEv2 packets in and out of the kernel. Out: a UDP socket for each interface and source port, batches, segmentation
 * offload. In: two packet sockets a process (IPv4, IPv6) with a filter for its queue pair numbers. All calls under the
 * engine's lock. */
#ifndef VERBS_WIRE_H
#define VERBS_WIRE_H

#include "verbs/icrc.h"
#include "verbs/object.h"

#define WIRE_PAYLOAD_MAX   4096
#define WIRE_PACKET_MAX    (PACKET_HEADERS_MAX + WIRE_PAYLOAD_MAX + 4 + PACKET_ICRC_SIZE)
#define WIRE_SUPER_PACKETS 15 /* full packets that one super-packet holds */
#define SLOT_BITS          12 /* queue pair numbers come in slots of this many bits, one process a slot */
#define SLOTS_MAX          16

/* One packet that came. */
struct arrival {
    const uint8_t *bytes; /* from the base header to the ICRC */
    size_t size;
    struct icrc_flow flow;
    uint8_t traffic_class, hops;
    int ifindex;
    const uint8_t *ip; /* the IP header, ip_size bytes */
    size_t ip_size;
};

typedef void (*wire_deliver_fn)(const struct arrival *arrival);

int wire_open(void); /* 0 or errno */
void wire_close(void);

/* Accept packets for these slots of queue pair numbers. */
int wire_listen(const uint32_t *slots, int n);

/* Descriptors to sleep on. */
int wire_fd4(void);
int wire_fd6(void);

/* Takes what has come, one batch. WIRE_MANY: a full one, more may wait. */
enum wire_came { WIRE_NOTHING, WIRE_SOME, WIRE_MANY };
enum wire_came wire_receive(wire_deliver_fn deliver);

/* Splits and checks a frame; exported for the fuzzer. `segment` is the size of the pieces of a super-packet, 0 for a
 * plain one. */
void wire_split(const uint8_t *ip, size_t size, size_t segment, int ifindex, wire_deliver_fn deliver);

/* Room for a packet of `size` bytes after the UDP header, and the flow that its ICRC is made of. Commit or cancel
 * before the next begin. */
uint8_t *wire_begin(const struct path *path, size_t size, struct icrc_flow *flow);
void wire_commit(void);
void wire_cancel(void);
void wire_flush(void);

/* Whether the interface's queue was full and packets wait for room in it: nothing new should be begun. */
bool wire_waits(const struct rdma_device *device);

/* Whether equally long packets leave as super-packets now. */
bool wire_joins(void);

/* Sends bytes that were made earlier (a delayed packet). */
void wire_resend(const struct path *path, const uint8_t *bytes, size_t size);

/* The socket sends from this port: 0 or errno. */
int wire_claim_port(const struct path *path);

/* Multicast membership of the interface. 0 or errno. */
int wire_join(const struct rdma_device *device, const union ibv_gid *gid, bool join);

bool wire_gid_is_v4(const union ibv_gid *gid);

#endif
