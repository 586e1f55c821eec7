/* SPDX-License-Identifier: Apache-2.0 */
/* The files that the kernel would show under /sys/class/infiniband/DEVICE. */
#include "verbs/counters.h"
#include "verbs/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int gid_text(const union ibv_gid *gid, char *out, size_t size)
{
    static const union ibv_gid nothing;
    const uint8_t *b = gid ? gid->raw : nothing.raw;
    int n = 0;
    for (int i = 0; i < 16; i += 2)
        n += snprintf(out + n, size - (size_t)n, "%s%02x%02x", i ? ":" : "", b[i], b[i + 1]);
    return n + snprintf(out + n, size - (size_t)n, "\n");
}

static int guid_text(const struct rdma_device *device, char *out, size_t size)
{
    uint8_t b[8];
    __be64 guid = device_guid(device);
    memcpy(b, &guid, sizeof(b));
    return snprintf(out, size, "%02x%02x:%02x%02x:%02x%02x:%02x%02x\n", b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]);
}

struct sysfs_counter {
    const char *name;
    enum counter counter;
    unsigned unit;
};

/* By the names of InfiniBand, which counts data by words of four bytes. */
static const struct sysfs_counter port_counters[] = {
    {"port_xmit_data", COUNT_sent_bytes, 4},       {"port_rcv_data", COUNT_received_bytes, 4},
    {"port_xmit_packets", COUNT_sent_packets, 1},  {"port_rcv_packets", COUNT_received_packets, 1},
    {"port_xmit_discards", COUNT_send_failed, 1},  {"port_rcv_errors", COUNT_dropped_icrc, 1},
    {"port_xmit_wait", COUNT_waited_for_queue, 1}, {NULL, 0, 0},
};

/* By the names of mlx5, which some programs know; ours follow. */
static const struct sysfs_counter mlx5_counters[] = {
    {"local_ack_timeout_err", COUNT_ack_timeout, 1},
    {"packet_seq_err", COUNT_nak_sequence, 1},
    {"implied_nak_seq_err", COUNT_implied_nak, 1},
    {"rnr_nak_retry_err", COUNT_rnr_nak_received, 1},
    {"req_transport_retries_exceeded", COUNT_retry_exceeded, 1},
    {"resp_remote_access_errors", COUNT_access_error, 1},
    {"rx_icrc_encapsulated", COUNT_dropped_icrc, 1},
    {NULL, 0, 0},
};

static int value_text(const struct rdma_device *device, enum counter counter, unsigned unit, char *out, size_t size)
{
    uint64_t value = atomic_load_explicit(&device->counts[counter], memory_order_relaxed) + device->others[counter];
    return snprintf(out, size, "%llu\n", (unsigned long long)value / unit);
}

static int counter_text(const struct rdma_device *device, const struct sysfs_counter *rows, const char *name, char *out,
                        size_t size)
{
    for (; rows->name; rows++)
        if (!strcmp(name, rows->name))
            return value_text(device, rows->counter, rows->unit, out, size);
    return -1;
}

static int hardware_text(const struct rdma_device *device, const char *name, char *out, size_t size)
{
    for (int i = 0; i < COUNTER_COUNT; i++)
        if (!strcmp(name, counter_name((enum counter)i)))
            return value_text(device, (enum counter)i, 1, out, size);
    return counter_text(device, mlx5_counters, name, out, size);
}

/* A file below ports/1. */
static int port_file(const struct rdma_device *device, const char *file, char *out, size_t size)
{
    unsigned index = 0;
    if (!strcmp(file, "state"))
        return snprintf(out, size, "%s\n", device->up ? "4: ACTIVE" : "1: DOWN");
    if (!strcmp(file, "phys_state"))
        return snprintf(out, size, "%s\n", device->up ? "5: LinkUp" : "3: Disabled");
    if (!strcmp(file, "link_layer"))
        return snprintf(out, size, "Ethernet\n");
    if (!strcmp(file, "rate"))
        return snprintf(out, size, "%g Gb/sec (emulated)\n", (double)device->speed_mbps / 1000);
    if (!strcmp(file, "lid") || !strcmp(file, "sm_lid"))
        return snprintf(out, size, "0x0\n");
    if (!strcmp(file, "lid_mask_count") || !strcmp(file, "sm_sl"))
        return snprintf(out, size, "0\n");
    if (!strcmp(file, "cap_mask"))
        return snprintf(out, size, "0x%08x\n", IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS);
    if (!strcmp(file, "pkeys/0"))
        return snprintf(out, size, "0xffff\n");
    if (sscanf(file, "gids/%u", &index) == 1)
        return index < GID_COUNT ? gid_text(device_gid(device, (int)index), out, size) : -1;
    if (sscanf(file, "gid_attrs/types/%u", &index) == 1)
        return device_gid(device, (int)index) ? snprintf(out, size, "RoCE v2\n") : -1;
    if (sscanf(file, "gid_attrs/ndevs/%u", &index) == 1)
        return device_gid(device, (int)index) ? snprintf(out, size, "%s\n", device->ifname) : -1;
    if (!strncmp(file, "counters/", 9))
        return counter_text(device, port_counters, file + 9, out, size);
    if (!strncmp(file, "hw_counters/", 12))
        return hardware_text(device, file + 12, out, size);
    return -1;
}

