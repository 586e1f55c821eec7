/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of payloads for transports whose hardware reads and writes it by itself (NCCLX section 4.2: the receiver tells
 * address and key, the sender writes there). What is not registered goes the other way: the peer's target() is asked.
 */
#include "link/memory.h"

#include <string.h>

int memory_transport(const struct link *link)
{
    int data = link->planned[1];
    return data >= 0 && (link->domain->ops[data]->caps & TRANSPORT_REGISTERS) ? data : -1;
}

static struct link_registration *link_memory_take(struct link *link, struct place place, size_t length, bool target,
                                                  bool *unsure)
{
    int transport = memory_transport(link);
    struct link_registration *taken =
        transport < 0 ? NULL : registration_take(link->domain, transport, place, length, target);
    *unsure = transport >= 0 && !taken;
    return taken;
}

struct link_registration *memory_offer(struct link *link, struct place place, size_t length, struct wire_remote *out,
                                       bool *unsure)
{
    struct link_registration *registration = link_memory_take(link, place, length, true, unsure);
    if (!registration)
        return NULL;
    const struct transport_memory *memory = registration->memory;
    *out = (struct wire_remote){
        .address = (uint64_t)(uintptr_t)place.address, .devices = (uint32_t)memory->devices, .opened = memory->opened};
    memcpy(out->key, memory->key, sizeof out->key);
    return registration;
}

struct link_memory *memory_meet(struct link *link, struct link_send *send, const struct wire_remote *remote,
                                bool *unsure)
{
    struct link_registration *source = NULL;
    *unsure = memory_transport(link) >= 0;
    if (remote->devices > 0 && remote->devices <= WIRE_DEVICES && remote->address <= UINT64_MAX - send->length)
        source = link_memory_take(link, send->place, send->length, false, unsure);
    if (!source)
        return NULL;
    send->met = (struct link_memory){source, *remote};
    return &send->met;
}

void memory_part(struct link *link, struct link_memory *memory)
{
    if (memory)
        registration_drop(link->domain, memory->source);
}
