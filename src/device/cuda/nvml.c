/* SPDX-License-Identifier: Apache-2.0 */
/* Loads libnvidia-ml.so.1 and asks it about links. Names, numbers and layouts below are that library's. */
#include "device/cuda/nvml.h"
#include "base/error.h"
#include "base/param.h"
#include "base/random.h"

#include <ctype.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, ENABLED = 1, REMOTE_GPU = 0, REMOTE_SWITCH = 2, CAPS_READ = 0, CAPS_WRITE = 1, CAPS_NVLINK = 2 };

typedef struct nvmlDevice_st *nvmlDevice_t;

typedef struct {
    char bus_id_legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
} nvmlPciInfo_t;

typedef struct {
    unsigned long long total, free, used;
} nvmlMemory_t;

struct nvml_calls {
    int (*Init)(void);
    const char *(*ErrorString)(int result);
    int (*SystemGetDriverVersion)(char *out, unsigned size);
    int (*DeviceGetCount)(unsigned *count);
    int (*DeviceGetHandleByIndex)(unsigned index, nvmlDevice_t *device);
    int (*DeviceGetName)(nvmlDevice_t device, char *out, unsigned size);
    int (*DeviceGetPciInfo)(nvmlDevice_t device, nvmlPciInfo_t *out);
    int (*DeviceGetNvLinkState)(nvmlDevice_t device, unsigned link, int *active);
    int (*DeviceGetNvLinkRemotePciInfo)(nvmlDevice_t device, unsigned link, nvmlPciInfo_t *out);
    int (*DeviceGetNvLinkRemoteDeviceType)(nvmlDevice_t device, unsigned link, int *type);      /* may be NULL */
    int (*DeviceGetMemoryInfo)(nvmlDevice_t device, nvmlMemory_t *out);                         /* may be NULL */
    int (*DeviceGetP2PStatus)(nvmlDevice_t device, nvmlDevice_t other, int index, int *status); /* may be NULL */
};

static const struct {
    const char *symbol;
    size_t offset;
    bool needed;
} rows[] = {
    {"nvmlInit_v2", offsetof(struct nvml_calls, Init), true},
    {"nvmlErrorString", offsetof(struct nvml_calls, ErrorString), true},
    {"nvmlSystemGetDriverVersion", offsetof(struct nvml_calls, SystemGetDriverVersion), true},
    {"nvmlDeviceGetCount_v2", offsetof(struct nvml_calls, DeviceGetCount), true},
    {"nvmlDeviceGetHandleByIndex_v2", offsetof(struct nvml_calls, DeviceGetHandleByIndex), true},
    {"nvmlDeviceGetName", offsetof(struct nvml_calls, DeviceGetName), true},
    {"nvmlDeviceGetPciInfo_v3", offsetof(struct nvml_calls, DeviceGetPciInfo), true},
    {"nvmlDeviceGetNvLinkState", offsetof(struct nvml_calls, DeviceGetNvLinkState), true},
    {"nvmlDeviceGetNvLinkRemotePciInfo_v2", offsetof(struct nvml_calls, DeviceGetNvLinkRemotePciInfo), true},
    {"nvmlDeviceGetNvLinkRemoteDeviceType", offsetof(struct nvml_calls, DeviceGetNvLinkRemoteDeviceType), false},
    {"nvmlDeviceGetMemoryInfo", offsetof(struct nvml_calls, DeviceGetMemoryInfo), false},
    {"nvmlDeviceGetP2PStatus", offsetof(struct nvml_calls, DeviceGetP2PStatus), false},
};

static struct nvml_calls nvml;
static char complaint[400]; /* "" once the library is usable */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static const char *nvml_fill(void *library)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        void *symbol = dlsym(library, rows[i].symbol);
        if (!symbol && rows[i].needed)
            return rows[i].symbol;
        memcpy((char *)&nvml + rows[i].offset, &symbol, sizeof symbol);
    }
    return NULL;
}

