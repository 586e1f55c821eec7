/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts that the receiver reads where they lie: through a mapping of the sender's region, or by cross-memory attach. The
 * sender never writes in the peer's memory, so a peer that is stopped in the middle of a put can harm nobody when it
 * goes on: it reads memory that may be anything by then, and throws away what it read, since the put was revoked.
 */
#include "base/copy.h"
#include "base/log.h"
#include "base/param.h"
#include "base/reach.h"
#include "transport/shm/region.h"
#include "transport/shm/pull.h"
#include "transport/shm/peer.h"
#include "transport/shm/share.h"
#include "transport/shm/stage.h"
#include "transport/shm/watch.h"

#include <errno.h>
#include <string.h>

#define STREAM_MIN (32u << 20)      /* buffers from this size on are stored around the cache: it would not keep them */
#define PIECE      RING_STAGE_BYTES /* bytes read before others have their turn: all that a stage holds */

void shm_choose(struct shm_lane *lane, struct shm_put *put)
{
    const struct put *what = &put->put;
    const void *source = place_reach(what->source);
    put->stream = what->length >= STREAM_MIN || what->whole >= STREAM_MIN;
    put->pull = !lane->shuns_regions && region_find(source, what->length, &put->region, &put->address) &&
                shm_peer_has(lane, put->region);
    if (put->pull)
        return;
    put->region = 0;
    put->address = (uintptr_t)source;
    put->pull = !lane->shuns_attach && what->length >= (uint64_t)param_int(PARAM_SHM_CMA_MIN) &&
                param_int(PARAM_SHM_CMA) && atomic_load_explicit(&lane->out.control->attaches, memory_order_relaxed);
}

/* The system cannot read there, or write here. If it is here the owner is told, and what it does not want any more is
 * dropped. */
static bool pull_is_ours(struct shm_lane *lane, const struct ring_pull *pull, const void *target, uint64_t length)
{
    struct lane *base = &lane->base.lane;
    const struct transport_owner *owner = &base->transport->owner;
    if (!owner->unwritable || !reach_unwritable(target, (size_t)length))
        return false;
    owner->unwritable(base, pull->imm, pull->offset + lane->put_done, (size_t)length);
    return true;
}

/* What a process that is gone sent after a put that it took along does not count. What cannot be read there is the
 * peer's to judge, of which the put is. */
static bool attach(struct shm_lane *lane, const struct ring_pull *pull, void *target, uint64_t length)
{
    struct shm_peer *peer = lane->peer;
    if (!peer->attaches)
        return false;
    if (attach_read(&peer->attach, pull->address + lane->put_done, target, (size_t)length))
        return true;
    if (errno == EFAULT)
        return pull_is_ours(lane, pull, target, length);
    if (errno == ESRCH) {
        shm_fail(lane, "the peer has closed the lane or died", 0);
        return false;
    }
    log_info("cross-memory attach to process %d failed (%s): going on through shared memory", (int)peer->attach.pid,
             strerror(errno));
    peer->attaches = false;
    shm_tell_attach(lane);
    return false;
}

static void pull_copy(const struct ring_pull *pull, void *target, const char *from, uint64_t length)
{
    if (pull->stream)
        copy_stream(target, from, (size_t)length);
    else
        memcpy(target, from, (size_t)length);
}

static bool pull_copy_mapped(struct shm_lane *lane, const struct ring_pull *pull, void *target, uint64_t length)
{
    const char *from = shm_peer_map(lane->peer, pull->region, pull->address, pull->total);
    if (!from)
        return false;
    pull_copy(pull, target, from + lane->put_done, length);
    return true;
}

static bool revoked(const struct shm_lane *lane, uint32_t number)
{
    atomic_thread_fence(memory_order_acquire); /* a reader of what came after the revocation sees that the put is
                                                  revoked */
    return atomic_load_explicit(&lane->in.control->revoked, memory_order_relaxed) & RING_PULL_BIT(number);
}

/* The next piece, if somebody wants it. False: it cannot be read. */
static bool read_piece(struct shm_lane *lane, const struct ring_pull *pull, uint64_t length)
{
    struct lane *base = &lane->base.lane;
    char *target = transport_target(base, pull->imm, pull->offset + lane->put_done, (size_t)length);
    if (!target || carrier_dead(&lane->base))
        return true;
    return pull->region ? pull_copy_mapped(lane, pull, target, length) : attach(lane, pull, target, length);
}

