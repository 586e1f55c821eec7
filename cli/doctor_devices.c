/* SPDX-License-Identifier: Apache-2.0 */
/* GPUs with their driver and links, and RDMA devices with their addresses. */
#include "cli/doctor.h"

#include "base/error.h"
#include "base/load.h"
#include "base/param.h"
#include "device/cuda/nvml.h"
#include "transport/transport.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

/* ---- GPUs ---- */

static int nvidia_devices(const struct topology *devices)
{
    int count = 0;
    for (int i = 0; i < devices->count; i++)
        count += devices->nodes[i].kind == TOPOLOGY_GPU && strstr(devices->nodes[i].detail, "NVIDIA");
    return count;
}

static void judge_pairs(struct doctor_result *out, int count)
{
    int pairs[3] = {0}, from = -1, to = -1;
    for (int i = 0; i < count; i++)
        for (int j = i + 1; j < count; j++) {
            enum nvml_peer way = NVML_PEER_NONE;
            if (nvml_peer(i, j, &way) == TUTTI_SUCCESS)
                pairs[way]++;
            if (way == NVML_PEER_NONE && from < 0) {
                from = i;
                to = j;
            }
        }
    if (count > 1)
        doctor_found(out, "; pairs by NVLink %d, by PCI Express %d, by neither %d", pairs[NVML_PEER_NVLINK],
                     pairs[NVML_PEER_PCI], pairs[NVML_PEER_NONE]);
    if (from >= 0) {
        doctor_found(out, " (first %d and %d)", from, to);
        doctor_complain(
            out, DOCTOR_WARN,
            "GPUs that cannot write to each other exchange through pinned host memory, at a fraction of the speed",
            "nvidia-smi topo -p2p rw says why; no ACS on PCI switches, iommu=pt; virtual machines: pass peer access "
            "through");
    }
}

/* The kernels and the check reach the GPU by different libraries: containers often lack one of them. */
static void judge_driver(struct doctor_result *out)
{
    const char *name = param_string(PARAM_CUDA_LIBRARY);
    void *library = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
    if (library) {
        dlclose(library);
        return;
    }
    doctor_found(out, "; %s cannot be loaded", name);
    doctor_complain(out, DOCTOR_WRONG, "no communicator on GPUs can be made",
                    "install the driver's CUDA library (docker: --gpus all -e "
                    "NVIDIA_DRIVER_CAPABILITIES=compute,utility), or set TUTTI_CUDA_LIBRARY");
}

void doctor_gpus(const struct doctor *doctor, struct doctor_result *out)
{
    int count = 0, seen = nvidia_devices(&doctor->devices);
    char version[80] = "";
    struct nvml_gpu gpu;
    if (nvml_count(&count) != TUTTI_SUCCESS) {
        doctor_found(out, seen ? "%d of NVIDIA on the bus, but no driver: %s" : "none", seen, error_last());
        if (seen)
            doctor_complain(
                out, DOCTOR_WRONG, "GPUs cannot be used",
                "install NVIDIA's driver, or load it: modprobe nvidia (docker: --gpus all); nvidia-smi must work");
        return;
    }
    nvml_driver_version(version, sizeof version);
    doctor_found(out, "%d", count);
    if (count && nvml_gpu(0, &gpu) == TUTTI_SUCCESS)
        doctor_found(out, " (%s, %d NVLinks)", gpu.name, gpu.links);
    doctor_found(out, ", driver %s", version);
    judge_pairs(out, count);
    if (count)
        judge_driver(out);
}

/* ---- RDMA ---- */

struct doctor_devices_port {
    char folder[160];
    bool ethernet;
    int gids, roce; /* addresses; the index of the first of RoCE version 2, -1: none */
    char address[64];
};

static bool is_zero(const char *gid)
{
    return gid[strspn(gid, "0:")] == 0;
}

