/* SPDX-License-Identifier: Apache-2.0 */
/* Sends meet receives. */
#ifndef TUTTI_LINK_MATCH_H
#define TUTTI_LINK_MATCH_H

#include "link/domain.h"

/* The peer's payload, in a message; its credit for one of ours; what it waits for in vain, or does not know of. */
void match_eager(struct link *link, const struct wire_message *head, const void *body, size_t length);
void match_credited(struct link *link, const struct wire_message *head, const void *body, size_t length);
void match_announced(struct link *link, const struct wire_message *head, const void *body, size_t length);
/* Does a receive wait for this payload? */
bool match_is_expected(struct link *link, const struct wire_message *head);
/* The receive that waits for this payload, and gives it back by match_take(); NULL: none waits, or the one that did was
 * refused. */
struct link_recv *match_find(struct link *link, const struct wire_message *head, size_t length, bool *refused);
void match_take(struct link *link, struct link_recv *recv, tutti_result_t result);
void match_fail_all(struct link *link, tutti_result_t result);

#endif
