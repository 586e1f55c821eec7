/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnosis/group.h"

#include "base/clock.h"
#include "wire/boxfile.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GROUPS_MOST  16    /* a group, and those that it is in */
#define RECORDS_MOST 65536 /* of the kernel's log: another program may write while this one reads */
#define KERNEL       8     /* records of the kernel itself have lower numbers of facility and priority */

/* ---- Texts ---- */

void group_name(char *to, size_t size, const char *from, size_t length)
{
    bool cut = length + 1 > size;
    size_t keep = cut ? size - 4 : length;
    snprintf(to, size, "%s%.*s", cut ? "..." : "", (int)keep, from + length - keep);
    for (char *at = to; *at; at++)
        *at = (unsigned char)*at < 32 || (unsigned char)*at > 126 ? '?' : *at;
}

uint64_t group_number(const char *text, const char *word)
{
    size_t length = strlen(word);
    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n')
        if (strncmp(line, word, length) == 0 && line[length] == ' ')
            return strtoull(line + length, NULL, 10);
    return 0;
}

/* Is the controller among "cpu,cpuacct"? */
static bool names(const char *list, size_t length, const char *controller)
{
    size_t want = strlen(controller);
    for (size_t at = 0; at < length;) {
        size_t one = strcspn(list + at, ",");
        one = one > length - at ? length - at : one;
        if (one == want && strncmp(list + at, controller, want) == 0)
            return true;
        at += one + 1;
    }
    return false;
}

/* Lines are "0::/a/b", or of version 1 "4:cpu,cpuacct:/a/b". A controller is in one of both versions. */
bool group_place(const char *text, const char *controller, struct group_place *out)
{
    bool found = false;
    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        size_t end = strcspn(line, "\n"), number = strcspn(line, ":");
        size_t list = number < end ? strcspn(line + number + 1, ":") : end, group = number + list + 2;
        bool old = list > 0;
        if (group >= end || line[group] != '/' || end - group >= sizeof out->group || list + 2 > sizeof out->folder)
            continue;
        if (old ? !names(line + number + 1, list, controller) : found)
            continue;
        snprintf(out->folder, sizeof out->folder, "%s%.*s", old ? "/" : "", (int)list, line + number + 1);
        snprintf(out->group, sizeof out->group, "%.*s", (int)(end - group), line + group);
        out->old = old;
        found = true;
        if (old)
            return true;
    }
    return found;
}

/* ---- Files ---- */

static bool slurp(const struct group_place *place, size_t length, const char *file, char *text, size_t size)
{
    char path[1200];
    snprintf(path, sizeof path, "/sys/fs/cgroup%s%.*s/%s", place->folder, (int)length, place->group, file);
    if (boxfile_slurp(path, text, size))
        return true;
    snprintf(path, sizeof path, "/sys/fs/cgroup/unified%.*s/%s", (int)length, place->group, file);
    return !place->old && boxfile_slurp(path, text, size);
}

/* The group above; SIZE_MAX: there is none. In a container the path is another namespace's, and only the mount's own
 * folder is there. */
static size_t above(const char *group, size_t length)
{
    if (!length)
        return SIZE_MAX;
    while (length && group[length - 1] != '/')
        length--;
    return length ? length - 1 : 0;
}

static size_t first_length(const struct group_place *place)
{
    size_t length = strlen(place->group);
    return length == 1 ? 0 : length; /* "/" is the mount's own folder */
}

static void read_throttled(struct process_facts *facts, const struct group_place *place)
{
    char text[2048];
    size_t length = first_length(place);
    for (int i = 0; i < GROUPS_MOST && length != SIZE_MAX; i++, length = above(place->group, length)) {
        if (!slurp(place, length, "cpu.stat", text, sizeof text))
            continue;
        uint64_t us = group_number(text, "throttled_usec"), ns = group_number(text, "throttled_time");
        uint64_t most = us && us < UINT64_MAX / NS_PER_US ? us * NS_PER_US : ns;
        if (most <= facts->throttled)
            continue;
        facts->throttled = most;
        facts->stops = group_number(text, "nr_throttled");
        group_name(facts->group, sizeof facts->group, length ? place->group : "/", length ? length : 1);
    }
}

