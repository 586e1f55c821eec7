/* SPDX-License-Identifier: Apache-2.0 */
/* A descriptor of memory is mapped once more, for the emulator alone: the program's own mapping, its descriptor and
 * even the process that made the memory may go. A real dma-buf is taken, if it can be mapped, and a memory file. */
#include "verbs/dmabuf.h"

#include "file_part.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

uint64_t dmabuf_memory(const char *name)
{
    uint64_t value = 0xcbf29ce484222325;
    for (; *name && *name != ' '; name++) /* the kernel adds " (deleted)" */
        value = (value ^ (uint8_t)*name) * 0x100000001b3;
    return value ? value : 1;
}

/* 0: a descriptor of something else, or none. */
static uint64_t memory_of(int fd)
{
    char path[40], name[256];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    ssize_t n = readlink(path, name, sizeof(name) - 1);
    if (n < 0)
        return 0;
    name[n] = 0;
    bool good = !strncmp(name, "/memfd:", 7) || !strncmp(name, "/dmabuf:", 8);
    return good ? dmabuf_memory(strchr(name, ':') + 1) : 0;
}

int dmabuf_map(struct mr *mr, int fd, uint64_t offset, size_t size, bool writable)
{
    uint64_t start, whole;
    if (!part_get(fd, &start, &whole))
        return errno;
    mr->memory = memory_of(fd);
    if (!mr->memory || !size || offset > whole || size > whole - offset)
        return EINVAL;
    start += offset;
    size_t into = start % (uint64_t)sysconf(_SC_PAGESIZE);
    mr->mapped = into + size;
    int rights = PROT_READ | (writable ? PROT_WRITE : 0);
    void *mapping = mmap(NULL, mr->mapped, rights, MAP_SHARED, fd, (off_t)(start - into));
    if (mapping == MAP_FAILED)
        return errno;
    mr->mapping = mapping;
    mr->host = (uint8_t *)mapping + into;
    return 0;
}

void dmabuf_unmap(struct mr *mr)
{
    if (mr->mapping)
        munmap(mr->mapping, mr->mapped);
}
