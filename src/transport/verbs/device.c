/* SPDX-License-Identifier: Apache-2.0 */
/* Ports of adapters: which are used, by which address, and what they tell of themselves. */
#include "transport/verbs/device.h"
#include "base/affinity.h"
#include "base/error.h"
#include "base/log.h"
#include "base/near.h"
#include "base/param.h"
#include "transport/verbs/choose.h"
#include "transport/verbs/end.h"
#include "transport/verbs/revive.h"
#include "transport/verbs/usable.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

/* ---- Addresses ---- */

static bool read_gid(const struct verbs_device *device, uint32_t index, struct ibv_gid_entry *out)
{
    memset(out, 0, sizeof *out);
    return device->owner->library->query_gid(device->open.context, device->port, index, out, 0, sizeof *out) == 0 &&
           choose_gid_class(out) >= 0;
}

static bool same_gid(const struct ibv_gid_entry *a, const struct ibv_gid_entry *b)
{
    return a->gid_type == b->gid_type && memcmp(&a->gid, &b->gid, sizeof a->gid) == 0;
}

/* Where in the table the device's address is: that of the beginning, or the one since then, or the best if neither is
 * there. False: the table is empty. */
static bool search_gids(struct verbs_device *device, int length)
{
    struct ibv_gid_entry best, entry;
    bool found = false;
    int least = 0;
    for (int i = 0; i < length; i++) {
        if (!read_gid(device, (uint32_t)i, &entry))
            continue;
        int worth = same_gid(&entry, &device->home)  ? -2
                    : same_gid(&entry, &device->gid) ? -1
                                                     : choose_gid_class(&entry);
        if (found && worth >= least)
            continue;
        best = entry;
        least = worth;
        found = true;
    }
    if (found)
        device->gid = best;
    return found;
}

/* The address is what stays; its place in the table changes with each that comes or goes. */
static tutti_result_t resolve_gid(struct verbs_device *device, const struct ibv_port_attr *port)
{
    int64_t asked = param_int(PARAM_IB_GID_INDEX);
    struct ibv_gid_entry entry;
    if (asked >= 0) {
        if (!read_gid(device, (uint32_t)asked, &device->gid))
            return error_note(TUTTI_SYSTEM_ERROR,
                              "RDMA device %s has no address at TUTTI_IB_GID_INDEX=%d. Type `unset TUTTI_IB_GID_INDEX "
                              "NCCL_IB_GID_INDEX`",
                              device->name, (int)asked);
        return TUTTI_SUCCESS;
    }
    if (read_gid(device, device->gid.gid_index, &entry) && same_gid(&entry, &device->gid) &&
        same_gid(&entry, &device->home))
        return TUTTI_SUCCESS;
    if (!search_gids(device, port->gid_tbl_len))
        return error_note(
            TUTTI_SYSTEM_ERROR,
            "RDMA device %s has no address (GID). Type `ip address add ADDRESS/LENGTH dev INTERFACE`, with "
            "the interface that `rdma link` names beside the port",
            device->name);
    if (choose_gid_class(&device->home) < 0) /* none yet */
        device->home = device->gid;
    return TUTTI_SUCCESS;
}

/* ---- Opening ---- */

static tutti_result_t look_at_port(struct verbs_device *device)
{
    struct ibv_port_attr port;
    memset(&port, 0, sizeof port);
    int error = device->owner->library->query_port(device->open.context, device->port, &port);
    if (error)
        return error_note(TUTTI_SYSTEM_ERROR, "cannot ask RDMA device %s for its state: %s", device->name,
                          strerror(error > 0 ? error : errno));
    if (port.state != IBV_PORT_ACTIVE)
        return error_note(
            TUTTI_SYSTEM_ERROR,
            "the port of RDMA device %s is down. Type `ip link set INTERFACE up`, with the interface that "
            "`rdma link` names beside the port, and look at the cable",
            device->name);
    device->link_layer = port.link_layer;
    device->mtu = (uint8_t)port.active_mtu;
    device->lid = port.lid;
    device->most = port.max_msg_sz;
    device->rate = choose_rate(port.active_width, port.active_speed);
    return resolve_gid(device, &port);
}

