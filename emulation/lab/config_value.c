/* SPDX-License-Identifier: Apache-2.0 */
/* YAML scalars and mappings, checked against a table of keys. */
#include "config_value.h"
#include "base/error.h"
#include "base/parse.h"
#include "config.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

tutti_result_t config_fail(const struct config_file *file, const yaml_node_t *node, const char *format, ...)
{
    char sentence[700];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    return error_note(TUTTI_INVALID_ARGUMENT, "%s:%zu:%zu: %s", file->label, node ? node->start_mark.line + 1 : 1,
                      node ? node->start_mark.column + 1 : 1, sentence);
}

const char *config_text(const yaml_node_t *node)
{
    if (!node || node->type != YAML_SCALAR_NODE || strlen((char *)node->data.scalar.value) != node->data.scalar.length)
        return NULL;
    return (const char *)node->data.scalar.value;
}

static const char *shown(const yaml_node_t *node)
{
    const char *text = config_text(node);
    return text ? text : "this";
}

yaml_node_t *config_place(struct config_file *file, yaml_node_t *map, const char *key)
{
    for (yaml_node_pair_t *pair = map->data.mapping.pairs.start; pair < map->data.mapping.pairs.top; pair++) {
        const char *name = config_text(yaml_document_get_node(&file->document, pair->key));
        if (name && strcmp(name, key) == 0)
            return yaml_document_get_node(&file->document, pair->value);
    }
    return map;
}

static tutti_result_t unknown_key(struct config_file *file, yaml_node_t *name, const char *what,
                                  const struct config_key *keys)
{
    char known[256] = "";
    for (const struct config_key *key = keys; key->name; key++) {
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", key->name);
    }
    return config_fail(file, name, "\"%s\" is no key of %s; the keys are: %s", shown(name), what, known);
}

static tutti_result_t map_pair(struct config_file *file, yaml_node_t *name, yaml_node_t *value, const char *what,
                               const struct config_key *keys, uint64_t *seen, void *out)
{
    const char *text = config_text(name);
    for (const struct config_key *key = keys; text && key->name; key++)
        if (strcmp(key->name, text) == 0) {
            if (*seen & 1ull << (key - keys))
                return config_fail(file, name, "%s is given twice; keep one", text);
            *seen |= 1ull << (key - keys);
            return key->parse(file, value, key, (char *)out + key->offset);
        }
    return unknown_key(file, name, what, keys);
}

tutti_result_t config_map(struct config_file *file, yaml_node_t *node, const char *what, const struct config_key *keys,
                          void *out)
{
    uint64_t seen = 0;
    if (node->type != YAML_MAPPING_NODE)
        return config_fail(file, node, "%s must be a mapping, with lines such as \"%s: VALUE\"", what, keys[0].name);
    for (yaml_node_pair_t *pair = node->data.mapping.pairs.start; pair < node->data.mapping.pairs.top; pair++) {
        yaml_node_t *name = yaml_document_get_node(&file->document, pair->key);
        yaml_node_t *value = yaml_document_get_node(&file->document, pair->value);
        tutti_result_t result = map_pair(file, name, value, what, keys, &seen, out);
        if (result != TUTTI_SUCCESS)
            return result;
    }
    return TUTTI_SUCCESS;
}

tutti_result_t config_int(struct config_file *file, yaml_node_t *node, const struct config_key *key, void *out)
{
    const char *text = config_text(node);
    int64_t value;
    if (!text || !parse_int(text, &value) || value < key->min || value > key->max)
        return config_fail(file, node, "%s: \"%s\" is not a whole number from %lld to %lld", key->name, shown(node),
                           (long long)key->min, (long long)key->max);
    *(int *)out = (int)value;
    return TUTTI_SUCCESS;
}

tutti_result_t config_bytes(struct config_file *file, yaml_node_t *node, const struct config_key *key, void *out)
{
    const char *text = config_text(node);
    int64_t value;
    if (!text || !parse_size(text, &value) || value < key->min || value > key->max)
        return config_fail(file, node, "%s: \"%s\" is not a size from %lld to %lld bytes, such as 512K", key->name,
                           shown(node), (long long)key->min, (long long)key->max);
    *(int *)out = (int)value;
    return TUTTI_SUCCESS;
}

tutti_result_t config_bool(struct config_file *file, yaml_node_t *node, const struct config_key *key, void *out)
{
    const char *text = config_text(node);
    int64_t value;
    if (!text || !parse_bool(text, &value))
        return config_fail(file, node, "%s: \"%s\" is neither true nor false", key->name, shown(node));
    *(int *)out = (int)value;
    return TUTTI_SUCCESS;
}

tutti_result_t config_rate(struct config_file *file, yaml_node_t *node, const struct config_key *key, void *out)
{
    const char *text = config_text(node);
    if (!text || !config_parse_rate(text, out))
        return config_fail(file, node,
                           "%s: \"%s\" is not a rate; write a number from 8kbit to 1000gbit with kbit, mbit or gbit, "
                           "such as 200mbit, or none",
                           key->name, shown(node));
    return TUTTI_SUCCESS;
}

bool config_parse_rate(const char *text, uint64_t *out)
{
    static const struct {
        const char *unit;
        double factor;
    } units[] = {{"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}};
    char *end;
    if (strcasecmp(text, "none") == 0) {
        *out = 0;
        return true;
    }
    double value = strtod(text, &end);
    if (end == text || !isfinite(value))
        return false;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcasecmp(end, units[i].unit) == 0 && value * units[i].factor >= 8e3 && value * units[i].factor <= 1e12) {
            *out = (uint64_t)(value * units[i].factor + 0.5);
            return true;
        }
    return false;
}

void config_format_rate(uint64_t rate, char *out, size_t size)
{
    if (rate == 0)
        snprintf(out, size, "none");
    else if (rate >= 1000000000)
        snprintf(out, size, "%.4ggbit", (double)rate / 1e9);
    else if (rate >= 1000000)
        snprintf(out, size, "%.4gmbit", (double)rate / 1e6);
    else
        snprintf(out, size, "%.4gkbit", (double)rate / 1e3);
}
