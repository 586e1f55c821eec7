/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL lays its channels out by where adapters are and how fast. Which of them carry a payload, tutti chooses. */
#include "nccl-net/net.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_SPEED 10000 /* Mbit/s: of what says nothing, as a virtual machine's */

/* False: the file is not there, or cannot be read, as the speed of an interface that is down. */
static bool read_word(const char *folder, const char *name, const char *file, char *word, size_t size)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s/%s", folder, name, file);
    FILE *stream = fopen(path, "re");
    if (!stream)
        return false;
    bool got = fgets(word, (int)size, stream);
    fclose(stream);
    return got;
}

/* A switch in an adapter has ports for its guests, which stand beside the adapter's own and are no way out. */
static bool is_for_guests(const char *folder, const char *name)
{
    char port[32];
    return read_word(folder, name, "phys_port_name", port, sizeof port) && (strstr(port, "vf") || strstr(port, "sf"));
}

/* Mbit/s; 0: it is no adapter, or not up. */
static int speed_of(const char *folder, const char *name)
{
    char path[PATH_MAX], state[32], speed[32] = "";
    snprintf(path, sizeof path, "%s/%s/device", folder, name);
    char *place = realpath(path, NULL);
    bool up = place && read_word(folder, name, "operstate", state, sizeof state) && !strncmp(state, "up", 2);
    free(place);
    if (!up || is_for_guests(folder, name))
        return 0;
    long value = read_word(folder, name, "speed", speed, sizeof speed) ? strtol(speed, NULL, 10) : 0;
    return value > 0 && value < INT_MAX ? (int)value : DEFAULT_SPEED;
}

static int by_name(const struct dirent **one, const struct dirent **other)
{
    return strverscmp((*one)->d_name, (*other)->d_name);
}

static void add(struct net_devices *out, const char *folder, const char *name, int speed)
{
    char path[PATH_MAX];
    if (speed > out->speed || !out->count)
        devices_free(out);
    out->speed = speed;
    struct net_device *device = &out->device[out->count++];
    snprintf(device->name, sizeof device->name, "tutti:%.16s", name);
    snprintf(path, sizeof path, "%s/%s/device", folder, name);
    device->pci_path = realpath(path, NULL);
}

void devices_look(const char *folder, struct net_devices *out)
{
    struct dirent **list = NULL;
    int count = scandir(folder, &list, NULL, by_name);
    *out = (struct net_devices){0};
    for (int i = 0; i < count; i++) {
        int speed = speed_of(folder, list[i]->d_name);
        if (speed > out->speed || (speed && speed == out->speed && out->count < NET_DEVICES))
            add(out, folder, list[i]->d_name, speed);
        free(list[i]);
    }
    free(list);
    if (!out->count)
        *out = (struct net_devices){.count = 1, .speed = DEFAULT_SPEED, .device = {{.name = "tutti"}}};
    else if (out->count == 1)
        snprintf(out->device[0].name, sizeof out->device[0].name, "tutti");
}

void devices_free(struct net_devices *devices)
{
    for (int i = 0; i < devices->count; i++)
        free(devices->device[i].pci_path);
    *devices = (struct net_devices){0};
}
