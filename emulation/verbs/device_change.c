/* SPDX-License-Identifier: Apache-2.0 */
/* What changes of devices: interfaces and addresses come and go, and hands take devices out. */
#include "verbs/device.h"
#include "verbs/engine.h"
#include "verbs/event.h"
#include "verbs/netlink.h"
#include "verbs/qp.h"
#include "verbs/wire.h"
#include "verbs/wire_hop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int device_count(void)
{
    int n = 0;
    list_each(node, &device_table) n++;
    return n;
}

/* The name and the place that the table in the environment gives to an interface: 0 no table, 1 found, -1 not in the
 * table. */
static int wanted_name(const char *ifname, char *out, size_t size, char *place, size_t place_size)
{
    const char *at = getenv("SOFTVERBS_DEVICES");
    if (!at || !*at)
        return 0;
    size_t length = strlen(ifname);
    while (*at) {
        const char *end = strchrnul(at, ','), *equal = memchr(at, '=', (size_t)(end - at));
        const char *value = equal ? equal + 1 : at, *where = memchr(value, '@', (size_t)(end - value));
        const char *stop = where ? where : end;
        if ((size_t)(stop - value) == length && !memcmp(value, ifname, length)) {
            int name = (int)(equal ? equal - at : stop - at);
            snprintf(out, size, "%.*s", name, at);
            if (where)
                snprintf(place, place_size, "%.*s", (int)(end - where - 1), where + 1);
            return 1;
        }
        at = *end ? end + 1 : end;
    }
    return -1;
}

static struct rdma_device *find_by_name(const char *ifname)
{
    list_each(node, &device_table)
    {
        struct rdma_device *device = list_entry(node, struct rdma_device, node);
        if (!strcmp(device->ifname, ifname))
            return device;
    }
    return NULL;
}

/* The loopback interface comes last, so that programs that take the first device take one that leads somewhere. */
static void insert(struct rdma_device *device)
{
    struct list *last = device_table.prev;
    bool after_loopback = last != &device_table && !strcmp(list_entry(last, struct rdma_device, node)->ifname, "lo");
    list_push(after_loopback ? last : &device_table, &device->node);
}

static struct rdma_device *create(const char *ifname)
{
    char name[IBV_SYSFS_NAME_MAX], place[sizeof(((struct rdma_device *)NULL)->place)] = "";
    snprintf(name, sizeof(name), "soft_%s", ifname);
    if (wanted_name(ifname, name, sizeof(name), place, sizeof(place)) < 0)
        return NULL;
    struct rdma_device *device = calloc(1, sizeof(*device));
    if (!device)
        return NULL;
    int number = device_count();
    list_init(&device->contexts);
    snprintf(device->ifname, sizeof(device->ifname), "%s", ifname);
    memcpy(device->place, place, sizeof(place));
    device->ibv.node_type = IBV_NODE_CA;
    device->ibv.transport_type = IBV_TRANSPORT_IB;
    snprintf(device->ibv.name, sizeof(device->ibv.name), "%s", name);
    snprintf(device->ibv.dev_name, sizeof(device->ibv.dev_name), "uverbs%d", number);
    snprintf(device->ibv.dev_path, sizeof(device->ibv.dev_path), "/sys/class/infiniband_verbs/uverbs%d", number);
    snprintf(device->ibv.ibdev_path, sizeof(device->ibv.ibdev_path), "/sys/class/infiniband/%s", name);
    insert(device);
    return device;
}

static uint64_t read_speed(const char *ifname)
{
    char path[64];
    long value = 0;
    snprintf(path, sizeof(path), "/sys/class/net/%s/speed", ifname);
    FILE *file = fopen(path, "re");
    if (file) {
        if (fscanf(file, "%ld", &value) != 1)
            value = 0;
        fclose(file);
    }
    return value > 0 ? (uint64_t)value : 10000;
}

static void set_up(struct rdma_device *device, bool up)
{
    if (device->up == up)
        return;
    device->up = up;
    event_port(device, up ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR);
}

static void on_link(const struct netlink_link *link, void *arg)
{
    struct rdma_device *device = find_by_name(link->name);
    if (!device)
        device = create(link->name);
    if (!device)
        return;
    bool first = !device->ifindex;
    device->ifindex = link->index;
    device->mtu = link->mtu;
    device->hardware = link->hardware;
    memcpy(device->mac, link->mac, sizeof(device->mac));
    device->seen = true;
    device->present = !device->unplugged;
    if (first) {
        device->up = link->up;
        device->speed_mbps = read_speed(link->name);
    }
    set_up(device, link->up);
}

