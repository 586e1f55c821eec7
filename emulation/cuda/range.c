/* SPDX-License-Identifier: Apache-2.0 */
/* The table of ranges, sorted by address, and how their memory is made and given back. */
#include "cuda/memory.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct range **ranges;
static size_t range_count, range_space;
static unsigned long long last_id;

/* The first range that ends after the address. */
static size_t position(const void *address)
{
    size_t low = 0, high = range_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (ranges[middle]->base + ranges[middle]->size <= (const char *)address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct range *range_find(const void *address)
{
    size_t i = position(address);
    return i < range_count && ranges[i]->base <= (const char *)address ? ranges[i] : NULL;
}

bool range_overlaps(const void *address, size_t size)
{
    size_t i = position(address);
    return i < range_count && ranges[i]->base < (const char *)address + size;
}

struct range *range_add(const struct range *range)
{
    if (range_count == range_space) {
        size_t space = range_space ? 2 * range_space : 64;
        struct range **larger = realloc(ranges, space * sizeof(*ranges));
        if (!larger)
            return NULL;
        ranges = larger;
        range_space = space;
    }
    struct range *copy = malloc(sizeof(*copy));
    if (!copy)
        return NULL;
    *copy = *range;
    copy->id = ++last_id;
    size_t i = position(range->base);
    memmove(ranges + i + 1, ranges + i, (range_count++ - i) * sizeof(*ranges));
    ranges[i] = copy;
    return copy;
}

void range_remove(struct range *range)
{
    size_t i = position(range->base);
    for (range_count--; i < range_count; i++)
        ranges[i] = ranges[i + 1];
    free(range);
    if (range_count)
        return;
    free(ranges);
    ranges = NULL;
    range_space = 0;
}

/* Without a word of which memory if another thread is just changing the table. */
void range_describe(const void *address, char *text, size_t size)
{
    struct range *range = state_try_lock() ? range_find(address) : NULL;
    if (range)
        snprintf(text, size, "byte %zu of %zu of memory of GPU %d", (size_t)((const char *)address - range->base),
                 range->size, range->device);
    else
        snprintf(text, size, "memory of a GPU");
}

#define FILE_NAME "tutti-emulated-gpu"

void memory_file_name(int device, char *name, size_t size)
{
    snprintf(name, size, FILE_NAME "%d", device_number(device));
}

int memory_file(int device, size_t size)
{
    char name[40];
    memory_file_name(device, name, sizeof(name));
    int fd = memfd_create(name, MFD_CLOEXEC);
    if (fd >= 0 && ftruncate(fd, (off_t)size)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* The name tells which device the memory is on, also to a process that got the descriptor. */
int memory_file_device(int fd)
{
    char path[40], name[80];
    int device;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    ssize_t n = readlink(path, name, sizeof(name) - 1);
    if (n < 0)
        return -1;
    name[n] = 0;
    return sscanf(name, "/memfd:" FILE_NAME "%d", &device) == 1 ? device_of_number(device) : -1;
}

int memory_file_again(int fd)
{
    char path[40];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return open(path, O_RDWR | O_CLOEXEC);
}

/* Where handles of used addresses are refused, what is freed last is used first. */
static struct {
    char *base;
    size_t mapped;
} freed;

static char *reserve(char *at, size_t mapped)
{
    char *base = mmap(at, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (at ? MAP_FIXED : 0), -1, 0);
    return base == MAP_FAILED ? NULL : base;
}

char *address_take(size_t mapped)
{
    char *base = freed.mapped == mapped ? freed.base : reserve(NULL, mapped);
    if (base == freed.base)
        freed.base = NULL, freed.mapped = 0;
    return base;
}

static void address_give(char *base, size_t mapped)
{
    if (!config_get()->refuse || !reserve(base, mapped)) {
        munmap(base, mapped);
        return;
    }
    if (freed.base)
        munmap(freed.base, freed.mapped);
    freed.base = base;
    freed.mapped = mapped;
}

void range_release(struct range *range)
{
    if (range->kind == RANGE_MANAGED)
        memory_uncharge(range->device, range->size);
    if (range->kind == RANGE_DEVICE)
        address_give(range->base, range->mapped);
    else if (range->kind != RANGE_REGISTERED && range->kind != RANGE_MAPPED)
        munmap(range->base, range->mapped);
    if (range->kind == RANGE_DEVICE)
        held_free(range->fd, range->device, range->size);
    else if (range->fd >= 0)
        close(range->fd);
    range_remove(range);
}

void memory_free_context(CUcontext context)
{
    for (size_t i = range_count; i--;)
        if (i < range_count && ranges[i]->context == context && ranges[i]->kind != RANGE_MAPPED)
            range_release(ranges[i]);
}

struct range *range_after(const struct range *range)
{
    size_t i = range ? position(range->base) + 1 : 0;
    return i < range_count ? ranges[i] : NULL;
}
