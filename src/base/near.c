/* SPDX-License-Identifier: Apache-2.0 */
#include "base/near.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NODES "/sys/devices/system/node/node"
#define MOST  1024 /* nodes */
#define LINE  8192

static bool near_read_line(const char *path, char line[LINE])
{
    FILE *file = fopen(path, "re");
    bool read = file && fgets(line, LINE, file);
    if (file)
        fclose(file);
    return read;
}

/* Is a processor of "0-3,8" in the set? */
static bool any_of(const char *list, const cpu_set_t *set)
{
    char *end = NULL;
    for (const char *at = list;; at = end + 1) {
        long first = strtol(at, &end, 10), last = first;
        if (end == at)
            return false;
        if (*end == '-')
            last = strtol(end + 1, &end, 10);
        for (long cpu = first < 0 ? 0 : first; cpu <= last && cpu < CPU_SETSIZE; cpu++)
            if (CPU_ISSET((size_t)cpu, set))
                return true;
        if (*end != ',')
            return false;
    }
}

static bool near_is_ours(const char *root, unsigned node, const cpu_set_t *set)
{
    char path[512], line[LINE];
    snprintf(path, sizeof path, "%.400s" NODES "%u/cpulist", root, node);
    return near_read_line(path, line) && any_of(line, set);
}

/* The distances of a node stand in the order of the nodes that there are, whose numbers may have gaps. */
static int near_nearest(const char *root, const char *distances, const cpu_set_t *set)
{
    char path[512], line[LINE], *end = NULL;
    int best = 0;
    for (unsigned node = 0; node < MOST; node++) {
        snprintf(path, sizeof path, "%.400s" NODES "%u/cpulist", root, node);
        if (!near_read_line(path, line))
            continue;
        long here = strtol(distances, &end, 10);
        if (end == distances)
            break;
        distances = end;
        if (here > 0 && here < 1 << 16 && (!best || here < best) && near_is_ours(root, node, set))
            best = (int)here;
    }
    return best;
}

int near_distance(const char *root, const char *device, const cpu_set_t *set)
{
    char path[512], line[LINE], *end = NULL;
    snprintf(path, sizeof path, "%.200s%.200s/numa_node", root, device);
    if (!near_read_line(path, line))
        return 0;
    long node = strtol(line, &end, 10);
    if (end == line || node < 0 || node >= MOST)
        return 0;
    snprintf(path, sizeof path, "%.400s" NODES "%ld/distance", root, node);
    return near_read_line(path, line) ? near_nearest(root, line, set) : 0;
}

static bool near_place(const char *root, const char *device, char out[PATH_MAX])
{
    char path[512];
    snprintf(path, sizeof path, "%.200s%.200s", root, device);
    return realpath(path, out) != NULL;
}

int near_shared(const char *root, const char *a, const char *b)
{
    char first[PATH_MAX], second[PATH_MAX];
    int shared = 0;
    if (!near_place(root, a, first) || !near_place(root, b, second))
        return 0;
    size_t i = 0;
    for (; first[i] && first[i] == second[i]; i++)
        shared += i && first[i] == '/';
    return shared + ((!first[i] || first[i] == '/') && (!second[i] || second[i] == '/'));
}

/* ---- Levels ---- */

/* Behind "/sys/devices/pci0000:10" there are bridges, and the device last. */
#define BEHIND_HOST 3

/* Folders of `place` from `from` on. */
static int folders_behind(const char *place, size_t from)
{
    int count = 0;
    for (const char *at = place + from; *at; at++)
        count += *at == '/' && at[1];
    return count;
}

static long near_node(const char *place)
{
    char path[PATH_MAX + 16], line[LINE];
    snprintf(path, sizeof path, "%s/numa_node", place);
    return near_read_line(path, line) ? strtol(line, NULL, 10) : -1;
}

enum near_level near_level(const char *root, const char *a, const char *b)
{
    char first[PATH_MAX], second[PATH_MAX];
    int shared = 0;
    size_t end = 0;
    if (!near_place(root, a, first) || !near_place(root, b, second))
        return NEAR_UNKNOWN;
    for (size_t i = strlen(root); first[i] && first[i] == second[i]; i++)
        if (first[i + 1] == '/' && second[i + 1] == '/') {
            shared++;
            end = i + 1;
        }
    if (shared > BEHIND_HOST) /* besides the devices themselves there is a port of the switch for each */
        return folders_behind(first, end) <= 2 && folders_behind(second, end) <= 2 ? NEAR_BRIDGE : NEAR_BRIDGES;
    long node = near_node(first);
    return shared == BEHIND_HOST || (node >= 0 && node == near_node(second)) ? NEAR_HOST : NEAR_SYSTEM;
}

/* ---- GPUs of this process ---- */

#define GPUS 64

enum { GPU_UNTOLD, GPU_BEING_TOLD, GPU_TOLD };

static _Atomic int gpu_state[GPUS]; /* a GPU stays where it is: a second thread has nothing new to tell */
static char gpus[GPUS][NEAR_FOLDER];

void near_note(int gpu, const char *bus_id)
{
    int untold = GPU_UNTOLD;
    if (gpu < 0 || gpu >= GPUS || !*bus_id || !atomic_compare_exchange_strong(&gpu_state[gpu], &untold, GPU_BEING_TOLD))
        return;
    snprintf(gpus[gpu], NEAR_FOLDER, "/sys/bus/pci/devices/%.16s", bus_id);
    atomic_store_explicit(&gpu_state[gpu], GPU_TOLD, memory_order_release);
}

bool near_gpu(int gpu, char out[NEAR_FOLDER])
{
    if (gpu < 0 || gpu >= GPUS || atomic_load_explicit(&gpu_state[gpu], memory_order_acquire) != GPU_TOLD)
        return false;
    memcpy(out, gpus[gpu], NEAR_FOLDER);
    return true;
}

static _Atomic uint64_t used, relays;
static _Atomic uint32_t relayers[GPUS]; /* communicators that have slots there */

void near_use(int gpu)
{
    if (gpu >= 0 && gpu < GPUS)
        atomic_fetch_or(&used, 1ull << gpu);
}

uint64_t near_used(void)
{
    return atomic_load_explicit(&used, memory_order_relaxed);
}

void near_relay(int gpu, bool slots)
{
    if (gpu < 0 || gpu >= GPUS)
        return;
    if (slots && atomic_fetch_add(&relayers[gpu], 1) == 0)
        atomic_fetch_or(&relays, 1ull << gpu);
    if (!slots && atomic_fetch_sub(&relayers[gpu], 1) == 1)
        atomic_fetch_and(&relays, ~(1ull << gpu));
}

uint64_t near_relays(void)
{
    return atomic_load_explicit(&relays, memory_order_relaxed);
}

void near_adapter(const char *name, char out[NEAR_FOLDER + 64])
{
    int length = (int)strcspn(name, ":"); /* the port's number follows */
    snprintf(out, NEAR_FOLDER + 64, "/sys/class/infiniband/%.*s/device", length < 64 ? length : 64, name);
}
