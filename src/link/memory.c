/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of payloads that is registered with a transport whose hardware reads and writes it by itself (NCCLX
 * section 4.2: the receiver tells address and key, the sender writes there). What cannot be registered goes the other
 * way: the peer's target() is asked.
 */
#include "link/internal.h"

#include <stdlib.h>
#include <string.h>

/* The link's transport that registers memory; -1: it has none. */
static int direct_transport(const struct link *link)
{
    int data = link->planned[1];
    return data >= 0 && (link->domain->ops[data]->caps & TRANSPORT_DIRECT) ? data : -1;
}

static struct transport_memory *register_with(struct link *link, void *data, size_t length)
{
    struct transport_memory *memory = NULL;
    int index = direct_transport(link);
    if (index < 0 || link->domain->ops[index]->register_memory(link->domain->transport[index], data, length, &memory) !=
                         TUTTI_SUCCESS)
        return NULL;
    trace_count(link->domain->trace, WIRE_COUNTER_REGISTRATIONS, 1);
    trace_count(link->domain->trace, WIRE_COUNTER_REGISTERED_BYTES, length);
    return memory;
}

void memory_withdraw(struct link *link, struct transport_memory *memory)
{
    int index = direct_transport(link);
    if (memory)
        link->domain->ops[index]->deregister_memory(link->domain->transport[index], memory);
}

struct transport_memory *memory_offer(struct link *link, void *data, size_t length, struct wire_remote *out)
{
    struct transport_memory *memory = register_with(link, data, length);
    if (!memory)
        return NULL;
    *out = (struct wire_remote){
        .address = (uint64_t)(uintptr_t)data, .devices = (uint32_t)memory->devices, .opened = memory->opened};
    memcpy(out->key, memory->key, sizeof out->key);
    return memory;
}

struct link_memory *memory_meet(struct link *link, const struct link_send *send, const struct wire_remote *remote)
{
    struct link_memory *memory = NULL;
    struct transport_memory *source = NULL;
    if (remote->devices > 0 && remote->devices <= WIRE_DEVICES && remote->address <= UINT64_MAX - send->length)
        source = register_with(link, (void *)send->data, send->length);
    if (source && (memory = malloc(sizeof *memory)))
        *memory = (struct link_memory){source, *remote};
    else
        memory_withdraw(link, source);
    return memory;
}

void memory_part(struct link *link, struct link_memory *memory)
{
    if (!memory)
        return;
    memory_withdraw(link, memory->source);
    free(memory);
}
