/* SPDX-License-Identifier: Apache-2.0 */
/* One message by copy engine. */
#ifndef TUTTI_EXECUTOR_GPU_TRANSFER_H
#define TUTTI_EXECUTOR_GPU_TRANSFER_H

#include "executor/gpu/mailbox.h"
#include "executor/gpu/side.h"

#include <stdbool.h>

struct gpu;

/* A message by copy engine between its two halves: what is begun and what the user's stream waits for. */
struct gpu_transfer {
    int peer;
    bool sends;
    char *memory;
    uint64_t bytes;
    uint64_t sent; /* by this rank, at the same time */
    uint32_t number;
    bool copies;    /* this rank does the copying */
    bool by_kernel; /* a message that would be staged is left to a kernel */
    bool pushed;    /* its sender copies it, or nobody does */
    enum mailbox_way way;
    struct mailbox_post post;         /* of the end whose call came first */
    uint32_t piece;                   /* the first one's number, of a staged message */
    const struct gpu_transfer *after; /* what this rank sends to another peer is to be copied first; NULL: nothing */
};

/* Between the parts others may begin. The words that tell the peer, behind what is in the stream, are left in `words`.
 * The caller issues them, or this function does before it waits for a peer's host. */
tutti_result_t transfer_begin(struct gpu *gpu, struct gpu_transfer *transfer, struct side_words *words,
                              CUstream stream);
/* Beside the stream, from where it was marked: side_mark(). */
tutti_result_t transfer_copy(struct gpu *gpu, const struct gpu_transfer *transfer);
/* Several messages that this rank copies to other processes: one behind another, when all of their receivers have come.
 */
bool transfer_is_push(const struct gpu_transfer *transfer);
tutti_result_t transfer_push_all(struct gpu *gpu, const struct gpu_transfer *const *list, int count);
/* The user's stream goes on when the message is copied: the wait is left in `words`. */
tutti_result_t transfer_end(struct gpu *gpu, const struct gpu_transfer *transfer, struct side_words *words,
                            CUstream stream);
/* A piece of a staged message; false: there are no more. Pieces of several messages go in turn. */
bool transfer_piece(struct gpu *gpu, const struct gpu_transfer *transfer, uint32_t index, CUstream stream,
                    tutti_result_t *result);

#endif
