/* SPDX-License-Identifier: Apache-2.0 */
/* Which ports of adapters are nearest to a GPU. */
#ifndef TUTTI_ENGINE_PORTS_H
#define TUTTI_ENGINE_PORTS_H

#include "base/place.h"
#include "transport/transport.h"

/* A link's owner's near(). The context is an engine. */
uint32_t ports_near(void *context, struct place place, const struct transport_ops *ops);

#endif