/* Lanes of the device, or only that with this queue pair. */
static void fail_lanes(struct verbs_device *device, const struct ibv_qp *qp, const char *what)
{
    for (unsigned i = 0; i < device->owner->places; i++) {
        struct verbs_lane *lane = device->owner->lanes[i];
        if (lane && lane->device == device && (!qp || lane->qp == qp))
            verbs_fail(lane, what, 0);
    }
}

static void unwatch(struct verbs_device *device)
{
    struct poller *inner = device->owner->base.inner;
    if (device->completions.fd >= 0)
        poller_remove(inner, &device->completions);
    if (device->events.fd >= 0)
        poller_remove(inner, &device->events);
    device->completions.fd = device->events.fd = -1;
}

/* False: the device is lost. */
static bool end_flush(struct verbs_device *device)
{
    bool ended = verbs_flush_close(device->owner->library, &device->open.flush) == 0;
    if (!ended)
        verbs_lose_device(device, "cannot end a queue pair");
    return ended;
}

void verbs_device_rest(struct verbs_device *device)
{
    struct verbs_shared *shared = &device->open.shared;
    if (device->lanes || !shared->slabs || device->stuck)
        return;
    device->early_count = 0; /* of lanes that have ended, and of reads of what these have stored */
    device->kept_first = device->kept_end = 0;
    if (!end_flush(device))
        return;
    int error = verbs_shared_close(shared);
    if (error)
        log_warn("RDMA device %s: cannot end its shared receives: %s", device->name, strerror(error));
    verbs_shared_open(device->owner->library, device->open.context, device->open.pd, shared);
}

void verbs_lose_device(struct verbs_device *device, const char *what)
{
    log_warn("RDMA device %s: %s: it is closed, and opened anew when it is there again", device->name, what);
    fail_lanes(device, NULL, what);
    unwatch(device);
    const struct verbs_parts old = device->open;
    device->open = (struct verbs_parts){0};
    device->early_count = 0;
    device->kept_first = device->kept_end = 0;
    verbs_revive(&device->owner->revival[device->index], &old);
}

void verbs_flush_failed(struct verbs_device *device, const char *what)
{
    log_warn("RDMA device %s: cannot flush GPU memory: %s; its lanes begin anew", device->name, what);
    if (!end_flush(device))
        return;
    fail_lanes(device, NULL, "cannot flush GPU memory");
}

/* A queue of completions that runs over takes all its lanes with it. So it has room for all that lanes and slabs of
 * shared receives can have under way. Returns an errno, or 0. */
static int device_make_room(struct verbs_device *device, int lanes, unsigned slabs)
{
    int receives = device->open.shared.queue ? (int)slabs * VERBS_SHARED_EACH : lanes * VERBS_RECEIVES;
    int needed = lanes * VERBS_SENDS + receives + VERBS_FLUSHES, room = device->room;
    while (room < needed)
        room *= 2;
    int error = room == device->room ? 0 : device->owner->library->resize_cq(device->open.cq, room);
    if (!error)
        device->room = room;
    return error < 0 ? errno : error;
}

/* Lanes use many shared receives at once. Where there are no more of them, peers' adapters wait for those that there
 * are, and each is posted anew when it was looked at. */
static void more_receives(struct verbs_device *device)
{
    struct verbs_shared *shared = &device->open.shared;
    int error = device_make_room(device, device->lanes, shared->slabs + 1);
    if (!error)
        error = verbs_shared_grow(device->open.pd, shared);
    if (error)
        log_info("RDMA device %s has no more than %u shared receives: %s", device->name,
                 shared->slabs * VERBS_SHARED_EACH, strerror(error));
}

/* Lanes whose address has gone would send from one that nobody answers. */
static void check_gid(struct verbs_device *device)
{
    struct ibv_gid_entry entry;
    if (!read_gid(device, device->gid.gid_index, &entry) || !same_gid(&entry, &device->gid))
        fail_lanes(device, NULL, "the address of its port has changed");
    if (!device->lanes) /* it would send from that address, too */
        verbs_flush_close(device->owner->library, &device->open.flush);
}

