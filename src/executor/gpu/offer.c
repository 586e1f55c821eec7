/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Buffers of this rank that peers may map, so that messages go from buffer to buffer. A message whose buffer is not
 * mapped at the other end goes through scratch. Meanwhile the buffer is offered to the peer, which maps it beside its
 * work (import.c).
 */
#include "executor/gpu/offer.h"

#include "base/error.h"
#include "base/param.h"
#include "base/random.h"
#include "device/cuda/device.h"
#include "device/cuda/memory.h"
#include "engine/links.h"
#include "executor/gpu/gpu.h"
#include "executor/gpu/mailbox.h"
#include "executor/gpu/memory.h"
#include "link/link.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define INVITED_MOST (MAILBOX_OFFERS / 4 * 3) /* that kernels are invited to: the rest is for copy engines */

/* A descriptor that goes to a peer when the link is there. */
struct passed_fd {
    struct list node;
    int peer, fd;
    uint64_t key;
};

static struct mailbox_offer *offer_place_of(const struct gpu *gpu, int peer, int offer)
{
    return &gpu->offers.place[gpu->rank][peer][offer];
}

static bool offer_is_answered(const struct gpu *gpu, int peer, int offer)
{
    uint32_t answer = atomic_load_explicit(&offer_place_of(gpu, peer, offer)->answer, memory_order_acquire);
    return answer >> 1 == gpu->offers.offered[peer][offer].number;
}

static bool is_mapped(const struct gpu *gpu, int peer, int offer)
{
    return atomic_load_explicit(&offer_place_of(gpu, peer, offer)->answer, memory_order_acquire) ==
           (gpu->offers.offered[peer][offer].number << 1 | 1);
}

/* Neither is the peer looking at the place, nor copying to or from the buffer, nor does anybody count on it. */
static bool may_change(const struct gpu *gpu, int peer, int offer)
{
    const struct offered *mine = &gpu->offers.offered[peer][offer];
    uint32_t pushed = atomic_load(&gpu->messages.pair[peer][gpu->rank].pushed);
    uint32_t pulled = atomic_load(&gpu->messages.pair[gpu->rank][peer].pulled);
    return !mine->number || (!mine->kept && offer_is_answered(gpu, peer, offer) &&
                             (int32_t)(pushed - mine->pushed) >= 0 && (int32_t)(pulled - mine->pulled) >= 0);
}

static void offer_publish(struct gpu *gpu, int peer, int offer, const struct cuda_range *range,
                          const struct cuda_handle *handle, uint64_t key)
{
    struct mailbox_offer *place = offer_place_of(gpu, peer, offer);
    struct offered *mine = &gpu->offers.offered[peer][offer];
    uint32_t number = (mine->number + 1) & 0x7fffffff;
    gpu->offers.invited[peer] -= mine->invited;
    *mine = (struct offered){.number = number ? number : 1,
                             .id = range->id,
                             .base = range->base,
                             .size = range->size,
                             .used = ++gpu->offers.used,
                             .pushed = atomic_load(&gpu->messages.pair[peer][gpu->rank].pushed),
                             .pulled = atomic_load(&gpu->messages.pair[gpu->rank][peer].pulled)};
    place->buffer = (struct mailbox_buffer){.handle = *handle, .address = range->base, .base = range->base};
    place->key = key;
    atomic_store_explicit(&place->number, mine->number, memory_order_release);
    mailbox_ring(&gpu->ranks[peer]);
}

static uint32_t offer_places_used(const struct gpu *gpu, int peer)
{
    return atomic_load_explicit(&gpu->offers.places[gpu->rank][peer], memory_order_relaxed);
}

/* The peer keeps memory alive that this process has given back: it shall let go. The driver is asked without the lock:
 * it may take its time. */
static bool withdraw_if_freed(struct gpu *gpu, int peer, int offer)
{
    static const struct cuda_range nothing = {.ordinal = -1};
    static const struct cuda_handle none;
    struct cuda_range now;
    pthread_mutex_lock(&gpu->offers.offering);
    const struct offered mine = gpu->offers.offered[peer][offer];
    bool mapped = mine.size && (mine.invited ? offer_is_answered(gpu, peer, offer) : is_mapped(gpu, peer, offer)) &&
                  may_change(gpu, peer, offer);
    pthread_mutex_unlock(&gpu->offers.offering);
    if (!mapped || cuda_range_of((void *)(uintptr_t)mine.base, &now) != TUTTI_SUCCESS ||
        (now.id == mine.id && now.base == mine.base))
        return mine.size != 0;
    pthread_mutex_lock(&gpu->offers.offering);
    bool still = gpu->offers.offered[peer][offer].number == mine.number && may_change(gpu, peer, offer);
    if (still)
        offer_publish(gpu, peer, offer, &nothing, &none, 0);
    pthread_mutex_unlock(&gpu->offers.offering);
    return !still;
}

