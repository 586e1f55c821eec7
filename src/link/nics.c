/* SPDX-License-Identifier: Apache-2.0 */
/* The interfaces that lanes go by, and what other processes of the host do by them. */
#include "link/nics.h"

#include "base/near.h"
#include "base/param.h"
#include "base/random.h"

#include <string.h>

#define BATCH  8                 /* choices that one look at the board is for, or segments that came, */
#define STALE  (100 * NS_PER_US) /* unless it was longer ago */
#define QUIET  32                /* times what borrowers may cost an owner, for which they wait after its work */
#define LEAST  (100 * NS_PER_US)
#define MOST   NS_PER_S
#define SMOOTH 8           /* segments of which the latest times count */
#define FAR    (63.0 / 64) /* part of what is under way that has left, at most */
#define PACE   1048576     /* bytes that a pace is for */
#define SLOW   3           /* times the pace that others' interfaces have */
#define ODD    8           /* times as long as others: one that was seen so late tells of the process, not of the NIC */
_Static_assert(BOARD_NICS >= LINK_NICS + BOARD_GPUS, "each interface has a place on the board");

/* What one look at the board is for. */
static unsigned nics_batch(void)
{
    return param_int(PARAM_BORROW_WHILE) == PATH_WHILE_FRESH ? 1 : BATCH;
}

uint64_t nics_name(const struct transport_nic *about)
{
    return hash_bytes(about->port, about->name, strlen(about->name)) | 1;
}

/* One interface leaves no choice, and nobody asks what others do by it; but others ask whose it is, where the user says
 * that there are others. */
static void nics_post(struct link_domain *domain)
{
    if (domain->nics < 2 && param_int(PARAM_BORROW) <= 0)
        return;
    if (!domain->board && !(domain->board = board_open(domain->self.host)))
        return;
    for (int i = 0; i < domain->nics; i++)
        if (!domain->nic[i].use)
            domain->nic[i].use = board_use(domain->board, nics_name(&domain->nic[i].about));
}

static struct path_nic *nics_known(struct link_domain *domain, const struct transport_ops *ops, unsigned device)
{
    for (int i = 0; i < domain->nics; i++)
        if (domain->nic[i].ops == ops && domain->nic[i].device == device)
            return &domain->nic[i];
    return NULL;
}

static struct path_nic *nics_add(struct link_domain *domain, const struct transport_ops *ops, unsigned device,
                                 struct transport *transport)
{
    struct path_nic *nic = &domain->nic[domain->nics++];
    *nic = (struct path_nic){.ops = ops, .device = device};
    ops->nic(transport, device, &nic->about);
    nics_post(domain);
    return nic;
}

struct path_nic *nics_find(struct link_domain *domain, const struct lane *carrier)
{
    struct path_nic *known = nics_known(domain, carrier->ops, carrier->device);
    if (!known && domain->nics < LINK_NICS)
        known = nics_add(domain, carrier->ops, carrier->device, carrier->transport);
    return known ? known : &domain->nic[domain->nics - 1];
}

/* Interfaces next to one of these GPUs, as bits. */
static uint32_t nics_next_to(const struct link_domain *domain, const struct transport_ops *ops, uint64_t gpus)
{
    const struct link_owner *owner = &domain->owner;
    uint32_t nics = 0;
    for (; owner->near && gpus; gpus &= gpus - 1)
        nics |= owner->near(owner->context, (struct place){.device = __builtin_ctzll(gpus) + 1}, ops);
    return nics;
}

/* Of those that are nearest to this process's GPUs; else to the process, where that is known of all. */
static void nics_own(struct link_domain *domain, const struct transport_ops *ops)
{
    uint64_t names[LINK_NICS];
    struct path_nic *of[LINK_NICS];
    uint32_t next = nics_next_to(domain, ops, near_used());
    int count = 0, least = 0;
    for (int i = 0; i < domain->nics; i++) {
        const struct path_nic *nic = &domain->nic[i];
        if (nic->ops != ops)
            continue;
        if (nic->own)
            return;
        if (!least || nic->about.distance < least)
            least = nic->about.distance;
    }
    for (int i = 0; i < domain->nics; i++) {
        struct path_nic *nic = &domain->nic[i];
        if (nic->ops != ops || (next ? !(next >> nic->device & 1) : least && nic->about.distance > least))
            continue;
        of[count] = nic;
        names[count++] = nics_name(&nic->about);
    }
    if (domain->board && count)
        of[board_own(domain->board, names, count)]->own = true;
    else if (count == 1)
        of[0]->own = true;
}

bool nics_is_chosen(const struct link_domain *domain, const struct path_nic *nic)
{
    int count = 0;
    for (int i = 0; i < domain->nics; i++)
        count += domain->nic[i].ops == nic->ops;
    return nic->own && (count > 1 || param_int(PARAM_BORROW) > 0);
}

