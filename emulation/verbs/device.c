/* SPDX-License-Identifier: Apache-2.0 */
/* The table of devices: one for each interface, or what SOFTVERBS_DEVICES says ("mlx5_0=eth0,mlx5_1=eth1"). */
#include "verbs/device.h"
#include "verbs/event.h"
#include "verbs/wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEADERS_MAX 80 /* IPv6, UDP, base header, the longest extended header and the ICRC */

struct list device_table = {&device_table, &device_table};
pthread_mutex_t device_life = PTHREAD_MUTEX_INITIALIZER;

void device_disinherit(void)
{
    list_each(node, &device_table)
    {
        struct rdma_device *device = list_entry(node, struct rdma_device, node);
        struct list *open;
        while ((open = list_pop(&device->contexts))) {
            list_init(open); /* closing it takes it out of a list */
            list_entry(open, struct rdma_context, node)->inherited = true;
        }
        device->waiting = 0;
        memset((void *)device->counts, 0, sizeof(device->counts));
    }
}

const union ibv_gid *device_gid(const struct rdma_device *device, int index)
{
    if (index < 0 || index >= GID_COUNT)
        return NULL;
    int slot = ((index - device->gid_shift) % GID_COUNT + GID_COUNT) % GID_COUNT;
    return device->gids[slot].state == GID_VALID ? &device->gids[slot].gid : NULL;
}

void device_shift(struct rdma_device *device, int by)
{
    if (device->gid_shift == by)
        return;
    device->gid_shift = by;
    event_port(device, IBV_EVENT_GID_CHANGE);
}

bool device_has_address(const struct rdma_device *device, bool v6, const uint8_t *address)
{
    for (int i = 0; i < GID_COUNT; i++) {
        const struct gid_slot *slot = &device->gids[i];
        if (slot->state == GID_VALID && wire_gid_is_v4(&slot->gid) == !v6 &&
            !memcmp(slot->gid.raw + (v6 ? 0 : 12), address, v6 ? 16 : 4))
            return true;
    }
    return false;
}

bool device_usable(const struct rdma_device *device)
{
    for (int i = 0; i < GID_COUNT; i++)
        if (device->gids[i].state == GID_VALID)
            return device->up;
    return false;
}

enum ibv_mtu device_mtu(const struct rdma_device *device)
{
    unsigned room = device->mtu > HEADERS_MAX ? device->mtu - HEADERS_MAX : 0;
    return room >= 4096   ? IBV_MTU_4096
           : room >= 2048 ? IBV_MTU_2048
           : room >= 1024 ? IBV_MTU_1024
           : room >= 512  ? IBV_MTU_512
                          : IBV_MTU_256;
}

/* EUI-64 of the interface's address. */
__be64 device_guid(const struct rdma_device *device)
{
    uint8_t guid[8] = {device->mac[0] ^ 2, device->mac[1], device->mac[2], 0xff, 0xfe,
                       device->mac[3],     device->mac[4], device->mac[5]};
    __be64 out;
    memcpy(&out, guid, sizeof(out));
    return out;
}

void device_forget_all(void)
{
    struct list *node;
    while ((node = list_pop(&device_table)))
        free(list_entry(node, struct rdma_device, node));
}