/* The usual choice is the GID of RoCE version 2 that holds an IPv4 address. */
static void read_gids(struct doctor_devices_port *port)
{
    char path[256], line[64];
    for (int i = 0; i < 256; i++) {
        snprintf(path, sizeof path, "%s/gids/%d", port->folder, i);
        if (!topology_read_line("", path, line, sizeof line))
            break;
        if (is_zero(line))
            continue;
        port->gids++;
        char gid[64];
        snprintf(gid, sizeof gid, "%s", line);
        snprintf(path, sizeof path, "%s/gid_attrs/types/%d", port->folder, i);
        bool second = topology_read_line("", path, line, sizeof line) && strstr(line, "v2");
        bool mapped = strncmp(gid, "0000:0000:0000:0000:0000:ffff:", 30) == 0;
        if (second && (port->roce < 0 || (mapped && strncmp(port->address, "0000:", 5) != 0))) {
            port->roce = i;
            snprintf(port->address, sizeof port->address, "%s", gid);
        }
    }
}

static struct doctor_devices_port read_port(const struct topology_node *node)
{
    struct doctor_devices_port port = {.roce = -1};
    char path[256], line[64] = "";
    snprintf(port.folder, sizeof port.folder, "/sys/class/infiniband/%.*s/ports/%d", (int)strcspn(node->name, ":"),
             node->name, node->index);
    snprintf(path, sizeof path, "%s/link_layer", port.folder);
    port.ethernet = topology_read_line("", path, line, sizeof line) && strcmp(line, "Ethernet") == 0;
    read_gids(&port);
    return port;
}

static void judge_port(struct doctor_result *out, const struct topology_node *node)
{
    struct doctor_devices_port port = read_port(node);
    doctor_found(out, "%s %s, %g Gb/s, %s, %d GIDs", node->name, node->up ? "up" : "down", (double)node->mbits / 1000,
                 port.ethernet ? "Ethernet" : "InfiniBand", port.gids);
    if (port.roce >= 0)
        doctor_found(out, ", %d is RoCE v2 %s", port.roce, port.address);
    doctor_found(out, "; ");
    if (!node->up)
        doctor_complain(out, DOCTOR_WARN, "nothing goes through this port",
                        "rdma link; ip link set its interface up; look at cable and switch");
    else if (port.ethernet && port.roce < 0)
        doctor_complain(out, DOCTOR_WARN, "without an address of RoCE v2 nothing is routed",
                        "ip address add ADDRESS dev the port's interface; modprobe rdma_ucm");
}

static int user_devices(void)
{
    int count = 0;
    DIR *folder = opendir("/dev/infiniband");
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        count += strncmp(entry->d_name, "uverbs", 6) == 0;
    if (folder)
        closedir(folder);
    return count;
}

/* Counts the devices that the library of verbs shows, which may be of the software device and not in /sys. -1: the
 * library is missing. */
static int shown_devices(const char *library)
{
    void **(*list)(int *) = NULL;
    void (*give_back)(void **) = NULL;
    const struct load_symbol symbols[] = {{&list, "ibv_get_device_list"}, {&give_back, "ibv_free_device_list"}};
    int count = 0;
    if (!load_library(library, symbols, sizeof symbols / sizeof *symbols))
        return -1;
    void **devices = list(&count);
    if (devices)
        give_back(devices);
    return devices ? count : 0;
}

