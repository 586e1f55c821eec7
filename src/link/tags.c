/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Things listed by tag, in as many lists as keep each short. The holder of a thing takes it out with list_remove()
 * alone, so nobody knows how many are left. After as many insertions as would fill the lists, the things are counted
 * again, and the lists fitted to the count.
 */
#include "link/tags.h"

#include <stdlib.h>
#include <string.h>

void tags_init(struct tags *tags, size_t node_offset, size_t tag_offset)
{
    tags->list = tags->few;
    tags->mask = LINK_LISTS - 1;
    tags->room = LINK_LISTS;
    tags->cursor = 0;
    tags->distance = (ptrdiff_t)tag_offset - (ptrdiff_t)node_offset;
    for (int i = 0; i < LINK_LISTS; i++)
        list_init(&tags->few[i]);
}

void tags_close(struct tags *tags)
{
    if (tags->list != tags->few)
        free(tags->list);
    tags->list = tags->few;
    tags->mask = LINK_LISTS - 1;
}

static uint32_t tags_count(const struct tags *tags)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i <= tags->mask; i++)
        list_each(node, &tags->list[i]) found++;
    return found;
}

/* Things of one tag stay in their order: they move together, from the front to the back. */
static void tags_move(struct tags *tags, struct list *lists, uint32_t size)
{
    struct list *from = tags->list, *node;
    uint32_t before = tags->mask + 1;
    for (uint32_t i = 0; i < size; i++)
        list_init(&lists[i]);
    tags->list = lists;
    tags->mask = size - 1;
    tags->cursor = 0;
    for (uint32_t i = 0; i < before; i++)
        while ((node = list_pop(&from[i])))
            list_push(tags_list(tags, (const struct wire_tag *)((char *)node + tags->distance)), node);
    if (from != tags->few)
        free(from);
}

/* A thing in two to four lists; a table that is far too large for what is left shrinks. Without memory the lists grow
 * longer. */
static void fit(struct tags *tags)
{
    uint32_t found = tags_count(tags), size = LINK_LISTS, have = tags->mask + 1;
    while (size < found * 2)
        size *= 2;
    if (size > have || size * 8 <= have) {
        struct list *lists = size == LINK_LISTS ? tags->few : malloc(size * sizeof *lists);
        if (lists)
            tags_move(tags, lists, size);
    }
    tags->room = tags->mask + 1;
}

void tags_add(struct tags *tags, const struct wire_tag *tag, struct list *node)
{
    if (!tags->room)
        fit(tags);
    tags->room--;
    list_push(tags_list(tags, tag), node);
}

struct list *tags_any(struct tags *tags)
{
    for (uint32_t i = 0; i <= tags->mask; i++) {
        struct list *list = &tags->list[(tags->cursor + i) & tags->mask];
        if (!list_empty(list)) {
            tags->cursor = (uint32_t)(list - tags->list);
            return list->next;
        }
    }
    return NULL;
}
