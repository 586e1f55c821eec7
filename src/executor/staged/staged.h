/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives of GPUs that share no memory, on several hosts for one: through pinned host memory and the team. */
#ifndef TUTTI_EXECUTOR_STAGED_STAGED_H
#define TUTTI_EXECUTOR_STAGED_STAGED_H

#include "device/cuda/device.h"
#include "engine/p2p.h"

struct staged;

/* All with the device's context current. */
tutti_result_t staged_open(struct team *team, struct cuda_device *device, struct staged **out);
/* After the work is done, or the team has failed. What pinned memory there was is the caller's then (NULL: there was
 * none), to be freed at a quiet time: freeing waits for all work of the GPU, which may wait for this very thread. */
#define STAGED_PINNED 3
void staged_close(struct staged *staged, void *pinned[STAGED_PINNED]);

/* Stream-ordered, without waiting: a thread of the rank carries them out one after another. Not while capturing a
 * graph. */
tutti_result_t staged_collective(struct staged *staged, const struct call *call, uint32_t ticket, CUstream stream);
tutti_result_t staged_p2p(struct staged *staged, const struct p2p_item *items, int count, uint32_t ticket,
                          CUstream stream);
/* The caller's word gets the ticket of a call when that is over, by the host: a stream that writes it would hold up
 * others. */
bool staged_tells(const struct staged *staged);
/* The communicator has failed, and a call was refused: none comes any more, and peers hear so when those before it have
 * ended. They would wait for this rank in what another one had finished, while this rank may wait for them elsewhere.
 */
void staged_end_calls(struct staged *staged);
/* May a collective be issued though the communicator has failed? Peers may need it; whether it ends well is found out
 * later. */
bool staged_takes(const struct staged *staged);
/* The communicator is about to be failed by this rank's user: nothing of its own goes on. */
void staged_stop(struct staged *staged);
/* Whatever became of the communicator: has all that was issued, and is over, ended well? True but once, as of
 * team_wait(). */
bool staged_ended_well(struct staged *staged);
/* A word of pinned memory for the caller's own use, 0 at first. */
const _Atomic uint32_t *staged_word(const struct staged *staged, CUdeviceptr *device);
size_t staged_memory(const struct staged *staged);

#endif
