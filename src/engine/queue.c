/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/queue.h"

#include "base/error.h"

#include <stdlib.h>

static struct op_block *add_block(struct op_queue *queue, struct op_block *after)
{
    struct op_block *block = calloc(1, sizeof *block);
    if (!block)
        return NULL;
    block->next = after ? after->next : block;
    if (after)
        after->next = block;
    queue->blocks++;
    return block;
}

tutti_result_t queue_open(struct op_queue *queue)
{
    queue->head = queue->tail = add_block(queue, NULL);
    if (queue->head && add_block(queue, queue->head))
        return TUTTI_SUCCESS;
    return error_set(TUTTI_SYSTEM_ERROR, "no memory for a queue of operations");
}

void queue_close(struct op_queue *queue)
{
    struct op_block *block = queue->head;
    for (uint64_t i = 0; i < queue->blocks; i++) {
        struct op_block *next = block->next;
        free(block);
        block = next;
    }
    *queue = (struct op_queue){0};
}

/*
 * The next block is free if the head has gone past it. The head stays in a block until something behind the block is
 * asked for. So the block of the last operation that was taken out counts as in use, and there are two blocks at least.
 */
bool queue_advance(struct op_queue *queue, uint64_t position, uint64_t completed)
{
    uint64_t head_block = completed ? (completed - 1) / QUEUE_BLOCK : 0;
    if (position / QUEUE_BLOCK - head_block == queue->blocks && !add_block(queue, queue->tail))
        return false;
    queue->tail = queue->tail->next;
    queue->tail_first = position;
    return true;
}
