/* SPDX-License-Identifier: Apache-2.0 */
/* Large messages, by copy engine: several at a time, and chains of them. */
#ifndef TUTTI_EXECUTOR_GPU_COPY_H
#define TUTTI_EXECUTOR_GPU_COPY_H

#include "executor/gpu/transfer.h"

struct gpu;

/* What messages belong to. A group: no message waits for another. A collective: messages may. A collective that no rank
 * ends before all have come to it. */
enum exchange { EXCHANGE_GROUP, EXCHANGE_COLLECTIVE, EXCHANGE_ALL };

/* Messages of an exchange that copy engines carry. */
struct copies {
    struct gpu_transfer list[2 * KERNEL_RANKS];
    int count;
    enum exchange kind;
    struct side_words words; /* that the user's stream has yet to write */
};

/* `ways`, in: bits of the peers to which and from which messages are to go this way. `ways`, out: bits of those that
 * do, as the kernel carries messages whose buffers peers have not mapped yet. Nothing of these messages comes behind
 * what is put into the stream from here on; what peers wait for may be. */
tutti_result_t copy_begin(struct gpu *gpu, const struct kernel_exchange *what, uint32_t ways[2], enum exchange kind,
                          CUstream stream, struct copies *copies);
/* The message of a rank to itself is copied, and the stream waits for all messages. */
tutti_result_t copy_end(struct gpu *gpu, const struct kernel_exchange *what, const struct copies *copies,
                        CUstream stream);
tutti_result_t copy_chain(struct gpu *gpu, const char *from, char *to, uint64_t bytes, uint64_t piece, int before,
                          int after, CUstream stream);
/* For all streams beside the user's: waits for what is in them; ends them. */
tutti_result_t copy_drain(struct gpu *gpu);
void copy_close(struct gpu *gpu);

#endif
