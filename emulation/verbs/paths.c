/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded by `softverbs run`: shows /sys/class/infiniband/... and /dev/infiniband/uverbsN to programs that read them
 * (UCX, perftest), and /dev/infiniband/rdma_cm to librdmacm, with what the emulator's libibverbs says. Every other path
 * goes to the C library. */
#include "verbs/paths.h"

#include "rdmacm/node.h"

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

#define SYSFS   "/sys/class/infiniband/"
#define DEVICES "/dev/infiniband/uverbs"

typedef int (*sysfs_fn)(const char *path, char *out, size_t size);

static char inside[PATH_MAX]; /* where the process has gone with chdir, if that is below SYSFS; begins there */

static bool begins(const char *path, const char *with)
{
    return path && !strncmp(path, with, strlen(with));
}

const char *paths_node(const char *path)
{
    return begins(path, DEVICES) || (path && !strcmp(path, RDMACM_NODE)) ? "/dev/null" : path;
}

/* One part of a path: "." changes nothing, ".." goes back. */
static void step(char *to, size_t size, const char *part, size_t length)
{
    size_t used = strlen(to);
    char *last = strrchr(to, '/');
    if (length == 2 && !memcmp(part, "..", 2))
        *(last ? last : to) = 0;
    else if (length && !(length == 1 && *part == '.'))
        snprintf(to + used, size - used, "/%.*s", (int)length, part);
}

bool paths_inside(const char *path, char *below, size_t size)
{
    static const char root[] = "/sys/class/infiniband";
    char whole[PATH_MAX] = "";
    if (!path || !*path || (*path == '/' ? !begins(path, root) : !*inside))
        return false;
    if (*path != '/')
        snprintf(whole, sizeof(whole), "%s", inside);
    for (size_t length; *path; path += length + (path[length] == '/')) {
        length = strcspn(path, "/");
        step(whole, sizeof(whole), path, length);
    }
    const char *rest = whole + strlen(root);
    if (!begins(whole, root) || (*rest && *rest != '/'))
        return false;
    snprintf(below, size, "%s", *rest ? rest + 1 : rest);
    return true;
}

bool paths_inside_at(int at, const char *path, char *below, size_t size)
{
    return path && (at == AT_FDCWD || *path == '/') && paths_inside(path, below, size);
}

/* Loads the library into programs that look at what it shows, and into no others. It stays. */
static int ask(const char *symbol, const char *below, char *out, size_t size)
{
    static void *library;
    if (!library)
        library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
    sysfs_fn call = library ? (sysfs_fn)dlsym(library, symbol) : NULL;
    return call ? call(below, out, size) : -1;
}

int paths_text(const char *below, char *out, size_t size)
{
    return ask("softverbs_sysfs", below, out, size);
}

int paths_list(const char *below, char *out, size_t size)
{
    return ask("softverbs_sysfs_list", below, out, size);
}