/* Never shut down: the process may use the library itself. */
static void nvml_load(void)
{
    const char *name = param_string(PARAM_NVML_LIBRARY), *missing;
    void *library = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
    int got;
    if (!library)
        snprintf(complaint, sizeof complaint,
                 "load NVIDIA's management library: %.200s; is the NVIDIA driver installed?", dlerror());
    else if ((missing = nvml_fill(library)))
        snprintf(complaint, sizeof complaint, "load NVIDIA's management library %.100s: it lacks %s", name, missing);
    else if ((got = nvml.Init()) != OK)
        snprintf(complaint, sizeof complaint, "start NVIDIA's management library: %.200s", nvml.ErrorString(got));
}

static tutti_result_t ready(void)
{
    pthread_once(&once, nvml_load);
    return *complaint ? error_note(TUTTI_DEVICE_ERROR, "%s", complaint) : TUTTI_SUCCESS;
}

static tutti_result_t nvml_check(int got, const char *tried)
{
    return got == OK ? TUTTI_SUCCESS : error_set(TUTTI_DEVICE_ERROR, "%s: %s", tried, nvml.ErrorString(got));
}

tutti_result_t nvml_count(int *count)
{
    unsigned devices = 0;
    tutti_result_t result = ready();
    if (result == TUTTI_SUCCESS)
        result = nvml_check(nvml.DeviceGetCount(&devices), "count the GPUs");
    *count = (int)devices;
    return result;
}

tutti_result_t nvml_driver_version(char *out, size_t size)
{
    tutti_result_t result = ready();
    *out = 0;
    return result == TUTTI_SUCCESS
               ? nvml_check(nvml.SystemGetDriverVersion(out, (unsigned)size), "ask for the driver's version")
               : result;
}

static tutti_result_t nvml_find(int index, nvmlDevice_t *out)
{
    tutti_result_t result = ready();
    if (result == TUTTI_SUCCESS && index < 0)
        result = error_set(TUTTI_INVALID_ARGUMENT, "look at GPU %d: there is none", index);
    return result == TUTTI_SUCCESS ? nvml_check(nvml.DeviceGetHandleByIndex((unsigned)index, out), "look at a GPU")
                                   : result;
}

/* 00000000:17:00.0 becomes 0000:17:00.0. */
static void sysfs_name(const char *id, char out[16])
{
    const char *colon = strchr(id, ':');
    if (colon && colon - id > 4)
        id = colon - 4;
    snprintf(out, 16, "%.15s", id);
    for (char *p = out; *p; p++)
        *p = (char)tolower((unsigned char)*p);
}

static void add_remote(struct nvml_gpu *gpu, const char *id)
{
    char name[16];
    int i = 0;
    sysfs_name(id, name);
    while (i < gpu->remotes && strcmp(gpu->remote[i].bus_id, name) != 0)
        i++;
    if (i == gpu->remotes) {
        memcpy(gpu->remote[i].bus_id, name, sizeof name);
        gpu->remotes++;
    }
    gpu->remote[i].links++;
}

/* A link that the device does not have is an error, not an inactive one: both mean nothing to add. */
static void nvml_read_link(nvmlDevice_t device, unsigned link, struct nvml_gpu *gpu)
{
    nvmlPciInfo_t pci;
    int active = 0, type = REMOTE_GPU;
    if (nvml.DeviceGetNvLinkState(device, link, &active) != OK || active != ENABLED)
        return;
    gpu->links++;
    if (nvml.DeviceGetNvLinkRemoteDeviceType && nvml.DeviceGetNvLinkRemoteDeviceType(device, link, &type) != OK)
        return;
    if (type == REMOTE_SWITCH)
        gpu->switches++;
    memset(&pci, 0, sizeof pci);
    if (type == REMOTE_GPU && nvml.DeviceGetNvLinkRemotePciInfo(device, link, &pci) == OK) {
        pci.bus_id[sizeof pci.bus_id - 1] = 0;
        add_remote(gpu, pci.bus_id);
    }
}