static void take_event(struct verbs_device *device, const struct ibv_async_event *event)
{
    const char *what = device->owner->library->event_type_str(event->event_type);
    switch (event->event_type) {
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_PORT_ACTIVE:
        if (event->element.port_num != device->port)
            break;
        log_info("RDMA device %s: %s", device->name, what);
        if (event->event_type == IBV_EVENT_PORT_ERR)
            fail_lanes(device, NULL, "its port is down");
        break;
    case IBV_EVENT_GID_CHANGE:
        check_gid(device);
        break;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
        fail_lanes(device, event->element.qp, what);
        break;
    case IBV_EVENT_SRQ_LIMIT_REACHED:
        more_receives(device);
        break;
    case IBV_EVENT_DEVICE_FATAL:
    case IBV_EVENT_CQ_ERR:
    case IBV_EVENT_SRQ_ERR:
        verbs_lose_device(device, what);
        break;
    default:
        break;
    }
}

static void events_ready(struct poll_source *source, uint32_t events)
{
    struct verbs_device *device = container_of(source, struct verbs_device, events);
    const struct verbs_library *library = device->owner->library;
    struct ibv_async_event event;
    (void)events;
    while (device->open.context && library->get_async_event(device->open.context, &event) == 0) {
        library->ack_async_event(&event); /* first: a queue pair ends only when all its events are acknowledged */
        take_event(device, &event);
    }
    if (device->open.context && errno != EAGAIN && errno != EINTR)
        verbs_lose_device(device, strerror(errno));
}

/* The queue is looked at by the next poll; the event itself says only that it is time. */
static void completions_ready(struct poll_source *source, uint32_t events)
{
    struct verbs_device *device = container_of(source, struct verbs_device, completions);
    const struct verbs_library *library = device->owner->library;
    struct ibv_cq *cq;
    void *user;
    (void)events;
    while (library->get_cq_event(device->open.channel, &cq, &user) == 0)
        library->ack_cq_events(cq, 1);
}

static tutti_result_t verbs_device_watch(struct verbs_device *device, struct poll_source *source, int fd,
                                         poll_ready_fn ready)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0)
        return error_set(TUTTI_SYSTEM_ERROR, "cannot watch RDMA device %s: %s", device->name, strerror(errno));
    *source = (struct poll_source){.fd = fd, .ready = ready};
    tutti_result_t result = poller_add(device->owner->base.inner, source, EPOLLIN);
    if (result != TUTTI_SUCCESS)
        source->fd = -1;
    return result;
}

/* From here on the device has these. If they cannot be watched they are the caller's again. */
static tutti_result_t verbs_use_parts(struct verbs_device *device, const struct verbs_parts *parts)
{
    device->open = *parts;
    device->room = VERBS_ROOM_FIRST;
    tutti_result_t result = verbs_device_watch(device, &device->events, parts->context->async_fd, events_ready);
    if (result == TUTTI_SUCCESS)
        result = verbs_device_watch(device, &device->completions, parts->channel->fd, completions_ready);
    if (result == TUTTI_SUCCESS)
        return result;
    unwatch(device);
    device->open = (struct verbs_parts){0};
    return result;
}

bool verbs_device_revived(struct verbs_device *device)
{
    struct verbs_revival *revival = &device->owner->revival[device->index];
    struct verbs_parts fresh;
    if (!verbs_revival_take(revival, &fresh))
        return false;
    if (verbs_use_parts(device, &fresh) != TUTTI_SUCCESS) {
        verbs_revive(revival, &fresh);
        return false;
    }
    device->opened = (uint8_t)((device->opened + 1) % WIRE_OPENED);
    log_info("RDMA device %s is open again", device->name);
    return true;
}

/* On failure verbs_device_close_device() takes back what there is. */
static tutti_result_t equip(struct verbs_device *device)
{
    struct verbs_transport *verbs = device->owner;
    tutti_result_t result = verbs_make_parts(verbs->library, device->name, &device->open);
    if (result == TUTTI_SUCCESS && !verbs_is_asked())
        result = verbs_usable_parts(device, !device->index);
    if (result == TUTTI_SUCCESS)
        result = verbs_revival_init(&verbs->revival[device->index], device);
    if (result != TUTTI_SUCCESS)
        return result;
    struct verbs_parts parts = device->open;
    result = verbs_use_parts(device, &parts);
    device->open = parts;
    return result;
}

