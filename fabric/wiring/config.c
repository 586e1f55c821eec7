/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of a fabric's file, and what must hold between them. */
#include "wiring/config.h"
#include "base/error.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool config_name_ok(const char *name)
{
    size_t length = strlen(name);
    if (length == 0 || length >= LAB_NAME_BYTES || !isalpha((unsigned char)name[0]))
        return false;
    for (size_t i = 0; i < length; i++)
        if (!isalnum((unsigned char)name[i]) && name[i] != '-' && name[i] != '_')
            return false;
    return true;
}

static tutti_result_t parse_name(struct config_file *file, yaml_node_t *node, const struct config_key *key, void *out)
{
    const char *text = config_text(node);
    if (!text || !config_name_ok(text))
        return config_fail(
            file, node, "name: \"%s\" is not a name; write a letter, then letters, digits, - or _, at most 32 in all",
            text ? text : "this");
    snprintf(out, LAB_NAME_BYTES, "%s", text);
    return TUTTI_SUCCESS;
}

static tutti_result_t parse_wiring(struct config_file *file, yaml_node_t *node, const struct config_key *key, void *out)
{
    const char *text = config_text(node);
    bool rail = text && strcmp(text, "rail") == 0;
    if (!rail && (!text || strcmp(text, "rack") != 0))
        return config_fail(file, node,
                           "wiring: \"%s\" is unknown; write rack (all NICs of a host on one leaf) or rail (NIC k of "
                           "every host on leaf k)",
                           text ? text : "this");
    *(enum lab_wiring *)out = rail ? LAB_RAIL : LAB_RACK;
    return TUTTI_SUCCESS;
}

/* "all" or a letter and a number: l1, u0. Stores -1 for the word. */
static bool parse_numbered(const char *text, const char *word, char letter, int *out)
{
    char *end;
    if (text && strcmp(text, word) == 0) {
        *out = -1;
        return true;
    }
    if (!text || text[0] != letter || !isdigit((unsigned char)text[1]) || strlen(text) > 4)
        return false;
    *out = (int)strtol(text + 1, &end, 10);
    return *end == 0;
}

static tutti_result_t parse_leaf(struct config_file *file, yaml_node_t *node, const struct config_key *key, void *out)
{
    if (!parse_numbered(config_text(node), "all", 'l', out))
        return config_fail(file, node, "leaf: write a leaf's name such as l0, or all");
    return TUTTI_SUCCESS;
}

static tutti_result_t parse_uplink(struct config_file *file, yaml_node_t *node, const struct config_key *key, void *out)
{
    if (!parse_numbered(config_text(node), "split", 'u', out))
        return config_fail(file, node, "uplink: write an uplink's name such as u0, or split");
    return TUTTI_SUCCESS;
}

static bool parse_port(const char *text, char **end, int *out)
{
    long value = isdigit((unsigned char)*text) ? strtol(text, end, 0) : 0;
    *out = (int)value;
    return value >= 1 && value <= 65535;
}

static tutti_result_t parse_ports(struct config_file *file, yaml_node_t *node, const struct config_key *key, void *out)
{
    const char *text = config_text(node);
    int *range = out;
    char *end;
    if (text && parse_port(text, &end, &range[0])) {
        range[1] = range[0];
        if (*end == 0 || (*end == '-' && parse_port(end + 1, &end, &range[1]) && *end == 0 && range[0] <= range[1]))
            return TUTTI_SUCCESS;
    }
    return config_fail(file, node, "ports: \"%s\" is not a range of UDP ports; write FIRST-LAST, such as 0xC000-0xFFFF",
                       text ? text : "this");
}

static tutti_result_t parse_pattern(struct config_file *file, yaml_node_t *node, const struct config_key *key,
                                    void *out)
{
    const char *text = config_text(node);
    if (!text || !*text || strlen(text) >= sizeof((struct lab_override *)0)->pattern)
        return config_fail(file, node, "link: write a link's name or a pattern, such as l0.u1 or \"l*.u*\"");
    snprintf(out, sizeof((struct lab_override *)0)->pattern, "%s", text);
    return TUTTI_SUCCESS;
}

