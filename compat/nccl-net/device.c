/* SPDX-License-Identifier: Apache-2.0 */
/* tutti stripes over all adapters by itself, so NCCL sees one device, where the fastest adapter is. */
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

/* Mbit/s; 0: it is no adapter, or not up. */
static int speed_of(const char *folder, const char *name)
{
    char path[PATH_MAX], state[32], speed[32] = "";
    snprintf(path, sizeof path, "%s/%s/device", folder, name);
    char *place = realpath(path, NULL);
    bool up = place && read_word(folder, name, "operstate", state, sizeof state) && !strncmp(state, "up", 2);
    free(place);
    if (!up)
        return 0;
    long value = read_word(folder, name, "speed", speed, sizeof speed) ? strtol(speed, NULL, 10) : 0;
    return value > 0 && value < INT_MAX ? (int)value : DEFAULT_SPEED;
}

void device_look(const char *folder, struct net_device *out)
{
    char path[PATH_MAX];
    DIR *list = opendir(folder);
    int best = 0;
    *out = (struct net_device){.speed = DEFAULT_SPEED};
    for (struct dirent *entry; list && (entry = readdir(list));) {
        int speed = speed_of(folder, entry->d_name);
        if (speed <= best)
            continue;
        best = out->speed = speed;
        free(out->pci_path);
        snprintf(path, sizeof path, "%s/%s/device", folder, entry->d_name);
        out->pci_path = realpath(path, NULL);
    }
    if (list)
        closedir(list);
}
