/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of switches and hosts. A name with a range stands for as many items. */
#include "file/reading.h"
#include "base/error.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void reading_free(struct reading *r)
{
    name_index_free(&r->building);
    name_index_free(&r->zone);
    name_index_free(&r->spine);
    name_index_free(&r->leaf);
}

/* ---- growing arrays, and names in them ---- */

static tutti_result_t grow(struct reading *r, const yaml_node_t *node, void **items, int32_t count, int32_t more,
                           size_t size, int32_t most, const char *what)
{
    if (more > most - count)
        return config_fail(r->file, node, "%s: more than %d of them; a fabric has at most that many", what, most);
    void *grown = realloc(*items, ((size_t)count + (size_t)more) * size);
    if (!grown)
        return error_note(TUTTI_SYSTEM_ERROR, "%s: no memory for %d %s", r->file->label, count + more, what);
    memset((char *)grown + (size_t)count * size, 0, (size_t)more * size);
    *items = grown;
    return TUTTI_SUCCESS;
}

#define GROW(r, node, array, count, more, most, what)                                                                  \
    grow(r, node, (void **)&(array), count, more, sizeof *(array), most, what)

static int items_of(const yaml_node_t *list)
{
    return (int)(list->data.sequence.items.top - list->data.sequence.items.start);
}

static yaml_node_t *item_of(struct reading *r, yaml_node_t *list, int index)
{
    return yaml_document_get_node(&r->file->document, list->data.sequence.items.start[index]);
}

static tutti_result_t must_be_list(struct reading *r, yaml_node_t *node, const char *what)
{
    if (node && node->type != YAML_SEQUENCE_NODE)
        return config_fail(r->file, node, "%s must be a list, with an item such as \"- {...}\" on each line", what);
    return TUTTI_SUCCESS;
}

static tutti_result_t range_of(struct reading *r, yaml_node_t *map, const char *key, yaml_node_t *name,
                               struct name_range *out)
{
    if (!name)
        return config_fail(r->file, map, "this one has no %s; add \"%s: NAME\"", key, key);
    if (!name_range(config_text(name), out))
        return config_fail(r->file, name,
                           "%s: \"%s\" is no name; write letters, digits and -_.: (%d at most), with one [FIRST-LAST] "
                           "for many",
                           key, config_shown(name), FABRIC_NAME - 1);
    return TUTTI_SUCCESS;
}

/* Checks that the names of a complete list differ. `names` begins with the first item's name. */
static tutti_result_t index_names(struct reading *r, yaml_node_t *list, struct name_index *index, const void *names,
                                  size_t size, int32_t count, const char *what)
{
    int32_t twice;
    if (name_index_make(index, names, size, count, &twice))
        return TUTTI_SUCCESS;
    if (twice < 0)
        return error_note(TUTTI_SYSTEM_ERROR, "%s: out of memory", r->file->label);
    return config_fail(r->file, list, "%s: the name %s is there twice", what,
                       (const char *)names + (size_t)twice * size);
}

/* Finds the item of that name. A list of one item needs no name. */
static tutti_result_t find(struct reading *r, yaml_node_t *map, yaml_node_t *name, const struct name_index *index,
                           const char *key, int32_t *out)
{
    const char *text = config_text(name);
    *out = 0;
    if (!name && index->count == 1)
        return TUTTI_SUCCESS;
    if (!name)
        return config_fail(r->file, map, "this one has no %s; add \"%s: NAME\", one of the %d", key, key, index->count);
    *out = text ? name_index_find(index, text) : -1;
    return *out >= 0 ? TUTTI_SUCCESS : config_fail(r->file, name, "%s: there is no \"%s\"", key, config_shown(name));
}

static tutti_result_t rate_or_default(struct reading *r, yaml_node_t *map, double *rate)
{
    *rate = *rate > 0 ? *rate : r->rate;
    if (*rate > 0)
        return TUTTI_SUCCESS;
    return config_fail(r->file, map, "rate: not told; add \"rate: 400gbit\" here, or at the top of the file for all");
}

/* ---- buildings and zones ---- */

struct area {
    yaml_node_t *name, *building;
    double trunk;
};

#define AREA(field) offsetof(struct area, field)
static const struct config_key building_keys[] = {
    {"name", read_node, AREA(name), 0, 0}, {"trunk", read_rate, AREA(trunk), 0, 0}, {0}};
