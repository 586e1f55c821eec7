/* SPDX-License-Identifier: Apache-2.0 */
/* Registered memory of payloads, for lanes whose hardware stores puts by itself. */
#ifndef TUTTI_LINK_MEMORY_H
#define TUTTI_LINK_MEMORY_H

#include "link/registration.h"

/* The link's transport that registers memory; -1: it has none. */
int memory_transport(const struct link *link);
/* The memory of a receive, for its credit; `out` says what the peer needs. NULL: the peer must do without. `unsure`:
 * the processor copies, and no device that registers memory has found that all of it is there. */
struct link_registration *memory_offer(struct link *link, struct place place, size_t length, struct wire_remote *out,
                                       bool *unsure);
/* The source of a send, if the credit came with memory. NULL: as above. */
struct link_memory *memory_meet(struct link *link, struct link_send *send, const struct wire_remote *remote,
                                bool *unsure);
void memory_part(struct link *link, struct link_memory *memory);

#endif