bool offer_withdraw_freed(struct gpu *gpu)
{
    bool any = false;
    for (int peer = 0; peer < gpu->nranks; peer++)
        for (uint32_t i = 0; !gpu->here[peer] && i < offer_places_used(gpu, peer); i++)
            any |= withdraw_if_freed(gpu, peer, (int)i);
    return any;
}

/* Does the offer in place i make room, rather than the one in place `other`? An offer that kernels are invited to does
 * not. */
static bool is_older(const struct gpu *gpu, int peer, int i, int other)
{
    const struct offered *offered = gpu->offers.offered[peer];
    return may_change(gpu, peer, i) && !offered[i].invited &&
           (other < 0 || !offered[i].size || offered[i].used < offered[other].used);
}

static int offer_find_room(struct gpu *gpu, int peer)
{
    int oldest = -1, used = (int)offer_places_used(gpu, peer);
    for (int i = 0; i < used && (oldest < 0 || gpu->offers.offered[peer][oldest].size); i++)
        if (is_older(gpu, peer, i, oldest))
            oldest = i;
    if (used == MAILBOX_OFFERS || (oldest >= 0 && !gpu->offers.offered[peer][oldest].size))
        return oldest;
    atomic_store_explicit(&gpu->offers.places[gpu->rank][peer], (uint32_t)used + 1, memory_order_release);
    return used;
}

static bool keep_passed_fd(struct gpu *gpu, int peer, int fd, uint64_t key)
{
    struct passed_fd *passed_fd = malloc(sizeof *passed_fd);
    if (!passed_fd)
        return false;
    *passed_fd = (struct passed_fd){.peer = peer, .fd = fd, .key = key};
    pthread_mutex_lock(&gpu->offers.lock);
    list_push(&gpu->offers.passed_fds, &passed_fd->node);
    pthread_mutex_unlock(&gpu->offers.lock);
    mailbox_ring(&gpu->ranks[gpu->rank]);
    return true;
}

/* Returns the offer's place; -1: no offer was made. */
static int make_offer(struct gpu *gpu, int peer, const struct cuda_range *range)
{
    struct cuda_handle handle = {0};
    int fd = -1;
    int offer = offer_find_room(gpu, peer);
    if (offer < 0)
        return offer;
    uint64_t key = 0, place = (uint64_t)(gpu->rank * KERNEL_RANKS + peer) * MAILBOX_OFFERS + (uint64_t)offer;
    if (cuda_export(range, &handle, &fd) != TUTTI_SUCCESS)
        handle.how = 0; /* offered as nothing, and so remembered: not to be tried again */
    if (fd >= 0) {
        key = mix64(mix64(gpu->base.team->id + place) + gpu->offers.offered[peer][offer].number);
        if (!keep_passed_fd(gpu, peer, fd, key)) {
            close(fd);
            return -1;
        }
    }
    offer_publish(gpu, peer, offer, range, &handle, key);
    return offer;
}

/* The place where the buffer is offered already; -1: nowhere. */
static int look_up(struct gpu *gpu, int peer, const struct cuda_range *range)
{
    uint32_t used = offer_places_used(gpu, peer);
    for (uint32_t i = 0; i < used; i++) {
        struct offered *mine = &gpu->offers.offered[peer][i];
        if (!mine->number || !mine->size || mine->id != range->id || mine->base != range->base)
            continue;
        mine->used = ++gpu->offers.used;
        return (int)i;
    }
    return -1;
}

int offer_find(struct gpu *gpu, int peer, const struct cuda_range *range)
{
    pthread_mutex_lock(&gpu->offers.offering);
    int offer = look_up(gpu, peer, range);
    bool mapped = offer >= 0 && is_mapped(gpu, peer, offer);
    if (offer < 0)
        make_offer(gpu, peer, range);
    pthread_mutex_unlock(&gpu->offers.offering);
    return mapped ? offer : -1;
}

int offer_keep(struct gpu *gpu, int peer, const struct cuda_range *range)
{
    pthread_mutex_lock(&gpu->offers.offering);
    int offer = look_up(gpu, peer, range);
    if (offer < 0)
        offer = make_offer(gpu, peer, range);
    if (offer >= 0)
        gpu->offers.offered[peer][offer].kept++;
    pthread_mutex_unlock(&gpu->offers.offering);
    return offer;
}

void offer_let_go(struct gpu *gpu, int peer, int offer)
{
    pthread_mutex_lock(&gpu->offers.offering);
    if (gpu->offers.offered[peer][offer].kept)
        gpu->offers.offered[peer][offer].kept--;
    pthread_mutex_unlock(&gpu->offers.offering);
}

/* ---- What kernels are invited to ---- */

