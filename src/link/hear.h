/* SPDX-License-Identifier: Apache-2.0 */
/* What peers say. */
#ifndef TUTTI_LINK_HEAR_H
#define TUTTI_LINK_HEAR_H

#include "transport/transport.h"

/* Upcall of transports: a message has come. */
void hear_carrier(struct lane *carrier, const void *bytes, size_t length);

#endif
