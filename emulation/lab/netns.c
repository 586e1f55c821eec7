/* SPDX-License-Identifier: Apache-2.0 */
/* A namespace is a file in /run/netns; a process is in it when /proc/PID/ns/net is the same file. */
#include "lab/netns.h"
#include "base/clock.h"
#include "base/error.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define ASK_MS   1000
#define FORCE_MS 10000

void netns_path(const char *lab, const char *node, char *out, size_t size)
{
    snprintf(out, size, NETNS_FOLDER "/%s-%s", lab, node);
}

tutti_result_t netns_enter(const char *lab, const char *node, int *home)
{
    char path[128];
    netns_path(lab, node, path, sizeof path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_note(
            TUTTI_SYSTEM_ERROR,
            "opening namespace %s: %s; the lab is incomplete: run \"tutti-lab up\" again, or \"tutti-lab down\"", path,
            strerror(errno));
    tutti_result_t result = TUTTI_SUCCESS;
    *home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (*home < 0 || setns(fd, CLONE_NEWNET) != 0) {
        result = error_note(
            TUTTI_SYSTEM_ERROR,
            "entering namespace %s: %s; the lab is incomplete: run \"tutti-lab up\" again, or \"tutti-lab down\"", path,
            strerror(errno));
        if (*home >= 0)
            close(*home);
    }
    close(fd);
    return result;
}

tutti_result_t netns_leave(int home)
{
    int failed = setns(home, CLONE_NEWNET) != 0;
    int code = errno;
    close(home);
    return failed ? error_note(TUTTI_SYSTEM_ERROR, "returning to the first namespace: %s", strerror(code))
                  : TUTTI_SUCCESS;
}

static bool is_node_of(const char *lab, const char *name)
{
    size_t length = strlen(lab);
    if (strncmp(name, lab, length) != 0 || name[length] != '-' || !strchr("hls", name[length + 1]) || !name[length + 1])
        return false;
    const char *digits = name + length + 2;
    return *digits && strspn(digits, "0123456789") == strlen(digits);
}

static bool list_add(char ***names, int *count, const char *name)
{
    char **grown = realloc(*names, (size_t)(*count + 1) * sizeof *grown);
    if (!grown)
        return false;
    *names = grown;
    grown[*count] = strdup(name);
    return grown[*count] && ++*count;
}

tutti_result_t netns_list(const char *lab, char ***names, int *count)
{
    *names = NULL;
    *count = 0;
    DIR *folder = opendir(NETNS_FOLDER);
    if (!folder)
        return errno == ENOENT ? TUTTI_SUCCESS
                               : error_note(TUTTI_SYSTEM_ERROR, "reading " NETNS_FOLDER ": %s", strerror(errno));
    tutti_result_t result = TUTTI_SUCCESS;
    for (struct dirent *entry = readdir(folder); entry && result == TUTTI_SUCCESS; entry = readdir(folder))
        if (is_node_of(lab, entry->d_name) && !list_add(names, count, entry->d_name))
            result = error_note(TUTTI_SYSTEM_ERROR, "out of memory for names of namespaces");
    closedir(folder);
    if (result != TUTTI_SUCCESS) {
        netns_list_free(*names, *count);
        *names = NULL;
        *count = 0;
    }
    return result;
}

void netns_list_free(char **names, int count)
{
    for (int i = 0; i < count; i++)
        free(names[i]);
    free(names);
}

static bool is_inside(const char *pid, const struct stat *spaces, int count)
{
    char path[64];
    struct stat info;
    snprintf(path, sizeof path, "/proc/%.20s/ns/net", pid);
    if (stat(path, &info) != 0)
        return false;
    for (int i = 0; i < count; i++)
        if (spaces[i].st_ino == info.st_ino && spaces[i].st_dev == info.st_dev)
            return true;
    return false;
}

/* Sends a signal to all who are inside; how many there are. Zombies have no namespace and do not count. */
static int signal_all(const struct stat *spaces, int count, int signal)
{
    int found = 0;
    DIR *folder = opendir("/proc");
    for (struct dirent *entry = folder ? readdir(folder) : NULL; entry; entry = readdir(folder)) {
        pid_t pid = isdigit((unsigned char)entry->d_name[0]) ? (pid_t)atoi(entry->d_name) : 0;
        if (pid > 0 && pid != getpid() && is_inside(entry->d_name, spaces, count)) {
            found++;
            kill(pid, signal);
        }
    }
    if (folder)
        closedir(folder);
    return found;
}

static bool signal_until_gone(const struct stat *spaces, int count, int signal, uint64_t ms)
{
    uint64_t deadline = clock_deadline_ms(ms);
    int left = signal_all(spaces, count, signal);
    while (left && !clock_passed(deadline)) {
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
        left = signal_all(spaces, count, signal == SIGKILL ? SIGKILL : 0);
    }
    return left == 0;
}

/* Whether a name is a namespace, and not the one that we are in ourselves: that one is never the lab's to clear. */
static bool is_foreign(const char *name, struct stat *info)
{
    char path[300];
    struct stat own;
    snprintf(path, sizeof path, NETNS_FOLDER "/%s", name);
    return stat("/proc/self/ns/net", &own) == 0 && stat(path, info) == 0 &&
           (own.st_ino != info->st_ino || own.st_dev != info->st_dev);
}

/* The caller frees the list. NULL: out of memory. */
static struct stat *find_spaces(char *const *names, int count, int *known)
{
    struct stat *spaces = calloc((size_t)count + 1, sizeof *spaces);
    *known = 0;
    for (int i = 0; spaces && i < count; i++)
        *known += is_foreign(names[i], &spaces[*known]);
    return spaces;
}

int netns_processes(char *const *names, int count)
{
    int known;
    struct stat *spaces = find_spaces(names, count, &known);
    int found = spaces ? signal_all(spaces, known, 0) : -1;
    free(spaces);
    return found;
}

tutti_result_t netns_end_processes(char *const *names, int count)
{
    int known;
    struct stat *spaces = find_spaces(names, count, &known);
    if (!spaces)
        return error_note(TUTTI_SYSTEM_ERROR, "out of memory for %d namespaces", count);
    bool gone = known == 0 || signal_until_gone(spaces, known, SIGTERM, ASK_MS) ||
                signal_until_gone(spaces, known, SIGKILL, FORCE_MS);
    free(spaces);
    return gone ? TUTTI_SUCCESS
                : error_note(TUTTI_SYSTEM_ERROR, "a process in the lab survives SIGKILL; see \"ip netns pids %s\"",
                             names[0]);
}

tutti_result_t netns_remove(const char *name)
{
    char path[300];
    snprintf(path, sizeof path, NETNS_FOLDER "/%s", name);
    umount2(path, MNT_DETACH); /* fails where an interrupted `up` left a bare file */
    if (unlink(path) != 0 && errno != ENOENT)
        return error_note(TUTTI_SYSTEM_ERROR, "removing namespace %s: %s", path, strerror(errno));
    return TUTTI_SUCCESS;
}
