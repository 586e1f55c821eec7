/* SPDX-License-Identifier: Apache-2.0 */
/* The sockets of processes, and packets on them. */
#ifndef TUTTI_TRANSPORT_SHM_PACKET_H
#define TUTTI_TRANSPORT_SHM_PACKET_H

#include "transport/shm/shm.h"

/* The name of the socket of process `uuid`; abstract, or in /dev/shm. Returns the length of the address. */
socklen_t shm_name(const uint8_t *uuid, bool abstract, struct sockaddr_un *out);
bool shm_packet_send(int fd, const void *bytes, size_t size, const int *fds, int count);

#endif
