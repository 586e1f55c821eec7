/* SPDX-License-Identifier: Apache-2.0 */
/* Intrusive doubly linked lists: a head and nodes that live inside the things listed. An unlinked node points at
 * itself. */
#ifndef TUTTI_BASE_LIST_H
#define TUTTI_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
    struct list *next, *prev;
};

#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))
#define list_entry(node, type, member)  container_of(node, type, member)
#define list_each(node, head)           for (struct list *node = (head)->next; node != (head); node = node->next)
/* As list_each, and the body may remove `node`. */
#define list_each_safe(node, head)                                                                                     \
    for (struct list *node = (head)->next, *node##_next = node->next; node != (head);                                  \
         node = node##_next, node##_next = node->next)

static inline void list_init(struct list *head)
{
    head->next = head->prev = head;
}

static inline bool list_empty(const struct list *head)
{
    return head->next == head;
}

static inline void list_push(struct list *head, struct list *node)
{
    node->prev = head->prev;
    node->next = head;
    head->prev->next = node;
    head->prev = node;
}

static inline void list_remove(struct list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    list_init(node);
}

static inline struct list *list_pop(struct list *head)
{
    struct list *node = head->next;
    if (node == head)
        return NULL;
    list_remove(node);
    return node;
}

#endif