static void verbs_device_close_device(struct verbs_device *device)
{
    verbs_revival_fini(&device->owner->revival[device->index]);
    unwatch(device);
    verbs_close_parts(device->owner->library, device->name, &device->open);
    free(device->kept);
    *device = (struct verbs_device){.events.fd = -1, .completions.fd = -1};
}

static tutti_result_t open_context(struct verbs_device *device, struct ibv_device *ibv, struct ibv_device_attr *about)
{
    const struct verbs_library *library = device->owner->library;
    tutti_result_t result = verbs_is_asked() ? TUTTI_SUCCESS : verbs_usable_kind(device, ibv);
    if (result != TUTTI_SUCCESS)
        return result;
    if (!(device->open.context = library->open_device(ibv)))
        return error_note(
            TUTTI_SYSTEM_ERROR,
            "cannot open RDMA device %s: %s. Type `ls -l /dev/infiniband`, which the program must be able to "
            "read and write (docker: --device=/dev/infiniband)",
            device->name, strerror(errno));
    if (library->query_device(device->open.context, about) != 0)
        return error_note(TUTTI_SYSTEM_ERROR, "cannot ask RDMA device %s what it is", device->name);
    return TUTTI_SUCCESS;
}

/* The port is not used, which error_last() explains. What is wrong is said rather than what is as it should be. */
static void refuse_port(struct verbs_device *device, tutti_result_t why)
{
    struct verbs_transport *verbs = device->owner;
    log_info("%s; not used", error_last());
    if (verbs->refused == TUTTI_SUCCESS || (verbs->refused == TUTTI_INVALID_USAGE && why != TUTTI_INVALID_USAGE)) {
        verbs->refused = why;
        error_save(&verbs->refusal);
    }
    verbs_device_close_device(device);
}

/*
 * Makes what the chosen ports need. A port that reaches only this host is used where the user named ports. It is also
 * used where there are no others and the user asked for RDMA.
 */
static void equip_chosen(struct verbs_transport *verbs)
{
    int opened = verbs->devices, others = !verbs_is_asked();
    for (int i = 0; i < opened; i++)
        others += !choose_is_loopback(&verbs->device[i].gid.gid);
    verbs->devices = 0;
    for (int i = 0; i < opened; i++) {
        struct verbs_device *device = &verbs->device[verbs->devices], *from = &verbs->device[i];
        bool wanted = !others || *param_string(PARAM_IB_HCA) || !choose_is_loopback(&from->gid.gid);
        if (device != from) {
            *device = *from;
            *from = (struct verbs_device){.events.fd = -1, .completions.fd = -1};
        }
        device->index = (unsigned)verbs->devices;
        tutti_result_t result =
            wanted ? equip(device)
                   : error_note(TUTTI_INVALID_USAGE, "RDMA device %s reaches only this host", device->name);
        if (result == TUTTI_SUCCESS)
            verbs->devices++;
        else
            refuse_port(device, result);
    }
}

static int verbs_device_distance_of(const char *name)
{
    char folder[128];
    cpu_set_t set;
    snprintf(folder, sizeof folder, "/sys/class/infiniband/%.64s/device", name);
    return affinity_count(&set) ? near_distance("", folder, &set) : 0;
}

/* One port of a device. False: it has no further ports, cannot be opened, or there is no room for more. */
static bool open_port(struct verbs_transport *verbs, struct ibv_device *ibv, unsigned port)
{
    const char *name = verbs->library->get_device_name(ibv);
    struct verbs_device *device = &verbs->device[verbs->devices];
    struct ibv_device_attr about = {.phys_port_cnt = 0};
    if (verbs->devices == WIRE_DEVICES)
        return false;
    device->owner = verbs;
    device->port = (uint8_t)port;
    device->distance = verbs_device_distance_of(name);
    snprintf(device->name, sizeof device->name, "%.50s:%u", name, port);
    tutti_result_t result = open_context(device, ibv, &about);
    bool exists = result == TUTTI_SUCCESS && port <= about.phys_port_cnt;
    if (exists)
        result = look_at_port(device);
    if (result != TUTTI_SUCCESS)
        refuse_port(device, result);
    else if (!exists)
        verbs_device_close_device(device);
    else
        verbs->devices++;
    return exists;
}

