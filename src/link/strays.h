/* SPDX-License-Identifier: Apache-2.0 */
/* What came for an operation is of another call. */
#ifndef TUTTI_LINK_STRAYS_H
#define TUTTI_LINK_STRAYS_H

#include "link/domain.h"

void strays_look(struct link *link, uint64_t now);

#endif
