/* SPDX-License-Identifier: Apache-2.0 */
/* YAML scalars and mappings, checked against a table of keys. */
#include "yaml/config_value.h"
#include "base/error.h"
#include "base/parse.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

const char *config_shown(const yaml_node_t *node)
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
    return config_fail(file, name, "\"%s\" is no key of %s; the keys are: %s", config_shown(name), what, known);
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
        return config_fail(file, node, "%s: \"%s\" is not a whole number from %lld to %lld", key->name,
                           config_shown(node), (long long)key->min, (long long)key->max);
    *(int *)out = (int)value;
    return TUTTI_SUCCESS;
}

tutti_result_t config_bytes(struct config_file *file, yaml_node_t *node, const struct config_key *key, void *out)
{
    const char *text = config_text(node);
    int64_t value;
    if (!text || !parse_size(text, &value) || value < key->min || value > key->max)
        return config_fail(file, node, "%s: \"%s\" is not a size from %lld to %lld bytes, such as 512K", key->name,
                           config_shown(node), (long long)key->min, (long long)key->max);
    *(int *)out = (int)value;
    return TUTTI_SUCCESS;
}

tutti_result_t config_bool(struct config_file *file, yaml_node_t *node, const struct config_key *key, void *out)
{
    const char *text = config_text(node);
    int64_t value;
    if (!text || !parse_bool(text, &value))
        return config_fail(file, node, "%s: \"%s\" is neither true nor false", key->name, config_shown(node));
    *(int *)out = (int)value;
    return TUTTI_SUCCESS;
}

static tutti_result_t syntax_error(const char *label, const yaml_parser_t *parser)
{
    if (parser->error == YAML_MEMORY_ERROR)
        return error_note(TUTTI_SYSTEM_ERROR, "%s: out of memory", label);
    return error_note(TUTTI_INVALID_ARGUMENT, "%s:%zu:%zu: not YAML: %s%s%s", label, parser->problem_mark.line + 1,
                      parser->problem_mark.column + 1, parser->problem ? parser->problem : "bad bytes",
                      parser->context ? " " : "", parser->context ? parser->context : "");
}

/* A second document would be left out without a word. */
static tutti_result_t no_more(const char *label, yaml_parser_t *parser)
{
    yaml_document_t next;
    if (!yaml_parser_load(parser, &next))
        return syntax_error(label, parser);
    const yaml_node_t *root = yaml_document_get_root_node(&next);
    struct config_file file = {.label = label};
    tutti_result_t result =
        root ? config_fail(&file, root, "a second document begins; write it into a file of its own") : TUTTI_SUCCESS;
    yaml_document_delete(&next);
    return result;
}

tutti_result_t config_document(const char *label, const char *yaml, size_t length, config_build_fn build, void *out)
{
    struct config_file file = {.label = label};
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser))
        return error_note(TUTTI_SYSTEM_ERROR, "%s: out of memory", label);
    yaml_parser_set_input_string(&parser, (const unsigned char *)yaml, length);
    tutti_result_t result;
    if (!yaml_parser_load(&parser, &file.document)) {
        result = syntax_error(label, &parser);
    } else {
        result = no_more(label, &parser);
        if (!result)
            result = build(&file, out);
        yaml_document_delete(&file.document);
    }
    yaml_parser_delete(&parser);
    return result;
}

static tutti_result_t read_all(int fd, const char *path, int limit, char **data, size_t *length)
{
    struct stat info;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))
        return error_note(TUTTI_INVALID_ARGUMENT, "%s is not a file", path);
    if (info.st_size > limit)
        return error_note(TUTTI_INVALID_ARGUMENT, "%s has %lld bytes; a fabric's file has at most %d", path,
                          (long long)info.st_size, limit);
    *data = malloc((size_t)info.st_size + 1);
    if (!*data)
        return error_note(TUTTI_SYSTEM_ERROR, "out of memory for %s", path);
    ssize_t count = read(fd, *data, (size_t)info.st_size);
    if (count < 0) {
        free(*data);
        return error_note(TUTTI_SYSTEM_ERROR, "reading %s: %s", path, strerror(errno));
    }
    (*data)[count] = 0;
    *length = (size_t)count;
    return TUTTI_SUCCESS;
}

tutti_result_t config_read_file(const char *path, int limit, char **data, size_t *length)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_note(TUTTI_INVALID_ARGUMENT, "opening %s: %s", path, strerror(errno));
    tutti_result_t result = read_all(fd, path, limit, data, length);
    close(fd);
    return result;
}
