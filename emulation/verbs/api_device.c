/* SPDX-License-Identifier: Apache-2.0 */
/* Exported calls: devices, contexts, ports, GIDs, asynchronous events. */
#include "verbs/counters.h"
#include "verbs/device.h"
#include "verbs/engine.h"
#include "verbs/event.h"
#include "verbs/extended.h"
#include "verbs/fault.h"
#include "verbs/memory.h"
#include "verbs/post.h"
#include "verbs/qp.h"
#include "verbs/wire.h"
#include "verbs/xrc.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#undef ibv_query_port
#define EXPORT __attribute__((visibility("default")))

#define VENDOR           0xffffff     /* nobody's: programs choose tricks of hardware by it */
#define ATOMIC_WRITE     (1ull << 40) /* flags that verbs.h lacks */
#define FLUSHES_GLOBAL   (1ull << 38)
#define PORT_SIZE_COMPAT offsetof(struct ibv_port_attr, flags) /* what the oldest ibv_query_port may write */

/* The devices that are there and are `usable`, or are not; their number. */
static int list_devices(struct ibv_device **list, bool usable)
{
    int n = 0;
    list_each(node, &device_table)
    {
        struct rdma_device *device = list_entry(node, struct rdma_device, node);
        if (device->present && device_usable(device) == usable)
            list[n++] = &device->ibv;
    }
    return n;
}

/* Programs that are told nothing take the first one. */
EXPORT struct ibv_device **ibv_get_device_list(int *number)
{
    int n = 0;
    engine_lock();
    int err = fault_fails(FAULT_LIST) ? ENOMEM : device_refresh();
    list_each(node, &device_table) n += list_entry(node, struct rdma_device, node)->present;
    struct ibv_device **list = err ? NULL : calloc((size_t)n + 1, sizeof(*list));
    if (list) {
        n = list_devices(list, true);
        n += list_devices(list + n, false);
    }
    engine_unlock();
    if (!list)
        errno = err ? err : ENOMEM;
    if (number)
        *number = list ? n : 0;
    return list;
}

EXPORT void ibv_free_device_list(struct ibv_device **list)
{
    free(list);
}

EXPORT const char *ibv_get_device_name(struct ibv_device *device)
{
    return device->name;
}

EXPORT __be64 ibv_get_device_guid(struct ibv_device *device)
{
    return device_guid((struct rdma_device *)device);
}

EXPORT int ibv_get_device_index(struct ibv_device *device)
{
    return ((struct rdma_device *)device)->ifindex;
}

static int query_port(struct ibv_context *ibv, uint8_t port, struct ibv_port_attr *out, size_t size)
{
    const struct rdma_device *device = context_of(ibv)->device;
    struct ibv_port_attr attr = {
        .max_mtu = IBV_MTU_4096,
        .gid_tbl_len = GID_COUNT,
        .port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS,
        .max_msg_sz = MAX_MSG_SIZE,
        .pkey_tbl_len = 1,
        .max_vl_num = 1,
        .link_layer = IBV_LINK_LAYER_ETHERNET,
        .flags = IBV_QPF_GRH_REQUIRED,
    };
    if (port != 1)
        return EINVAL;
    if (context_of(ibv)->dead || fault_fails_unlocked(FAULT_QUERY_PORT))
        return EIO;
    engine_lock();
    attr.state = device->up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
    attr.phys_state = device->up ? 5 : 3; /* link up, disabled */
    attr.active_mtu = device_mtu(device);
    attr.active_width = device->speed_mbps > 25000 ? 2 : 1;                                 /* 4x, 1x */
    attr.active_speed = device->speed_mbps > 40000 || device->speed_mbps == 25000 ? 32 : 8; /* EDR, FDR10 */
    engine_unlock();
    memset(out, 0, size);
    memcpy(out, &attr, size < sizeof(attr) ? size : sizeof(attr));
    return 0;
}

EXPORT int ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *attr)
{
    return query_port(context, port, (struct ibv_port_attr *)attr, PORT_SIZE_COMPAT);
}

