/* SPDX-License-Identifier: Apache-2.0 */
/* Ports of a host. A port is an abstract Unix name: the kernel keeps one owner of each in a network namespace, and
 * takes it back when that ends. Processes that have ports share one of TCP; whoever takes a connection reads its
 * request and hands both to the owner of the port. With the lock held. */
#ifndef RDMACM_DOOR_H
#define RDMACM_DOOR_H

#include "rdmacm/id.h"

/* A request for the identifier, with its connection, which is the function's. */
typedef void (*door_fn)(struct cm_id *id, const struct cm_message *message, int fd);

/* Reserves the port of id->from, or a free one if that is 0. 0 or errno. */
int door_reserve(struct cm_id *id, door_fn arrive);
/* A port for one who does not listen: nobody else is kept from it. */
uint16_t door_any_port(void);

/* Gives the port back. */
void door_leave(struct cm_id *id);

/* Refuses a request and closes its connection. */
void door_refuse(int fd, const struct cm_message *request, uint32_t reason, uint32_t datagram_status);

#define REFUSED_NO_LISTENER 8 /* reasons of InfiniBand: invalid service identifier, */
#define REFUSED_BY_PROGRAM  28
#define SIDR_UNSUPPORTED    1
#define SIDR_REFUSED        2

#endif