static const struct config_key zone_keys[] = {
    {"name", read_node, AREA(name), 0, 0}, {"building", read_node, AREA(building), 0, 0}, {0}};

static tutti_result_t add_building(struct reading *r, yaml_node_t *node)
{
    struct area area = {.trunk = INFINITY};
    struct name_range range;
    struct fabric *f = &r->fabric;
    tutti_result_t result = config_map(r->file, node, "a building", building_keys, &area);
    if (!result)
        result = range_of(r, node, "name", area.name, &range);
    if (!result)
        result = GROW(r, node, f->building, f->buildings, range.count, 64, "buildings");
    for (int i = 0; !result && i < range.count; i++) {
        f->building[f->buildings].trunk = area.trunk;
        name_of(&range, i, f->building[f->buildings++].name);
    }
    return result;
}

static tutti_result_t add_zone(struct reading *r, yaml_node_t *node)
{
    struct area area = {0};
    struct name_range range;
    struct fabric *f = &r->fabric;
    int32_t building;
    tutti_result_t result = config_map(r->file, node, "a zone", zone_keys, &area);
    if (!result)
        result = range_of(r, node, "name", area.name, &range);
    if (!result)
        result = find(r, node, area.building, &r->building, "building", &building);
    if (!result)
        result = GROW(r, node, f->zone, f->zones, range.count, FABRIC_SPINES, "zones");
    for (int i = 0; !result && i < range.count; i++) {
        f->zone[f->zones].building = building;
        name_of(&range, i, f->zone[f->zones++].name);
    }
    return result;
}

/* Where the file names none, there is one. */
static tutti_result_t add_areas(struct reading *r)
{
    struct fabric *f = &r->fabric;
    tutti_result_t result = must_be_list(r, r->lists.buildings, "buildings");
    for (int i = 0; !result && r->lists.buildings && i < items_of(r->lists.buildings); i++)
        result = add_building(r, item_of(r, r->lists.buildings, i));
    if (!result && !f->buildings && !(result = GROW(r, NULL, f->building, 0, 1, 1, "buildings"))) {
        f->building[f->buildings++] = (struct fabric_building){"building", INFINITY};
    }
    if (!result)
        result = index_names(r, r->lists.buildings, &r->building, f->building, sizeof *f->building, f->buildings,
                             "buildings");
    if (!result)
        result = must_be_list(r, r->lists.zones, "zones");
    for (int i = 0; !result && r->lists.zones && i < items_of(r->lists.zones); i++)
        result = add_zone(r, item_of(r, r->lists.zones, i));
    if (!result && !f->zones && !(result = GROW(r, NULL, f->zone, 0, 1, 1, "zones")))
        f->zone[f->zones++] = (struct fabric_zone){"zone", 0};
    return result ? result : index_names(r, r->lists.zones, &r->zone, f->zone, sizeof *f->zone, f->zones, "zones");
}

/* ---- spines and leaves ---- */

struct switch_item {
    yaml_node_t *name, *zone, *uplinks;
    struct own_item own;
    int cores;
    double core_rate;
};

#define SWITCH(field) offsetof(struct switch_item, field)
static const struct config_key spine_keys[] = {
    {"name", read_node, SWITCH(name), 0, 0},         {"zone", read_node, SWITCH(zone), 0, 0},
    {"cores", config_int, SWITCH(cores), 0, 4096},   {"core_rate", read_rate, SWITCH(core_rate), 0, 0},
    {"vendor", read_node, SWITCH(own.vendor), 0, 0}, {0}};
static const struct config_key leaf_keys[] = {{"name", read_node, SWITCH(name), 0, 0},
                                              {"zone", read_node, SWITCH(zone), 0, 0},
                                              {"uplinks", read_node, SWITCH(uplinks), 0, 0},
                                              {"vendor", read_node, SWITCH(own.vendor), 0, 0},
                                              {"ranges", config_int, SWITCH(own.ranges), 1, 16384},
                                              {"prefixes", read_node, SWITCH(own.prefixes), 0, 0},
                                              {0}};

