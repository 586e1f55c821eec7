/* SPDX-License-Identifier: Apache-2.0 */
/* GPUs of this process: one object for each ordinal, counted. It holds the primary context and our kernels. */
#ifndef TUTTI_DEVICE_CUDA_DEVICE_H
#define TUTTI_DEVICE_CUDA_DEVICE_H

#include "device/cuda/driver.h"
#include "device/cuda/launch.h"

#include <pthread.h>

enum { CUDA_DEVICES = 64, CUDA_MODULES = 13 };

struct cuda_device {
    int ordinal;
    CUdevice handle;
    CUcontext context; /* the primary one, retained */
    int sms, major, minor;
    uint8_t uuid[16];
    char bus_id[16]; /* 0000:17:00.0, lower case, as in /sys/bus/pci/devices */
    char name[64];
    bool early; /* launches may come before their stream is over: module.c */
    struct kernel_clusters clusters;
    bool memops;            /* streams can wait for and write words of memory */
    bool vmm;               /* memory can be made that is shared by file descriptor */
    bool dmabuf;            /* memory has descriptors for adapters */
    bool ordered;           /* kernels see what adapters have written without a flush */
    int users;              /* acquisitions not yet released */
    uint64_t peers;         /* ordinals whose memory kernels of this device may address; under `making` */
    pthread_mutex_t making; /* held while kernels are loaded or access is enabled: devices do so side by side */
    _Atomic bool loaded;    /* the kernels are, and the rest is filled in */
    CUmodule modules[CUDA_MODULES];
    CUfunction moves[KERNEL_REDUCE_ONE], reduce[KERNEL_FAMILIES][TUTTI_TYPE_COUNT]; /* by enum kernel_id */
};

/* Number of devices; 0 (and the sentence of cuda_driver()) without a driver. */
tutti_result_t cuda_device_count(int *count);

/* The ordinal of the current context's device; 0 if no context is current, as the CUDA runtime would take. */
tutti_result_t cuda_device_current(int *ordinal);

/* Counted: each call is undone by one cuda_device_release(). Any thread. Leaves the current context as it is. */
tutti_result_t cuda_device_acquire(int ordinal, struct cuda_device **out);
void cuda_device_release(struct cuda_device *device);

/* Lets kernels and copies of `device` address memory of `peer_ordinal`, until `device` is released for
 * good. Only for devices of this process: imports of other processes' memory need no call. TUTTI_INVALID_USAGE if the
 * pair has no peer access. */
tutti_result_t cuda_device_peer(struct cuda_device *device, int peer_ordinal);

/* Whether they could: TUTTI_INVALID_USAGE if not. Makes no context on the peer, which takes half a second and half a
 * gigabyte there. */
tutti_result_t cuda_device_reaches(const struct cuda_device *device, int peer_ordinal);

/* The user, or a framework, wants streams to share hardware queues (CUDA_DEVICE_MAX_CONNECTIONS), in which a waiting
 * stream holds up the others. */
bool cuda_queues_are_few(void);

/* Whether 128 bytes that a warp stores there at once arrive whole: by NVLink, which is told by its atomic operations.
 * No context either. */
bool cuda_device_whole(const struct cuda_device *device, int peer_ordinal);

/* The ordinal of the GPU with that uuid; -1: this process does not see it. Makes no context. */
tutti_result_t cuda_device_find(const uint8_t uuid[16], int *ordinal);

/* What names the GPU of an ordinal: its uuid, and its address on PCI as in sysfs; 0 and "" where that is not known.
 * Makes no context. */
void cuda_device_identity(int ordinal, uint8_t uuid[16], char bus_id[16]);

/* Makes the device's context current, and makes the one before current again. In pairs; they nest. */
void cuda_enter(struct cuda_device *device);
void cuda_leave(void);

/* Launches one of the library's kernels. `params` points at its parameter structure, which is copied. The type matters
 * to reductions only. Loads the kernels at the first launch on a device. */
tutti_result_t cuda_launch(struct cuda_device *device, const struct kernel_launch *how, tutti_type_t type, void *params,
                           CUstream stream);

/* Loads all kernels, so that no launch does: loading can wait for kernels that run, which may wait for the one to be
 * launched. */
tutti_result_t cuda_device_load(struct cuda_device *device);

#endif
