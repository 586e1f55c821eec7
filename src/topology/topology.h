/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Facts about this host: packages, NUMA nodes, caches, cores and processors as a tree; network interfaces, RDMA ports
 * and GPUs at the NUMA node that they are near. Processors come from hwloc where it is built in, else from sysfs;
 * devices from sysfs. Nothing here decides anything.
 */
#ifndef TUTTI_TOPOLOGY_TOPOLOGY_H
#define TUTTI_TOPOLOGY_TOPOLOGY_H

#include "tutti/tutti.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* In the order of nesting: of two kinds with the same processors the earlier one is outside. */
enum topology_kind {
    TOPOLOGY_MACHINE,
    TOPOLOGY_PACKAGE,
    TOPOLOGY_NUMA,
    TOPOLOGY_L3,
    TOPOLOGY_L2,
    TOPOLOGY_L1,
    TOPOLOGY_CORE,
    TOPOLOGY_PU,
    TOPOLOGY_NET,  /* a network interface */
    TOPOLOGY_RDMA, /* a port of an RDMA device */
    TOPOLOGY_GPU,
    TOPOLOGY_KINDS
};

enum { TOPOLOGY_CPUS = 1024 };

struct topology_cpus {
    uint64_t bits[TOPOLOGY_CPUS / 64];
};

struct topology_node {
    enum topology_kind kind;
    int parent;                /* index in nodes; -1: the machine, which is nodes[0]. Parents stand before children */
    int index;                 /* the system's number: package, NUMA node, core, processor; -1: none */
    uint64_t bytes;            /* of memory or cache; 0: unknown */
    int64_t mbits;             /* speed of a port; 0: unknown */
    bool up;                   /* a port that can carry data */
    char name[64];             /* host, eth0, mlx5_0:1, PCI address of a GPU */
    char detail[256];          /* model, driver, PCI address, links */
    struct topology_cpus cpus; /* empty for devices */
};

struct topology {
    const char *source; /* "hwloc" or "sysfs": where processors come from */
    int count, room;
    struct topology_node *nodes;
};

/* The facts of this host. */
tutti_result_t topology_load(struct topology **out);

/* As topology_load, from sysfs and proc below the folder `root` only: for tests, and for copies of other hosts. */
tutti_result_t topology_load_from(const char *root, struct topology **out);

void topology_free(struct topology *topology);

const char *topology_kind_name(enum topology_kind kind);
int topology_cpu_count(const struct topology_cpus *cpus);

/* ---- for the readers in this folder ---- */

/* A new node, with its parent not yet known; NULL: no memory. The pointer is valid until the next call. */
struct topology_node *topology_add(struct topology *topology, enum topology_kind kind, int index);
void topology_cpu_add(struct topology_cpus *cpus, int cpu);

/* Each adds packages, NUMA nodes, caches, cores and processors. Without hwloc in the build: TUTTI_INVALID_USAGE. */
tutti_result_t topology_read_hwloc(struct topology *topology, bool *this_host);
tutti_result_t topology_read_cpus(struct topology *topology, const char *root);

/* Network interfaces, RDMA ports, GPUs. Their `parent` is the number of a NUMA node, or -1, until the tree is made. */
tutti_result_t topology_read_devices(struct topology *topology, const char *root);
/* Names, driver and links of this host's NVIDIA GPUs, where there is their driver. After topology_read_devices(). */
tutti_result_t topology_read_gpus(struct topology *topology);

/* The first line of the file root/path, without its newline. False: there is none. */
bool topology_read_line(const char *root, const char *path, char *out, size_t size);
int64_t topology_read_number(const char *root, const char *path, int64_t otherwise);
/* "0-3,8" */
void topology_parse_cpus(const char *text, struct topology_cpus *out);

#endif
