/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA's management library, loaded when first asked: facts about GPUs that need no CUDA context. For tools. */
#ifndef TUTTI_DEVICE_CUDA_NVML_H
#define TUTTI_DEVICE_CUDA_NVML_H

#include "tutti/tutti.h"

#include <stdbool.h>
#include <stdint.h>

enum { NVML_LINKS = 36 };

struct nvml_gpu {
    char bus_id[16]; /* 0000:17:00.0, as in sysfs */
    char name[64];
    int links;    /* active NVLinks */
    int switches; /* of them, to a switch */
    int remotes;  /* GPUs at the other ends of links that go to no switch */
    struct {
        char bus_id[16];
        int links;
    } remote[NVML_LINKS];
};

/* TUTTI_DEVICE_ERROR with a sentence where there is no library or no driver (TUTTI_NVML_LIBRARY). */
tutti_result_t nvml_count(int *count);
tutti_result_t nvml_gpu(int index, struct nvml_gpu *out);
tutti_result_t nvml_driver_version(char *out, size_t size);

enum nvml_peer {
    NVML_PEER_NONE, /* no loads and stores to that GPU's memory, or not known */
    NVML_PEER_PCI,  /* through PCI Express */
    NVML_PEER_NVLINK
};

/* Whether two GPUs of this host are joined by NVLink, by their addresses on PCI (as in sysfs): also where CUDA shows
 * this process neither. */
bool nvml_joined(const char *bus_id, const char *other);

/* A name that GPUs of this host have in common which all reach one another by NVLink: those on switches, or those that
 * are linked to the same ones. 0: not known. */
uint64_t nvml_island(const char *bus_id);

/* Bytes of a GPU's memory, by its address on PCI, and what of them nobody has. TUTTI_DEVICE_ERROR where it does not
 * say.
 */
tutti_result_t nvml_memory(const char *bus_id, uint64_t *free_bytes, uint64_t *total);

/* How GPU `index` reaches the memory of GPU `other`. */
tutti_result_t nvml_peer(int index, int other, enum nvml_peer *out);

#endif