#define POLICY(field) offsetof(struct lab_policy, field)
static const struct config_key policy_keys[] = {
    {"leaf", parse_leaf, POLICY(leaf), 0, 0},       {"dscp", config_int, POLICY(dscp), 0, 63},
    {"ports", parse_ports, POLICY(first), 0, 0},    {"dport", config_int, POLICY(dport), 1, 65535},
    {"uplink", parse_uplink, POLICY(uplink), 0, 0}, {0},
};

#define OVERRIDE(field) offsetof(struct lab_override, field)
static const struct config_key override_keys[] = {
    {"link", parse_pattern, OVERRIDE(pattern), 0, 0},
    {"rate", config_rate, OVERRIDE(rate), 0, 0},
    {0},
};

static tutti_result_t allocate(struct config_file *file, yaml_node_t *node, const char *what, size_t size, void **items,
                               int *count)
{
    if (node->type != YAML_SEQUENCE_NODE)
        return config_fail(file, node, "%s must be a list, with an item such as \"- {...}\" on each line", what);
    *count = (int)(node->data.sequence.items.top - node->data.sequence.items.start);
    *items = calloc((size_t)*count + 1, size);
    return *items ? TUTTI_SUCCESS : error_note(TUTTI_SYSTEM_ERROR, "out of memory for %s", what);
}

static yaml_node_t *item(struct config_file *file, yaml_node_t *list, int index)
{
    return yaml_document_get_node(&file->document, list->data.sequence.items.start[index]);
}

static tutti_result_t parse_policies(struct config_file *file, yaml_node_t *node, const struct config_key *key,
                                     void *out)
{
    struct lab_spec *spec = out;
    tutti_result_t result =
        allocate(file, node, "policies", sizeof *spec->policies, (void **)&spec->policies, &spec->policy_count);
    for (int i = 0; result == TUTTI_SUCCESS && i < spec->policy_count; i++) {
        spec->policies[i] = (struct lab_policy){-1, -1, -1, -1, LAB_PORT_FIRST, LAB_PORT_LAST};
        result = config_map(file, item(file, node, i), "a policy", policy_keys, &spec->policies[i]);
    }
    return result;
}

static tutti_result_t parse_links(struct config_file *file, yaml_node_t *node, const struct config_key *key, void *out)
{
    struct lab_spec *spec = out;
    tutti_result_t result =
        allocate(file, node, "links", sizeof *spec->overrides, (void **)&spec->overrides, &spec->override_count);
    for (int i = 0; result == TUTTI_SUCCESS && i < spec->override_count; i++) {
        result = config_map(file, item(file, node, i), "a link", override_keys, &spec->overrides[i]);
        if (result == TUTTI_SUCCESS && !spec->overrides[i].pattern[0])
            result =
                config_fail(file, item(file, node, i), "which link? Add \"link: NAME\", such as l0.u1 or \"l*.u*\"");
    }
    return result;
}

#define SPEC(field) offsetof(struct lab_spec, field)
static const struct config_key spec_keys[] = {
    {"name", parse_name, SPEC(name), 0, 0},
    {"hosts", config_int, SPEC(hosts), 1, LAB_MAX_HOSTS},
    {"nics", config_int, SPEC(nics), 1, LAB_MAX_NICS},
    {"leaves", config_int, SPEC(leaves), 1, LAB_MAX_LEAVES},
    {"spines", config_int, SPEC(spines), 0, LAB_MAX_SPINES},
    {"uplinks", config_int, SPEC(uplinks), 1, LAB_MAX_UPLINKS},
    {"wiring", parse_wiring, SPEC(wiring), 0, 0},
    {"rate", config_rate, SPEC(rate), 0, 0},
    {"mtu", config_int, SPEC(mtu), 1280, 65535},
    {"queue", config_bytes, SPEC(queue), 4096, 1 << 30},
    {"ipv6", config_bool, SPEC(ipv6), 0, 0},
    {"hash_seed", config_int, SPEC(hash_seed), 0, INT32_MAX},
    {"links", parse_links, 0, 0, 0},
    {"policies", parse_policies, 0, 0, 0},
    {0},
};

