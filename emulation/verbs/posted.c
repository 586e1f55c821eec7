/* SPDX-License-Identifier: Apache-2.0 */
/* Writes on their way to a device. Its memory is told by the name of its descriptors: a read through one region brings
 * what went through another, as it does behind one bus; a read by another adapter does not. */
#include "verbs/posted.h"
#include "verbs/counters.h"
#include "verbs/dmabuf.h"
#include "verbs/engine.h"
#include "verbs/fault.h"
#include "verbs/softverbs.h"

#include <stdlib.h>
#include <string.h>

#define MOST ((size_t)64 << 20) /* bytes on their way; those behind push the first ones */

struct posted_write {
    struct list node;
    const struct rdma_device *by;
    uint64_t memory;
    uint8_t *to;
    size_t size;
    uint8_t bytes[];
};

static struct list writes = {&writes, &writes};
static size_t total;

static void arrive(struct posted_write *write)
{
    memcpy(write->to, write->bytes, write->size);
    total -= write->size;
    list_remove(&write->node);
    free(write);
}

static void arrive_all(const struct rdma_device *by, uint64_t memory)
{
    list_each_safe(node, &writes)
    {
        struct posted_write *write = list_entry(node, struct posted_write, node);
        if ((!by || write->by == by) && (!memory || write->memory == memory))
            arrive(write);
    }
}

static const struct rdma_device *device_of(const struct mr *mr)
{
    return context_of(mr->ibv.context)->device;
}

void posted_push(const struct mr *mr)
{
    if (total)
        arrive_all(device_of(mr), mr->memory);
}

void posted_flush(uint64_t memory)
{
    arrive_all(NULL, memory);
}

void posted_forget(void)
{
    struct list *node;
    while ((node = list_pop(&writes)))
        free(list_entry(node, struct posted_write, node));
    total = 0;
}

bool posted_hold(const struct mr *mr, uint8_t *to, const void *from, size_t size)
{
    struct posted_write *write = fault_posts() ? malloc(sizeof(*write) + size) : NULL;
    if (!write) {
        posted_push(mr);
        return false;
    }
    *write = (struct posted_write){.by = device_of(mr), .memory = mr->memory, .to = to, .size = size};
    memcpy(write->bytes, from, size);
    list_push(&writes, &write->node);
    total += size;
    count(posted_writes);
    while (total > MOST)
        arrive(list_entry(writes.next, struct posted_write, node));
    return true;
}

__attribute__((visibility("default"))) void softverbs_flush(const char *name)
{
    engine_lock();
    posted_flush(name ? dmabuf_memory(name) : 0);
    engine_unlock();
}
