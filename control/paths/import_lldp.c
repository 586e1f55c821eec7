/* SPDX-License-Identifier: Apache-2.0 */
/* A host, and the ports of leaves where its NICs are, from what lldpcli prints there. */
#include "paths/import.h"

#include "base/error.h"

#include <string.h>

#define NICS 64 /* of a host */

/* One interface: {"chassis": {"NAME": {...}}, "port": {"id": {"type": "ifname", "value": "Ethernet4"}}}. */
static tutti_result_t add_nic(struct cabling *c, const char *host, const char *nic, const json_t *value)
{
    const json_t *chassis = json_object_get(value, "chassis"), *port = json_object_get(value, "port");
    const char *leaf =
        json_object_size(chassis) == 1 ? json_object_iter_key(json_object_iter((json_t *)chassis)) : NULL;
    const json_t *id = json_object_get(port, "id");
    const char *type = json_string_value(json_object_get(id, "type"));
    const char *name = json_string_value(json_object_get(id, "value"));
    bool local = type && strcmp(type, "local") == 0 && name && name[strspn(name, "0123456789")];
    if (!type || (strcmp(type, "ifname") != 0 && !local))
        name = json_string_value(json_object_get(port, "descr")); /* neither a MAC address nor a number names a port */
    if (!leaf || strcmp(leaf, "id") == 0)
        return error_note(TUTTI_INVALID_ARGUMENT, "%s: the switch at an interface tells no name", c->label);
    if (!name)
        return error_note(TUTTI_INVALID_ARGUMENT, "%s: the switch at an interface tells no name of its port", c->label);
    tutti_result_t result = cabling_kind(c, leaf, CABLING_LEAF);
    return result ? result : cabling_cable(c, host, nic, leaf, name, false);
}

static tutti_result_t add_group(struct cabling *c, const char *host, const json_t *group, int *nics)
{
    const char *nic;
    json_t *value;
    tutti_result_t result = TUTTI_SUCCESS;
    json_object_foreach((json_t *)group, nic, value)
    {
        if (!result && ++*nics > NICS)
            result = error_note(TUTTI_INVALID_ARGUMENT, "%s: more than %d interfaces", c->label, NICS);
        if (!result)
            result = add_nic(c, host, nic, value);
    }
    return result;
}

tutti_result_t import_lldp(const char *host, const json_t *root, struct cabling *c)
{
    size_t i;
    const json_t *group;
    int nics = 0;
    const json_t *interfaces = json_object_get(json_object_get(root, "lldp"), "interface");
    tutti_result_t result = cabling_kind(c, host, CABLING_HOST); /* the file has the host's name */
    if (!result && json_is_object(interfaces))                   /* a single one */
        result = add_group(c, host, interfaces, &nics);
    json_array_foreach(interfaces, i, group)
    {
        if (!result)
            result = add_group(c, host, group, &nics);
    }
    if (!result && !nics)
        result = error_note(TUTTI_INVALID_ARGUMENT,
                            "%s: it has no neighbours: print it by lldpcli -f json show neighbors", c->label);
    return result;
}
