/* SPDX-License-Identifier: Apache-2.0 */
/* Things by tag, among many. */
#ifndef TUTTI_LINK_TAGS_H
#define TUTTI_LINK_TAGS_H

#include "base/list.h"
#include "wire/link.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define LINK_LISTS 32

/* Each thing has a list node. Those of one tag are in the order in which they were added. */
struct tags {
    struct list *list;   /* mask + 1 lists: `few`, or as many as keep each short */
    uint32_t mask, room; /* room: things that are added before all are counted again */
    uint32_t cursor;     /* of tags_any() */
    ptrdiff_t distance;  /* from a node to its tag */
    struct list few[LINK_LISTS];
};

#define tags_of(tags, type, node, tag) tags_init(tags, offsetof(type, node), offsetof(type, tag))
#define tags_each(node, tags)                                                                                          \
    for (uint32_t node##_list = 0; node##_list <= (tags)->mask; node##_list++)                                         \
    list_each(node, &(tags)->list[node##_list])

void tags_init(struct tags *tags, size_t node_offset, size_t tag_offset);
void tags_close(struct tags *tags);
/* May move all to other lists, so never within tags_each(). */
void tags_add(struct tags *tags, const struct wire_tag *tag, struct list *node);
/* One of them; NULL: there are none. */
struct list *tags_any(struct tags *tags);

/* Where things of this tag are, among others. */
static inline struct list *tags_list(const struct tags *tags, const struct wire_tag *tag)
{
    uint32_t x = tag->seq * 31 + tag->slice * 7 + tag->round * 4096 + tag->message + tag->from * 17 + tag->to * 5 +
                 (uint32_t)tag->comm;
    return &tags->list[(x ^ x >> 5 ^ x >> 12) & tags->mask];
}

static inline bool tags_equal(const struct wire_tag *a, const struct wire_tag *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

/* Of one collective operation, whose number says nothing about messages that ranks send one another. */
static inline bool tags_same_operation(const struct wire_tag *a, const struct wire_tag *b)
{
    return a->comm == b->comm && a->seq == b->seq && a->slice != WIRE_TAG_P2P && b->slice != WIRE_TAG_P2P;
}

#endif
