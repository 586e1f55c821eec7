/* SPDX-License-Identifier: Apache-2.0 */
/* One datagram to each control socket of the namespace, and the sum of what comes back. */
#include "verbs/gather.h"
#include "verbs/control.h"
#include "verbs/device.h"
#include "verbs/engine.h"

#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define MOST_SLOTS  1024 /* more are not asked */
#define PATIENCE_NS (200 * NS_PER_MS)

struct gather_asked {
    unsigned slots[MOST_SLOTS];
    int count;
    uint64_t sums[COUNTER_COUNT];
};

/* Sends the command to each slot that is in use and not our own. */
static void ask_all(struct gather_asked *asked, int fd, const char *command, unsigned own)
{
    char line[512];
    FILE *file = fopen("/proc/net/unix", "re");
    while (file && asked->count < MOST_SLOTS && fgets(line, sizeof(line), file)) {
        struct sockaddr_un to = {.sun_family = AF_UNIX};
        unsigned slot;
        if (!control_slot_of(line, &slot) || slot == own)
            continue;
        int n = snprintf(to.sun_path + 1, sizeof(to.sun_path) - 1, CONTROL_PREFIX "%u", slot);
        socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
        if (sendto(fd, command, strlen(command), MSG_DONTWAIT, (struct sockaddr *)&to, size) > 0)
            asked->slots[asked->count++] = slot;
    }
    if (file)
        fclose(file);
}

/* Whether the slot was asked and has not answered yet; it will not be asked again. */
static bool tick_off(struct gather_asked *asked, unsigned slot)
{
    for (int i = 0; i < asked->count; i++)
        if (asked->slots[i] == slot) {
            asked->slots[i] = asked->slots[--asked->count];
            return true;
        }
    return false;
}

static void add(struct gather_asked *asked, const char *name, uint64_t value)
{
    for (int i = 0; i < COUNTER_COUNT; i++)
        if (!strcmp(name, counter_name((enum counter)i)))
            asked->sums[i] += value;
}

/* "0 ...", "slot N", and a line for each counter. Anybody may have sent it. */
static void take(struct gather_asked *asked, const struct sockaddr_un *from, char *answer)
{
    unsigned slot = 0, first = 0;
    char *rest, *line = strtok_r(answer, "\n", &rest);
    bool good = line && !strncmp(line, "0 ", 2) && from->sun_path[0] == 0 &&
                sscanf(from->sun_path + 1, CONTROL_PREFIX "%u", &slot) == 1 && tick_off(asked, slot);
    line = good ? strtok_r(NULL, "\n", &rest) : NULL;
    if (!line || sscanf(line, "slot %u", &first) != 1 || first != slot)
        return;
    while ((line = strtok_r(NULL, "\n", &rest))) {
        char *value = strchr(line, ' ');
        if (!value)
            continue;
        *value = 0;
        add(asked, line, strtoull(value + 1, NULL, 10));
    }
}

static void hear_all(struct gather_asked *asked, int fd)
{
    char answer[CONTROL_ANSWER + 1];
    for (uint64_t now = clock_ns(), end = now + PATIENCE_NS; asked->count && now < end; now = clock_ns()) {
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        struct sockaddr_un from = {0};
        socklen_t size = sizeof(from) - 1; /* a name need not end with a zero */
        if (poll(&wait, 1, (int)((end - now) / NS_PER_MS) + 1) <= 0)
            continue;
        ssize_t n = recvfrom(fd, answer, CONTROL_ANSWER, MSG_DONTWAIT, (struct sockaddr *)&from, &size);
        if (n < 0)
            continue;
        answer[n] = 0;
        take(asked, &from, answer);
    }
}

void gather_counters(const char *name)
{
    struct sockaddr_un any = {.sun_family = AF_UNIX};
    struct gather_asked asked = {.count = 0};
    char command[sizeof("counts ") + IBV_SYSFS_NAME_MAX];
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    snprintf(command, sizeof(command), "counts %s", name);
    engine_lock();
    unsigned own = engine_slot();
    engine_unlock();
    if (fd >= 0 && !bind(fd, (struct sockaddr *)&any, sizeof(any.sun_family))) {
        ask_all(&asked, fd, command, own);
        hear_all(&asked, fd);
    }
    if (fd >= 0)
        close(fd);
    engine_lock();
    if (list_empty(&device_table))
        device_refresh();
    list_each(node, &device_table)
    {
        struct rdma_device *device = list_entry(node, struct rdma_device, node);
        if (strcmp(device->ibv.name, name))
            continue;
        memcpy(device->others, asked.sums, sizeof(device->others));
    }
    engine_unlock();
}