void nics_list(struct link_domain *domain, int transport)
{
    const struct transport_ops *ops = domain->ops[transport];
    struct transport_nic about;
    if (!path_bound())
        return;
    for (unsigned device = 0; domain->nics < LINK_NICS && ops->nic(domain->transport[transport], device, &about);
         device++)
        if (!nics_known(domain, ops, device))
            nics_add(domain, ops, device, domain->transport[transport]);
    nics_own(domain, ops);
}

static uint64_t use_of(const _Atomic uint64_t *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

void nics_note(struct path_nic *nic, const struct board_sum *sum, uint64_t now)
{
    nic->elsewhere = sum->outstanding;
    nic->theirs = sum->pace;
    nic->owners = sum->owners;
    nic->owner = sum->owner;
    bool heeds = param_int(PARAM_BORROW_WHILE) != PATH_WHILE_ANY;
    nic->busy = heeds && sum->out > now;
    nic->awaited = heeds && sum->in > now;
    nic->lent = sum->waiting;
}

/* The quickest pace that others have by an interface of the transport. */
static uint64_t nics_best(const struct path_nic *nics, int count, const struct transport_ops *ops)
{
    uint64_t best = UINT64_MAX / SLOW;
    for (int i = 0; i < count; i++)
        if (nics[i].ops == ops && !nics[i].own && nics[i].theirs && nics[i].theirs < best)
            best = nics[i].theirs;
    return best;
}

void nics_compare(struct path_nic *nics, int count)
{
    for (int i = 0; i < count; i++)
        nics[i].slow = nics[i].own && nics[i].pace > SLOW * nics_best(nics, count, nics[i].ops);
}

void nics_look(struct link_domain *domain, uint64_t now)
{
    if (!domain->board || (domain->choices++ % nics_batch() && now < domain->looked + STALE))
        return;
    domain->looked = now;
    domain->choices = 1;
    for (int i = 0; i < domain->nics; i++) {
        struct board_sum sum = board_look(domain->board, nics_name(&domain->nic[i].about), now);
        nics_note(&domain->nic[i], &sum, now);
    }
    nics_compare(domain->nic, domain->nics);
}

/* ---- What its owner wants ---- */

/* For many times as long as what borrowers may have waiting takes, and ns for which more of theirs comes. */
static uint64_t nics_quiet(uint64_t took, uint64_t comes)
{
    uint64_t quiet = QUIET * (path_bound() * took + comes);
    return quiet < LEAST ? LEAST : quiet < MOST ? quiet : MOST;
}

/* What landed before the latest put is perhaps heard of after it. */
void nics_serves(struct path_nic *nic, uint64_t now)
{
    uint64_t quiet = nic->took ? nics_quiet(nic->took, 0) : MOST; /* before any has landed nobody knows */
    nic->serves = now > nic->serves ? now : nic->serves;
    if (nic->use && nic->own)
        atomic_store_explicit(&nic->use->out, nic->serves + quiet, memory_order_relaxed);
}

/* A process that seldom runs sees many segments at once: the first took long, and the others no time. So the mean
 * counts. */
static uint64_t nics_mean(uint64_t mean, uint64_t took)
{
    uint64_t most = ODD * mean;
    return mean ? mean - mean / SMOOTH + (took < most ? took : most) / SMOOTH + 1 : took;
}

void nics_served(struct path_nic *nic, uint64_t length, uint64_t posted, uint64_t when)
{
    uint64_t took = since(posted > nic->served ? posted : nic->served, when);
    nic->took = nics_mean(nic->took, took);
    nic->pace = nics_mean(nic->pace, (uint64_t)((double)took * PACE / (double)length));
    nic->served = when;
    if (nic->use && nic->own)
        atomic_store_explicit(&nic->use->pace, nic->pace, memory_order_relaxed);
    nics_serves(nic, when);
}

/* ---- What is under way ---- */

/* What is on its way, or has come and is not known to have, stands before nothing of the owner's. */
static void nics_tell_waiting(struct link_lane *lane)
{
    struct lane_borrowed *borrowed = &lane->borrowed;
    struct board_use *use = lane->view.nic->use;
    uint64_t waiting = (uint64_t)((double)borrowed->bytes * (1 - borrowed->gone)), before = borrowed->waiting;
    borrowed->waiting = waiting;
    atomic_store_explicit(&use->told, clock_ns(), memory_order_relaxed);
    atomic_fetch_add_explicit(&use->waiting, waiting - before, memory_order_relaxed);
}

/* more: modulo 2^64. */
static void nics_count(struct link_lane *lane, uint64_t more, bool borrows)
{
    struct path_nic *nic = lane->view.nic;
    nic->outstanding += more;
    lane->borrowed.bytes += borrows ? more : 0;
    if (!nic->use)
        return;
    atomic_fetch_add_explicit(&nic->use->outstanding, more, memory_order_relaxed);
    if (borrows)
        nics_tell_waiting(lane);
}

void nics_begin(struct link_lane *lane, uint64_t bytes, bool borrows)
{
    nics_count(lane, bytes, borrows);
}

void nics_end(struct link_lane *lane, uint64_t bytes, bool borrows)
{
    nics_count(lane, 0 - bytes, borrows);
}

/* Of the time that it took it was on its way for the round trip. One that was measured behind a queue is too long, but
 * then the quickest segment was quicker. */
void nics_borrowed(struct link_lane *lane, uint64_t took)
{
    struct lane_borrowed *borrowed = &lane->borrowed;
    if (took && (!borrowed->least || took < borrowed->least))
        borrowed->least = took;
    uint64_t way = lane->view.trip < borrowed->least ? lane->view.trip : borrowed->least;
    double gone = took ? (double)way / (double)took : 0;
    borrowed->gone += (gone - borrowed->gone) / SMOOTH;
    borrowed->gone = borrowed->gone < FAR ? borrowed->gone : FAR;
}

/* ---- What messages tell ---- */

/* By others than the peer: two of its interfaces may end at one of ours. */
static bool nics_is_awaited(const struct link *link, const struct path_nic *nic, uint64_t now)
{
    uint64_t ours = nic->use ? use_of(&nic->use->in) : 0;
    return nic->awaited || (nic->came_by == link ? nic->others : ours) > now;
}

/* Of our lanes: those by an interface that we own, or by one that is idle for what comes. */
static uint16_t nics_mask(const struct link *link, bool own)
{
    uint64_t now = own ? 0 : clock_ns();
    uint16_t mask = 0;
    for (lane_set left = link->present & ~lane_bit(LINK_MESSAGE_LANE); left; left &= left - 1) {
        const struct link_lane *lane = &link->lane[lane_first(left)];
        const struct path_nic *nic = lane->state == LANE_UP ? lane->view.nic : NULL;
        if (nic && (own ? nic->own : !nics_is_awaited(link, nic, now)))
            mask |= (uint16_t)(1u << lane->bit);
    }
    return mask;
}

void nics_say(const struct link *link, struct wire_message *head)
{
    struct link_domain *domain = link->domain;
    bool told = path_bound();
    if (told && head->kind == WIRE_CREDIT)
        nics_look(domain, clock_ns());
    head->own = told ? nics_mask(link, true) : 0;
    head->idle = told ? nics_mask(link, false) : UINT16_MAX;
}

void nics_hear(struct link *link, const struct wire_message *head)
{
    link->nics.own = head->own;
    link->nics.idle = head->idle;
}

bool nics_came(struct link_lane *lane, uint32_t slot, uint64_t now)
{
    struct link *link = lane->link;
    struct path_nic *nic = lane->view.nic;
    if (!link->domain->board || !path_bound())
        return false;
    if (lane->index != LINK_MESSAGE_LANE && link->nics.own >> lane->peer_bit & 1 && nic && nic->use) {
        if (nic->came && nic->came_in == slot)
            nic->takes = nics_mean(nic->takes, since(nic->came, now));
        if (nic->came_by != link)
            nic->others = use_of(&nic->use->in);
        nic->came = now;
        nic->came_in = slot;
        nic->came_by = link;
        atomic_store_explicit(&nic->use->in, now + nics_quiet(nic->takes, lane->view.trip), memory_order_relaxed);
    }
    if (++link->nics.came % nics_batch())
        return false;
    nics_look(link->domain, now);
    return nics_mask(link, false) != link->nics.told;
}

bool nics_any_idle(struct link_domain *domain, const struct transport_ops *ops, uint32_t devices, bool comes)
{
    nics_look(domain, clock_ns());
    for (int i = 0; i < domain->nics; i++) {
        const struct path_nic *nic = &domain->nic[i];
        if (nic->ops == ops && nic->device < 32 && devices >> nic->device & 1 && nic->lanes &&
            !(comes ? nic->awaited : nic->busy))
            return true;
    }
    return false;
}

void nics_close(struct link_domain *domain)
{
    board_close(domain->board);
    domain->board = NULL;
}

/* Of the transport that carries the link's data. */
static void nics_nearest(const struct link *link, struct path_payload *payload)
{
    const struct link_domain *domain = link->domain;
    const struct transport_ops *ops = domain->ops[link->planned[link->planned[1] >= 0]];
    int device = payload->place.device, of = payload->place.relays;
    payload->near_of = ops;
    payload->near = nics_next_to(domain, ops, 1ull << ((of ? of : device) - 1));
    payload->slot = of ? nics_next_to(domain, ops, 1ull << (device - 1)) : 0;
    payload->relayed = nics_next_to(domain, ops, near_relays());
}

struct path_payload nics_payload(const struct link *link, struct place place, enum path_class class, uint64_t left)
{
    struct path_payload payload = {.place = place, .class = class, .left = left};
    if (!place_is_host(place))
        nics_nearest(link, &payload);
    return payload;
}
