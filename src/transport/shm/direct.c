/* SPDX-License-Identifier: Apache-2.0 */
/* Writing in the peer's memory: through a mapping of ours, or by cross-memory attach. And making the peer stop doing so. */
#include "base/clock.h"
#include "base/copy.h"
#include "base/log.h"
#include "base/param.h"
#include "transport/shm/shm.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>

#define STREAM_MIN (32u << 20)  /* buffers from this size on are stored around the cache: it would not keep them */
#define PIECE      (256u << 10) /* bytes between two looks at whether the peer still wants them */
#define STOP_MS    2000

void shm_choose(struct shm_lane *lane, struct shm_put *put)
{
    const struct wire_key *key = &put->put.key;
    uint64_t offset = put->put.offset, length = put->put.length;
    struct shm_peer *peer = lane->peer;
    put->stream = length >= STREAM_MIN || (key->kind && key->length >= STREAM_MIN);
    if (!key->kind || offset > key->length || length > key->length - offset || key->address > UINT64_MAX - key->length)
        return;
    if (key->kind == SHM_KEY_REGION)
        put->target = shm_peer_map(peer, key->region, key->address + offset, length);
    else if (key->kind == SHM_KEY_ADDRESS && peer->same_process)
        put->target = (char *)(uintptr_t)(key->address + offset);
    put->direct = put->target || (key->kind == SHM_KEY_ADDRESS && peer->attaches && param_int(PARAM_SHM_CMA) &&
                                  length >= (uint64_t)param_int(PARAM_SHM_CMA_MIN));
}

static bool gone(const struct shm_lane *lane)
{
    char byte;
    return recv(lane->source.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

static bool attach(struct shm_lane *lane, const struct shm_put *put, uint64_t length)
{
    struct shm_peer *peer = lane->peer;
    if (attach_write(&peer->attach, put->put.key.address + put->put.offset + put->done, (char *)put->put.source + put->done, length))
        return true;
    if (peer->attaches)
        log_info("cross-memory attach to process %d failed (%s): going on through shared memory", (int)peer->attach.pid, strerror(errno));
    peer->attaches = false;
    return false;
}

bool shm_write_direct(struct shm_lane *lane, struct shm_put *put)
{
    struct ring_control *control = lane->out.control;
    uint64_t left = put->put.length - put->done, length = left < PIECE ? left : PIECE;
    const char *source = (const char *)put->put.source + put->done;
    bool ok = true;
    atomic_store_explicit(&control->writing, 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&control->closed, memory_order_relaxed))
        shm_fail(lane, "the peer has closed the lane", 0);
    else if (!put->target)
        ok = attach(lane, put, length);
    else if (put->stream)
        copy_stream(put->target + put->done, source, (size_t)length);
    else
        memcpy(put->target + put->done, source, (size_t)length);
    atomic_store_explicit(&control->writing, 0, memory_order_release);
    if (ok)
        put->done += length;
    return ok;
}

void shm_fence_off(struct shm_lane *lane)
{
    struct ring_control *control = lane->in.control;
    uint64_t deadline = 0;
    if (!lane->peer)
        return;
    atomic_store_explicit(&control->closed, 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
    while (atomic_load_explicit(&control->writing, memory_order_acquire) && !gone(lane)) {
        if (!deadline)
            deadline = clock_deadline_ms(STOP_MS);
        if (clock_passed(deadline)) {
            log_warn("process %d hangs in the middle of writing to our memory: it may still do so", (int)lane->peer->attach.pid);
            return;
        }
        sched_yield();
    }
}
