/* SPDX-License-Identifier: Apache-2.0 */
#include "rdmacm/place.h"

#include "verbs/device.h"
#include "verbs/engine.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define DISCARD_PORT 9 /* nothing is sent: connecting looks the route up */

socklen_t address_size(const union cm_address *address)
{
    return address->any.sa_family == AF_INET6 ? sizeof(address->v6) : sizeof(address->v4);
}

bool address_known(const union cm_address *address)
{
    return address->any.sa_family == AF_INET || address->any.sa_family == AF_INET6;
}

bool address_is_any(const union cm_address *address)
{
    return address->any.sa_family == AF_INET6 ? IN6_IS_ADDR_UNSPECIFIED(&address->v6.sin6_addr)
                                              : !address->v4.sin_addr.s_addr;
}

bool address_is_loopback(const union cm_address *address)
{
    return address->any.sa_family == AF_INET6 ? IN6_IS_ADDR_LOOPBACK(&address->v6.sin6_addr)
                                              : ntohl(address->v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

bool address_is_multicast(const union cm_address *address)
{
    return address->any.sa_family == AF_INET6 ? IN6_IS_ADDR_MULTICAST(&address->v6.sin6_addr)
                                              : IN_MULTICAST(ntohl(address->v4.sin_addr.s_addr));
}

uint16_t address_port(const union cm_address *address)
{
    return ntohs(address->any.sa_family == AF_INET6 ? address->v6.sin6_port : address->v4.sin_port);
}

void address_set_port(union cm_address *address, uint16_t port)
{
    if (address->any.sa_family == AF_INET6)
        address->v6.sin6_port = htons(port);
    else
        address->v4.sin_port = htons(port);
}

void address_plain(union cm_address *address)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = address->v6.sin6_port};
    if (address->any.sa_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&address->v6.sin6_addr))
        return;
    memcpy(&v4.sin_addr, address->v6.sin6_addr.s6_addr + 12, sizeof(v4.sin_addr));
    memset(address, 0, sizeof(*address));
    address->v4 = v4;
}

union ibv_gid address_gid(const union cm_address *address)
{
    union ibv_gid gid = {.raw = {[10] = 0xff, [11] = 0xff}};
    if (address->any.sa_family == AF_INET6)
        memcpy(gid.raw, &address->v6.sin6_addr, sizeof(gid.raw));
    else
        memcpy(gid.raw + 12, &address->v4.sin_addr, sizeof(address->v4.sin_addr));
    return gid;
}

/* An address of one link's scope is that of one interface. */
static unsigned interface_of(const union cm_address *address)
{
    return address->any.sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&address->v6.sin6_addr)
               ? address->v6.sin6_scope_id
               : 0;
}

static bool find_in(const struct rdma_device *device, const union ibv_gid *gid, struct cm_place *place)
{
    for (int i = 0; i < GID_COUNT; i++) {
        const union ibv_gid *has = device_gid(device, i);
        if (!has || memcmp(has, gid, sizeof(*gid)))
            continue;
        *place =
            (struct cm_place){device_guid(device), (uint32_t)device->ifindex, (uint8_t)i, device_mtu(device), *gid};
        return true;
    }
    return false;
}

static bool find(const union cm_address *address, struct cm_place *place)
{
    union ibv_gid gid = address_gid(address);
    unsigned interface = interface_of(address);
    list_each(node, &device_table)
    {
        const struct rdma_device *device = list_entry(node, struct rdma_device, node);
        if (device->present && (!interface || interface == (unsigned)device->ifindex) && find_in(device, &gid, place))
            return true;
    }
    return false;
}

int place_find(const union cm_address *address, struct cm_place *place)
{
    engine_lock();
    bool found = find(address, place) || (!device_refresh() && find(address, place));
    engine_unlock();
    return found ? 0 : ENODEV;
}

bool place_is_there(const struct cm_place *place)
{
    bool there = false;
    engine_lock();
    list_each(node, &device_table)
    {
        const struct rdma_device *device = list_entry(node, struct rdma_device, node);
        there |= device->present && (uint32_t)device->ifindex == place->index && device_guid(device) == place->guid;
    }
    engine_unlock();
    return there;
}

int place_source(const union cm_address *to, union cm_address *from)
{
    union cm_address target = *to;
    socklen_t size = sizeof(*from);
    int fd = socket(to->any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), err = 0;
    address_set_port(&target, DISCARD_PORT);
    if (fd < 0 || connect(fd, &target.any, address_size(&target)) || getsockname(fd, &from->any, &size))
        err = errno;
    if (fd >= 0)
        close(fd);
    if (!err)
        address_set_port(from, 0);
    return err;
}
