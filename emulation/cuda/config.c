/* SPDX-License-Identifier: Apache-2.0 */
/* The environment: TUTTI_EMULATED_GPUS, _FIRST, _MEMORY, _P2P, _POISON, _PRIVATE, _BLOCK, _REFUSE, _CONNECTIONS,
 * _PROCESSORS, _DMABUF, _ORDERING, _JITTER and _FAULT. */
#include "cuda/config.h"

#include "base/random.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FAULTS_MAX 16
#define FAULT_NAME 64

struct fault {
    char name[FAULT_NAME];
    long nth;
    CUresult error;
    bool sticky;
    int signal; /* that the process gets; 0: the call fails */
};

static struct cuda_config config;
static struct fault faults[FAULTS_MAX];
static int fault_count;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t fault_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint64_t random_state;

static size_t read_size(const char *name, size_t otherwise)
{
    const char *text = getenv(name);
    char *end;
    if (!text || !*text)
        return otherwise;
    unsigned long long value = strtoull(text, &end, 0);
    const char *units = "KMGT", *unit = *end ? strchr(units, *end & ~0x20) : NULL;
    return unit ? (size_t)value << 10 * (unit - units + 1) : (size_t)value;
}

static bool read_flag(const char *name, bool otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strcmp(text, "0") != 0 : otherwise;
}

static CUresult read_error(const char *text)
{
    static const struct {
        const char *name;
        CUresult error;
    } names[] = {{"memory", CUDA_ERROR_OUT_OF_MEMORY},
                 {"launch", CUDA_ERROR_LAUNCH_FAILED},
                 {"address", CUDA_ERROR_ILLEGAL_ADDRESS},
                 {"ecc", CUDA_ERROR_ECC_UNCORRECTABLE},
                 {"unsupported", CUDA_ERROR_NOT_SUPPORTED}};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (!strcmp(text, names[i].name))
            return names[i].error;
    return (CUresult)atoi(text);
}

/* name:n[:error][:sticky], name:n:dies, name:n:signals */
static void read_fault(char *text)
{
    char *rest, *name = strtok_r(text, ":", &rest), *nth = strtok_r(NULL, ":", &rest), *word;
    struct fault fault = {.nth = nth ? atol(nth) : 0, .error = CUDA_ERROR_OUT_OF_MEMORY};
    bool chosen = false;
    while ((word = strtok_r(NULL, ":", &rest))) {
        if (!strcmp(word, "sticky")) {
            fault.sticky = true;
        } else if (!strcmp(word, "dies")) {
            fault.signal = SIGKILL;
        } else if (!strcmp(word, "signals")) {
            fault.signal = SIGUSR1;
        } else {
            fault.error = read_error(word);
            chosen = true;
        }
    }
    if (fault.sticky && !chosen)
        fault.error = CUDA_ERROR_ILLEGAL_ADDRESS;
    if (!name || fault.nth < 1 || fault.error == CUDA_SUCCESS || fault_count == FAULTS_MAX) {
        fprintf(stderr,
                "emulated CUDA: TUTTI_EMULATED_FAULT: cannot use \"%s\": want name:n[:error][:sticky], name:n:dies or "
                "name:n:signals\n",
                text);
        return;
    }
    snprintf(fault.name, sizeof(fault.name), "%s", name);
    faults[fault_count++] = fault;
}

static void read_faults(void)
{
    const char *text = getenv("TUTTI_EMULATED_FAULT");
    char *copy = text ? strdup(text) : NULL, *rest;
    fault_count = 0;
    for (char *one = copy ? strtok_r(copy, ",", &rest) : NULL; one; one = strtok_r(NULL, ",", &rest))
        read_fault(one);
    free(copy);
}