static tutti_result_t add_spine(struct reading *r, yaml_node_t *node)
{
    struct switch_item item = {0};
    struct name_range range = {0};
    struct fabric *f = &r->fabric;
    struct fabric_own own = {0};
    int32_t zone = 0;
    tutti_result_t result = config_map(r->file, node, "a spine", spine_keys, &item);
    if (!result)
        result = range_of(r, node, "name", item.name, &range);
    if (!result)
        result = find(r, node, item.zone, &r->zone, "zone", &zone);
    if (!result && item.cores)
        result = rate_or_default(r, node, &item.core_rate);
    if (!result)
        result = reading_own(r, node, &item.own, &own);
    if (!result)
        result = GROW(r, node, f->spine, f->spines, range.count, FABRIC_SPINES, "spines");
    if (!result && item.cores > FABRIC_UPLINKS / range.count)
        result = config_fail(r->file, node, "cores: at most %d links to the core in all", FABRIC_UPLINKS);
    if (!result && item.cores)
        result = GROW(r, node, f->core, f->cores, range.count * item.cores, FABRIC_UPLINKS, "links to the core");
    for (int i = 0; !result && i < range.count; i++) {
        for (int c = 0; c < item.cores; c++)
            f->core[f->cores++] = (struct fabric_core){.spine = f->spines, .rate = item.core_rate};
        f->spine[f->spines].zone = zone;
        f->spine[f->spines].own = own;
        name_of(&range, i, f->spine[f->spines++].name);
    }
    return result;
}

struct uplink_item {
    yaml_node_t *spine;
    struct wire_item wire;
    int links, down;
    double rate;
};

#define UPLINK(field) offsetof(struct uplink_item, field)
static const struct config_key uplink_keys[] = {{"spine", read_node, UPLINK(spine), 0, 0},
                                                {"links", config_int, UPLINK(links), 1, 256},
                                                {"rate", read_rate, UPLINK(rate), 0, 0},
                                                {"down", config_bool, UPLINK(down), 0, 0},
                                                {"port", read_node, UPLINK(wire.port), 0, 0},
                                                {"spine_port", read_node, UPLINK(wire.far_port), 0, 0},
                                                {"address", read_node, UPLINK(wire.address), 0, 0},
                                                {"next_hop", read_node, UPLINK(wire.next), 0, 0},
                                                {"vrf", read_node, UPLINK(wire.vrf), 0, 0},
                                                {0}};

/* Adds the uplinks of leaves [first, first + count), to each of the spines that an item names. */
static tutti_result_t add_uplink(struct reading *r, yaml_node_t *node, int32_t first, int32_t count)
{
    struct uplink_item item = {.links = 1};
    struct fabric_wire wire = {0};
    struct name_range range;
    struct fabric *f = &r->fabric;
    tutti_result_t result = config_map(r->file, node, "an uplink", uplink_keys, &item);
    if (!result)
        result = range_of(r, node, "spine", item.spine, &range);
    if (!result)
        result = rate_or_default(r, node, &item.rate);
    if (!result && range.count > f->spines)
        result = config_fail(r->file, item.spine, "spine: %d of them, but the fabric has %d", range.count, f->spines);
    if (!result)
        result = reading_wire(r, node, &item.wire, count == 1 && item.links == 1 && range.count == 1, &wire);
    for (int s = 0; !result && s < range.count; s++) {
        char name[FABRIC_NAME];
        name_of(&range, s, name);
        int32_t spine = name_index_find(&r->spine, name);
        if (spine < 0)
            return config_fail(r->file, item.spine, "spine: there is no \"%s\"", name);
        if (f->spine[spine].zone != f->leaf[first].zone)
            return config_fail(r->file, item.spine, "spine: %s is in zone %s, and %s in zone %s", name,
                               f->zone[f->spine[spine].zone].name, f->leaf[first].name,
                               f->zone[f->leaf[first].zone].name);
        if (count > FABRIC_UPLINKS / item.links)
            return config_fail(r->file, node, "uplinks: at most %d in all", FABRIC_UPLINKS);
        result = GROW(r, node, f->uplink, f->uplinks, count * item.links, FABRIC_UPLINKS, "uplinks");
        for (int i = 0; !result && i < count * item.links; i++)
            f->uplink[f->uplinks++] = (struct fabric_uplink){
                .leaf = first + i / item.links, .spine = spine, .rate = item.rate, .down = item.down, .wire = wire};
    }
    return result;
}