tutti_result_t nvml_gpu(int index, struct nvml_gpu *out)
{
    nvmlDevice_t device;
    nvmlPciInfo_t pci;
    memset(out, 0, sizeof *out);
    memset(&pci, 0, sizeof pci);
    tutti_result_t result = nvml_find(index, &device);
    if (result == TUTTI_SUCCESS)
        result = nvml_check(nvml.DeviceGetName(device, out->name, sizeof out->name), "ask for a GPU's name");
    if (result == TUTTI_SUCCESS)
        result = nvml_check(nvml.DeviceGetPciInfo(device, &pci), "ask for a GPU's PCI address");
    if (result != TUTTI_SUCCESS)
        return result;
    pci.bus_id[sizeof pci.bus_id - 1] = 0;
    sysfs_name(pci.bus_id, out->bus_id);
    for (unsigned link = 0; link < NVML_LINKS; link++)
        nvml_read_link(device, link, out);
    return TUTTI_SUCCESS;
}

static bool capable(nvmlDevice_t device, nvmlDevice_t other, int which)
{
    int status = -1;
    return nvml.DeviceGetP2PStatus && nvml.DeviceGetP2PStatus(device, other, which, &status) == OK && status == OK;
}

tutti_result_t nvml_peer(int index, int other, enum nvml_peer *out)
{
    nvmlDevice_t from, to;
    *out = NVML_PEER_NONE;
    tutti_result_t result = nvml_find(index, &from);
    if (result == TUTTI_SUCCESS)
        result = nvml_find(other, &to);
    if (result == TUTTI_SUCCESS && capable(from, to, CAPS_READ) && capable(from, to, CAPS_WRITE))
        *out = capable(from, to, CAPS_NVLINK) ? NVML_PEER_NVLINK : NVML_PEER_PCI;
    return result;
}

static int find_bus(const char *bus_id)
{
    char name[16];
    int count = 0;
    if (nvml_count(&count) != TUTTI_SUCCESS)
        return -1;
    for (int i = 0; i < count; i++) {
        nvmlDevice_t device;
        nvmlPciInfo_t pci;
        memset(&pci, 0, sizeof pci);
        if (nvml_find(i, &device) != TUTTI_SUCCESS || nvml.DeviceGetPciInfo(device, &pci) != OK)
            continue;
        pci.bus_id[sizeof pci.bus_id - 1] = 0;
        sysfs_name(pci.bus_id, name);
        if (strcmp(name, bus_id) == 0)
            return i;
    }
    return -1;
}

bool nvml_joined(const char *bus_id, const char *other)
{
    enum nvml_peer how = NVML_PEER_NONE;
    int a = find_bus(bus_id), b = find_bus(other);
    return a >= 0 && b >= 0 && nvml_peer(a, b, &how) == TUTTI_SUCCESS && how == NVML_PEER_NVLINK;
}

static int nvml_by_name(const void *left, const void *right)
{
    return strcmp(left, right);
}

/* Of what its own links say: other GPUs may be hidden from this process's container. */
uint64_t nvml_island(const char *bus_id)
{
    struct nvml_gpu gpu;
    char member[NVML_LINKS + 1][16] = {{0}};
    int index = find_bus(bus_id), count = 0;
    uint64_t hash = 0;
    if (index < 0 || nvml_gpu(index, &gpu) != TUTTI_SUCCESS)
        return 0;
    if (gpu.switches)
        return 1;
    memcpy(member[count++], gpu.bus_id, sizeof gpu.bus_id);
    for (int i = 0; i < gpu.remotes; i++)
        memcpy(member[count++], gpu.remote[i].bus_id, sizeof gpu.remote[i].bus_id);
    qsort(member, (size_t)count, sizeof *member, nvml_by_name);
    for (int i = 0; i < count; i++)
        hash = hash_bytes(hash, member[i], strlen(member[i]));
    return hash | 2;
}

tutti_result_t nvml_memory(const char *bus_id, uint64_t *free_bytes, uint64_t *total)
{
    nvmlDevice_t device;
    nvmlMemory_t memory = {0};
    int index = find_bus(bus_id);
    if (index < 0 || !nvml.DeviceGetMemoryInfo || nvml_find(index, &device) != TUTTI_SUCCESS ||
        nvml.DeviceGetMemoryInfo(device, &memory) != OK)
        return error_note(TUTTI_DEVICE_ERROR, "no word about the memory of GPU %s", bus_id);
    *free_bytes = memory.free;
    *total = memory.total;
    return TUTTI_SUCCESS;
}
