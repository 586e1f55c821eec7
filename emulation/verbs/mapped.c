/* SPDX-License-Identifier: Apache-2.0 */
/* Questions to the kernel about this process's own memory. */
#include "verbs/mapped.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#define PEERS_WRITE (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)

static uintptr_t page_size(void)
{
    return (uintptr_t)sysconf(_SC_PAGESIZE);
}

/* Whether every page is mapped. */
static bool is_mapped(void *address, size_t size)
{
    uintptr_t page = page_size(), at = (uintptr_t)address & ~(page - 1), end = (uintptr_t)address + size;
    unsigned char some[256];
    while (at < end) {
        size_t step = end - at < page * sizeof(some) ? end - at : page * sizeof(some);
        if (mincore((void *)at, step, some))
            return false;
        at += step;
    }
    return true;
}

/* Linux has this from 5.14 on; before that it says EINVAL, as of a page without permission. */
static bool can_fetch(void)
{
    static char mine;
    return madvise((void *)((uintptr_t)&mine & ~(page_size() - 1)), page_size(), MADV_POPULATE_READ) == 0;
}

/* By the kernel's list, which makes no pages: queue pairs of many peers have many that only this process writes to.
 * Memory that is not in the list, or a list that cannot be read, is not refused. */
static bool is_writable(const void *address, size_t size)
{
    uintptr_t begin = (uintptr_t)address, end = begin + size;
    FILE *list = fopen("/proc/self/maps", "re");
    char line[512];
    bool good = true, whole = true; /* `whole`: at the beginning of a line */
    while (good && list && fgets(line, sizeof(line), list)) {
        uintptr_t from, to;
        char write = 'w';
        if (whole && sscanf(line, "%lx-%lx %*c%c", &from, &to, &write) == 3 && from < end && to > begin)
            good = write == 'w';
        size_t length = 0;
        while (line[length])
            length++;
        whole = length && line[length - 1] == '\n';
    }
    if (list)
        fclose(list);
    return good;
}

int mapped_populate(void *address, size_t size, bool write)
{
    uintptr_t begin = (uintptr_t)address & ~(page_size() - 1);
    size_t length = (uintptr_t)address + size - begin;
    if (!size || madvise((void *)begin, length, write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) == 0)
        return 0;
    return can_fetch() ? EFAULT : 0;
}

/* As pinning would find out: pages that may not be read, that may not be written where somebody is to write, or that a
 * file has no longer. */
bool mapped_allows(void *address, size_t size, int access)
{
    bool writes = access & (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
    if (!is_mapped(address, size) || mapped_populate(address, size, access & PEERS_WRITE))
        return false;
    return !size || !writes || access & PEERS_WRITE || is_writable(address, size);
}

int mapped_read(void *to, const void *from, size_t size)
{
    struct iovec here = {to, size}, there = {(void *)from, size};
    return size && process_vm_readv(getpid(), &here, 1, &there, 1, 0) != (ssize_t)size ? EFAULT : 0;
}

int mapped_write(void *to, const void *from, size_t size)
{
    struct iovec here = {(void *)from, size}, there = {to, size};
    return size && process_vm_writev(getpid(), &here, 1, &there, 1, 0) != (ssize_t)size ? EFAULT : 0;
}
