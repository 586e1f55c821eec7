/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a port is worth using where nobody asked for RDMA by name. */
#ifndef TUTTI_TRANSPORT_VERBS_USABLE_H
#define TUTTI_TRANSPORT_VERBS_USABLE_H

#include "transport/verbs/verbs.h"

/* The device is one that our lanes can run on, and not the kernel's software. */
tutti_result_t verbs_usable_kind(const struct verbs_device *device, const struct ibv_device *ibv);
/* The device's parts are made: a queue pair of the kind that lanes have can be made, too, and memory be registered;
 * `first`: as much as lanes and payloads need, whose limit is that of the process and the same for all devices. */
tutti_result_t verbs_usable_parts(const struct verbs_device *device, bool first);

#endif
