/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The minigraph.xml of a SONiC switch: made into the tables of its config_db.json that import_sonic() reads, as the
 * switch does. Its names of ports are others, which the file itself may translate, or a port_config.ini.
 */
#include "paths/import.h"

#include "base/error.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define NAME 128 /* bytes of a name, with the zero at the end; longer ones are refused by import_sonic() */

struct minigraph {
    struct cabling *cabling;
    const json_t *graph;
    const char *host;
    json_t *names;  /* of the minigraph to those of SONiC */
    json_t *vlans;  /* names to "Vlan100" */
    json_t *tables; /* what is made */
};

/* ---- the document ---- */

static json_t *all(const json_t *element, const char *name)
{
    return json_object_get(element, name);
}

static const json_t *one(const json_t *element, const char *name)
{
    return json_array_get(all(element, name), 0);
}

static const char *word(const json_t *element, const char *name)
{
    const char *text = json_string_value(json_object_get(one(element, name), ""));
    return text ? text : "";
}

/* What is made of each element, until one is refused. */
static tutti_result_t for_each(const struct minigraph *m, const json_t *elements,
                               tutti_result_t (*add)(const struct minigraph *m, const json_t *element))
{
    tutti_result_t result = TUTTI_SUCCESS;
    for (size_t i = 0; !result && i < json_array_size(elements); i++)
        result = add(m, json_array_get(elements, i));
    return result;
}

/* What kind an element is: a text in it, or an attribute. */
static const char *kind_of(const json_t *element)
{
    const char *type = json_string_value(json_object_get(element, "@type"));
    return *word(element, "ElementType") ? word(element, "ElementType") : type ? type : "";
}

static bool is_here(const struct minigraph *m, const char *device)
{
    return strcasecmp(device, m->host) == 0;
}

/* ---- tables ---- */

/* Sets a text of a row. Two of one row and one key are the same, or refused. */
static tutti_result_t put(const struct minigraph *m, const char *table, const char *row, const char *key,
                          const char *value)
{
    return cabling_once(m->cabling, json_object_get(m->tables, table), row, key, value);
}

/* A row "PORT|WHAT", which tells nothing more: SONiC writes NULL. */
static tutti_result_t put_pair(const struct minigraph *m, const char *table, const char *port, const char *what)
{
    char row[2 * NAME]; /* what is cut here is too long, and refused */
    snprintf(row, sizeof row, "%.100s|%.100s", port, what);
    return put(m, table, row, "NULL", "NULL");
}

/* ---- ports ---- */

static bool is_sonic_name(const char *port)
{
    return strncmp(port, "Ethernet", 8) == 0 && port[8] && strspn(port + 8, "0123456789") == strlen(port + 8);
}

/* NULL: it has none. */
static const char *name_of(const struct minigraph *m, const char *port)
{
    const char *name = json_string_value(json_object_get(json_object_get(m->names, port), "name"));
    return name ? name : is_sonic_name(port) ? port : NULL;
}

static tutti_result_t no_name(const struct minigraph *m, const char *port)
{
    return cabling_bad_word(m->cabling, port,
                            "is no name that SONiC gives to a port: name the switch's port_config.ini before this "
                            "file");
}

/* What SONiC calls a port of the switch, and its rate in Mbit/s. */
static tutti_result_t add_port(const struct minigraph *m, const json_t *port)
{
    const char *alias = word(port, "InterfaceName"), *told = word(port, "SonicName");
    tutti_result_t result = *told ? cabling_once(m->cabling, m->names, alias, "name", told) : TUTTI_SUCCESS;
    const char *name = name_of(m, alias);
    if (result || !name) /* not all that a kind of switches has are used */
        return result;
    const json_t *row = json_object_get(json_object_get(m->tables, "PORT"), name);
    if (*word(port, "Speed") && !json_object_get(row, "speed")) /* a port may have several rates, and aliases */
        result = put(m, "PORT", name, "speed", word(port, "Speed"));
    return result;
}

