/* SPDX-License-Identifier: Apache-2.0 */
/* Exported calls: names of enum values, rates, sysfs files, and what concerns fork. */
#include "verbs/counters.h"
#include "verbs/device.h"
#include "verbs/engine.h"
#include "verbs/fault.h"
#include "verbs/gather.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define EXPORT       __attribute__((visibility("default")))
#define COUNT_OF(a)  (sizeof(a) / sizeof((a)[0]))
#define SYSFS_BUFFER 512
#define CM_ABI_FILE  "class/misc/rdma_cm/abi_version"
#define CM_ABI       "4" /* RDMA_USER_CM_ABI_VERSION */

static const char *name_of(const char *const *names, size_t n, unsigned value, const char *other)
{
    return value < n && names[value] ? names[value] : other;
}

EXPORT const char *ibv_wc_status_str(enum ibv_wc_status status)
{
    static const char *const names[] = {
        [IBV_WC_SUCCESS] = "success",
        [IBV_WC_LOC_LEN_ERR] = "local length error",
        [IBV_WC_LOC_QP_OP_ERR] = "local QP operation error",
        [IBV_WC_LOC_EEC_OP_ERR] = "local EE context operation error",
        [IBV_WC_LOC_PROT_ERR] = "local protection error",
        [IBV_WC_WR_FLUSH_ERR] = "Work Request Flushed Error",
        [IBV_WC_MW_BIND_ERR] = "memory management operation error",
        [IBV_WC_BAD_RESP_ERR] = "bad response error",
        [IBV_WC_LOC_ACCESS_ERR] = "local access error",
        [IBV_WC_REM_INV_REQ_ERR] = "remote invalid request error",
        [IBV_WC_REM_ACCESS_ERR] = "remote access error",
        [IBV_WC_REM_OP_ERR] = "remote operation error",
        [IBV_WC_RETRY_EXC_ERR] = "transport retry counter exceeded",
        [IBV_WC_RNR_RETRY_EXC_ERR] = "RNR retry counter exceeded",
        [IBV_WC_LOC_RDD_VIOL_ERR] = "local RDD violation error",
        [IBV_WC_REM_INV_RD_REQ_ERR] = "remote invalid RD request",
        [IBV_WC_REM_ABORT_ERR] = "aborted error",
        [IBV_WC_INV_EECN_ERR] = "invalid EE context number",
        [IBV_WC_INV_EEC_STATE_ERR] = "invalid EE context state",
        [IBV_WC_FATAL_ERR] = "fatal error",
        [IBV_WC_RESP_TIMEOUT_ERR] = "response timeout error",
        [IBV_WC_GENERAL_ERR] = "general error",
    };
    return name_of(names, COUNT_OF(names), status, "unknown");
}

EXPORT const char *ibv_node_type_str(enum ibv_node_type type)
{
    static const char *const names[] = {[IBV_NODE_CA] = "InfiniBand channel adapter"};
    return name_of(names, COUNT_OF(names), (unsigned)type, "unknown");
}

EXPORT const char *ibv_port_state_str(enum ibv_port_state state)
{
    static const char *const names[] = {"no state change (NOP)", "down", "init", "armed", "active", "active defer"};
    return name_of(names, COUNT_OF(names), state, "invalid state");
}

EXPORT const char *ibv_event_type_str(enum ibv_event_type event)
{
    static const char *const names[] = {
        [IBV_EVENT_CQ_ERR] = "CQ error",
        [IBV_EVENT_QP_FATAL] = "local work queue catastrophic error",
        [IBV_EVENT_QP_REQ_ERR] = "invalid request local work queue error",
        [IBV_EVENT_QP_ACCESS_ERR] = "local access violation work queue error",
        [IBV_EVENT_COMM_EST] = "communication established",
        [IBV_EVENT_SQ_DRAINED] = "send queue drained",
        [IBV_EVENT_PATH_MIG] = "path migrated",
        [IBV_EVENT_PATH_MIG_ERR] = "path migration request error",
        [IBV_EVENT_DEVICE_FATAL] = "local catastrophic error",
        [IBV_EVENT_PORT_ACTIVE] = "port active",
        [IBV_EVENT_PORT_ERR] = "port error",
        [IBV_EVENT_LID_CHANGE] = "LID change",
        [IBV_EVENT_PKEY_CHANGE] = "P_Key change",
        [IBV_EVENT_SM_CHANGE] = "SM change",
        [IBV_EVENT_SRQ_ERR] = "SRQ catastrophic error",
        [IBV_EVENT_SRQ_LIMIT_REACHED] = "SRQ limit reached",
        [IBV_EVENT_QP_LAST_WQE_REACHED] = "last WQE reached",
        [IBV_EVENT_CLIENT_REREGISTER] = "client reregistration",
        [IBV_EVENT_GID_CHANGE] = "GID table change",
    };
    return name_of(names, COUNT_OF(names), event, "unknown");
}

