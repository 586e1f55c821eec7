/* SPDX-License-Identifier: Apache-2.0 */
/* How far devices of this host are from the processors that this process may run on. */
#ifndef TUTTI_BASE_NEAR_H
#define TUTTI_BASE_NEAR_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

/* The system's distance (10: the same NUMA node, more: farther) from the node of a device, whose folder is below
 * `root`, to the nearest node with a processor of `set`. 0: not known. */
int near_distance(const char *root, const char *device, const cpu_set_t *set);

/* How many folders the places of two devices have in common: the adapter that has more of them in common with a GPU is
 * nearer to it, as fewer bridges lie between. `a` and `b` are folders below `root`, or links to folders. 0: not known.
 */
int near_shared(const char *root, const char *a, const char *b);

/* What lies between two devices of PCI Express, in the order of NCCL's levels. */
enum near_level {
    NEAR_UNKNOWN,
    NEAR_BRIDGE,  /* PIX: one bridge, or the switch that both are at */
    NEAR_BRIDGES, /* PXB: several bridges */
    NEAR_HOST,    /* PHB: the host bridge, or two of one NUMA node */
    NEAR_SYSTEM   /* SYS: the way between NUMA nodes */
};
enum near_level near_level(const char *root, const char *a, const char *b);

/* Where GPUs are, by this process's ordinals: what the layers above have told, and those below ask. */
#define NEAR_FOLDER 64
void near_note(int gpu, const char *bus_id);
/* This process works on it. */
void near_use(int gpu);
/* The GPUs that it works on, as bits by ordinal. */
uint64_t near_used(void);
/* The folder of a GPU; false: nobody has told. */
bool near_gpu(int gpu, char out[NEAR_FOLDER]);
/* Slots on this GPU are for what other GPUs send and receive, or are no more: the adapters next to it read that there,
 * and not from afar. */
void near_relay(int gpu, bool slots);
/* The GPUs where this process has slots, as bits by ordinal. */
uint64_t near_relays(void);
/* The folder of the adapter of a port: mlx5_0, or mlx5_0:1. */
void near_adapter(const char *name, char out[NEAR_FOLDER + 64]);

#endif
