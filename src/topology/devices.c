/* SPDX-License-Identifier: Apache-2.0 */
/* Network interfaces (/sys/class/net), RDMA ports (/sys/class/infiniband) and GPUs (PCI class 0x03) from sysfs. */
#include "topology/topology.h"

#include "base/error.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The last part of what the link root/path points to: a driver's name, a PCI address. */
static void devices_read_link(const char *root, const char *path, char *out, size_t size)
{
    char full[640], target[512];
    snprintf(full, sizeof full, "%s%s", root, path);
    ssize_t length = readlink(full, target, sizeof target - 1);
    *out = 0;
    if (length <= 0)
        return;
    target[length] = 0;
    const char *slash = strrchr(target, '/');
    snprintf(out, size, "%.40s", slash ? slash + 1 : target);
}

/* "driver mlx5_core, PCI 0000:1a:00.0", as far as known. */
static void devices_describe(const char *root, const char *folder, char *out, size_t size)
{
    char path[512], driver[48], address[48];
    snprintf(path, sizeof path, "%s/device/driver", folder);
    devices_read_link(root, path, driver, sizeof driver);
    snprintf(path, sizeof path, "%s/device", folder);
    devices_read_link(root, path, address, sizeof address);
    const char *at = strchr(address, ':') ? address : "";
    snprintf(out, size, "%s%s%s%s%s", *driver ? "driver " : "", driver, *driver && *at ? ", " : "", *at ? "PCI " : "",
             at);
}

static tutti_result_t devices_no_memory(void)
{
    return error_set(TUTTI_SYSTEM_ERROR, "topology: out of memory");
}

static tutti_result_t read_interface(struct topology *topology, const char *root, const char *name)
{
    char folder[320], path[400], state[32] = "";
    struct topology_node *net = topology_add(topology, TOPOLOGY_NET, -1);
    if (!net)
        return devices_no_memory();
    snprintf(folder, sizeof folder, "/sys/class/net/%s", name);
    snprintf(net->name, sizeof net->name, "%s", name);
    snprintf(path, sizeof path, "%s/operstate", folder);
    topology_read_line(root, path, state, sizeof state);
    net->up = strcmp(state, "up") == 0 || strcmp(name, "lo") == 0;
    snprintf(path, sizeof path, "%s/speed", folder);
    net->mbits = topology_read_number(root, path, 0);
    net->mbits = net->mbits > 0 ? net->mbits : 0;
    snprintf(path, sizeof path, "%s/device/numa_node", folder);
    net->parent = (int)topology_read_number(root, path, -1);
    devices_describe(root, folder, net->detail, sizeof net->detail);
    return TUTTI_SUCCESS;
}

/* Ports of one RDMA device; the rate file says "400 Gb/sec (4X NDR)", the state file "4: ACTIVE". */
static tutti_result_t read_rdma(struct topology *topology, const char *root, const char *name)
{
    char folder[320], path[400], line[64];
    snprintf(folder, sizeof folder, "/sys/class/infiniband/%s", name);
    for (int port = 1; port <= 4; port++) {
        snprintf(path, sizeof path, "%s/ports/%d/state", folder, port);
        if (!topology_read_line(root, path, line, sizeof line))
            break;
        struct topology_node *node = topology_add(topology, TOPOLOGY_RDMA, port);
        if (!node)
            return devices_no_memory();
        node->up = strstr(line, "ACTIVE") != NULL;
        snprintf(node->name, sizeof node->name, "%.56s:%d", name, port);
        snprintf(path, sizeof path, "%s/ports/%d/rate", folder, port);
        if (topology_read_line(root, path, line, sizeof line))
            node->mbits = (int64_t)(strtod(line, NULL) * 1000);
        snprintf(path, sizeof path, "%s/device/numa_node", folder);
        node->parent = (int)topology_read_number(root, path, -1);
        devices_describe(root, folder, node->detail, sizeof node->detail);
    }
    return TUTTI_SUCCESS;
}

/* The model that NVIDIA's driver tells, else the maker. */
static void gpu_model(const char *root, const char *address, int64_t vendor, char *out, size_t size)
{
    char path[400], line[128];
    snprintf(path, sizeof path, "/proc/driver/nvidia/gpus/%s/information", address);
    if (topology_read_line(root, path, line, sizeof line) && strncmp(line, "Model:", 6) == 0)
        snprintf(out, size, "%s", line + 6 + strspn(line + 6, " \t"));
    else
        snprintf(out, size, "%s",
                 vendor == 0x10de   ? "NVIDIA"
                 : vendor == 0x1002 ? "AMD"
                 : vendor == 0x8086 ? "Intel"
                                    : "");
}

static tutti_result_t read_pci(struct topology *topology, const char *root, const char *name)
{
    char folder[320], path[400];
    snprintf(folder, sizeof folder, "/sys/bus/pci/devices/%s", name);
    snprintf(path, sizeof path, "%s/class", folder);
    if (topology_read_number(root, path, 0) >> 16 != 3)
        return TUTTI_SUCCESS;
    struct topology_node *gpu = topology_add(topology, TOPOLOGY_GPU, -1);
    if (!gpu)
        return devices_no_memory();
    snprintf(gpu->name, sizeof gpu->name, "%.60s", name);
    snprintf(path, sizeof path, "%s/numa_node", folder);
    gpu->parent = (int)topology_read_number(root, path, -1);
    snprintf(path, sizeof path, "%s/vendor", folder);
    gpu_model(root, name, topology_read_number(root, path, 0), gpu->detail, sizeof gpu->detail);
    return TUTTI_SUCCESS;
}

typedef tutti_result_t (*device_fn)(struct topology *topology, const char *root, const char *name);

/* Every entry of a folder; one that is not there has none. */
static tutti_result_t each(struct topology *topology, const char *root, const char *folder, device_fn read)
{
    char path[512];
    tutti_result_t result = TUTTI_SUCCESS;
    struct dirent *entry;
    snprintf(path, sizeof path, "%s%s", root, folder);
    DIR *dir = opendir(path);
    while (dir && result == TUTTI_SUCCESS && (entry = readdir(dir)))
        if (entry->d_name[0] != '.')
            result = read(topology, root, entry->d_name);
    if (dir)
        closedir(dir);
    return result;
}

tutti_result_t topology_read_devices(struct topology *topology, const char *root)
{
    tutti_result_t result = each(topology, root, "/sys/class/net", read_interface);
    if (result == TUTTI_SUCCESS)
        result = each(topology, root, "/sys/class/infiniband", read_rdma);
    if (result == TUTTI_SUCCESS)
        result = each(topology, root, "/sys/bus/pci/devices", read_pci);
    return result;
}
