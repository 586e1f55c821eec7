/* SPDX-License-Identifier: Apache-2.0 */
/* A fabric's file while it is read. */
#ifndef TUTTI_FABRIC_READING_H
#define TUTTI_FABRIC_READING_H

#include "file/values.h"

struct reading {
    struct config_file *file;
    struct fabric fabric;
    double rate; /* rate of links without their own; 0: none */
    yaml_node_t *clos;
    struct {
        yaml_node_t *buildings, *zones, *spines, *leaves, *hosts;
    } lists;
    struct name_index building, zone, spine, leaf;
};

/* Reads the lists. The fabric is complete after success. */
tutti_result_t reading_lists(struct reading *r, yaml_node_t *root);

/* Frees all but the fabric. */
void reading_free(struct reading *r);

#endif
