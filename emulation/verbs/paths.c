/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded by `softverbs run`: shows /sys/class/infiniband/... and /dev/infiniband/uverbsN to programs that read them
 * (UCX, perftest), and /dev/infiniband/rdma_cm to librdmacm, with what the emulator's libibverbs says. Every other path
 * goes to the C library. */
#include "rdmacm/node.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXPORT     __attribute__((visibility("default")))
#define SYSFS      "/sys/class/infiniband/"
#define DEVICES    "/dev/infiniband/uverbs"
#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

typedef int (*sysfs_fn)(const char *path, char *out, size_t size);

static bool begins(const char *path, const char *with)
{
    return path && !strncmp(path, with, strlen(with));
}

/* The text of a file that the emulator makes, or -1. Does not load the library into programs that do without it. */
static int make(const char *path, char *out, size_t size)
{
    void *library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_NOLOAD);
    sysfs_fn sysfs = library ? (sysfs_fn)dlsym(library, "softverbs_sysfs") : NULL;
    int n = sysfs ? sysfs(path + strlen(SYSFS), out, size) : -1;
    if (library)
        dlclose(library);
    return n;
}

static bool is_node(const char *path)
{
    return begins(path, DEVICES) || (path && !strcmp(path, RDMACM_NODE));
}

static bool is_ours(const char *path)
{
    return begins(path, SYSFS) || is_node(path);
}

/* -2: not a path of ours. */
static int open_ours(const char *path, int flags)
{
    char text[4096];
    if (begins(path, DEVICES))
        return open("/dev/null", O_RDWR | O_CLOEXEC);
    if (path && !strcmp(path, RDMACM_NODE))
        return node_open(flags);
    if (!begins(path, SYSFS))
        return -2;
    int n = make(path, text, sizeof(text));
    if (n < 0) {
        errno = ENOENT;
        return -1;
    }
    int fd = memfd_create("softverbs", MFD_CLOEXEC);
    if (fd >= 0 && (write(fd, text, (size_t)n) != n || lseek(fd, 0, SEEK_SET))) {
        close(fd);
        return -1;
    }
    return fd;
}

#define OPEN(name)                                                                                                     \
    EXPORT int name(const char *path, int flags, ...)                                                                  \
    {                                                                                                                  \
        va_list args;                                                                                                  \
        va_start(args, flags);                                                                                         \
        mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(args, mode_t) : 0;                                      \
        va_end(args);                                                                                                  \
        int fd = is_ours(path) ? open_ours(path, flags) : -2;                                                          \
        return fd == -2 ? NEXT(name)(path, flags, mode) : fd;                                                          \
    }
OPEN(open)
OPEN(open64)

#define FOPEN(name)                                                                                                    \
    EXPORT FILE *name(const char *path, const char *mode)                                                              \
    {                                                                                                                  \
        int fd = open_ours(path, O_RDONLY);                                                                            \
        return fd == -2 ? NEXT(name)(path, mode) : fd < 0 ? NULL : fdopen(fd, "r");                                    \
    }
FOPEN(fopen)
FOPEN(fopen64)

EXPORT int access(const char *path, int mode)
{
    char text[4096];
    if (is_node(path))
        return 0;
    if (!begins(path, SYSFS))
        return NEXT(access)(path, mode);
    if (!strchr(path + strlen(SYSFS), '/') || make(path, text, sizeof(text)) >= 0)
        return 0;
    errno = ENOENT;
    return -1;
}

#define PCI "/sys/bus/pci/devices/"

/* Where the address is among the GPUs of TUTTI_EMULATED_PCI, a list of places. */
static bool place_of_gpu(const char *address, char *out, size_t size)
{
    const char *at = getenv("TUTTI_EMULATED_PCI");
    for (size_t length = strlen(address); at && *at; at += *at == ',') {
        const char *end = strchrnul(at, ',');
        if ((size_t)(end - at) >= length && !strncasecmp(end - length, address, length)) {
            snprintf(out, size, "/sys/devices/%.*s", (int)(end - at), at);
            return true;
        }
        at = end;
    }
    return false;
}

/* Whether it is the folder of an emulated device, and then where that is. */
static bool place_of(const char *path, char *out, size_t size)
{
    if (begins(path, PCI) && path[strlen(PCI)])
        return place_of_gpu(path + strlen(PCI), out, size);
    size_t length = path ? strlen(path) : 0;
    return begins(path, SYSFS) && length > 7 && !strcmp(path + length - 7, "/device") && make(path, out, size) > 0;
}

EXPORT char *realpath(const char *path, char *resolved)
{
    char place[PATH_MAX];
    if (!place_of(path, place, sizeof(place)))
        return NEXT(realpath)(path, resolved);
    return resolved ? strcpy(resolved, place) : strdup(place);
}

/* What programs call that are built with checks of sizes. */
char *__realpath_chk(const char *path, char *resolved, size_t size);
EXPORT char *__realpath_chk(const char *path, char *resolved, size_t size)
{
    return size < PATH_MAX ? NULL : realpath(path, resolved);
}

static ssize_t cut(const char *place, char *out, size_t size)
{
    size_t length = strlen(place) < size ? strlen(place) : size;
    memcpy(out, place, length);
    return (ssize_t)length;
}

#define LINK(name)                                                                                                     \
    EXPORT ssize_t name(const char *path, char *out, size_t size)                                                      \
    {                                                                                                                  \
        char place[PATH_MAX];                                                                                          \
        return place_of(path, place, sizeof(place)) ? cut(place, out, size) : NEXT(name)(path, out, size);             \
    }
LINK(readlink)

/* A device node looks like /dev/null: a character device that everyone may open. */
#define STAT(name, type)                                                                                               \
    EXPORT int name(const char *path, struct type *out)                                                                \
    {                                                                                                                  \
        return NEXT(name)(is_node(path) ? "/dev/null" : path, out);                                                    \
    }
STAT(stat, stat)
STAT(stat64, stat64)
