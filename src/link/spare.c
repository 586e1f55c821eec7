/* SPDX-License-Identifier: Apache-2.0 */
/* Receives in a device's memory, with host memory to spare; and the flush of what hardware has stored there. */
#include "link/spare.h"

#include "link/registration.h"

#include <string.h>

static bool spare_serves(const struct link_recv *recv)
{
    return recv->spare && !place_is_host(recv->place);
}

struct place spare_target(const struct link_recv *recv)
{
    return spare_serves(recv) ? place_host(recv->spare) : recv->place;
}

void *spare_whole(struct link_recv *recv)
{
    if (!spare_serves(recv))
        return place_reach(recv->place);
    recv->segment = recv->length;
    recv->segments = 1;
    recv->spilled = 1;
    return recv->spare;
}

void spare_clear(struct link_recv *recv)
{
    recv->spilled = 0;
    recv->flush.needed = false;
    list_init(&recv->flush.node);
}

void spare_begin(struct link_recv *recv)
{
    recv->spilled = 0;
    recv->flush.needed = spare_serves(recv) && recv->memory && recv->memory->memory->unordered;
    if (recv->flush.needed)
        memset(recv->flush.lane, 0, sizeof recv->flush.lane);
}

void spare_came(struct link_recv *recv, const struct link_lane *lane, uint32_t index, bool stored)
{
    if (!stored && spare_serves(recv))
        recv->spilled |= 1ull << index;
    if (stored && recv->flush.needed)
        recv->flush.lane[index] = (uint8_t)(lane->index + 1);
}

/* Interfaces, as bits, that have stored a part of it which the device may not see yet. */
static uint32_t spare_stored_by(const struct link *link, const struct link_recv *recv)
{
    uint32_t devices = 0;
    for (uint32_t i = 0; recv->flush.needed && i < recv->segments; i++)
        if (recv->flush.lane[i])
            devices |= 1u << link->lane[recv->flush.lane[i] - 1].carrier->device;
    return devices;
}

tutti_result_t spare_flush(struct link *link, struct link_recv *recv, bool *seen)
{
    struct link_domain *domain = link->domain;
    uint32_t devices = spare_stored_by(link, recv);
    *seen = !devices;
    if (*seen)
        return TUTTI_SUCCESS;
    if (!recv->memory) /* a peer lost its key meanwhile, because another receive there was given up */
        recv->memory = registration_take(domain, link->planned[1], recv->place, recv->length, true);
    if (!recv->memory)
        return TUTTI_SYSTEM_ERROR;
    int transport = recv->memory->transport;
    recv->flush.link = link;
    recv->flush.first = domain->flushes;
    recv->flush.left = recv->flush.count = (unsigned)__builtin_popcount(devices);
    domain->flushes += recv->flush.count;
    list_push(&domain->flushing, &recv->flush.node);
    uint64_t token = recv->flush.first;
    for (; devices; devices &= devices - 1)
        domain->ops[transport]->flush(domain->transport[transport], (unsigned)__builtin_ctz(devices),
                                      recv->memory->memory, place_behind(recv->place, recv->length - 1), token++);
    return TUTTI_SUCCESS;
}

struct link_recv *spare_flushed(struct link_domain *domain, uint64_t token, struct link **link)
{
    list_each(node, &domain->flushing)
    {
        struct link_recv *recv = list_entry(node, struct link_recv, flush.node);
        if (token - recv->flush.first >= recv->flush.count)
            continue;
        *link = recv->flush.link;
        return --recv->flush.left ? NULL : recv;
    }
    return NULL;
}

uint64_t spare_have(const struct link_recv *recv, uint64_t bitmap)
{
    for (uint32_t i = 0; recv->flush.needed && i < recv->segments; i++)
        if (recv->flush.lane[i])
            bitmap &= ~(1ull << i);
    return bitmap;
}

static void spare_take_back(struct link_recv *recv, unsigned lane_index)
{
    for (uint32_t i = 0; i < recv->segments; i++) {
        if (recv->flush.lane[i] != lane_index + 1)
            continue;
        recv->flush.lane[i] = 0;
        *recv->bitmap &= ~(1ull << i);
        recv->arrived--;
        list_remove(&recv->flush.node);
    }
}

void spare_lane_gone(struct link *link, unsigned lane_index)
{
    for (uint32_t slot = 0; slot < link->takes.size; slot++) {
        struct link_recv *recv = link->takes.receiving[slot];
        if (recv && recv->segments && recv->flush.needed)
            spare_take_back(recv, lane_index);
    }
}

void spare_end(struct link_recv *recv)
{
    list_remove(&recv->flush.node);
    recv->flush.needed = false;
}

bool spare_is_needed(const struct link_send *send)
{
    return send->spare && !place_is_host(send->place);
}
