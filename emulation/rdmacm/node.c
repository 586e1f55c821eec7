/* SPDX-License-Identifier: Apache-2.0 */
/* write() and fstat() of descriptors of /dev/infiniband/rdma_cm go to the emulator's libibverbs, all others to the C
 * library. What is closed is free at once, as by the kernel. What is closed without a call of close() is found out by
 * the emulator. */
#include "rdmacm/node.h"
#include "rdmacm/command.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define FDS    65536

static _Atomic bool ours[FDS];
static _Atomic pid_t opener; /* of the latest */
static ssize_t (*_Atomic command)(int fd, const void *data, size_t size);
static void (*_Atomic closed)(void);
static ssize_t (*_Atomic next_write)(int fd, const void *data, size_t size);
static int (*_Atomic next_close)(int fd);

int node_open(int flags)
{
    void *library = dlopen("libibverbs.so.1", RTLD_NOW);
    int (*cm_open)(int) = library ? (int (*)(int))dlsym(library, "softverbs_cm_open") : NULL;
    command = library ? (ssize_t(*)(int, const void *, size_t))dlsym(library, "softverbs_cm_write") : NULL;
    closed = library ? (void (*)(void))dlsym(library, "softverbs_cm_closed") : NULL;
    if (!cm_open || !command || !closed) {
        errno = ENOENT;
        return -1;
    }
    int fd = cm_open(flags);
    if (fd >= FDS) {
        close(fd);
        errno = EMFILE;
        return -1;
    }
    if (fd >= 0)
        ours[fd] = true;
    opener = getpid();
    return fd;
}

__attribute__((constructor)) static void find_next(void)
{
    next_write = (ssize_t(*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
    next_close = (int (*)(int))dlsym(RTLD_NEXT, "close");
}

EXPORT ssize_t write(int fd, const void *data, size_t size)
{
    if (fd >= 0 && fd < FDS && ours[fd]) {
        ssize_t n = command(fd, data, size);
        if (n != NOT_OF_CM)
            return n;
        ours[fd] = false;
    }
    if (!next_write)
        find_next();
    return next_write(fd, data, size);
}

/* A child of vfork() has this memory, and closes its own copy alone. */
EXPORT int close(int fd)
{
    bool channel = fd >= 0 && fd < FDS && ours[fd] && getpid() == opener;
    if (channel)
        ours[fd] = false;
    if (!next_close)
        find_next();
    int result = next_close(fd), error = errno;
    if (channel)
        closed();
    errno = error;
    return result;
}

/* The number may be another socket's by now; a command of no bytes is refused. */
static bool is_channel(int fd)
{
    int before = errno;
    bool channel = fd >= 0 && fd < FDS && ours[fd] && command(fd, NULL, 0) != NOT_OF_CM;
    errno = before;
    return channel;
}

/* Looks like the kernel's node, where there is one, and like /dev/null elsewhere. */
#define FSTAT(name, by_path, type)                                                                                     \
    EXPORT int name(int fd, struct type *out)                                                                          \
    {                                                                                                                  \
        int (*next)(int, struct type *) = (__typeof__(next))dlsym(RTLD_NEXT, #name);                                   \
        int err = next(fd, out);                                                                                       \
        if (err || !S_ISSOCK(out->st_mode) || !is_channel(fd))                                                         \
            return err;                                                                                                \
        return by_path(RDMACM_NODE, out) && by_path("/dev/null", out) ? -1 : 0;                                        \
    }
FSTAT(fstat, stat, stat)
FSTAT(fstat64, stat64, stat64)