/* A group is frozen if one above is: that one is named. */
static void read_frozen(struct process_facts *facts, const struct group_place *place)
{
    char text[256];
    size_t length = first_length(place);
    bool now = slurp(place, length, place->old ? "freezer.state" : "cgroup.events", text, sizeof text) &&
               (place->old ? strncmp(text, "FROZEN", 6) == 0 : group_number(text, "frozen") == 1);
    if (!now)
        return;
    facts->frozen = true;
    group_name(facts->group, sizeof facts->group, place->group, strlen(place->group));
    for (int i = 0; i < GROUPS_MOST && length != SIZE_MAX; i++, length = above(place->group, length))
        if (slurp(place, length, place->old ? "freezer.self_freezing" : "cgroup.freeze", text, sizeof text) &&
            *text == '1')
            group_name(facts->group, sizeof facts->group, length ? place->group : "/", length ? length : 1);
}

void group_facts(struct process_facts *facts, uint32_t pid)
{
    char path[64], text[4096], events[1024];
    struct group_place place;
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/cgroup", pid);
    if (!boxfile_slurp(path, text, sizeof text))
        return;
    if (group_place(text, "cpu", &place))
        read_throttled(facts, &place);
    if (group_place(text, "memory", &place) &&
        slurp(&place, first_length(&place), place.old ? "memory.oom_control" : "memory.events", events, sizeof events))
        facts->killed = group_number(events, "oom_kill");
    if (group_place(text, "freezer", &place))
        read_frozen(facts, &place);
    if (!facts->frozen && group_place(text, "cgroup", &place)) /* the second version, beside the first, freezes, too */
        read_frozen(facts, &place);
}

/* ---- The kernel's log ---- */

/* A record is "6,741,12610331926,-;oom-kill:constraint=CONSTRAINT_MEMCG,...,oom_memcg=/a,task_memcg=/a/b,task=python,
 * pid=77,uid=0". The name of a program may hold commas, and comes before the number. A program that writes into the log
 * cannot do so as the kernel. */
bool group_kill_in(const char *record, struct group_kill *out)
{
    unsigned kind;
    uint64_t us;
    const char *text = strchr(record, ';'), *number = NULL;
    *out = (struct group_kill){0};
    if (!text || sscanf(record, "%u,%*u,%" SCNu64, &kind, &us) != 2 || kind >= KERNEL ||
        strncmp(++text, "oom-kill:", 9) != 0 || us > INT64_MAX / NS_PER_US)
        return false;
    for (const char *at = text; (at = strstr(at, ",pid=")); at += 5)
        number = at + 5;
    const char *limit = strstr(text, ",oom_memcg="), *end = limit ? strstr(limit, ",task_memcg=") : NULL;
    out->pid = number ? (uint32_t)strtoul(number, NULL, 10) : 0;
    out->at = us * NS_PER_US;
    if (end)
        group_name(out->group, sizeof out->group, limit + 11, (size_t)(end - limit - 11));
    return out->pid != 0;
}

size_t group_kills(struct group_kill *kills, size_t most)
{
    char record[8192];
    size_t count = 0;
    int fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    for (int i = 0; fd >= 0 && i < RECORDS_MOST; i++) {
        ssize_t got = read(fd, record, sizeof record - 1);
        if (got <= 0 && errno != EPIPE) /* EPIPE: records were overwritten meanwhile */
            break;
        record[got < 0 ? 0 : got] = 0;
        count += group_kill_in(record, &kills[count % most]);
    }
    if (fd >= 0)
        close(fd);
    return count < most ? count : most;
}
