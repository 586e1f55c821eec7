/* SPDX-License-Identifier: Apache-2.0 */
/* Payloads that stay where they are until they are copied: what transports say of them. */
#ifndef TUTTI_LINK_BORROW_H
#define TUTTI_LINK_BORROW_H

#include "link/domain.h"

/* Upcalls of transports: at the receiver, */
bool borrow_waits(struct lane *carrier, const void *bytes, size_t size, size_t length);
void *borrow_target(struct lane *carrier, const void *bytes, size_t size, size_t length);
void borrow_copied(struct lane *carrier, bool whole);
/* and at the sender, where segments of large payloads are said too. */
void borrow_sent(struct lane *carrier, uint64_t token);
void borrow_unreadable(struct lane *carrier, uint64_t token);

#endif