/* Of one that is no longer than a stage: by itself what the sender has not copied, then the rest. */
static bool read_staged(struct shm_lane *lane, const struct ring_pull *pull, uint32_t number)
{
    struct lane *base = &lane->base.lane;
    const void *rest = NULL;
    shm_stage_pass(lane, number);
    char *target = transport_target(base, pull->imm, pull->offset, (size_t)pull->total);
    if (!target || carrier_dead(&lane->base))
        return true;
    uint64_t own = shm_stage_find(lane, pull, number, &rest);
    if (own < pull->total && !reach_prepare_write(target + own, (size_t)(pull->total - own)))
        own = pull->total; /* the system reads it all, and says where a hole is */
    if (own && !attach(lane, pull, target, own))
        return false;
    if (own < pull->total)
        pull_copy(pull, target + own, rest, pull->total - own);
    return true;
}

/* Says that the pull is done with, and whether it could be read. */
static void pull_release(struct shm_lane *lane, uint32_t number, bool read)
{
    struct ring_control *control = lane->in.control;
    uint64_t bit = RING_PULL_BIT(number);
    lane->refused = read ? lane->refused & ~bit : lane->refused | bit;
    lane->pulled = number;
    lane->put_done = 0;
    atomic_store_explicit(&control->refused, lane->refused, memory_order_relaxed);
    atomic_store_explicit(&control->pulled, number, memory_order_release);
    shm_ring_bell(lane->peer);
}

bool shm_pull(struct shm_lane *lane, const struct ring_pull *pull)
{
    struct lane *base = &lane->base.lane;
    uint32_t number = lane->pulled + 1;
    uint64_t left = pull->total - lane->put_done, length = left < PIECE ? left : PIECE;
    bool staged = !pull->region && pull->total <= RING_STAGE_BYTES;
    bool read = revoked(lane, number) || (staged ? read_staged(lane, pull, number) : read_piece(lane, pull, length));
    if (carrier_dead(&lane->base))
        return true;
    lane->put_done += length;
    bool valid = !revoked(lane, number);
    if (read && valid && lane->put_done < pull->total)
        return false;
    pull_release(lane, number, read);
    if (!read || !valid)
        return true;
    base->bytes_received += pull->total;
    base->transport->owner.arrived(base, pull->imm, pull->offset, pull->total);
    return true;
}

/* False, with errno: it cannot be read, or not be written here. */
static bool copy_lent(struct shm_lane *lane, const struct ring_pull *pull, void *target)
{
    struct shm_peer *peer = lane->peer;
    errno = EPERM;
    if (pull->region)
        return pull_copy_mapped(lane, pull, target, pull->total);
    return peer->attaches && attach_read(&peer->attach, pull->address, target, (size_t)pull->total);
}

bool shm_borrow_waits(struct shm_lane *lane, const struct ring_pull *pull, const void *head)
{
    struct lane *base = &lane->base.lane;
    const struct transport_owner *owner = &base->transport->owner;
    return owner->lent_waits && !ring_has_second(&lane->in) && !revoked(lane, lane->pulled + 1) &&
           owner->lent_waits(base, head, pull->imm, (size_t)pull->total);
}

void shm_borrow(struct shm_lane *lane, const struct ring_pull *pull, const void *head)
{
    struct lane *base = &lane->base.lane;
    const struct transport_owner *owner = &base->transport->owner;
    uint32_t number = lane->pulled + 1;
    base->bytes_received += pull->imm + pull->total;
    void *target =
        owner->lent && !revoked(lane, number) ? owner->lent(base, head, pull->imm, (size_t)pull->total) : NULL;
    if (carrier_dead(&lane->base))
        return;
    bool read = !target || copy_lent(lane, pull, target);
    int error = read ? 0 : errno;
    bool ours = error == EFAULT && reach_unwritable(target, (size_t)pull->total);
    bool whole = read && !revoked(lane, number); /* before the number may be given out again */
    pull_release(lane, number, read || ours);
    if (target)
        owner->copied(base, whole);
    if (error == ESRCH && !carrier_dead(&lane->base))
        shm_fail(lane, "the peer has closed the lane or died", 0);
}