struct sight {
    struct rdma_device *device;
    union ibv_gid gid;
};

struct sights {
    struct sight *list;
    int count, capacity;
};

static void on_address(const struct netlink_address *address, void *arg)
{
    struct sights *sights = arg;
    struct rdma_device *device = NULL;
    list_each(node, &device_table) if (list_entry(node, struct rdma_device, node)->ifindex == address->index) device =
        list_entry(node, struct rdma_device, node);
    if (!device)
        return;
    if (sights->count == sights->capacity) {
        int capacity = sights->capacity ? sights->capacity * 2 : 16;
        struct sight *more = realloc(sights->list, (size_t)capacity * sizeof(*more));
        if (!more)
            return;
        sights->list = more;
        sights->capacity = capacity;
    }
    struct sight *sight = &sights->list[sights->count++];
    sight->device = device;
    memset(&sight->gid, 0, sizeof(sight->gid));
    if (address->v6) {
        memcpy(sight->gid.raw, address->bytes, 16);
    } else {
        sight->gid.raw[10] = sight->gid.raw[11] = 0xff;
        memcpy(sight->gid.raw + 12, address->bytes, 4);
    }
}

static bool is_seen(const struct sights *sights, const struct rdma_device *device, const union ibv_gid *gid)
{
    for (int i = 0; i < sights->count; i++)
        if (sights->list[i].device == device && !memcmp(&sights->list[i].gid, gid, sizeof(*gid)))
            return true;
    return false;
}

static bool add_gid(struct rdma_device *device, const union ibv_gid *gid)
{
    int room = -1;
    for (int i = GID_COUNT - 1; i >= 0; i--) {
        if (device->gids[i].state == GID_FREE)
            room = i;
        else if (!memcmp(&device->gids[i].gid, gid, sizeof(*gid)))
            return false;
    }
    if (room < 0)
        return false;
    device->gids[room] = (struct gid_slot){*gid, GID_VALID};
    return true;
}

/* A GID keeps its index while its address lives; a new one takes the first free index. */
static bool update_gids(struct rdma_device *device, const struct sights *sights)
{
    bool changed = false;
    for (int i = 0; i < GID_COUNT; i++)
        if (device->gids[i].state == GID_VALID && !is_seen(sights, device, &device->gids[i].gid)) {
            memset(&device->gids[i], 0, sizeof(device->gids[i]));
            changed = true;
        }
    for (int i = 0; i < sights->count; i++)
        if (sights->list[i].device == device)
            changed |= add_gid(device, &sights->list[i].gid);
    return changed;
}

static void kill_qp(struct qp *qp, void *arg)
{
    if (qp->context->device == arg)
        qp_fail(qp, -1);
}

static void (*on_vanish)(void);

void device_on_vanish(void (*call)(void))
{
    on_vanish = call;
}

/* As when an adapter is taken out: what was opened is of no use any more, also when the adapter is back. */
static void vanish(struct rdma_device *device)
{
    device->present = false;
    set_up(device, false);
    event_port(device, IBV_EVENT_DEVICE_FATAL);
    list_each(node, &device->contexts) list_entry(node, struct rdma_context, node)->dead = true;
    engine_each_qp(kill_qp, device);
    if (on_vanish)
        on_vanish();
}

void device_unplug(struct rdma_device *device)
{
    device->unplugged = true;
    if (device->present)
        vanish(device);
}

int device_plug(struct rdma_device *device)
{
    device->unplugged = false;
    return device_refresh();
}

void device_look(void)
{
    bool changed = false;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    list_each(node, &device_table)
    {
        struct rdma_device *device = list_entry(node, struct rdma_device, node);
        int carrier = fd < 0 || list_empty(&device->contexts) ? -1 : netlink_carrier(fd, device->ifname);
        changed |= carrier >= 0 && carrier != device->carrier && carrier != device->up;
        device->carrier = carrier;
    }
    if (fd >= 0)
        close(fd);
    if (changed)
        device_refresh();
}

int device_refresh(void)
{
    struct sights sights = {0};
    wire_hop_forget();
    list_each(node, &device_table) list_entry(node, struct rdma_device, node)->seen = false;
    int err = netlink_links(on_link, NULL);
    if (!err)
        err = netlink_addresses(on_address, &sights);
    list_each(node, &device_table)
    {
        struct rdma_device *device = list_entry(node, struct rdma_device, node);
        if (err)
            break;
        if (!device->seen && device->present)
            vanish(device);
        if (update_gids(device, &sights))
            event_port(device, IBV_EVENT_GID_CHANGE);
    }
    free(sights.list);
    return err;
}
