/* SPDX-License-Identifier: Apache-2.0 */
/* Settings from the environment, read once; injected faults; random delays. */
#pragma once

#include "cuda/cuda_abi.h"

#include <stdbool.h>

#define CONFIG_DEVICES_MAX     16
#define CONFIG_CONNECTIONS_MAX 32

struct cuda_config {
    int machine;        /* devices that it has, as NVML tells */
    int devices, first; /* first: of the machine's, which the process sees as number 0 */
    size_t memory;      /* of each device */
    bool peers;         /* devices reach each other's memory */
    bool poison;        /* fresh cuMemAlloc memory is not zero */
    bool private;       /* device memory can be touched by the stand-in's threads alone */
    bool block;  /* while a call waits for all work of a context, other calls on that context wait, too; loading code
                    is a call of this kind */
    bool refuse; /* an IPC handle, while what its owner had at that address before is still open in the context; freed
                    addresses are used again */
    int processors; /* blocks that a device runs at a time */
    bool ipc;       /* IPC handles of other processes can be opened, as they cannot between PID namespaces */
    bool dmabuf;    /* device memory has descriptors for adapters */
    int ordering;   /* what the device tells of adapters' writes: CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING */
    int connections;  /* hardware queues that a context's streams share; 0: each has its own */
    const char *hold; /* device N runs no copies and kernels while there is a file of this name and ".N"; NULL: none */
    unsigned jitter_us;
    uint64_t seed;
};

/* Where a device of the machine is on its PCI bus. */
struct config_address {
    unsigned domain, bus, slot;
};

const struct cuda_config *config_get(void);
struct config_address config_address(int number);
int config_at(unsigned domain, unsigned bus, unsigned slot); /* the device's number; -1: there is none */
void config_uuid(int number, unsigned char uuid[16]);        /* another one on another host */
void config_reload(void);     /* for tests: reads the environment again; no other thread may be in the library */
void config_jitter(void);     /* sleeps a random time, when asked to */
void config_hold(int device); /* sleeps for the time that was asked for */

/* Counts the call; the fault that is due for it, or CUDA_SUCCESS. *sticky: the context dies of it. */
CUresult fault_due(const char *function, bool *sticky);
