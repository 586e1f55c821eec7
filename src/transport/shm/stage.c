/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sources are copied from their ends on, and the peer reads from their starts: nobody waits for the other. The source
 * of a pull stays as it is until the peer has said that it is done with it, so both have the right bytes.
 */
#include "transport/shm/stage.h"

#include "base/reach.h"
#include "transport/shm/window.h"

#include <string.h>

#define LEAST (128u << 10) /* bytes of a source that is worth it */
#define PIECE (64u << 10)  /* bytes copied before other work has its turn */

static bool pull_is_later(uint32_t number, uint32_t other)
{
    return (int32_t)(number - other) > 0;
}

static bool fits(const struct shm_put *put)
{
    return put->pull && !put->region && !put->lent && !put->given_up && put->number && put->put.length >= LEAST &&
           put->put.length <= RING_STAGE_BYTES;
}

/* The pull that is being copied, or the next that can be: one that the peer has not begun. */
static const struct shm_put *next_ahead(const struct shm_lane *lane)
{
    const struct shm_stage *stage = &lane->stage;
    uint32_t pulling = atomic_load_explicit(&lane->out.control->pulling, memory_order_relaxed);
    for (unsigned i = 0; i < lane->posted; i++) {
        const struct shm_put *put = &lane->queue[(lane->first + i) % SHM_QUEUE];
        bool goes_on = put->number == stage->last && stage->left;
        if (fits(put) && pull_is_later(put->number, pulling) && (goes_on || pull_is_later(put->number, stage->last)))
            return put;
    }
    return NULL;
}

/* False: there is no stage for it now, or it cannot be read without a signal. */
static bool stage_begin(struct shm_lane *lane, const struct shm_put *put)
{
    struct shm_stage *stage = &lane->stage;
    unsigned at = (stage->at + 1) % RING_STAGES;
    if (stage->holds[at] || !shm_window_stage(lane))
        return false;
    stage->last = put->number;
    stage->left = 0;
    if (!reach_prepare_read(place_reach(put->put.source), put->put.length))
        return false;
    stage->at = at;
    stage->holds[at] = put->number;
    stage->left = put->put.length;
    return true;
}

int shm_stage_ahead(struct shm_lane *lane)
{
    struct shm_stage *stage = &lane->stage;
    const struct shm_put *put = lane->shape.stages ? next_ahead(lane) : NULL;
    if (!put || (put->number != stage->last && !stage_begin(lane, put)))
        return 0;
    size_t length = stage->left < PIECE ? (size_t)stage->left : PIECE;
    stage->left -= length;
    memcpy(stage->out + (size_t)stage->at * RING_STAGE_BYTES + stage->left,
           (const char *)place_reach(put->put.source) + stage->left, length);
    atomic_store_explicit(&lane->out.control->staged[stage->at],
                          (uint64_t)put->number << 32 | (put->put.length - stage->left), memory_order_release);
    return 1;
}

void shm_stage_free(struct shm_lane *lane, uint32_t number)
{
    for (int i = 0; i < RING_STAGES; i++) {
        if (!number || lane->stage.holds[i] != number)
            continue;
        lane->stage.holds[i] = 0;
        atomic_store_explicit(&lane->out.control->staged[i], 0, memory_order_relaxed);
    }
}

void shm_stage_pass(struct shm_lane *lane, uint32_t number)
{
    atomic_store_explicit(&lane->in.control->pulling, number, memory_order_relaxed);
}

uint64_t shm_stage_find(const struct shm_lane *lane, const struct ring_pull *pull, uint32_t number, const void **rest)
{
    if (!lane->shape.stages || pull->region || pull->total > RING_STAGE_BYTES || !number)
        return pull->total;
    for (size_t i = 0; i < RING_STAGES; i++) {
        uint64_t said = atomic_load_explicit(&lane->in.control->staged[i], memory_order_acquire);
        uint64_t left = pull->total - (said & UINT32_MAX);
        if (said >> 32 != number || left >= pull->total)
            continue;
        *rest = lane->stage.in + i * RING_STAGE_BYTES + left;
        return left;
    }
    return pull->total;
}