static tutti_result_t add_info(const struct minigraph *m, const json_t *info)
{
    if (strcmp(word(info, "HwSku"), word(m->graph, "HwSku")) != 0)
        return TUTTI_SUCCESS;
    return for_each(m, all(one(info, "EthernetInterfaces"), "EthernetInterface"), add_port);
}

/* ---- links, and what is at their ends ---- */

static tutti_result_t add_device(const struct minigraph *m, const json_t *device)
{
    const char *name = word(device, "Hostname"), *kind = kind_of(device);
    if (strcmp(kind, "Asic") == 0)
        return error_note(TUTTI_INVALID_ARGUMENT, "%s: the switch has several chips (Asic), which are not read",
                          m->cabling->label);
    return is_here(m, name) ? put(m, "DEVICE_METADATA", "localhost", "type", kind)
                            : put(m, "DEVICE_NEIGHBOR_METADATA", name, "type", kind);
}

static tutti_result_t add_link(const struct minigraph *m, const json_t *link)
{
    const char *kind = kind_of(link);
    bool cable = strcmp(kind, "DeviceInterfaceLink") == 0 || strcmp(kind, "UnderlayInterfaceLink") == 0,
         end = is_here(m, word(link, "EndDevice"));
    if (!cable || (!end && !is_here(m, word(link, "StartDevice"))))
        return TUTTI_SUCCESS;
    const char *alias = word(link, end ? "EndPort" : "StartPort"), *port = name_of(m, alias);
    if (!port)
        return no_name(m, alias);
    tutti_result_t result = put(m, "DEVICE_NEIGHBOR", port, "name", word(link, end ? "StartDevice" : "EndDevice"));
    if (!result)
        result = put(m, "DEVICE_NEIGHBOR", port, "port", word(link, end ? "StartPort" : "EndPort"));
    if (!result && *word(link, "Bandwidth")) { /* goes before what the kind of switches can do */
        json_object_del(json_object_get(json_object_get(m->tables, "PORT"), port), "speed");
        result = put(m, "PORT", port, "speed", word(link, "Bandwidth"));
    }
    return result;
}

static tutti_result_t add_session(const struct minigraph *m, const json_t *session)
{
    bool end = is_here(m, word(session, "EndRouter"));
    const char *peer = word(session, end ? "StartPeer" : "EndPeer");
    if (!end && !is_here(m, word(session, "StartRouter")))
        return TUTTI_SUCCESS;
    tutti_result_t result = put(m, "BGP_NEIGHBOR", peer, "name", word(session, end ? "StartRouter" : "EndRouter"));
    return result ? result : put(m, "BGP_NEIGHBOR", peer, "local_addr", word(session, end ? "EndPeer" : "StartPeer"));
}

/* ---- bundles and addresses ---- */

/* The ports in "ALIAS;ALIAS". */
static tutti_result_t add_members(const struct minigraph *m, const char *bundle, const char *list)
{
    tutti_result_t result = TUTTI_SUCCESS;
    char alias[NAME];
    while (!result && *list) {
        size_t length = strcspn(list, ";");
        snprintf(alias, sizeof alias, "%.*s", (int)(length < sizeof alias ? length : sizeof alias), list);
        const char *port = name_of(m, alias);
        result = port ? put_pair(m, "PORTCHANNEL_MEMBER", bundle, port) : no_name(m, alias);
        list += length + (list[length] == ';');
    }
    return result;
}

/* An address of a port, a bundle, or a VLAN by its name or its number. A bundle that is not there has none. */
static tutti_result_t add_address(const struct minigraph *m, const json_t *interface)
{
    const char *at = word(interface, "AttachTo"), *address = word(interface, "Prefix"), *port;
    const char *vlan = json_string_value(json_object_get(json_object_get(m->vlans, at), "vlan"));
    if (vlan || strncmp(at, "Vlan", 4) == 0)
        return put_pair(m, "VLAN_INTERFACE", vlan ? vlan : at, address);
    if (json_object_get(json_object_get(m->tables, "PORTCHANNEL"), at))
        return put_pair(m, "PORTCHANNEL_INTERFACE", at, address);
    if (strncmp(at, "PortChannel", 11) == 0 || strstr(word(interface, "Name"), "VoqInband"))
        return TUTTI_SUCCESS;
    port = name_of(m, at);
    return port ? put_pair(m, "INTERFACE", port, address) : no_name(m, at);
}

