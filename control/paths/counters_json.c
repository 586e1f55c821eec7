/* SPDX-License-Identifier: Apache-2.0 */
#include "paths/counters_json.h"

#include "base/error.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

tutti_result_t counters_add(const char *label, struct sent_bytes *c, const char *leaf, const char *port, uint64_t bytes)
{
    if (c->count == COUNTERS_MOST)
        return error_note(TUTTI_INVALID_ARGUMENT, "%s: more than %d ports", label, COUNTERS_MOST);
    if (c->count == c->room) {
        size_t room = c->room ? 2 * c->room : 64;
        struct sent_port *grown = realloc(c->item, room * sizeof *grown);
        if (!grown)
            return error_note(TUTTI_SYSTEM_ERROR, "%s: no memory for %zu counters", label, room);
        c->item = grown;
        c->room = room;
    }
    struct sent_port *to = &c->item[c->count++];
    to->bytes = bytes;
    snprintf(to->leaf, sizeof to->leaf, "%s", leaf);
    snprintf(to->port, sizeof to->port, "%s", port);
    return TUTTI_SUCCESS;
}

struct reading_json {
    const char *label, *file_leaf;
    struct sent_bytes *out;
};

static const char *word(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

/* Counters of 64 bits are numbers, or their digits as a text. */
static bool read_number(const json_t *value, uint64_t *out)
{
    const char *text = json_string_value(value);
    char *end;
    if (json_is_integer(value) && json_integer_value(value) >= 0) {
        *out = (uint64_t)json_integer_value(value);
        return true;
    }
    errno = 0;
    *out = text && *text >= '0' && *text <= '9' ? strtoull(text, &end, 10) : 0;
    return text && *text >= '0' && *text <= '9' && !*end && !errno;
}

/* ---- the lab: links "l0.u1", {"up": {"bytes": N}} ---- */

static tutti_result_t read_lab(struct reading_json *r, const json_t *root)
{
    size_t i;
    const json_t *link;
    tutti_result_t result = TUTTI_SUCCESS;
    json_array_foreach(json_object_get(root, "links"), i, link)
    {
        char leaf[COUNTERS_NAME];
        const char *name = word(link, "name"), *point = strrchr(name, '.');
        uint64_t bytes;
        if (result || !point || !read_number(json_object_get(json_object_get(link, "up"), "bytes"), &bytes))
            continue;
        snprintf(leaf, sizeof leaf, "%.*s", (int)(point - name), name);
        result = counters_add(r->label, r->out, leaf, point + 1, bytes);
    }
    return result;
}

/* ---- SONiC's database: {"COUNTERS_PORT_NAME_MAP": {"value": {"Ethernet0": "oid:0x1"}}, "COUNTERS:oid:0x1": ...} ----
 */

static tutti_result_t read_sonic(struct reading_json *r, const json_t *root)
{
    char key[COUNTERS_NAME + 16];
    const char *port;
    json_t *oid;
    tutti_result_t result = TUTTI_SUCCESS;
    json_object_foreach(json_object_get(json_object_get(root, "COUNTERS_PORT_NAME_MAP"), "value"), port, oid)
    {
        uint64_t bytes;
        snprintf(key, sizeof key, "COUNTERS:%.*s", COUNTERS_NAME, json_is_string(oid) ? json_string_value(oid) : "");
        const json_t *counters = json_object_get(json_object_get(root, key), "value");
        if (!result && read_number(json_object_get(counters, "SAI_PORT_STAT_IF_OUT_OCTETS"), &bytes))
            result = counters_add(r->label, r->out, r->file_leaf, port, bytes);
    }
    return result;
}

/* ---- gnmic: answers with "updates", and events with "tags" ---- */

/* The part behind the last '/' and the last ':' there: the name of a leaf of the model. */
static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/'), *part = slash ? slash + 1 : path, *colon = strchr(part, ':');
    return colon ? colon + 1 : part;
}

