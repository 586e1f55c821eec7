/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a fabric's file (YAML). Every mistake is named with file, line, column and the right form. */
#ifndef TUTTI_WIRING_CONFIG_H
#define TUTTI_WIRING_CONFIG_H

#include "wiring/topology.h"
#include "yaml/config_value.h"

#include <stddef.h>

#define CONFIG_FILE_LIMIT (1 << 20) /* bytes */

/* `label` is the text's name in errors, usually its path. */
tutti_result_t config_parse(const char *label, const char *yaml, size_t length, struct lab_topology *out);
tutti_result_t config_load(const char *path, struct lab_topology *out);

/* 200mbit, 1.5gbit, none (0): decimal units, bits per second. */
bool config_parse_rate(const char *text, uint64_t *out);
void config_format_rate(uint64_t rate, char *out, size_t size);

/* The parser of a key with a rate. */
tutti_result_t config_rate(struct config_file *file, yaml_node_t *node, const struct config_key *key, void *out);

/* At most 32 letters, digits, '-' and '_', starting with a letter. */
bool config_name_ok(const char *name);

#endif