static tutti_result_t add_bundle(const struct minigraph *m, const json_t *bundle)
{
    tutti_result_t result = put(m, "PORTCHANNEL", word(bundle, "Name"), "NULL", "NULL");
    return result ? result : add_members(m, word(bundle, "Name"), word(bundle, "AttachTo"));
}

static tutti_result_t add_vlan(const struct minigraph *m, const json_t *interface)
{
    char vlan[NAME];
    snprintf(vlan, sizeof vlan, "Vlan%.100s", word(interface, "VlanID"));
    return cabling_once(m->cabling, m->vlans, word(interface, "Name"), "vlan", vlan);
}

static tutti_result_t add_plane(const struct minigraph *m, const json_t *plane)
{
    if (!is_here(m, word(plane, "Hostname")))
        return TUTTI_SUCCESS;
    tutti_result_t result = for_each(m, all(one(plane, "PortChannelInterfaces"), "PortChannel"), add_bundle);
    if (!result)
        result = for_each(m, all(one(plane, "VlanInterfaces"), "VlanInterface"), add_vlan);
    return result ? result : for_each(m, all(one(plane, "IPInterfaces"), "IPInterface"), add_address);
}

/* ---- the whole ---- */

/* Files of other switches may have the minigraph's names. */
static tutti_result_t add_aliases(const struct minigraph *m)
{
    tutti_result_t result = TUTTI_SUCCESS;
    const char *alias;
    json_t *row;
    json_object_foreach(m->names, alias, row)
    {
        if (!result)
            result = cabling_alias(m->cabling, m->host, json_string_value(json_object_get(row, "name")), alias);
    }
    return result;
}

static tutti_result_t make_tables(struct minigraph *m)
{
    static const char *const tables[] = {
        "DEVICE_METADATA",       "PORT",           "PORTCHANNEL",     "PORTCHANNEL_MEMBER",       "INTERFACE",
        "PORTCHANNEL_INTERFACE", "VLAN_INTERFACE", "DEVICE_NEIGHBOR", "DEVICE_NEIGHBOR_METADATA", "BGP_NEIGHBOR"};
    m->names = json_deep_copy(m->cabling->port_names);
    m->vlans = json_object();
    m->tables = json_object();
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        json_object_set_new(m->tables, tables[i], json_object());
    tutti_result_t result = put(m, "DEVICE_METADATA", "localhost", "hostname", m->host);
    if (!result)
        result = for_each(m, all(one(m->graph, "DeviceInfos"), "DeviceInfo"), add_info);
    if (!result)
        result = for_each(m, all(one(one(m->graph, "PngDec"), "Devices"), "Device"), add_device);
    if (!result)
        result = for_each(m, all(one(one(m->graph, "PngDec"), "DeviceInterfaceLinks"), "DeviceLinkBase"), add_link);
    if (!result)
        result = for_each(m, all(one(m->graph, "DpgDec"), "DeviceDataPlaneInfo"), add_plane);
    if (!result)
        result = for_each(m, all(one(one(m->graph, "CpgDec"), "PeeringSessions"), "BGPSession"), add_session);
    return result;
}

tutti_result_t import_minigraph(const json_t *document, struct cabling *cabling)
{
    struct minigraph m = {.cabling = cabling, .graph = one(document, "DeviceMiniGraph")};
    m.host = word(m.graph, "Hostname");
    if (!*m.host)
        return error_note(TUTTI_INVALID_ARGUMENT, "%s: it is no minigraph of SONiC: %s is missing", cabling->label,
                          m.graph ? "the Hostname of the switch" : "DeviceMiniGraph");
    tutti_result_t result = make_tables(&m);
    if (!result)
        result = add_aliases(&m);
    if (!result)
        result = import_sonic(m.tables, cabling);
    json_decref(m.names);
    json_decref(m.vlans);
    json_decref(m.tables);
    return result;
}
