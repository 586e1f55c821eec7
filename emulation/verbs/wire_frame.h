/* SPDX-License-Identifier: Apache-2.0 */
/* Sending by whole frames, over the loopback interface and over Ethernet. All calls under the engine's lock. */
#ifndef VERBS_WIRE_FRAME_H
#define VERBS_WIRE_FRAME_H

#include "verbs/object.h"

#include <linux/if_packet.h>

#define WIRE_FRAME_HEADERS 80 /* what wire_frame_headers writes at most */

/* Without a socket (no right to have one) everything takes the long way. */
void wire_frame_open(void);
void wire_frame_close(void);

/* The socket for packets of this path that have up to `size` bytes after the UDP header, -1 when they must take the
 * long way. `to`: the hardware address that they go to. */
int wire_frame_fd(const struct path *path, size_t size, uint64_t now, uint8_t to[6]);

/* All that comes before `size` bytes after the UDP header. `segment` is the size of the pieces of a super-packet, 0 for
 * a plain one. */
size_t wire_frame_headers(uint8_t *out, const struct path *path, const uint8_t to[6], size_t size, size_t segment);
/* What leaves for a group is given to its members on this host, too, as adapters do: the kernel's own copies are not
 * for packet sockets. */
void wire_frame_loop(const struct path *path, uint8_t *bytes, size_t size, size_t segment);

void wire_frame_address(struct sockaddr_ll *out, const struct path *path);

#endif
