/* SPDX-License-Identifier: Apache-2.0 */
/* Lanes that peers open. */
#ifndef TUTTI_LINK_ACCEPT_H
#define TUTTI_LINK_ACCEPT_H

#include "transport/transport.h"

/* Upcall of transports. */
bool accept_carrier(void *context, struct lane *carrier, const struct wire_hello *hello);

#endif