static tutti_result_t add_leaf(struct reading *r, yaml_node_t *node)
{
    struct switch_item item = {0};
    struct fabric_own own = {0};
    struct name_range range;
    struct fabric *f = &r->fabric;
    int32_t zone, first = f->leaves;
    tutti_result_t result = config_map(r->file, node, "a leaf", leaf_keys, &item);
    if (!result)
        result = range_of(r, node, "name", item.name, &range);
    if (!result)
        result = find(r, node, item.zone, &r->zone, "zone", &zone);
    if (!result)
        result = must_be_list(r, item.uplinks, "uplinks");
    if (!result)
        result = reading_own(r, node, &item.own, &own);
    if (!result && range.count > 1 && own.prefixes)
        result = config_fail(r->file, item.own.prefixes, "prefixes: %d leaves cannot have the same; name them apart",
                             range.count);
    if (!result)
        result = GROW(r, node, f->leaf, f->leaves, range.count, FABRIC_LEAVES, "leaves");
    for (int i = 0; !result && i < range.count; i++) {
        f->leaf[f->leaves].zone = zone;
        f->leaf[f->leaves].own = own;
        name_of(&range, i, f->leaf[f->leaves++].name);
    }
    for (int i = 0; !result && item.uplinks && i < items_of(item.uplinks); i++)
        result = add_uplink(r, item_of(r, item.uplinks, i), first, range.count);
    return result;
}

static tutti_result_t add_switches(struct reading *r)
{
    struct fabric *f = &r->fabric;
    tutti_result_t result = must_be_list(r, r->lists.spines, "spines");
    for (int i = 0; !result && r->lists.spines && i < items_of(r->lists.spines); i++)
        result = add_spine(r, item_of(r, r->lists.spines, i));
    if (!result)
        result = index_names(r, r->lists.spines, &r->spine, f->spine, sizeof *f->spine, f->spines, "spines");
    if (!result)
        result = must_be_list(r, r->lists.leaves, "leaves");
    for (int i = 0; !result && r->lists.leaves && i < items_of(r->lists.leaves); i++)
        result = add_leaf(r, item_of(r, r->lists.leaves, i));
    return result ? result : index_names(r, r->lists.leaves, &r->leaf, f->leaf, sizeof *f->leaf, f->leaves, "leaves");
}

/* ---- hosts ---- */

struct nic_item {
    char name[FABRIC_NAME];
    yaml_node_t *leaf, *bond, *address, *port;
    int rail;
    double rate;
};

#define NIC(field) offsetof(struct nic_item, field)
static const struct config_key nic_keys[] = {
    {"name", read_name, NIC(name), 0, 0}, {"leaf", read_node, NIC(leaf), 0, 0},
    {"bond", read_node, NIC(bond), 0, 0}, {"address", read_node, NIC(address), 0, 0},
    {"port", read_node, NIC(port), 0, 0}, {"rail", config_int, NIC(rail), 0, 1023},
    {"rate", read_rate, NIC(rate), 0, 0}, {0},
};

static tutti_result_t add_port(struct reading *r, yaml_node_t *map, yaml_node_t *leaf, double rate,
                               struct fabric_nic *nic)
{
    struct fabric_port *port = &nic->port[nic->ports++];
    port->rate = rate;
    return find(r, map, leaf, &r->leaf, "leaf", &port->leaf);
}

/* The names of the leaves' ports: one, or two of a bond. */
static tutti_result_t read_ports(struct reading *r, yaml_node_t *node, struct fabric_nic *nic)
{
    tutti_result_t result = TUTTI_SUCCESS;
    if (!node)
        return TUTTI_SUCCESS;
    if (nic->ports == 1)
        return reading_port(r, node, "port", &nic->port[0].name);
    if (node->type != YAML_SEQUENCE_NODE || items_of(node) != FABRIC_PORTS)
        return config_fail(r->file, node, "port: write the ports of both leaves, such as [Ethernet1, Ethernet1]");
    for (int p = 0; !result && p < FABRIC_PORTS; p++)
        result = reading_port(r, item_of(r, node, p), "port", &nic->port[p].name);
    return result;
}

static tutti_result_t read_nic(struct reading *r, yaml_node_t *node, int number, struct fabric_nic *nic)
{
    struct nic_item item = {.rail = number};
    tutti_result_t result = config_map(r->file, node, "a NIC", nic_keys, &item);
    if (!result)
        result = rate_or_default(r, node, &item.rate);
    if (result)
        return result;
    if (item.leaf && item.bond)
        return config_fail(r->file, node, "leaf and bond: a NIC has one of them");
    if (item.bond && (item.bond->type != YAML_SEQUENCE_NODE || items_of(item.bond) != FABRIC_PORTS))
        return config_fail(r->file, item.bond, "bond: write the leaves of the NIC's two ports, such as [l0, l1]");
    *nic = (struct fabric_nic){.rail = item.rail, .line = (int32_t)node->start_mark.line + 1};
    snprintf(nic->name, FABRIC_NAME, "%s", item.name);
    if (!item.name[0])
        snprintf(nic->name, FABRIC_NAME, "n%d", number);
    for (int p = 0; !result && item.bond && p < FABRIC_PORTS; p++)
        result = add_port(r, node, item_of(r, item.bond, p), item.rate, nic);
    if (!result && !item.bond)
        result = add_port(r, node, item.leaf, item.rate, nic);
    if (!result)
        result = read_ports(r, item.port, nic);
    return result ? result : reading_address(r, item.address, nic->address);
}

