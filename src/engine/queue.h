/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue of a team: a ring of blocks of operations, which grows where it is full. Operations stay where they are:
 * streams and transfers point at them. One thread puts in; who holds the team's lock takes out.
 */
#ifndef TUTTI_ENGINE_QUEUE_H
#define TUTTI_ENGINE_QUEUE_H

#include "engine/op.h"

#define QUEUE_BLOCK 32

struct op_block {
    struct op_block *next;
    struct op op[QUEUE_BLOCK];
};

struct op_queue {
    struct op_block *tail; /* where operations are put in; */
    uint64_t tail_first;   /* the position of its first place */
    uint64_t blocks;       /* in the ring */
    uint64_t limit;        /* operations from which on who puts one in waits for a while */
    struct op_block *head; /* the same, where operations are taken out; under the team's lock */
    uint64_t head_first;
};

tutti_result_t queue_open(struct op_queue *queue);
void queue_close(struct op_queue *queue);

/* The next block for who puts in, at `position`, of which `completed` have been taken out. False: no memory. */
bool queue_advance(struct op_queue *queue, uint64_t position, uint64_t completed);

/* The place of the operation `position`, the next to be put in. NULL: no memory. */
static inline struct op *queue_tail(struct op_queue *queue, uint64_t position, uint64_t completed)
{
    if (position - queue->tail_first == QUEUE_BLOCK && !queue_advance(queue, position, completed))
        return NULL;
    return &queue->tail->op[position - queue->tail_first];
}

/* The operation `position`, the next to be taken out, which has been put in. Under the team's lock. */
static inline struct op *queue_head(struct op_queue *queue, uint64_t position)
{
    if (position - queue->head_first == QUEUE_BLOCK) {
        queue->head = queue->head->next;
        queue->head_first = position;
    }
    return &queue->head->op[position - queue->head_first];
}

#endif