EXPORT int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
    if (context_of(context)->dead || fault_fails_unlocked(FAULT_QUERY_DEVICE))
        return EIO;
    *attr = (struct ibv_device_attr){
        .fw_ver = "emulator",
        .node_guid = device_guid(context_of(context)->device),
        .sys_image_guid = device_guid(context_of(context)->device),
        .max_mr_size = UINT64_MAX >> 1,
        .page_size_cap = 0xfffff000,
        .vendor_id = VENDOR,
        .vendor_part_id = 1,
        .max_qp = MAX_QP - 1,
        .max_qp_wr = MAX_QP_WR,
        .device_cap_flags = IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_PORT_ACTIVE_EVENT | IBV_DEVICE_SYS_IMAGE_GUID |
                            IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_MEM_WINDOW |
                            IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_MEM_MGT_EXTENSIONS | IBV_DEVICE_XRC,
        .max_sge = MAX_SGE,
        .max_sge_rd = MAX_SGE,
        .max_cq = 65536,
        .max_cqe = MAX_CQE,
        .max_mr = 1 << 23,
        .max_mw = 1 << 23,
        .max_pd = 65536,
        .max_qp_rd_atom = MAX_RD_ATOMIC,
        .max_res_rd_atom = MAX_RD_ATOMIC * (MAX_QP - 1),
        .max_qp_init_rd_atom = MAX_RD_ATOMIC,
        .atomic_cap = IBV_ATOMIC_HCA,
        .max_mcast_grp = 8192,
        .max_mcast_qp_attach = 64,
        .max_total_mcast_qp_attach = 8192,
        .max_ah = 1 << 20,
        .max_srq = 65536,
        .max_srq_wr = MAX_SRQ_WR,
        .max_srq_sge = MAX_SGE,
        .max_pkeys = 1,
        .local_ca_ack_delay = 15,
        .phys_port_cnt = 1,
    };
    return 0;
}

static int query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
                           struct ibv_device_attr_ex *out, size_t size)
{
    uint32_t demand = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_SRQ_RECV;
    struct ibv_device_attr_ex attr = {
        .completion_timestamp_mask = UINT64_MAX, .hca_core_clock = 1000000, .phys_port_cnt_ex = 1};
    attr.odp_caps.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
    attr.odp_caps.per_transport_caps.rc_odp_caps = demand | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC;
    attr.odp_caps.per_transport_caps.uc_odp_caps = demand;
    attr.xrc_odp_caps = attr.odp_caps.per_transport_caps.rc_odp_caps;
    attr.odp_caps.per_transport_caps.ud_odp_caps = demand & ~(uint32_t)IBV_ODP_SUPPORT_WRITE;
    if (input && input->comp_mask)
        return EINVAL;
    if (size < sizeof(attr.orig_attr))
        return EINVAL;
    ibv_query_device(context, &attr.orig_attr);
    attr.device_cap_flags_ex = attr.orig_attr.device_cap_flags | ATOMIC_WRITE | FLUSHES_GLOBAL;
    memset(out, 0, size);
    memcpy(out, &attr, size < sizeof(attr) ? size : sizeof(attr));
    return 0;
}

static int query_rt_values(struct ibv_context *context, struct ibv_values_ex *values)
{
    uint32_t wanted = values->comp_mask;
    values->comp_mask = 0;
    if (wanted & ~(uint32_t)IBV_VALUES_MASK_RAW_CLOCK)
        return EINVAL;
    if (wanted) { /* ticks, of which hca_core_clock tells how long they are */
        values->raw_clock = (struct timespec){.tv_nsec = (long)clock_ns()};
        values->comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
    }
    return context_of(context)->dead ? EIO : 0;
}

static void set_ops(struct rdma_context *context)
{
    struct verbs_context *verbs = &context->verbs;
    struct ibv_context *ibv = &verbs->context;
    verbs->sz = sizeof(*verbs);
    ibv->abi_compat = __VERBS_ABI_IS_EXTENDED;
    verbs->query_port = query_port;
    verbs->query_device_ex = query_device_ex;
    verbs->query_rt_values = query_rt_values;
    extended_set_ops(verbs);
    memory_set_ops(verbs);
    xrc_set_ops(verbs);
    ibv->ops.poll_cq = post_poll;
    ibv->ops.req_notify_cq = post_notify;
    ibv->ops.post_send = post_send;
    ibv->ops.post_recv = post_recv;
    ibv->ops.post_srq_recv = post_srq_recv;
}