/* Multiples of 2.5 Gb/s and real megabits of each static rate. */
static const struct {
    enum ibv_rate rate;
    int multiple, mbps;
} rates[] = {
    {IBV_RATE_2_5_GBPS, 1, 2500},    {IBV_RATE_5_GBPS, 2, 5000},       {IBV_RATE_10_GBPS, 4, 10000},
    {IBV_RATE_20_GBPS, 8, 20000},    {IBV_RATE_30_GBPS, 12, 30000},    {IBV_RATE_40_GBPS, 16, 40000},
    {IBV_RATE_60_GBPS, 24, 60000},   {IBV_RATE_80_GBPS, 32, 80000},    {IBV_RATE_120_GBPS, 48, 120000},
    {IBV_RATE_14_GBPS, -1, 14062},   {IBV_RATE_56_GBPS, -1, 56250},    {IBV_RATE_112_GBPS, -1, 112500},
    {IBV_RATE_168_GBPS, -1, 168750}, {IBV_RATE_25_GBPS, -1, 25781},    {IBV_RATE_100_GBPS, -1, 103125},
    {IBV_RATE_200_GBPS, -1, 206250}, {IBV_RATE_300_GBPS, -1, 309375},  {IBV_RATE_28_GBPS, 11, 28125},
    {IBV_RATE_50_GBPS, 20, 53125},   {IBV_RATE_400_GBPS, 160, 425000}, {IBV_RATE_600_GBPS, 240, 637500},
};

EXPORT int ibv_rate_to_mult(enum ibv_rate rate)
{
    for (size_t i = 0; i < COUNT_OF(rates); i++)
        if (rates[i].rate == rate)
            return rates[i].multiple;
    return -1;
}

EXPORT enum ibv_rate mult_to_ibv_rate(int multiple)
{
    for (size_t i = 0; i < COUNT_OF(rates); i++)
        if (rates[i].multiple == multiple)
            return rates[i].rate;
    return IBV_RATE_MAX;
}

EXPORT int ibv_rate_to_mbps(enum ibv_rate rate)
{
    for (size_t i = 0; i < COUNT_OF(rates); i++)
        if (rates[i].rate == rate)
            return rates[i].mbps;
    return -1;
}

EXPORT enum ibv_rate mbps_to_ibv_rate(int mbps)
{
    for (size_t i = 0; i < COUNT_OF(rates); i++)
        if (rates[i].mbps == mbps)
            return rates[i].rate;
    return IBV_RATE_MAX;
}

static _Atomic bool unprotected; /* on demand */

/* A child cannot use its parent's adapter: pages are not pinned here, so there is nothing to protect. */
EXPORT int ibv_fork_init(void)
{
    unprotected = fault_fails_unlocked(FAULT_FORK);
    return unprotected ? ENOSYS : 0;
}

EXPORT enum ibv_fork_status ibv_is_fork_initialized(void)
{
    return unprotected ? IBV_FORK_DISABLED : IBV_FORK_UNNEEDED;
}

int ibv_dontfork_range(void *base, size_t size);
EXPORT int ibv_dontfork_range(void *base, size_t size)
{
    return 0;
}

int ibv_dofork_range(void *base, size_t size);
EXPORT int ibv_dofork_range(void *base, size_t size)
{
    return 0;
}

/* There is no vendor whose options these could be. */
EXPORT int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
    memset(ece, 0, sizeof(*ece));
    return EOPNOTSUPP;
}

