/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts, and the ports of leaves where their NICs are, from what lldpcli prints on each host. */
#include "paths/import.h"

#include "base/error.h"

#include <ctype.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define NICS 64 /* of a host */

static bool good_name(const char *text, size_t most, const char *marks)
{
    if (!text || !*text || strlen(text) > most || !isalnum((unsigned char)*text))
        return false;
    for (; *text; text++)
        if (!isalnum((unsigned char)*text) && !strchr(marks, *text))
            return false;
    return true;
}

static bool known_leaf(const struct neighbours *import, const char *name)
{
    for (size_t i = 0; i < import->leaves; i++)
        if (strcmp(import->leaf[i], name) == 0)
            return true;
    return false;
}

static tutti_result_t add_leaf(struct neighbours *import, const char *label, const char *name)
{
    if (known_leaf(import, name))
        return TUTTI_SUCCESS;
    if (import->leaves == IMPORT_LEAVES)
        return error_note(TUTTI_INVALID_ARGUMENT, "%s: more than %d switches", label, IMPORT_LEAVES);
    strcpy(import->leaf[import->leaves++], name);
    return TUTTI_SUCCESS;
}

/* One interface: {"chassis": {"NAME": {...}}, "port": {"id": {"type": "ifname", "value": "Ethernet4"}}}. */
static tutti_result_t add_nic(struct neighbours *import, const char *label, const char *nic, const json_t *value)
{
    const json_t *chassis = json_object_get(value, "chassis"), *port = json_object_get(value, "port");
    const char *leaf =
        json_object_size(chassis) == 1 ? json_object_iter_key(json_object_iter((json_t *)chassis)) : NULL;
    const json_t *id = json_object_get(port, "id");
    const char *type = json_string_value(json_object_get(id, "type"));
    const char *name = json_string_value(json_object_get(id, "value"));
    if (!type || strcmp(type, "ifname") != 0)
        name = json_string_value(json_object_get(port, "descr")); /* a MAC address names no port */
    if (!good_name(nic, FABRIC_NAME - 1, "-_.:"))
        return error_note(TUTTI_INVALID_ARGUMENT, "%s: an interface has no name that can be one of a NIC", label);
    if (!good_name(leaf, FABRIC_NAME - 1, "-_.:") || strcmp(leaf, "id") == 0)
        return error_note(TUTTI_INVALID_ARGUMENT, "%s: the switch at %s tells no name that can be one of a leaf", label,
                          nic);
    if (!good_name(name, 64, "-_.:/@"))
        return error_note(TUTTI_INVALID_ARGUMENT, "%s: %s at %s tells no name of its port", label, leaf, nic);
    tutti_result_t result = add_leaf(import, label, leaf);
    text_add(&import->hosts, "      - {name: \"%s\", leaf: \"%s\", port: \"%s\"}\n", nic, leaf, name);
    return result;
}

static tutti_result_t add_group(struct neighbours *import, const char *label, const json_t *group, int *nics)
{
    const char *nic;
    json_t *value;
    tutti_result_t result = TUTTI_SUCCESS;
    json_object_foreach((json_t *)group, nic, value)
    {
        if (!result && ++*nics > NICS)
            result = error_note(TUTTI_INVALID_ARGUMENT, "%s: more than %d interfaces", label, NICS);
        if (!result)
            result = add_nic(import, label, nic, value);
    }
    return result;
}

tutti_result_t import_lldp(const char *label, const char *host, const char *data, size_t length,
                           struct neighbours *import)
{
    json_error_t why;
    size_t i;
    const json_t *group;
    int nics = 0;
    if (!good_name(host, FABRIC_NAME - 1, "-_."))
        return error_note(TUTTI_INVALID_ARGUMENT, "%s: name the file by its host: node01.json", label);
    json_t *root = json_loadb(data, length, JSON_REJECT_DUPLICATES, &why);
    if (!root)
        return error_note(TUTTI_INVALID_ARGUMENT, "%s:%d: no JSON: %s", label, why.line, why.text);
    const json_t *interfaces = json_object_get(json_object_get(root, "lldp"), "interface");
    text_add(&import->hosts, "  - name: \"%s\"\n    nics:\n", host);
    tutti_result_t result = TUTTI_SUCCESS;
    if (json_is_object(interfaces)) /* a single one */
        result = add_group(import, label, interfaces, &nics);
    json_array_foreach(interfaces, i, group)
    {
        if (!result)
            result = add_group(import, label, group, &nics);
    }
    if (!result && !nics)
        result = error_note(TUTTI_INVALID_ARGUMENT,
                            "%s: it has no neighbours: print it by lldpcli -f json show neighbors", label);
    json_decref(root);
    return result;
}

void import_write(const struct neighbours *import, struct text *out)
{
    text_add(out, "# From LLDP. Add spines, and to each leaf its uplinks; a rate instead of none.\n"
                  "name: imported\nrate: none\nleaves:\n");
    for (size_t i = 0; i < import->leaves; i++)
        text_add(out, "  - {name: \"%s\"}\n", import->leaf[i]);
    text_add(out, "hosts:\n");
    if (import->hosts.data)
        text_append(out, import->hosts.data, import->hosts.length);
}
