/* SPDX-License-Identifier: Apache-2.0 */
/* Values of a fabric's file: rates, times, and names with ranges. */
#ifndef TUTTI_FABRIC_VALUES_H
#define TUTTI_FABRIC_VALUES_H

#include "yaml/config_value.h"

#include "model/fabric.h"

/* "400gbit", "3.6tbit", "none" (INFINITY): bytes per second, from 1 kbit/s to 100,000 Tbit/s. */
bool value_rate(const char *text, double *out);
/* "800ns", "5us", "1.5ms", "1s": seconds, up to 1,000 s. */
bool value_time(const char *text, double *out);

/* Parsers for tables of keys. */
tutti_result_t read_rate(struct config_file *file, yaml_node_t *node, const struct config_key *key, void *out);
tutti_result_t read_time(struct config_file *file, yaml_node_t *node, const struct config_key *key, void *out);
tutti_result_t read_node(struct config_file *file, yaml_node_t *node, const struct config_key *key, void *out);
/* char[FABRIC_NAME] */
tutti_result_t read_name(struct config_file *file, yaml_node_t *node, const struct config_key *key, void *out);

/* ---- names ---- */

/* "rack[08-15]-leaf" is rack08-leaf, rack09-leaf, ... rack15-leaf: numbers keep their width. */
struct name_range {
    const char *text;
    int before; /* characters before the bracket */
    const char *behind;
    int first, count, width; /* count 1 and width 0: no bracket */
};

/* False: the text is no name. Names are letters, digits and -_.: and the bracket, FABRIC_NAME - 1 characters at most.
 */
bool name_range(const char *text, struct name_range *out);
void name_of(const struct name_range *range, int index, char out[FABRIC_NAME]);

/* Finds a number by a name. */
struct name_index {
    struct name_entry {
        const char *name; /* owned by the caller */
        int32_t number;
    } * entry;
    int32_t count;
};

/* Sorts the names. False: no memory, or (*twice >= 0) an earlier name equals that number's. */
bool name_index_make(struct name_index *index, const void *items, size_t size, int32_t count, int32_t *twice);
int32_t name_index_find(const struct name_index *index, const char *name); /* -1: the name is unknown */
void name_index_free(struct name_index *index);

#endif