EXPORT int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
    return EOPNOTSUPP;
}

EXPORT int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
    return 0;
}

const char *ibv_get_sysfs_path(void);
EXPORT const char *ibv_get_sysfs_path(void)
{
    return "/sys";
}

static const struct rdma_device *device_of_path(const char *folder)
{
    const char *name = strrchr(folder, '/');
    list_each(node, &device_table)
    {
        const struct rdma_device *device = list_entry(node, struct rdma_device, node);
        if (!strcmp(folder, device->ibv.ibdev_path) || (name && !strcmp(name + 1, device->ibv.dev_name)))
            return device;
    }
    return NULL;
}

static int copy_line(const char *text, int length, char *out, size_t size)
{
    while (length && text[length - 1] == '\n')
        length--;
    if ((size_t)length >= size)
        length = (int)size - 1;
    memcpy(out, text, (size_t)length);
    out[length] = 0;
    return length;
}

/* Counters are those of all processes. Without the engine's lock. */
static void gather_for(const char *name, size_t length, const char *file)
{
    char device[IBV_SYSFS_NAME_MAX];
    const char *counter = strstr(file, "counters/");
    if (!counter || !counter[strlen("counters/")] || length >= sizeof(device))
        return;
    snprintf(device, sizeof(device), "%.*s", (int)length, name);
    gather_counters(device);
}

int ibv_read_sysfs_file(const char *folder, const char *file, char *out, size_t size);
EXPORT int ibv_read_sysfs_file(const char *folder, const char *file, char *out, size_t size)
{
    char text[SYSFS_BUFFER];
    if (!strcmp(file, CM_ABI_FILE)) /* librdmacm asks for it */
        return copy_line(CM_ABI, (int)strlen(CM_ABI), out, size);
    engine_lock();
    const struct rdma_device *device = device_of_path(folder);
    engine_unlock();
    if (device) /* stays until the process ends */
        gather_for(device->ibv.name, strlen(device->ibv.name), file);
    engine_lock();
    int n = device ? device_sysfs(device, file, text, sizeof(text)) : -1;
    engine_unlock();
    return n < 0 || !size ? -1 : copy_line(text, n, out, size);
}

/* The device that a path below /sys/class/infiniband begins with, and what follows its name. */
static const struct rdma_device *device_on(const char *path, const char **rest)
{
    size_t length = strcspn(path, "/");
    *rest = path + length + (path[length] == '/');
    if (list_empty(&device_table))
        device_refresh();
    list_each(node, &device_table)
    {
        const struct rdma_device *device = list_entry(node, struct rdma_device, node);
        if (device->present && strlen(device->ibv.name) == length && !memcmp(device->ibv.name, path, length))
            return device;
    }
    return NULL;
}

/* For the preloaded library that shows /sys/class/infiniband to programs: the text of DEVICE/FILE. */
int softverbs_sysfs(const char *path, char *out, size_t size);
EXPORT int softverbs_sysfs(const char *path, char *out, size_t size)
{
    const char *rest;
    gather_for(path, strcspn(path, "/"), path);
    engine_lock();
    const struct rdma_device *device = device_on(path, &rest);
    int n = device && *rest ? device_sysfs(device, rest, out, size) : -1;
    engine_unlock();
    return n;
}

/* The entries of a folder, each with its kind (d, f or l, as find has it) before its name and a newline behind it. */
int softverbs_sysfs_list(const char *path, char *out, size_t size);
EXPORT int softverbs_sysfs_list(const char *path, char *out, size_t size)
{
    const char *rest;
    int n = 0;
    engine_lock();
    if (!*path)
        device_refresh();
    const struct rdma_device *device = *path ? device_on(path, &rest) : NULL;
    if (*path)
        n = device ? device_sysfs_list(device, rest, out, size) : -1;
    *out = *path ? *out : 0;
    list_each(node, &device_table)
    {
        const struct rdma_device *each = list_entry(node, struct rdma_device, node);
        if (!*path && each->present && (size_t)n + sizeof(each->ibv.name) + 2 < size)
            n += snprintf(out + n, size - (size_t)n, "d%s\n", each->ibv.name);
    }
    engine_unlock();
    return n;
}
