/* SPDX-License-Identifier: Apache-2.0 */
/* The hardware address that a path's packets leave to, as the kernel's routes and neighbours have it, remembered for a
 * moment. */
#ifndef VERBS_WIRE_HOP_H
#define VERBS_WIRE_HOP_H

#include "verbs/object.h"

/* False: the packets must go through the kernel's stack. Nothing is known (then this may ask, for the next time), or
 * they do not leave by this interface. Or it is time that the kernel sees one and looks after its neighbour. */
bool wire_hop_find(const struct path *path, uint64_t now, uint8_t to[6]);

/* Something has changed, or may have: packets go through the kernel's stack at first. */
void wire_hop_forget(void);

#endif
