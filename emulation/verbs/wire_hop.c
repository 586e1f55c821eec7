/* SPDX-License-Identifier: Apache-2.0 */
/* Where a path's frames go. The kernel's stack sees some packets again and again: it keeps the neighbour alive, and
 * what it says of the path is never older than FRESH_NS. Not shorter: the kernel answers under a lock that whoever
 * makes or removes an interface holds for milliseconds, and nothing moves here meanwhile. Paths that send rarely are
 * not worth a question. */
#include "verbs/wire_hop.h"
#include "verbs/netlink.h"

#include "base/clock.h"

#include <linux/if_arp.h>
#include <string.h>

#define SLOTS    256
#define FRESH_NS (500 * NS_PER_MS)
#define LONG_WAY 4 /* packets that go through the stack before the question */

struct hop {
    struct rdma_device *device;
    bool v6, known;
    uint8_t traffic_class, seen;
    uint16_t source_port;
    uint8_t source[16], destination[16], to[6];
    uint64_t until; /* what is known holds */
};

static struct hop hops[SLOTS];

static struct hop *slot_of(const struct path *path)
{
    uint32_t hash = (uint32_t)path->device->ifindex * 31 + path->source_port;
    for (size_t i = 0; i < sizeof(path->destination); i++)
        hash = hash * 31 + path->destination[i];
    return &hops[(hash ^ hash >> 8 ^ hash >> 16) % SLOTS];
}

static bool is_for(const struct hop *hop, const struct path *path)
{
    return hop->device == path->device && hop->v6 == path->v6 && hop->source_port == path->source_port &&
           hop->traffic_class == path->traffic_class && !memcmp(hop->source, path->source, sizeof(hop->source)) &&
           !memcmp(hop->destination, path->destination, sizeof(hop->destination));
}

static void take_over(struct hop *hop, const struct path *path)
{
    *hop = (struct hop){
        .device = path->device, .v6 = path->v6, .source_port = path->source_port, .traffic_class = path->traffic_class};
    memcpy(hop->source, path->source, sizeof(hop->source));
    memcpy(hop->destination, path->destination, sizeof(hop->destination));
}

static bool ask(struct hop *hop)
{
    const struct netlink_flow flow = {
        .index = hop->device->ifindex,
        .v6 = hop->v6,
        .traffic_class = hop->traffic_class,
        .source_port = hop->source_port,
        .destination_port = ROCE_UDP_PORT,
        .source = hop->source,
        .destination = hop->destination,
    };
    return !netlink_next_hop(&flow, hop->to);
}

bool wire_hop_find(const struct path *path, uint64_t now, uint8_t to[6])
{
    struct hop *hop = slot_of(path);
    if (path->device->hardware != ARPHRD_ETHER)
        return false;
    if (!is_for(hop, path))
        take_over(hop, path);
    if (now >= hop->until && ++hop->seen > LONG_WAY) {
        hop->known = ask(hop);
        hop->until = now + FRESH_NS;
        hop->seen = 0;
    }
    if (!hop->known || now >= hop->until)
        return false;
    memcpy(to, hop->to, sizeof(hop->to));
    return true;
}

void wire_hop_forget(void)
{
    memset(hops, 0, sizeof(hops));
}
