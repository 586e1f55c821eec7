/* SPDX-License-Identifier: Apache-2.0 */
/* Three ways to a peer's bytes. */
#include "engine/direct_peer.h"

#include "base/param.h"
#include "transport/shm/region.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

bool peer_memory_open(struct peer_memory *memory, int nranks)
{
    int mappings = nranks > PEER_MAPPINGS ? nranks : PEER_MAPPINGS;
    *memory = (struct peer_memory){.mapping = calloc((size_t)mappings, sizeof *memory->mapping), .mappings = mappings};
    return memory->mapping != NULL;
}

void peer_memory_close(struct peer_memory *memory)
{
    for (int i = 0; i < memory->mappings; i++)
        if (memory->mapping[i].base)
            munmap(memory->mapping[i].base, memory->mapping[i].size);
    free(memory->mapping);
}

void peer_describe(const void *in, const void *out, struct slot_place *place)
{
    uint64_t offset;
    int fd;
    *place = (struct slot_place){.pid = (uint32_t)getpid(), .in = (uintptr_t)in, .out = (uintptr_t)out};
    if (in && region_locate(in, &place->in_region, &offset, &fd)) {
        place->in = offset;
        place->in_fd = (uint32_t)fd;
    }
    if (out && region_locate(out, &place->out_region, &offset, &fd)) {
        place->out = offset;
        place->out_fd = (uint32_t)fd;
    }
}

static bool attach_read(uint32_t pid, uint64_t address, void *to, size_t length)
{
    while (length) {
        struct iovec here = {to, length}, there = {(void *)(uintptr_t)address, length};
        ssize_t got = process_vm_readv((pid_t)pid, &here, 1, &there, 1, 0);
        if (got <= 0)
            return false;
        to = (char *)to + got;
        address += (uint64_t)got;
        length -= (size_t)got;
    }
    return true;
}

bool peer_probe(uint32_t pid, uint64_t address, uint64_t expected)
{
    uint64_t seen = 0;
    if (pid == (uint32_t)getpid())
        return true;
    return param_int(PARAM_SHM_CMA) && attach_read(pid, address, &seen, sizeof seen) && seen == expected;
}

static struct peer_mapping *find(struct peer_memory *memory, uint32_t pid, uint32_t region)
{
    struct peer_mapping *oldest = &memory->mapping[0];
    for (int i = 0; i < memory->mappings; i++) {
        struct peer_mapping *mapping = &memory->mapping[i];
        if (mapping->base && mapping->pid == pid && mapping->region == region)
            return mapping;
        if (mapping->used < oldest->used)
            oldest = mapping;
    }
    if (oldest->base)
        munmap(oldest->base, oldest->size);
    *oldest = (struct peer_mapping){.pid = pid, .region = region};
    return oldest;
}

/* Opens the peer's descriptor through /proc: allowed exactly where cross-memory attach is. */
static bool map(struct peer_mapping *mapping, uint32_t pid, uint32_t peer_fd)
{
    char path[64];
    struct stat status;
    snprintf(path, sizeof path, "/proc/%u/fd/%u", pid, peer_fd);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    if (fstat(fd, &status) == 0 && status.st_size > 0) {
        mapping->size = (size_t)status.st_size;
        mapping->base = mmap(NULL, mapping->size, PROT_READ, MAP_SHARED, fd, 0);
        if (mapping->base == MAP_FAILED)
            mapping->base = NULL;
    }
    close(fd);
    return mapping->base != NULL;
}

const void *peer_pointer(struct peer_memory *memory, const struct slot_place *place, bool in, uint64_t offset, size_t length)
{
    uint32_t region = in ? place->in_region : place->out_region;
    uint64_t address = (in ? place->in : place->out) + offset;
    if (region) {
        struct peer_mapping *mapping = find(memory, place->pid, region);
        mapping->used = ++memory->uses;
        if (!mapping->base && !map(mapping, place->pid, in ? place->in_fd : place->out_fd))
            return NULL;
        return address <= mapping->size && length <= mapping->size - address ? mapping->base + address : NULL;
    }
    return place->pid == (uint32_t)getpid() ? (const void *)(uintptr_t)address : NULL;
}

bool peer_read(const struct slot_place *place, bool in, uint64_t offset, void *to, size_t length)
{
    if (in ? place->in_region : place->out_region)
        return false; /* its address is an offset: the mapping must serve */
    return attach_read(place->pid, (in ? place->in : place->out) + offset, to, length);
}