/* -2: not a path of ours. */
static int open_ours(const char *path, int flags)
{
    char below[PATH_MAX], text[4096];
    if (begins(path, DEVICES))
        return open("/dev/null", O_RDWR | O_CLOEXEC);
    if (path && !strcmp(path, RDMACM_NODE))
        return node_open(flags);
    if (!paths_inside(path, below, sizeof(below)))
        return -2;
    int n = paths_text(below, text, sizeof(text));
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
    PATHS_EXPORT int name(const char *path, int flags, ...)                                                            \
    {                                                                                                                  \
        va_list args;                                                                                                  \
        va_start(args, flags);                                                                                         \
        mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(args, mode_t) : 0;                                      \
        va_end(args);                                                                                                  \
        int fd = open_ours(path, flags);                                                                               \
        return fd == -2 ? PATHS_NEXT(name)(path, flags, mode) : fd;                                                    \
    }
OPEN(open)
OPEN(open64)

#define OPEN_AT(name)                                                                                                  \
    PATHS_EXPORT int name(int at, const char *path, int flags, ...)                                                    \
    {                                                                                                                  \
        va_list args;                                                                                                  \
        va_start(args, flags);                                                                                         \
        mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(args, mode_t) : 0;                                      \
        va_end(args);                                                                                                  \
        char below[PATH_MAX];                                                                                          \
        int fd =                                                                                                       \
            begins(path, DEVICES) || paths_inside_at(at, path, below, sizeof(below)) ? open_ours(path, flags) : -2;    \
        return fd == -2 ? PATHS_NEXT(name)(at, path, flags, mode) : fd;                                                \
    }
OPEN_AT(openat)
OPEN_AT(openat64)

#define FOPEN(name)                                                                                                    \
    PATHS_EXPORT FILE *name(const char *path, const char *mode)                                                        \
    {                                                                                                                  \
        int fd = open_ours(path, O_RDONLY);                                                                            \
        return fd == -2 ? PATHS_NEXT(name)(path, mode) : fd < 0 ? NULL : fdopen(fd, "r");                              \
    }
FOPEN(fopen)
FOPEN(fopen64)

/* The process's real folder is the root meanwhile. */
PATHS_EXPORT int chdir(const char *path)
{
    char below[PATH_MAX], list[16384];
    bool ours = paths_inside(path, below, sizeof(below));
    if (ours && paths_list(below, list, sizeof(list)) < 0) {
        errno = ENOENT;
        return -1;
    }
    int result = PATHS_NEXT(chdir)(ours ? "/" : path);
    if (!result)
        snprintf(inside, sizeof(inside), "%s%.*s", ours ? SYSFS : "", ours ? PATH_MAX - 32 : 0, ours ? below : "");
    if (!result && ours && !*below)
        inside[strlen(SYSFS) - 1] = 0;
    return result;
}

PATHS_EXPORT int fchdir(int fd)
{
    int result = PATHS_NEXT(fchdir)(fd);
    if (!result)
        *inside = 0;
    return result;
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

/* In the kernel's tree a device's folder is a link to one below the folder of the adapter, or of what is virtual: what
 * follows after ".." is there. False: the path goes not that way. */
static bool place_above(const char *path, char *out, size_t size)
{
    char name[64], below[PATH_MAX], list[4096];
    const char *rest = begins(path, SYSFS) ? path + strlen(SYSFS) : "";
    size_t length = strcspn(rest, "/");
    if (!length || length >= sizeof(name) || (rest[length] && rest[length + 1] && !strstr(rest + length, "..")))
        return false;
    snprintf(name, sizeof(name), "%.*s", (int)length, rest);
    rest += length;
    snprintf(below, sizeof(below), "%s/device", name);
    if (paths_list(name, list, sizeof(list)) < 0)
        return false;
    if (paths_text(below, out, size) < 0)
        snprintf(out, size, "/sys/devices/virtual");
    if (begins(rest, "/device/"))
        rest += strlen("/device");
    else
        snprintf(out + strlen(out), size - strlen(out), "/infiniband/%s", name);
    for (; *rest; rest += length + (rest[length] == '/')) {
        length = strcspn(rest, "/");
        step(out, size, rest, length);
    }
    return true;
}

/* Whether it is the folder of an emulated device, and then where that is. */
static bool place_of(const char *path, char *out, size_t size)
{
    if (begins(path, PCI) && path[strlen(PCI)])
        return place_of_gpu(path + strlen(PCI), out, size);
    char below[PATH_MAX];
    if (place_above(path, out, size))
        return true;
    if (!paths_inside(path, below, sizeof(below)))
        return false;
    size_t length = strlen(below);
    return length > 7 && !strcmp(below + length - 7, "/device") && paths_text(below, out, size) > 0;
}

PATHS_EXPORT char *realpath(const char *path, char *resolved)
{
    char place[PATH_MAX];
    if (!place_of(path, place, sizeof(place)))
        return PATHS_NEXT(realpath)(path, resolved);
    return resolved ? strcpy(resolved, place) : strdup(place);
}

/* What programs call that are built with checks of sizes. */
char *__realpath_chk(const char *path, char *resolved, size_t size);
PATHS_EXPORT char *__realpath_chk(const char *path, char *resolved, size_t size)
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
    PATHS_EXPORT ssize_t name(const char *path, char *out, size_t size)                                                \
    {                                                                                                                  \
        char place[PATH_MAX];                                                                                          \
        return place_of(path, place, sizeof(place)) ? cut(place, out, size) : PATHS_NEXT(name)(path, out, size);       \
    }
LINK(readlink)
