/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A network as data. Hosts have GPUs and NICs; a NIC has a port, or two that are bonded, each at a leaf. Leaves have
 * uplinks to the spines of their zone, spines have uplinks to the core, and the traffic between buildings shares their
 * trunks. The core itself, and each switch, carries what its links bring.
 *
 * Links are numbered, each direction apart: `fabric_link` below. Rates are bytes per second.
 */
#ifndef TUTTI_FABRIC_FABRIC_H
#define TUTTI_FABRIC_FABRIC_H

#include "tutti/tutti.h"

#include <stdbool.h>
#include <stdint.h>

#define FABRIC_NAME    32
#define FABRIC_ADDRESS 46
#define FABRIC_PORTS   2 /* of a NIC */
/* Limits of a description, so that a file cannot ask for more memory than there is. */
#define FABRIC_GPUS    (1 << 20)
#define FABRIC_UPLINKS (1 << 20)
#define FABRIC_LEAVES  (1 << 17)
#define FABRIC_SPINES  (1 << 14)

enum fabric_distance {
    FABRIC_HOST,     /* of one host */
    FABRIC_RACK,     /* of one leaf */
    FABRIC_ZONE,     /* over spines */
    FABRIC_BUILDING, /* over the core */
    FABRIC_CAMPUS,   /* over trunks */
    FABRIC_DISTANCES
};

struct fabric_building {
    char name[FABRIC_NAME];
    double trunk;
};

struct fabric_zone {
    char name[FABRIC_NAME];
    int32_t building;
};

/* A text of the file, as its place in the fabric's words; fabric_word() has it. 0: the file does not say. */
typedef int32_t fabric_word_t;

/* What configures a switch, beside what the model computes with. `line`: of the file, 0: unknown. */
struct fabric_own {
    fabric_word_t vendor, prefixes; /* prefixes: what is behind the switch, with blanks between */
    int32_t ranges, line;           /* ranges of ports that the switch can hold; 0: not told */
};

/* A spine. The core uplinks of a spine are core[first] to core[first + count - 1]. */
struct fabric_spine {
    char name[FABRIC_NAME];
    int32_t zone, first, count;
    struct fabric_own own;
};

struct fabric_core {
    int32_t spine;
    double rate;
};

/* A leaf. The uplinks of a leaf are uplink[first] to uplink[first + count - 1], ordered by spine: u0, u1, ... */
struct fabric_leaf {
    char name[FABRIC_NAME];
    int32_t zone, first, count;
    int32_t ports; /* of NICs here */
    struct fabric_own own;
};

/* Both ends of an uplink: the ports' names, the addresses (the leaf's with "/BITS", if the file tells them), and the
 * virtual router of the spine that has the link. */
struct fabric_wire {
    fabric_word_t port, far_port, address[2], next[2], vrf; /* [0]: IPv4, [1]: IPv6 */
    int32_t line;
};

struct fabric_uplink {
    int32_t leaf, spine;
    double rate;
    bool down;
    int32_t place; /* in the order of the file */
    struct fabric_wire wire;
};

struct fabric_port {
    int32_t leaf;
    fabric_word_t name; /* the leaf's port */
    int32_t number;     /* among the ports of NICs of that leaf */
    double rate;
};

struct fabric_nic {
    int32_t host, rail, ports;
    struct fabric_port port[FABRIC_PORTS];
    char name[FABRIC_NAME], address[FABRIC_ADDRESS];
    int32_t line;
};

struct fabric_host {
    char name[FABRIC_NAME];
    int32_t gpu, gpus; /* number of the first one among all GPUs; how many */
    int32_t nic, nics;
};

struct fabric {
    char name[FABRIC_NAME];
    double latency[FABRIC_DISTANCES]; /* seconds, one way, with the software at both ends */
    double gpu_rate;                  /* between the GPUs of a host, each way; INFINITY: no limit */
    int32_t buildings, zones, spines, cores, leaves, uplinks, hosts, nics, gpus;
    struct fabric_building *building;
    struct fabric_zone *zone;
    struct fabric_spine *spine;
    struct fabric_core *core;
    struct fabric_leaf *leaf;
    struct fabric_uplink *uplink;
    struct fabric_host *host;
    struct fabric_nic *nic;
    int32_t *gpu_host; /* of each GPU */
    char *words;
    int32_t words_length, words_room;
};

/* A regular Clos: the key `clos` of a file. */
struct fabric_clos {
    int buildings;  /* of the campus */
    int zones;      /* of a building */
    int racks;      /* of a zone */
    int hosts;      /* of a rack */
    int gpus, nics; /* of a host */
    int ports;      /* of a NIC: 1, or 2 that are bonded, at two leaves */
    int rail;       /* each rack has a leaf for each NIC of a host, or one for all (times `ports`) */
    int spines;     /* of a zone */
    int uplinks;    /* of a leaf to each spine */
    int cores;      /* of a spine to the core */
    double rate;    /* of a NIC's port */
    double uplink, core, trunk;
};

/* Fills the lists of `out`, whose name, latencies and GPU rate the caller sets. fabric_free() also after a failure. */
tutti_result_t fabric_from_clos(const struct fabric_clos *clos, struct fabric *out);

/* Keeps a text. False: no memory, or the words have FABRIC_WORDS bytes already. */
#define FABRIC_WORDS (64 << 20)
bool fabric_keep(struct fabric *fabric, const char *text, fabric_word_t *out);
const char *fabric_word(const struct fabric *fabric, fabric_word_t word); /* "": the file does not say */

/* Numbers the links of the lists: the caller has completed them. */
tutti_result_t fabric_finish(struct fabric *fabric);
void fabric_free(struct fabric *fabric);

/* ---- links ---- */

enum fabric_way { FABRIC_UP, FABRIC_DOWN }; /* from a host, to a host */

int32_t fabric_links(const struct fabric *fabric);
int32_t fabric_gpu_link(const struct fabric *fabric, int32_t gpu, enum fabric_way way);
int32_t fabric_port_link(const struct fabric *fabric, int32_t nic, int32_t port, enum fabric_way way);
int32_t fabric_uplink_link(const struct fabric *fabric, int32_t uplink, enum fabric_way way);
int32_t fabric_core_link(const struct fabric *fabric, int32_t core, enum fabric_way way);
int32_t fabric_trunk_link(const struct fabric *fabric, int32_t building, enum fabric_way way);

/* capacity[fabric_links()] */
void fabric_capacities(const struct fabric *fabric, double *capacity);

/* "l3.u1 up", for people. */
void fabric_link_name(const struct fabric *fabric, int32_t link, char *out, size_t size);

/* ---- questions ---- */

/* The NIC that a GPU sends with; hosts with more NICs than GPUs spread lanes over several. */
int32_t fabric_nic_of(const struct fabric *fabric, int32_t gpu, int lane);

/* The distance by the first ports of the hosts' NICs. */
enum fabric_distance fabric_distance_of(const struct fabric *fabric, int32_t from, int32_t to);

struct fabric_range {
    int32_t first, count;
};

/* The uplinks of a leaf to a spine, which stand in a row; count 0: there are none. `place` is a guess: they mostly have
 * the same places at all leaves. */
struct fabric_range fabric_uplinks_to(const struct fabric *fabric, int32_t leaf, int32_t spine, int32_t place);

/* -1: the host is unknown. */
int32_t fabric_find_host(const struct fabric *fabric, const char *name);

#endif