/* Where the library shows none. */
static tutti_result_t none_listed(int error)
{
    if (verbs_kernel_has_devices()) /* which the kernel shows to everybody */
        return error_note(TUTTI_SYSTEM_ERROR,
                          "the kernel has RDMA devices that libibverbs does not show. Type `apt install "
                          "ibverbs-providers` and `modprobe ib_uverbs` (docker: --device=/dev/infiniband)");
    if (error == ENOSYS) /* what libibverbs says where the kernel's side is missing */
        return error_note(
            TUTTI_INVALID_USAGE,
            "no RDMA device here: the kernel has no RDMA (ib_uverbs is not loaded, or this is a container "
            "without /dev/infiniband)");
    if (error)
        return error_note(TUTTI_INVALID_USAGE, "cannot list RDMA devices: %s", strerror(error));
    return error_note(TUTTI_INVALID_USAGE, "no RDMA device here");
}

static tutti_result_t open_wanted(struct verbs_transport *verbs)
{
    const char *wish = param_string(PARAM_IB_HCA);
    int count = 0;
    struct ibv_device **list = verbs->library->get_device_list(&count);
    int error = list ? 0 : errno;
    for (int i = 0; i < count && list; i++)
        for (unsigned port = 1; port < 255; port++)
            if (choose_port(wish, verbs->library->get_device_name(list[i]), port) && !open_port(verbs, list[i], port))
                break;
    if (list)
        verbs->library->free_device_list(list);
    if (!list || !count)
        return none_listed(error);
    equip_chosen(verbs);
    for (int i = 0; i < verbs->devices; i++)
        log_info("transport verbs uses RDMA device %s (distance %d)", verbs->device[i].name, verbs->device[i].distance);
    if (verbs->devices)
        return TUTTI_SUCCESS;
    if (verbs->refused == TUTTI_SUCCESS)
        return error_note(TUTTI_INVALID_USAGE, "there are %d RDMA devices, and none is wanted (TUTTI_IB_HCA=%s)", count,
                          wish);
    error_restore(&verbs->refusal);
    return verbs->refused;
}

tutti_result_t verbs_open_devices(struct verbs_transport *verbs)
{
    verbs_library_enter();
    tutti_result_t result = open_wanted(verbs);
    verbs_library_leave();
    return result;
}

void verbs_close_devices(struct verbs_transport *verbs)
{
    verbs_library_enter();
    for (int i = 0; i < verbs->devices; i++)
        verbs_device_close_device(&verbs->device[i]);
    verbs_library_leave();
    verbs->devices = 0;
}

/* ---- Lanes ---- */

/* What one more lane needs of the device. */
static tutti_result_t device_serve(struct verbs_device *device)
{
    struct verbs_shared *shared = &device->open.shared;
    int lanes = device->lanes + 1;
    unsigned wanted = verbs_shared_wanted(lanes), slabs = wanted > shared->slabs ? wanted : shared->slabs;
    int error = device_make_room(device, lanes, slabs);
    if (error)
        return error_set(TUTTI_SYSTEM_ERROR, "RDMA device %s has no room for the completions of %d lanes: %s",
                         device->name, lanes, strerror(error));
    while (!error && shared->queue && shared->kept < wanted)
        error = verbs_shared_grow(device->open.pd, shared);
    if (shared->queue && !shared->kept)
        return error_set(TUTTI_SYSTEM_ERROR, "RDMA device %s has no receives for its lanes: %s", device->name,
                         strerror(error));
    return TUTTI_SUCCESS;
}

tutti_result_t verbs_take_device(struct verbs_transport *verbs, unsigned index, struct verbs_device **out)
{
    struct verbs_device *device = &verbs->device[index % (unsigned)verbs->devices];
    if (!device->open.context)
        return error_note(TUTTI_SYSTEM_ERROR, "RDMA device %s is lost", device->name);
    tutti_result_t result = look_at_port(device);
    if (result == TUTTI_SUCCESS)
        result = device_serve(device);
    if (result == TUTTI_SUCCESS)
        *out = device;
    return result;
}
