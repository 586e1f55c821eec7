/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets by which packets leave, by their source ports. */
#ifndef VERBS_WIRE_PORT_H
#define VERBS_WIRE_PORT_H

#include "verbs/object.h"

void wire_ports_open(void);
void wire_ports_close(void);
/* Will the next call close the socket of another port, so that this one finds room? */
bool wire_port_needs_room(const struct path *path);
/* The socket of the path's interface, family and source port. Returns an errno, or 0. */
int wire_port_fd(const struct path *path, int *out);

#endif