void config_reload(void)
{
    int devices = (int)read_size("TUTTI_EMULATED_GPUS", 4);
    const char *jitter = getenv("TUTTI_EMULATED_JITTER"), *seed = jitter ? strchr(jitter, ':') : NULL;
    size_t connections = read_size("TUTTI_EMULATED_CONNECTIONS", 0);
    config.devices = devices < 0 ? 0 : devices > CONFIG_DEVICES_MAX ? CONFIG_DEVICES_MAX : devices;
    config.first = (int)read_size("TUTTI_EMULATED_FIRST", 0);
    config.machine = (int)read_size("TUTTI_EMULATED_MACHINE", (size_t)config.devices);
    config.machine = config.machine > CONFIG_DEVICES_MAX ? CONFIG_DEVICES_MAX : config.machine;
    config.memory = read_size("TUTTI_EMULATED_MEMORY", (size_t)1 << 30);
    config.peers = read_flag("TUTTI_EMULATED_P2P", true);
    config.poison = read_flag("TUTTI_EMULATED_POISON", true);
    config.private = read_flag("TUTTI_EMULATED_PRIVATE", false);
    config.block = read_flag("TUTTI_EMULATED_BLOCK", false);
    config.refuse = read_flag("TUTTI_EMULATED_REFUSE", false);
    config.ipc = read_flag("TUTTI_EMULATED_IPC", true);
    config.dmabuf = read_flag("TUTTI_EMULATED_DMABUF", true);
    config.ordering = (int)read_size("TUTTI_EMULATED_ORDERING", 100);
    config.connections = connections > CONFIG_CONNECTIONS_MAX ? CONFIG_CONNECTIONS_MAX : (int)connections;
    config.processors = (int)read_size("TUTTI_EMULATED_PROCESSORS", 132);
    config.processors = config.processors < 1 ? 1 : config.processors;
    config.hold = getenv("TUTTI_EMULATED_HOLD");
    config.jitter_us = jitter ? (unsigned)strtoul(jitter, NULL, 0) : 0;
    config.seed = seed ? strtoull(seed + 1, NULL, 0) : 1;
    atomic_store(&random_state, mix64(config.seed));
    pthread_mutex_lock(&fault_lock);
    read_faults();
    pthread_mutex_unlock(&fault_lock);
}

const struct cuda_config *config_get(void)
{
    pthread_once(&once, config_reload);
    return &config;
}

/* The n-th of TUTTI_EMULATED_PCI, a list of places below /sys/devices: its last folder is the address. */
static bool listed(int n, struct config_address *out)
{
    const char *at = getenv("TUTTI_EMULATED_PCI");
    for (; at && n; n--)
        at = (at = strchr(at, ',')) ? at + 1 : NULL;
    if (!at || !*at)
        return false;
    const char *end = strchrnul(at, ','), *slash = memrchr(at, '/', (size_t)(end - at));
    return sscanf(slash ? slash + 1 : at, "%x:%x:%x", &out->domain, &out->bus, &out->slot) == 3;
}

struct config_address config_address(int number)
{
    struct config_address address = {0};
    if (!listed(number, &address))
        address = (struct config_address){.bus = (unsigned)(0x10 * (number + 1)) & 0xff};
    return address;
}

int config_at(unsigned domain, unsigned bus, unsigned slot)
{
    for (int i = 0; i < CONFIG_DEVICES_MAX; i++) {
        struct config_address a = config_address(i);
        if (a.domain == domain && a.bus == bus && a.slot == slot)
            return i;
    }
    return -1;
}

void config_uuid(int number, unsigned char uuid[16])
{
    const char *host = getenv("TUTTI_EMULATED_HOST");
    uint64_t value = 0;
    memcpy(uuid, "tutti-emulated\0", 15);
    uuid[15] = (unsigned char)number;
    for (const char *at = host; at && *at; at++)
        value = mix64(value ^ (unsigned char)*at);
    if (host && *host)
        memcpy(uuid + 6, &value, sizeof(value));
}

void config_jitter(void)
{
    unsigned most = config_get()->jitter_us;
    if (!most)
        return;
    uint64_t ns = mix64(atomic_fetch_add_explicit(&random_state, 1, memory_order_relaxed)) % (most * 1000ull);
    struct timespec pause = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
    nanosleep(&pause, NULL);
}

/* "cuMemAlloc" also means cuMemAlloc_v2. */
static bool same_name(const char *fault, const char *function)
{
    size_t n = strlen(fault);
    return !strncmp(fault, function, n) && (!function[n] || (function[n] == '_' && function[n + 1] == 'v'));
}

CUresult fault_due(const char *function, bool *sticky)
{
    CUresult due = CUDA_SUCCESS;
    config_get();
    *sticky = false;
    pthread_mutex_lock(&fault_lock);
    for (int i = 0; i < fault_count; i++) {
        if (!same_name(faults[i].name, function) || --faults[i].nth)
            continue;
        if (faults[i].signal) {
            kill(getpid(), faults[i].signal);
            continue;
        }
        due = faults[i].error;
        *sticky = faults[i].sticky;
    }
    pthread_mutex_unlock(&fault_lock);
    return due;
}

void config_hold(int device)
{
    char path[300];
    const char *hold = config_get()->hold;
    if (!hold)
        return;
    snprintf(path, sizeof(path), "%s.%d", hold, device);
    while (access(path, F_OK) == 0)
        usleep(500);
}