/* The buffer stays offered until its memory is freed. */
static uint64_t gpu_offer_invite(struct gpu *gpu, int peer, const struct cuda_range *range, uint64_t offset)
{
    int offer = look_up(gpu, peer, range);
    if (offer < 0)
        offer = make_offer(gpu, peer, range);
    if (offer < 0 || !offer_place_of(gpu, peer, offer)->buffer.handle.how)
        return 0;
    struct offered *mine = &gpu->offers.offered[peer][offer];
    if (!mine->invited && gpu->offers.invited[peer] >= INVITED_MOST)
        return 0;
    if (!mine->invited) { /* calls repeat: the peer hears of it once */
        gpu->offers.invited[peer]++;
        mine->invited = true;
        atomic_store_explicit(&offer_place_of(gpu, peer, offer)->invited, mine->number, memory_order_release);
        mailbox_ring(&gpu->ranks[peer]);
    }
    return kernel_invite((uint32_t)offer, mine->number, offset);
}

uint64_t offer_invite(struct gpu *gpu, int peer, const void *memory, uint64_t bytes)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED; /* of the capture that this is for, too */
    struct cuda_range range;
    uint64_t invitation = 0, address = (uintptr_t)memory;
    gpu->base.cu->ThreadExchangeStreamCaptureMode(&mode);
    bool known = cuda_range_of(memory, &range) == TUTTI_SUCCESS && range.kind == CUDA_DEVICE &&
                 range.ordinal == gpu->base.device->ordinal && address - range.base + bytes <= range.size;
    if (known && gpu->here[peer]) {
        if (!param_int(PARAM_P2P_DIRECT_DISABLE) && memory_is_reached(gpu, memory))
            invitation = KERNEL_INVITE_ADDRESS | address;
    } else if (known && attend_is_on(&gpu->importer.attended)) {
        pthread_mutex_lock(&gpu->offers.offering);
        invitation = gpu_offer_invite(gpu, peer, &range, address - range.base);
        pthread_mutex_unlock(&gpu->offers.offering);
    }
    gpu->base.cu->ThreadExchangeStreamCaptureMode(&mode);
    return invitation;
}

void offer_use(struct gpu *gpu, int peer, int offer, bool sends, uint32_t number)
{
    pthread_mutex_lock(&gpu->offers.offering);
    struct offered *mine = &gpu->offers.offered[peer][offer];
    if (sends)
        mine->pulled = number;
    else
        mine->pushed = number;
    pthread_mutex_unlock(&gpu->offers.offering);
}

/* ---- Descriptors that go with offers ---- */

/* TUTTI_IN_PROGRESS: the link is not up yet. */
static tutti_result_t deliver(struct gpu *gpu, const struct passed_fd *passed_fd)
{
    struct link *link;
    lock_take(&gpu->base.team->engine->lock);
    tutti_result_t result = team_link(gpu->base.team, passed_fd->peer, &link);
    if (result == TUTTI_SUCCESS)
        result = link_share(link, passed_fd->key, passed_fd->fd);
    lock_release(&gpu->base.team->engine->lock);
    return result;
}

static void drop(struct passed_fd *passed_fd)
{
    list_remove(&passed_fd->node);
    close(passed_fd->fd);
    free(passed_fd);
}

/* One descriptor at a time: under the engine's lock a callback may want this executor's lock. */
static struct passed_fd *next_passed_fd(struct gpu *gpu)
{
    pthread_mutex_lock(&gpu->offers.lock);
    struct passed_fd *passed_fd =
        list_empty(&gpu->offers.passed_fds) ? NULL : list_entry(gpu->offers.passed_fds.next, struct passed_fd, node);
    pthread_mutex_unlock(&gpu->offers.lock);
    return passed_fd;
}

tutti_result_t offer_pass_fd(struct gpu *gpu, int peer, int fd, uint64_t key)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (copy >= 0 && keep_passed_fd(gpu, peer, copy, key))
        return TUTTI_SUCCESS;
    if (copy >= 0)
        close(copy);
    return error_set(TUTTI_SYSTEM_ERROR, "cannot keep a descriptor of device memory for rank %d",
                     team_told_rank(gpu->base.team, peer));
}

bool offer_deliver(struct gpu *gpu)
{
    for (struct passed_fd *passed_fd; (passed_fd = next_passed_fd(gpu));) {
        if (deliver(gpu, passed_fd) == TUTTI_IN_PROGRESS)
            return true;
        pthread_mutex_lock(&gpu->offers.lock);
        drop(passed_fd); /* undeliverable ones too: the offer stays without an answer, and messages are staged */
        pthread_mutex_unlock(&gpu->offers.lock);
    }
    return false;
}

void offer_close(struct gpu *gpu)
{
    while (!list_empty(&gpu->offers.passed_fds))
        drop(list_entry(gpu->offers.passed_fds.next, struct passed_fd, node));
}
