/* SPDX-License-Identifier: Apache-2.0 */
/* What came before it was asked for. */
#ifndef TUTTI_LINK_EARLY_H
#define TUTTI_LINK_EARLY_H

#include "link/domain.h"

/* What is kept of a credit that came before its send. */
struct early_credit {
    struct wire_credit credit;
    struct wire_remote memory; /* no devices: the peer named none */
    uint64_t since;            /* when it came */
};

/* A payload that came before it was asked for. */
struct unexpected {
    struct list node;
    struct wire_message head;
    size_t length;
    unsigned char body[];
};

/* NULL: nothing of this kind. */
struct unexpected *early_find(struct link *link, const struct wire_tag *tag, unsigned kind);
void early_keep(struct link *link, const struct wire_message *head, const void *body, size_t length);
/* Room for one, which early_add() lists. NULL: there is none, and the link is lost. */
struct unexpected *early_make(struct link *link, const struct wire_message *head, size_t length);
void early_add(struct link *link, struct unexpected *item);
/* Out of the list; the caller frees it. */
void early_take(struct link *link, struct unexpected *item);
/* The key in a credit for `slot` that waits has ended. */
void early_revoke(struct link *link, uint32_t slot);
void early_drop_all(struct link *link);
/* Must small payloads wait for a credit now? */
static inline bool early_is_held(const struct link *link)
{
    return link->early.held || link->out.bytes > link->early.most / 4;
}

#endif