static struct rdma_context *make_context(struct rdma_device *device, int cmd_fd)
{
    struct rdma_context *context = calloc(1, sizeof(*context));
    if (!context)
        return NULL;
    struct ibv_context *ibv = context_ibv(context);
    context->device = device;
    list_init(&context->events);
    ibv->device = &device->ibv;
    ibv->num_comp_vectors = 1;
    ibv->async_fd = event_fd_open(&context->async_writer);
    ibv->cmd_fd = cmd_fd;
    context->file = file_of(cmd_fd);
    pthread_mutex_init(&ibv->mutex, NULL);
    set_ops(context);
    if (ibv->async_fd >= 0)
        return context;
    free(context);
    return NULL;
}

/* A context's file is what ibv_import_device() knows it by. With the engine's lock; NULL with errno. */
static struct ibv_context *open_by(struct rdma_device *device, int cmd_fd)
{
    int err = fault_fails(FAULT_OPEN) ? ENOMEM : device->present ? engine_retain() : ENODEV;
    struct rdma_context *context = err ? NULL : make_context(device, cmd_fd);
    if (context)
        list_push(&device->contexts, &context->node);
    else if (!err)
        engine_release();
    errno = err ? err : ENOMEM;
    return context ? context_ibv(context) : NULL;
}

EXPORT struct ibv_context *ibv_open_device(struct ibv_device *ibv)
{
    pthread_mutex_lock(&device_life);
    usleep((useconds_t)fault_open_us());
    engine_lock();
    int fd = memfd_create("softverbs-device", MFD_CLOEXEC);
    struct ibv_context *context = fd < 0 ? NULL : open_by((struct rdma_device *)ibv, fd);
    int err = errno;
    if (!context && fd >= 0)
        close(fd);
    engine_unlock();
    pthread_mutex_unlock(&device_life);
    if (!context)
        errno = err;
    return context;
}

static struct rdma_context *context_behind(uint64_t file)
{
    list_each(node, &device_table)
    {
        const struct rdma_device *device = list_entry(node, struct rdma_device, node);
        list_each(other, &device->contexts) if (list_entry(other, struct rdma_context, node)->file ==
                                                file) return list_entry(other, struct rdma_context, node);
    }
    return NULL;
}

/* Of this process alone: another one's queue pairs and memory are out of reach. The descriptor goes with the context.
 */
EXPORT struct ibv_context *ibv_import_device(int cmd_fd)
{
    uint64_t file = file_of(cmd_fd);
    if (!file) {
        errno = EBADF;
        return NULL;
    }
    pthread_mutex_lock(&device_life);
    engine_lock();
    const struct rdma_context *known = context_behind(file);
    struct ibv_context *context = known && !known->dead ? open_by(known->device, cmd_fd) : NULL;
    int err = known && !known->dead ? errno : known ? EIO : EOPNOTSUPP;
    engine_unlock();
    pthread_mutex_unlock(&device_life);
    if (!context)
        errno = err;
    return context;
}

static void detach_qp(struct qp *qp, void *arg)
{
    if (qp->context == arg)
        engine_remove_qp(qp);
}

static void forget_events(struct rdma_context *context)
{
    struct list *node;
    while ((node = list_pop(&context->events)))
        free(list_entry(node, struct event, node));
}

/* What the program has not destroyed stops working, as when the kernel closes the device, and may still be destroyed.
 */
EXPORT int ibv_close_device(struct ibv_context *ibv)
{
    struct rdma_context *context = context_of(ibv);
    if (context->inherited)
        return EPERM;
    pthread_mutex_lock(&device_life);
    engine_lock();
    if (fault_keeps(FAULT_CLOSE, context)) {
        engine_unlock();
        pthread_mutex_unlock(&device_life);
        return EIO;
    }
    list_remove(&context->node);
    engine_each_qp(detach_qp, context);
    forget_events(context);
    close(ibv->async_fd);
    close(context->async_writer);
    close(ibv->cmd_fd);
    ibv->async_fd = ibv->cmd_fd = context->async_writer = -1;
    context->closed = true;
    engine_release();
    bool alone = !context->objects;
    engine_unlock();
    pthread_mutex_unlock(&device_life);
    if (alone)
        free(context);
    return 0;
}

