/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that its owner has freed while another process maps it: its device is not rid of it before that one lets go. A
 * process that maps has the file locked, by a description of its own, and a lock ends with its process.
 */
#include "cuda/memory.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

struct cuda_held {
    struct cuda_held *next;
    int fd, device;
    size_t size;
};

static struct cuda_held *all_held;

void held_lock(int fd)
{
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    fcntl(fd, F_OFD_SETLK, &lock);
}

static bool is_held(int fd)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

void held_free(int fd, int device, size_t size)
{
    struct cuda_held *held = is_held(fd) ? malloc(sizeof(*held)) : NULL;
    int copy = held ? fcntl(fd, F_DUPFD_CLOEXEC, fd + 1) : -1; /* the number that handles name is nobody's any more */
    close(fd);
    if (copy < 0) {
        free(held);
        memory_uncharge(device, size);
        return;
    }
    *held = (struct cuda_held){all_held, copy, device, size};
    all_held = held;
}

void held_look(void)
{
    for (struct cuda_held **at = &all_held, *held; (held = *at);) {
        if (is_held(held->fd)) {
            at = &held->next;
            continue;
        }
        *at = held->next;
        memory_uncharge(held->device, held->size);
        close(held->fd);
        free(held);
    }
}

CUresult memory_charge(int device, size_t size)
{
    held_look();
    struct emulated_device *d = device_get(device);
    if (size > config_get()->memory || d->used > config_get()->memory - size)
        return CUDA_ERROR_OUT_OF_MEMORY;
    d->used += size;
    return CUDA_SUCCESS;
}
