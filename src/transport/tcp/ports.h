/* SPDX-License-Identifier: Apache-2.0 */
/* News of network interfaces. */
#ifndef TUTTI_TRANSPORT_TCP_PORTS_H
#define TUTTI_TRANSPORT_TCP_PORTS_H

#include "transport/tcp/tcp.h"

/* From now on a lane whose network interface goes down does so, too. Where the system does not allow this, the log says
 * so. */
void tcp_ports_open(struct tcp_transport *tcp);
void tcp_ports_close(struct tcp_transport *tcp);

#endif