/* The folder of the adapter: a link, of which the text is where it leads to, and some files. */
static int place_file(const struct rdma_device *device, const char *file, char *out, size_t size)
{
    const char *slash = strrchr(device->place, '/'), *address = slash ? slash + 1 : device->place;
    if (!*device->place)
        return -1;
    if (!*file)
        return snprintf(out, size, "/sys/devices/%s", device->place);
    if (!strcmp(file, "/vendor"))
        return snprintf(out, size, "0x15b3\n");
    if (!strcmp(file, "/class"))
        return snprintf(out, size, "0x020000\n");
    if (!strcmp(file, "/numa_node"))
        return snprintf(out, size, "-1\n");
    if (!strcmp(file, "/uevent"))
        return snprintf(out, size, "DRIVER=mlx5_core\nPCI_SLOT_NAME=%s\n", address);
    return -1;
}

int device_sysfs(const struct rdma_device *device, const char *file, char *out, size_t size)
{
    if (!strncmp(file, "ports/1/", 8))
        return port_file(device, file + 8, out, size);
    if (!strncmp(file, "device", 6))
        return place_file(device, file + 6, out, size);
    if (!strcmp(file, "node_guid") || !strcmp(file, "sys_image_guid"))
        return guid_text(device, out, size);
    if (!strcmp(file, "node_type"))
        return snprintf(out, size, "1: CA\n");
    if (!strcmp(file, "fw_ver"))
        return snprintf(out, size, "emulator\n");
    if (!strcmp(file, "hca_type") || !strcmp(file, "board_id") || !strcmp(file, "node_desc"))
        return snprintf(out, size, "softverbs\n");
    if (!strcmp(file, "ibdev"))
        return snprintf(out, size, "%s\n", device->ibv.name);
    if (!strcmp(file, "hw_rev"))
        return snprintf(out, size, "0\n");
    if (!strcmp(file, "abi_version"))
        return snprintf(out, size, "1\n");
    return -1;
}

/* Folders of which all devices have the same entries, each with its kind before its name. */
static const struct {
    const char *folder, *entries;
} folders[] = {
    {"", "fnode_guid\nfsys_image_guid\nfnode_type\nfnode_desc\nffw_ver\nfhw_rev\nfhca_type\nfboard_id\ndports\n"},
    {"ports", "d1\n"},
    {"ports/1", "fstate\nfphys_state\nflink_layer\nfrate\nflid\nflid_mask_count\nfsm_lid\nfsm_sl\nfcap_mask\ndgids\n"
                "dgid_attrs\ndpkeys\ndcounters\ndhw_counters\n"},
    {"ports/1/gid_attrs", "dtypes\ndndevs\n"},
    {"ports/1/pkeys", "f0\n"},
    {"ports/1/counters", "fport_xmit_data\nfport_rcv_data\nfport_xmit_packets\nfport_rcv_packets\nfport_xmit_discards\n"
                         "fport_rcv_errors\nfport_xmit_wait\n"},
};

static bool is_numbered(const char *folder)
{
    return !strcmp(folder, "ports/1/gids") || !strcmp(folder, "ports/1/gid_attrs/types") ||
           !strcmp(folder, "ports/1/gid_attrs/ndevs");
}

static bool is_hardware(const char *folder)
{
    return !strcmp(folder, "ports/1/hw_counters");
}

int device_sysfs_list(const struct rdma_device *device, const char *folder, char *out, size_t size)
{
    const char *kept = *device->place ? "fvendor\nfclass\nfnuma_node\nfuevent\n" : "";
    int n = 0;
    if (!strcmp(folder, "device"))
        return snprintf(out, size, "%sdnet\n", kept);
    if (!strcmp(folder, "device/net"))
        return snprintf(out, size, "d%s\n", device->ifname);
    if (!strncmp(folder, "device/net/", 11) && !strcmp(folder + 11, device->ifname))
        return snprintf(out, size, "%s", "");
    for (int i = 0; is_numbered(folder) && i < GID_COUNT; i++)
        n += snprintf(out + n, size - (size_t)n, "f%d\n", i);
    for (int i = 0; is_hardware(folder) && i < COUNTER_COUNT; i++)
        n += snprintf(out + n, size - (size_t)n, "f%s\n", counter_name((enum counter)i));
    for (const struct sysfs_counter *row = mlx5_counters; n && row->name && is_hardware(folder); row++)
        n += snprintf(out + n, size - (size_t)n, "f%s\n", row->name);
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++)
        if (!strcmp(folder, folders[i].folder))
            n = snprintf(out, size, "%s%s", folders[i].entries,
                         *folder          ? ""
                         : *device->place ? "ldevice\n"
                                          : "ddevice\n");
    return n ? n : -1;
}
