/* SPDX-License-Identifier: Apache-2.0 */
/* Typed values of a YAML mapping: a table names the keys, their kinds and ranges, and where the values go. */
#ifndef FABRIC_YAML_CONFIG_VALUE_H
#define FABRIC_YAML_CONFIG_VALUE_H

#include "tutti/tutti.h"

#include <stdint.h>
#include <yaml.h>

struct config_file {
    const char *label;
    yaml_document_t document;
};

struct config_key;
typedef tutti_result_t (*config_parse_fn)(struct config_file *file, yaml_node_t *node, const struct config_key *key,
                                          void *out);

struct config_key {
    const char *name;
    config_parse_fn parse;
    size_t offset;
    int64_t min, max; /* of integers */
};

/* Fails at a node's place in the file. */
tutti_result_t config_fail(const struct config_file *file, const yaml_node_t *node, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Reads the values of a mapping into `out`; `what` names it in errors. Keys that are absent leave `out` as it was. */
tutti_result_t config_map(struct config_file *file, yaml_node_t *node, const char *what, const struct config_key *keys,
                          void *out);

/* The node of a key in a mapping, or the mapping itself: the best place to point at. */
yaml_node_t *config_place(struct config_file *file, yaml_node_t *map, const char *key);

/* The text of a node for errors; "this" if it has none. */
const char *config_shown(const yaml_node_t *node);

/* The text of a scalar, NULL for anything else. */
const char *config_text(const yaml_node_t *node);

/* Parsers for tables. */
tutti_result_t config_int(struct config_file *file, yaml_node_t *node, const struct config_key *key, void *out);
tutti_result_t config_bytes(struct config_file *file, yaml_node_t *node, const struct config_key *key, void *out);
tutti_result_t config_bool(struct config_file *file, yaml_node_t *node, const struct config_key *key, void *out);

/* Parses a document and hands it to `build`. `label` is the text's name in errors, usually its path. */
typedef tutti_result_t (*config_build_fn)(struct config_file *file, void *out);
tutti_result_t config_document(const char *label, const char *yaml, size_t length, config_build_fn build, void *out);

/* Reads a whole file of at most `limit` bytes. The caller frees *data. */
tutti_result_t config_read_file(const char *path, int limit, char **data, size_t *length);

#endif