/* The user asked for RDMA, and nothing falls back to TCP then: see docs/operate/rdma.md. */
static void judge_wish(struct doctor_result *out, const char *library, int devices)
{
    if (param_int(PARAM_IB_DISABLE))
        doctor_complain(out, DOCTOR_WRONG,
                        "TUTTI_IB_DISABLE=1 forbids what TUTTI_TRANSPORT=verbs asks for: no communicator can be made",
                        "unset TUTTI_IB_DISABLE NCCL_IB_DISABLE, or export TUTTI_TRANSPORT=auto");
    else if (devices == 0)
        doctor_complain(out, DOCTOR_WRONG, "TUTTI_TRANSPORT=verbs asks for RDMA: no communicator can be made",
                        "export TUTTI_TRANSPORT=auto, or TUTTI_IBVERBS_LIBRARY=the software device");
    else if (devices < 0)
        doctor_complain(out, DOCTOR_WRONG, "TUTTI_TRANSPORT=verbs asks for RDMA: no communicator can be made",
                        "apt install libibverbs1 ibverbs-providers, or set TUTTI_IBVERBS_LIBRARY");
    if (devices < 0)
        doctor_found(out, "; %s cannot be loaded", library);
}

/* Takes the remedy from the end of the sentence. */
static void tell_refusal(struct doctor_result *out, enum doctor_state state, const char *why)
{
    static const char mark[] = ". Type ";
    const char *remedy = strstr(why, mark);
    int length = remedy ? (int)(remedy - why) : (int)strlen(why);
    doctor_found(out, "hosts talk by TCP: %.*s", length, why);
    if (state != DOCTOR_OK)
        doctor_complain(out, state, "data between hosts goes by TCP, not by RDMA", "%s",
                        remedy ? remedy + strlen(mark) : "TUTTI_DEBUG=info names each port and what is wrong with it");
}

static void tell_ports(struct doctor_result *out, struct transport *transport)
{
    struct transport_nic nic;
    for (unsigned i = 0; transport_verbs.nic(transport, i, &nic); i++)
        doctor_found(out, "%s%s:%u", i ? ", " : "hosts talk by RDMA, through ", nic.name, nic.port);
    doctor_found(out, ", where a first exchange with the peer succeeds; else by TCP");
}

/* Opens the device that a process would open without a transport in its settings. */
static void judge_auto(struct doctor_result *out)
{
    const struct transport_owner owner = {NULL};
    struct wire_process self = {{0}};
    struct poller *poller;
    struct transport *transport;
    if (poller_open(&poller) != TUTTI_SUCCESS) {
        doctor_found(out, "RDMA cannot be tried: %s", error_last());
        return;
    }
    tutti_result_t result = transport_verbs.open(&transport_verbs, &owner, poller, &self, &transport);
    if (result == TUTTI_SUCCESS) {
        tell_ports(out, transport);
        transport_verbs.close(transport);
    } else {
        tell_refusal(out, result == TUTTI_INVALID_USAGE ? DOCTOR_OK : DOCTOR_WARN, error_last());
    }
    poller_close(poller);
}

static void judge_asked(struct doctor_result *out, int ports)
{
    const char *library = param_string(PARAM_IBVERBS_LIBRARY);
    int devices = shown_devices(library);
    if (!ports && devices > 0)
        doctor_found(out, "%d of %s; ", devices, library);
    doctor_found(out, "TUTTI_TRANSPORT=verbs: hosts talk by RDMA");
    judge_wish(out, library, devices);
}

void doctor_rdma(const struct doctor *doctor, struct doctor_result *out)
{
    int ports = 0;
    for (int i = 0; i < doctor->devices.count; i++)
        if (doctor->devices.nodes[i].kind == TOPOLOGY_RDMA) {
            judge_port(out, &doctor->devices.nodes[i]);
            ports++;
        }
    if (!ports)
        doctor_found(out, "no device in /sys; ");
    if (ports && !user_devices())
        doctor_complain(out, DOCTOR_WARN, "programs see the devices and cannot open them",
                        "modprobe ib_uverbs (docker: --device=/dev/infiniband)");
    if (transport_is_asked(&transport_verbs))
        judge_asked(out, ports);
    else if (transport_is_wanted(&transport_verbs))
        judge_auto(out);
    else
        doctor_found(out, "no RDMA between hosts: TUTTI_TRANSPORT=%s, TUTTI_NET=%s", param_string(PARAM_TRANSPORT),
                     param_string(PARAM_NET));
}
