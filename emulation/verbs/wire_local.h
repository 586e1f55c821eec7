/* SPDX-License-Identifier: Apache-2.0 */
/* Sending by whole frames, for packets that stay on the loopback interface. All calls under the engine's lock. */
#ifndef VERBS_WIRE_LOCAL_H
#define VERBS_WIRE_LOCAL_H

#include "object.h"

#include <linux/if_packet.h>

#define WIRE_LOCAL_HEADERS 80 /* what wire_local_headers writes at most */

/* Without a socket (no right to have one) everything takes the long way. */
void wire_local_open(void);
void wire_local_close(void);

/* The socket for packets of this path, -1 when they must take the long way. */
int wire_local_fd(const struct path *path);

/* All that comes before `size` bytes after the UDP header. `segment` is the size of the pieces of a super-packet, 0 for a plain one. */
size_t wire_local_headers(uint8_t *out, const struct path *path, size_t size, size_t segment);
void wire_local_address(struct sockaddr_ll *out, const struct path *path);

#endif
