/* SPDX-License-Identifier: Apache-2.0 */
/* A switch of SONiC by its config_db.json: its ports, their addresses and VRFs, and what is at the other ends. */
#include "paths/import.h"

#include "base/error.h"
#include "model/fabric.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sonic {
    struct cabling *cabling;
    const json_t *root;
    const char *name;
    int storey;    /* of the switch */
    json_t *ports; /* by their addresses; null: several have it */
};

static const char *word(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static const json_t *table(const struct sonic *s, const char *name)
{
    return json_object_get(s->root, name);
}

/* Of what the configuration says of a device: 0 a host, 1 to 3 switches from the bottom to the top, -1 another one. */
static int storey_of(const char *type)
{
    static const char *const routers[] = {"ToRRouter", "LeafRouter", "SpineRouter"};
    if (strstr(type, "Server") || strstr(type, "Host"))
        return 0;
    for (int i = 0; i < 3; i++)
        if (strcmp(type, routers[i]) == 0 || (strncmp(type, "BackEnd", 7) == 0 && strcmp(type + 7, routers[i]) == 0))
            return i + 1;
    return -1;
}

static bool speaks_bgp(const struct sonic *s, const char *name)
{
    const char *address;
    json_t *peer;
    json_object_foreach((json_t *)table(s, "BGP_NEIGHBOR"), address, peer)
    {
        if (strcmp(word(peer, "name"), name) == 0)
            return true;
    }
    return false;
}

/* Without a type, a neighbour that speaks BGP is a switch above this one; any other one is a host. */
static int storey_at(const struct sonic *s, const char *name)
{
    const char *type = word(json_object_get(table(s, "DEVICE_NEIGHBOR_METADATA"), name), "type");
    return *type ? storey_of(type) : speaks_bgp(s, name) ? s->storey + 1 : 0;
}

/* ---- ports ---- */

/* Room for a name that is too long to be one, which is refused. */
typedef char port_name[FABRIC_NAME * 2 + 1];

/* Of the key "PORT|MORE" the port. Returns what is behind the bar; NULL: there is none. */
static const char *split(const char *key, port_name port)
{
    const char *bar = strchr(key, '|');
    size_t length = bar ? (size_t)(bar - key) : strlen(key);
    length = length < sizeof(port_name) ? length : sizeof(port_name) - 1;
    memcpy(port, key, length);
    port[length] = 0;
    return bar ? bar + 1 : NULL;
}

static tutti_result_t add_ports(const struct sonic *s)
{
    tutti_result_t result = TUTTI_SUCCESS;
    const char *port;
    json_t *value;
    json_object_foreach((json_t *)table(s, "PORT"), port, value)
    {
        long long mbit = atoll(word(value, "speed"));
        if (!result && *word(value, "alias"))
            result = cabling_alias(s->cabling, s->name, port, word(value, "alias"));
        if (!result && mbit > 0 && mbit <= 100000000)
            result = cabling_rate(s->cabling, s->name, port, (uint64_t)mbit * 1000000);
    }
    return result;
}

static tutti_result_t add_bundles(const struct sonic *s)
{
    tutti_result_t result = TUTTI_SUCCESS;
    const char *key;
    json_t *value;
    port_name bundle;
    json_object_foreach((json_t *)table(s, "PORTCHANNEL_MEMBER"), key, value)
    {
        const char *member = split(key, bundle);
        if (!result && member)
            result = cabling_bundle(s->cabling, s->name, member, bundle);
    }
    return result;
}

/* "Ethernet0|10.0.0.0/31", and of "Ethernet0" the VRF. */
static tutti_result_t add_interfaces(const struct sonic *s, const char *name)
{
    bool hops = strcmp(name, "VLAN_INTERFACE") != 0; /* a session in a VLAN is with a host */
    char usual[FABRIC_ADDRESS];
    tutti_result_t result = TUTTI_SUCCESS;
    const char *key;
    json_t *value;
    port_name port;
    json_object_foreach((json_t *)table(s, name), key, value)
    {
        const char *address = split(key, port), *vrf = word(value, "vrf_name");
        if (!result && address)
            result = cabling_address(s->cabling, s->name, port, address);
        else if (!result && *vrf)
            result = cabling_vrf(s->cabling, s->name, port, vrf);
        if (!result && address && hops && cabling_usual(address, usual) >= 0)
            json_object_set_new(s->ports, usual, json_object_get(s->ports, usual) ? json_null() : json_string(port));
    }
    return result;
}

/* ---- the other ends ---- */

static tutti_result_t add_neighbours(const struct sonic *s)
{
    tutti_result_t result = TUTTI_SUCCESS;
    const char *port;
    json_t *value;
    json_object_foreach((json_t *)table(s, "DEVICE_NEIGHBOR"), port, value)
    {
        const char *far = word(value, "name");
        int storey = storey_at(s, far);
        if (result || storey == s->storey || storey < 0)
            continue;
        result = cabling_kind(s->cabling, far,
                              !storey              ? CABLING_HOST
                              : storey > s->storey ? CABLING_SPINE
                                                   : CABLING_LEAF);
        if (!result && storey > 0)
            result = cabling_kind(s->cabling, s->name, storey > s->storey ? CABLING_LEAF : CABLING_SPINE);
        if (!result)
            result = cabling_cable(s->cabling, s->name, port, far, word(value, "port"), true);
    }
    return result;
}

/* The far end of a session with the address of a port is the next hop of the port. */
static tutti_result_t add_sessions(const struct sonic *s)
{
    tutti_result_t result = TUTTI_SUCCESS;
    const char *peer;
    json_t *value;
    char local[FABRIC_ADDRESS];
    int bits;
    json_object_foreach((json_t *)table(s, "BGP_NEIGHBOR"), peer, value)
    {
        const char *bar = strrchr(peer, '|'), *address = bar ? bar + 1 : peer;
        cabling_usual(word(value, "local_addr"), local);
        const char *port = json_string_value(json_object_get(s->ports, local));
        if (!result && port && cabling_family(address, &bits) >= 0)
            result = cabling_next(s->cabling, s->name, port, address);
    }
    return result;
}

static tutti_result_t add_tables(const struct sonic *s)
{
    static const char *const interfaces[] = {"INTERFACE", "PORTCHANNEL_INTERFACE", "VLAN_INTERFACE"};
    tutti_result_t result = add_ports(s);
    if (!result)
        result = add_bundles(s);
    for (int i = 0; !result && i < 3; i++)
        result = add_interfaces(s, interfaces[i]);
    if (!result)
        result = add_neighbours(s);
    return result ? result : add_sessions(s);
}

tutti_result_t import_sonic(const json_t *root, struct cabling *cabling)
{
    const json_t *self = json_object_get(json_object_get(root, "DEVICE_METADATA"), "localhost");
    struct sonic s = {.cabling = cabling, .root = root, .name = word(self, "hostname")};
    s.storey = *word(self, "type") ? storey_of(word(self, "type")) : 1;
    if (!*s.name)
        return error_note(TUTTI_INVALID_ARGUMENT, "%s: DEVICE_METADATA tells no hostname of the switch",
                          cabling->label);
    if (s.storey < 1)
        return error_note(TUTTI_INVALID_ARGUMENT,
                          "%s: the switch is none of ToRRouter, LeafRouter and SpineRouter by its type",
                          cabling->label);
    s.ports = json_object();
    tutti_result_t result = s.ports ? add_tables(&s) : TUTTI_SYSTEM_ERROR;
    json_decref(s.ports);
    return result;
}