EXPORT int ibv_query_gid(struct ibv_context *ibv, uint8_t port, int index, union ibv_gid *gid)
{
    if (port != 1 || index < 0 || index >= GID_COUNT) {
        errno = EINVAL;
        return -1;
    }
    engine_lock();
    const union ibv_gid *found = device_gid(context_of(ibv)->device, index);
    if (found)
        *gid = *found;
    else
        memset(gid, 0, sizeof(*gid));
    engine_unlock();
    return 0;
}

EXPORT int _ibv_query_gid_ex(struct ibv_context *ibv, uint32_t port, uint32_t index, struct ibv_gid_entry *out,
                             uint32_t flags, size_t size)
{
    if (port != 1 || index >= GID_COUNT || flags || size < sizeof(*out))
        return EINVAL;
    if (context_of(ibv)->dead || fault_fails_unlocked(FAULT_QUERY_ADDRESS))
        return EIO;
    engine_lock();
    const struct rdma_device *device = context_of(ibv)->device;
    const union ibv_gid *gid = device_gid(device, (int)index);
    if (gid)
        *out = (struct ibv_gid_entry){*gid, index, port, IBV_GID_TYPE_ROCE_V2, (uint32_t)device->ifindex};
    engine_unlock();
    return gid ? 0 : ENODATA;
}

EXPORT ssize_t _ibv_query_gid_table(struct ibv_context *ibv, struct ibv_gid_entry *out, size_t max, uint32_t flags,
                                    size_t size)
{
    ssize_t n = 0;
    if (flags || size < sizeof(*out))
        return -EINVAL;
    for (uint32_t i = 0; i < GID_COUNT; i++) {
        struct ibv_gid_entry entry;
        if (_ibv_query_gid_ex(ibv, 1, i, &entry, 0, sizeof(entry)))
            continue;
        if ((size_t)n == max)
            return -EINVAL; /* as the kernel says of a table that is too short */
        memset((char *)out + (size_t)n * size, 0, size);
        memcpy((char *)out + (size_t)n++ * size, &entry, sizeof(entry));
    }
    return n;
}

/* 0: InfiniBand or RoCE v1, 1: RoCE v2. For ibv_devinfo; not in a public header. */
int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned index, int *type);
EXPORT int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned index, int *type)
{
    if (port != 1 || index >= GID_COUNT) {
        errno = EINVAL;
        return -1;
    }
    engine_lock();
    *type = device_gid(context_of(context)->device, (int)index) != NULL;
    engine_unlock();
    return 0;
}

EXPORT int ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
    if (port != 1 || index) {
        errno = EINVAL;
        return -1;
    }
    *pkey = PKEY_DEFAULT;
    return 0;
}

EXPORT int ibv_get_pkey_index(struct ibv_context *context, uint8_t port, __be16 pkey)
{
    if (port == 1 && pkey == PKEY_DEFAULT)
        return 0;
    errno = EINVAL;
    return -1;
}

EXPORT int ibv_get_async_event(struct ibv_context *ibv, struct ibv_async_event *out)
{
    struct rdma_context *context = context_of(ibv);
    struct list *node = NULL;
    if (fault_fails_unlocked(FAULT_EVENT)) {
        errno = EIO;
        return -1;
    }
    while (!node) {
        if (event_fd_take(ibv->async_fd, true))
            return -1;
        engine_lock();
        node = list_pop(&context->events); /* empty when its object was destroyed meanwhile */
        if (node) {
            *out = list_entry(node, struct event, node)->ibv;
            event_reported(out);
        }
        engine_unlock();
    }
    free(list_entry(node, struct event, node));
    return 0;
}

EXPORT void ibv_ack_async_event(struct ibv_async_event *event)
{
    event_acknowledge(event);
}

__attribute__((destructor)) static void forget_devices(void)
{
    bool open = false;
    engine_settle();
    list_each(node, &device_table) open |= !list_empty(&list_entry(node, struct rdma_device, node)->contexts);
    if (!open)
        device_forget_all();
}
