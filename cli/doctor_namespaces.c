/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Namespaces of the processes that have black boxes here: containers may share that folder and not what ranks of one
 * host need. In different network namespaces ranks take each other for ranks of other hosts. PID and user namespaces
 * keep them from reading each other's memory. No rank uses what the IPC namespace holds.
 */
#include "cli/doctor.h"

#include "diagnosis/process.h"
#include "wire/boxfile.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SPACE_PID, SPACE_NET, SPACE_USER, SPACE_IPC, SPACES };

static const struct {
    const char *name, *cost, *remedy;
} spaces[SPACES] = {
    {"pid", "they do not read each other's memory: messages are copied twice, through a ring",
     "docker: --pid=host, or --pid=container:NAME of one of them"},
    {"net", "they take each other for ranks of other hosts and talk by TCP",
     "docker: --network=host, or --network=container:NAME of one of them"},
    {"user", "they do not read each other's memory: messages are copied twice, through a ring",
     "docker: --userns=host; podman: --userns=container:NAME of one of them"},
    {"ipc", "", ""},
};

/* The inode of /proc/PID/ns/NAME; 0: unknown. */
static uint64_t space_of(uint32_t pid, int space)
{
    char path[64];
    struct stat info;
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/ns/%s", pid, spaces[space].name);
    return pid && stat(path, &info) == 0 ? info.st_ino : 0;
}

/* Reads the PID namespace from the box, which also works for a process that this namespace does not see. */
static uint64_t space_of_box(const struct blackbox *box, int space)
{
    return space == SPACE_PID ? box->header.pid_namespace : space_of(process_seen_here(box), space);
}

struct census {
    uint64_t first; /* namespace; 0: that of no process is known */
    size_t there, elsewhere;
    uint32_t pid, other; /* one process of each, by its number there */
};

static struct census count(const struct view_set *set, int space)
{
    struct census census = {0};
    for (size_t i = 0; i < set->count && set->boxes[i]->alive; i++) {
        const struct blackbox *box = set->boxes[i];
        uint64_t mine = space_of_box(box, space);
        if (!mine)
            continue;
        census.first = census.first ? census.first : mine;
        if (mine == census.first && !census.there++)
            census.pid = box->header.pid;
        if (mine != census.first && !census.elsewhere++)
            census.other = box->header.pid;
    }
    return census;
}

static bool in_container(int space)
{
    static const uint64_t initial[SPACES] = {0xEFFFFFFCu, 0, 0xEFFFFFFDu,
                                             0xEFFFFFFFu}; /* the same in every kernel; a network namespace's varies */
    return initial[space] ? space_of((uint32_t)getpid(), space) != initial[space] : false;
}

void doctor_namespaces(const struct doctor *doctor, struct doctor_result *out)
{
    size_t living = 0;
    while (living < doctor->boxes.count && doctor->boxes.boxes[living]->alive)
        living++;
    doctor_found(out, "this shell has %s PID, %s user and %s IPC namespace; %zu processes with boxes run",
                 in_container(SPACE_PID) ? "its own" : "the host's",
                 in_container(SPACE_USER) ? "its own" : "the host's",
                 in_container(SPACE_IPC) ? "its own" : "the host's", living);
    for (int space = 0; space < SPACE_IPC; space++) {
        struct census census = count(&doctor->boxes, space);
        if (!census.elsewhere)
            continue;
        doctor_found(out, "; %zu of them (one is %u) and %zu (one is %u) are in different %s namespaces", census.there,
                     census.pid, census.elsewhere, census.other, spaces[space].name);
        doctor_complain(out, DOCTOR_WARN, spaces[space].cost, "%s", spaces[space].remedy);
    }
}
