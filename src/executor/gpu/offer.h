/* SPDX-License-Identifier: Apache-2.0 */
/* Which buffers of this rank peers have mapped. */
#ifndef TUTTI_EXECUTOR_GPU_OFFER_H
#define TUTTI_EXECUTOR_GPU_OFFER_H

#include "device/cuda/memory.h"
#include "tutti/tutti.h"

#include <stdbool.h>
#include <stdint.h>

struct gpu;

/* What this rank knows of an offer that it made. */
struct offered {
    uint32_t number; /* 0: none */
    uint64_t id, base, size;
    uint64_t used;           /* when the offer was used last: the choice of the offer that makes room */
    bool invited;            /* kernels are invited to it: it does not make room */
    uint32_t pushed, pulled; /* the last messages that peers copy to and from it */
    uint32_t kept;           /* number of users that count on it: it stays as it is */
};

/* The offer by which the peer has mapped the buffer. -1: it has not, or not yet; an offer was made, if one can be. */
int offer_find(struct gpu *gpu, int peer, const struct cuda_range *range);
/* For a message that a graph receives: what its kernel tells the sender's (kernels.h). 0: to use slots. */
uint64_t offer_invite(struct gpu *gpu, int peer, const void *memory, uint64_t bytes);
/* Message `number` copies from the buffer (`sends`: this rank sends), or to it. */
void offer_use(struct gpu *gpu, int peer, int offer, bool sends, uint32_t number);
/* The offer stays, even if its memory is freed, until it is let go as often as it was kept. Whether the peer has mapped
 * it is not known yet. -1: there is no offer. */
int offer_keep(struct gpu *gpu, int peer, const struct cuda_range *range);
void offer_let_go(struct gpu *gpu, int peer, int offer);
/* Lets peers go of what has been freed. Returns whether there are any offers. */
bool offer_withdraw_freed(struct gpu *gpu);
/* Gives peers the descriptors that go with offers. Returns whether some are left. */
bool offer_deliver(struct gpu *gpu);
/* A copy of the descriptor is to go to a peer. */
tutti_result_t offer_pass_fd(struct gpu *gpu, int peer, int fd, uint64_t key);
void offer_close(struct gpu *gpu);

#endif
