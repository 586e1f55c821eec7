/* SPDX-License-Identifier: Apache-2.0 */
/* Registered memory. */
#ifndef TUTTI_TRANSPORT_VERBS_MEMORY_H
#define TUTTI_TRANSPORT_VERBS_MEMORY_H

#include "transport/verbs/verbs.h"

tutti_result_t verbs_register(struct transport *transport, struct place place, size_t length,
                              struct transport_memory **out);
void verbs_deregister(struct transport *transport, struct transport_memory *memory);
/* Takes what is registered with a device that has no queue pairs any more: *out is to be freed. Returns how many. */
int verbs_take_regions(struct verbs_device *device, struct ibv_mr ***out);
/* Reads a byte of a GPU's memory by the device. False: it cannot. */
bool verbs_flush_memory(struct verbs_device *device, const struct transport_memory *memory, const void *at,
                        uint64_t token);
/* False: the device does not know the memory. */
bool verbs_local_key(const struct transport_memory *memory, const struct verbs_device *device, uint32_t *out);

#endif