struct host_item {
    yaml_node_t *name, *nics;
    int gpus;
};

#define HOST(field) offsetof(struct host_item, field)
static const struct config_key host_keys[] = {{"name", read_node, HOST(name), 0, 0},
                                              {"gpus", config_int, HOST(gpus), 1, 64},
                                              {"nics", read_node, HOST(nics), 0, 0},
                                              {0}};

static tutti_result_t check_host(struct reading *r, yaml_node_t *node, const struct host_item *item,
                                 struct name_range *range)
{
    tutti_result_t result = range_of(r, node, "name", item->name, range);
    if (!result)
        result = must_be_list(r, item->nics, "nics");
    if (!result && (!item->nics || items_of(item->nics) == 0))
        result = config_fail(r->file, node, "nics: a host needs at least one, such as \"- {name: eth0, leaf: l0}\"");
    if (!result && items_of(item->nics) > 64)
        result = config_fail(r->file, item->nics, "nics: %d of them; a host has at most 64 NICs", items_of(item->nics));
    return result;
}

static tutti_result_t add_hosts(struct reading *r, yaml_node_t *node)
{
    struct host_item item = {.gpus = 8};
    struct name_range range = {0};
    struct fabric *f = &r->fabric;
    struct fabric_nic nics[64];
    tutti_result_t result = config_map(r->file, node, "a host", host_keys, &item);
    if (!result)
        result = check_host(r, node, &item, &range);
    int count = result ? 0 : items_of(item.nics);
    for (int n = 0; !result && n < count; n++) {
        result = read_nic(r, item_of(r, item.nics, n), n, &nics[n]);
        if (!result && range.count > 1 && (nics[n].address[0] || nics[n].port[0].name))
            result = config_fail(r->file, node, "%s: %d hosts cannot have the same; name them apart",
                                 nics[n].address[0] ? "address" : "port", range.count);
    }
    if (!result && range.count > FABRIC_GPUS / (count > item.gpus ? count : item.gpus))
        result = config_fail(r->file, node, "hosts: more than %d GPUs or NICs", FABRIC_GPUS);
    if (!result)
        result = GROW(r, node, f->host, f->hosts, range.count, FABRIC_GPUS / item.gpus, "hosts");
    if (!result)
        result = GROW(r, node, f->nic, f->nics, range.count * count, FABRIC_GPUS, "NICs");
    for (int i = 0; !result && i < range.count; i++) {
        struct fabric_host *host = &f->host[f->hosts];
        *host = (struct fabric_host){.gpus = item.gpus, .nic = f->nics, .nics = count};
        name_of(&range, i, host->name);
        for (int n = 0; n < count; n++) {
            f->nic[f->nics] = nics[n];
            f->nic[f->nics++].host = f->hosts;
        }
        f->hosts++;
        f->gpus += item.gpus;
        if (f->gpus > FABRIC_GPUS)
            result = config_fail(r->file, node, "hosts: more than %d GPUs", FABRIC_GPUS);
    }
    return result;
}

tutti_result_t reading_lists(struct reading *r, yaml_node_t *root)
{
    struct fabric *f = &r->fabric;
    struct name_index names = {0};
    tutti_result_t result = add_areas(r);
    if (!result)
        result = add_switches(r);
    if (!result && !f->leaves)
        result = config_fail(r->file, root, "leaves: there are none; hosts need one or more");
    if (!result)
        result = must_be_list(r, r->lists.hosts, "hosts");
    for (int i = 0; !result && i < items_of(r->lists.hosts); i++)
        result = add_hosts(r, item_of(r, r->lists.hosts, i));
    if (!result)
        result = index_names(r, r->lists.hosts, &names, f->host, sizeof *f->host, f->hosts, "hosts");
    name_index_free(&names);
    return result ? result : fabric_finish(f);
}
