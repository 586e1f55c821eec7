/* SPDX-License-Identifier: Apache-2.0 */
/* What the transports whose lanes begin with a TCP connection have in common: listening, addresses, tuning, greetings.
 */
#ifndef TUTTI_TRANSPORT_SOCKET_H
#define TUTTI_TRANSPORT_SOCKET_H

#include "base/net.h"
#include "transport/acceptor.h"

/* The answer to a hello that was believed, once the owner has decided. */
struct socket_welcome {
    uint32_t magic; /* SOCKET_WELCOME_MAGIC, or SOCKET_DECLINE_MAGIC: not now */
    uint16_t version;
    uint16_t lane;
    uint8_t uuid[WIRE_UUID_BYTES]; /* of the process that answers */
};
#define SOCKET_WELCOME_MAGIC 0x57545455u /* "UTTW" */
#define SOCKET_DECLINE_MAGIC 0x4e545455u /* "UTTN" */
_Static_assert(sizeof(struct socket_welcome) == 24, "socket_welcome is part of the protocol");

/* What this process answers. */
struct socket_welcome socket_answer(const struct transport *transport, uint32_t magic, uint16_t lane);
/* Is it, whatever it says, of this protocol, of this lane and of the process `peer`? */
bool socket_answers(const struct socket_welcome *welcome, uint16_t lane, const uint8_t *peer);

/* Listens at `at`, port 0: any, of the interface `name`, and says where. False: that cannot be. */
bool socket_listen_at(struct acceptor *acceptor, struct acceptor_socket *listening, const struct net_address *at,
                      const char *name, struct wire_address *out);
/* Listens at the first `most` usable interfaces, and says where. An error if there is none. */
tutti_result_t socket_listen(struct acceptor *acceptor, struct acceptor_socket *listening, struct wire_address *out,
                             int most);
/* How many of `most` a process listens at. */
int socket_addresses(const struct wire_address *addresses, int most);
/* False: `from` is none. */
bool socket_address(const struct wire_address *from, struct net_address *to);

/* Buffers, no delay, and an end if the peer's host is silent for TUTTI_TIMEOUT. */
void socket_tune(int fd);
/* For a peer that may be of this host. */
void socket_be_quick(int fd, const struct transport *transport, const struct wire_process *peer);

/* Sends from our address `from`, whose port does not matter, if `to` is of its kind and the system lets us. */
void socket_bind_source(int fd, const struct net_address *from, const struct net_address *to);

/* Sends all of it at once: a fresh socket has room for a greeting. */
bool socket_send_whole(int fd, const void *bytes, size_t size);

#endif
