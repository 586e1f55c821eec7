/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs: nodes, what they depend on, and the objects that live until their graph ends. */
#include "cuda/graph.h"
#include "cuda/private.h"
#include "cuda/stream.h"

#include <stdlib.h>
#include <string.h>

static bool has(const struct node_set *set, CUgraphNode node)
{
    for (size_t i = 0; i < set->count; i++)
        if (set->nodes[i] == node)
            return true;
    return false;
}

static bool grow(struct node_set *set, CUgraphNode node)
{
    if (!(set->count & (set->count - 1))) {
        size_t space = set->count ? 2 * set->count : 1;
        CUgraphNode *larger = realloc(set->nodes, space * sizeof(CUgraphNode));
        if (!larger)
            return false;
        set->nodes = larger;
    }
    set->nodes[set->count++] = node;
    return true;
}

bool node_set_add(struct node_set *set, CUgraphNode node)
{
    return has(set, node) || grow(set, node);
}

bool node_set_merge(struct node_set *to, const struct node_set *from)
{
    for (size_t i = 0; i < from->count; i++)
        if (!node_set_add(to, from->nodes[i]))
            return false;
    return true;
}

void node_set_clear(struct node_set *set)
{
    free(set->nodes);
    *set = (struct node_set){0};
}

static void node_free(CUgraphNode node)
{
    work_clear(&node->work);
    node_set_clear(&node->after);
    free(node);
}

CUresult graph_add(CUgraph graph, struct work *work, const CUgraphNode *after, size_t count, CUgraphNode *out)
{
    CUgraphNode node = calloc(1, sizeof(*node));
    bool made = node != NULL;
    for (size_t i = 0; made && i < count; i++)
        made = after[i]->graph == graph && node_set_add(&node->after, after[i]);
    if (!made || !grow(&graph->nodes, node)) {
        if (node)
            node_set_clear(&node->after);
        free(node);
        work_clear(work);
        return made ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
    }
    node->work = *work;
    node->graph = graph;
    node->index = graph->nodes.count - 1;
    if (out)
        *out = node;
    return CUDA_SUCCESS;
}

void graph_free(CUgraph graph)
{
    for (size_t i = 0; i < graph->nodes.count; i++)
        node_free(graph->nodes.nodes[i]);
    node_set_clear(&graph->nodes);
    object_drop_all(&graph->objects, &graph->object_count);
    free(graph);
}

CUresult object_hold(struct held_object **list, size_t *count, CUuserObject object, unsigned times)
{
    struct held_object *larger = realloc(*list, (*count + 1) * sizeof(**list));
    if (!larger)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *list = larger;
    larger[(*count)++] = (struct held_object){object, times};
    return CUDA_SUCCESS;
}

CUresult object_copy(struct held_object **list, size_t *count, const struct held_object *from, size_t from_count)
{
    for (size_t i = 0; i < from_count; i++) {
        if (object_hold(list, count, from[i].object, 1))
            return CUDA_ERROR_OUT_OF_MEMORY;
        from[i].object->refs++;
    }
    return CUDA_SUCCESS;
}

static void destroy_object(struct pool_task *task)
{
    CUuserObject object = (CUuserObject)task;
    bool before = state_in_callback(false, false);
    bool could = private_allow(false);
    state_in_callback(true, true);
    object->destroy(object->data);
    state_in_callback(true, before);
    private_allow(could);
    free(object);
}

/* The destructor runs on a thread of its own: the caller may hold locks that it wants. */
void object_drop(CUuserObject object, unsigned times)
{
    object->refs -= times;
    if (object->refs)
        return;
    object->task.run = destroy_object;
    if (!pool_start(object, 1, sizeof(*object)))
        destroy_object(&object->task);
}

void object_drop_all(struct held_object **list, size_t *count)
{
    for (size_t i = 0; i < *count; i++)
        object_drop((*list)[i].object, (*list)[i].count);
    free(*list);
    *list = NULL;
    *count = 0;
}

void capture_unref(struct capture *capture)
{
    if (capture && !--capture->refs)
        free(capture);
}
