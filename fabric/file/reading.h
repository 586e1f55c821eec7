/* SPDX-License-Identifier: Apache-2.0 */
/* A fabric's file while it is read. */
#ifndef TUTTI_FABRIC_READING_H
#define TUTTI_FABRIC_READING_H

#include "file/values.h"

struct reading {
    struct config_file *file;
    struct fabric fabric;
    double rate; /* rate of links without their own; 0: none */
    int ranges;
    yaml_node_t *vendor; /* of switches that tell no other */
    yaml_node_t *clos;
    struct {
        yaml_node_t *buildings, *zones, *spines, *leaves, *hosts;
    } lists;
    struct name_index building, zone, spine, leaf;
};

/* What configures switches: a word of the file, one or two addresses (IPv4 and IPv6, once each), and what leaves and
 * spines say of themselves. Absent nodes leave `out` as it was. */
struct own_item {
    yaml_node_t *vendor, *prefixes;
    int ranges;
};
struct wire_item {
    yaml_node_t *port, *far_port, *address, *next, *vrf;
};
tutti_result_t reading_port(struct reading *r, yaml_node_t *node, const char *key, fabric_word_t *out);
tutti_result_t reading_own(struct reading *r, yaml_node_t *map, const struct own_item *item, struct fabric_own *out);
tutti_result_t reading_wire(struct reading *r, yaml_node_t *map, const struct wire_item *item, bool alone,
                            struct fabric_wire *out);
tutti_result_t reading_address(struct reading *r, yaml_node_t *node, char out[FABRIC_ADDRESS]);

/* Reads the lists. The fabric is complete after success. */
tutti_result_t reading_lists(struct reading *r, yaml_node_t *root);

/* Frees all but the fabric. */
void reading_free(struct reading *r);

#endif