/* The counter itself, or an object that has it further down. */
static const json_t *find_octets(const char *path, const json_t *value, int depth)
{
    const char *key;
    json_t *inner;
    if (!json_is_object(value))
        return strcmp(last_part(path), "out-octets") == 0 ? value : NULL;
    json_object_foreach((json_t *)value, key, inner)
    {
        const json_t *found = depth ? find_octets(key, inner, depth - 1) : NULL;
        if (found)
            return found;
    }
    return NULL;
}

/* interfaces/interface[name=Ethernet1/1]/state: names may have slashes. */
static bool port_in(const char *path, char out[COUNTERS_NAME])
{
    static const char before[] = "interface[name=";
    const char *at = strstr(path, before), *end = at ? strchr(at, ']') : NULL;
    if (!end)
        return false;
    at += sizeof before - 1;
    snprintf(out, COUNTERS_NAME, "%.*s", (int)(end - at < COUNTERS_NAME ? end - at : COUNTERS_NAME), at);
    return true;
}

static tutti_result_t read_values(struct reading_json *r, const json_t *values, const char *leaf, const char *port)
{
    const json_t *octets = find_octets("", values, 6);
    uint64_t bytes;
    if (!octets)
        return TUTTI_SUCCESS;
    if (!*port)
        return error_note(TUTTI_INVALID_ARGUMENT, "%s: a counter of octets tells no interface", r->label);
    if (!read_number(octets, &bytes))
        return error_note(TUTTI_INVALID_ARGUMENT, "%s: out-octets of %s is no number", r->label, port);
    return counters_add(r->label, r->out, *leaf ? leaf : r->file_leaf, port, bytes);
}

static tutti_result_t read_answer(struct reading_json *r, const json_t *answer)
{
    size_t i;
    const json_t *update;
    char port[COUNTERS_NAME];
    tutti_result_t result = TUTTI_SUCCESS;
    json_array_foreach(json_object_get(answer, "updates"), i, update)
    {
        if (!port_in(word(update, "Path"), port) && !port_in(word(answer, "prefix"), port))
            port[0] = 0;
        if (!result)
            result = read_values(r, json_object_get(update, "values"), word(answer, "source"), port);
    }
    return result;
}

static tutti_result_t read_event(struct reading_json *r, const json_t *event)
{
    const json_t *tags = json_object_get(event, "tags");
    return read_values(r, json_object_get(event, "values"), word(tags, "source"), word(tags, "interface_name"));
}

/* ---- any of them ---- */

static tutti_result_t read_document(struct reading_json *r, const json_t *root)
{
    if (json_object_get(root, "COUNTERS_PORT_NAME_MAP"))
        return read_sonic(r, root);
    if (json_object_get(root, "updates"))
        return read_answer(r, root);
    return json_object_get(root, "tags") ? read_event(r, root) : read_lab(r, root);
}

/* A subscription prints one document after another. */
tutti_result_t counters_json(const char *label, const char *leaf, const char *text, size_t length,
                             struct sent_bytes *out)
{
    struct reading_json r = {.label = label, .file_leaf = leaf, .out = out};
    tutti_result_t result = TUTTI_SUCCESS;
    while (!result && length) {
        json_error_t why;
        size_t i;
        json_t *root = json_loadb(text, length, JSON_DISABLE_EOF_CHECK, &why), *one;
        if (!root)
            return error_note(TUTTI_INVALID_ARGUMENT, "%s:%d: the counters are no JSON: %s", label, why.line, why.text);
        if (json_is_object(root))
            result = read_document(&r, root);
        json_array_foreach(root, i, one)
        {
            if (!result)
                result = read_document(&r, one);
        }
        json_decref(root);
        text += why.position;
        length -= (size_t)why.position;
        for (; length && strchr(" \t\r\n", *text) && *text; length--)
            text++;
    }
    return result;
}