static tutti_result_t check_shape(struct config_file *file, yaml_node_t *root, const struct lab_spec *spec)
{
    int uplinks = topology_uplinks(spec);
    if (!spec->name[0])
        return config_fail(file, root, "the fabric has no name; add a line such as \"name: clos\"");
    if (spec->leaves > 1 && spec->spines == 0)
        return config_fail(file, config_place(file, root, "spines"),
                           "spines: %d leaves need at least 1 spine between them", spec->leaves);
    if (spec->wiring == LAB_RAIL && spec->leaves % spec->nics != 0)
        return config_fail(file, config_place(file, root, "leaves"),
                           "leaves: rail wiring needs one leaf for each of the %d NICs, or a multiple; %d is none",
                           spec->nics, spec->leaves);
    if (uplinks > LAB_MAX_UPLINKS)
        return config_fail(file, config_place(file, root, "uplinks"),
                           "uplinks: %d spines x %d make %d uplinks of each leaf; at most %d", spec->spines,
                           spec->uplinks, uplinks, LAB_MAX_UPLINKS);
    return TUTTI_SUCCESS;
}

static tutti_result_t check_policies(struct config_file *file, yaml_node_t *root, const struct lab_spec *spec)
{
    yaml_node_t *list = config_place(file, root, "policies");
    int uplinks = topology_uplinks(spec);
    for (int i = 0; i < spec->policy_count; i++) {
        const struct lab_policy *policy = &spec->policies[i];
        yaml_node_t *node = item(file, list, i);
        if (uplinks == 0)
            return config_fail(file, node, "a policy needs uplinks, and this fabric has no spines");
        if (policy->leaf >= spec->leaves)
            return config_fail(file, config_place(file, node, "leaf"), "leaf: there is no l%d; the last leaf is l%d",
                               policy->leaf, spec->leaves - 1);
        if (policy->uplink >= uplinks)
            return config_fail(file, config_place(file, node, "uplink"),
                               "uplink: there is no u%d; the last uplink is u%d", policy->uplink, uplinks - 1);
        if (policy->uplink < 0 && policy->last - policy->first + 1 < uplinks)
            return config_fail(file, config_place(file, node, "ports"),
                               "ports: %d ports cannot be split over %d uplinks", policy->last - policy->first + 1,
                               uplinks);
    }
    return TUTTI_SUCCESS;
}

static tutti_result_t check_overrides(struct config_file *file, yaml_node_t *root, const struct lab_topology *topology)
{
    for (int o = 0; o < topology->spec.override_count; o++) {
        int found = 0;
        for (int i = 0; i < topology->link_count; i++)
            found += topology_link_matches(topology, i, topology->spec.overrides[o].pattern);
        if (!found)
            return config_fail(file, item(file, config_place(file, root, "links"), o),
                               "link: no link is named \"%s\"; links are h0.n0 to h%d.n%d and l0.u0 to l%d.u%d",
                               topology->spec.overrides[o].pattern, topology->spec.hosts - 1, topology->spec.nics - 1,
                               topology->spec.leaves - 1, topology_uplinks(&topology->spec) - 1);
    }
    return TUTTI_SUCCESS;
}

static tutti_result_t build(struct config_file *file, void *topology)
{
    struct lab_topology *out = topology;
    struct lab_spec spec = {.hosts = 4, .nics = 2, .leaves = 2, .spines = 2, .uplinks = 1, .mtu = 4200, .ipv6 = 1};
    yaml_node_t *root = yaml_document_get_root_node(&file->document);
    tutti_result_t result =
        root ? config_map(file, root, "a fabric", spec_keys, &spec)
             : config_fail(file, NULL, "the file is empty; begin with a line such as \"name: clos\"");
    if (result == TUTTI_SUCCESS)
        result = check_shape(file, root, &spec);
    if (result == TUTTI_SUCCESS)
        result = check_policies(file, root, &spec);
    if (result == TUTTI_SUCCESS)
        result = topology_build(&spec, out);
    if (result == TUTTI_SUCCESS && (result = check_overrides(file, root, out)) != TUTTI_SUCCESS)
        topology_free(out);
    spec_free(&spec);
    return result;
}

tutti_result_t config_parse(const char *label, const char *yaml, size_t length, struct lab_topology *out)
{
    *out = (struct lab_topology){0};
    return config_document(label, yaml, length, build, out);
}

tutti_result_t config_load(const char *path, struct lab_topology *out)
{
    char *data = NULL;
    size_t length = 0;
    tutti_result_t result = config_read_file(path, CONFIG_FILE_LIMIT, &data, &length);
    if (result != TUTTI_SUCCESS)
        return result;
    result = config_parse(path, data, length, out);
    free(data);
    return result;
}
