/* SPDX-License-Identifier: Apache-2.0 */
/* What a fabric's file says for the configuration of switches: ports, addresses, next hops, VRFs, prefixes. */
#include "file/reading.h"
#include "base/error.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PORT_NAME 64 /* characters */

static const char *const vendor_names[] = {"sonic", "cisco", "ruijie", "arista", "linux", "frr"};
#define VENDORS ((int)(sizeof vendor_names / sizeof *vendor_names))

static tutti_result_t keep(struct reading *r, const char *text, fabric_word_t *out)
{
    return fabric_keep(&r->fabric, text, out)
               ? TUTTI_SUCCESS
               : error_note(TUTTI_SYSTEM_ERROR, "%s:1:1: no memory for names and addresses; at most %d bytes of them",
                            r->file->label, FABRIC_WORDS);
}

/* Switches are told these names: nothing in them may end a word or a command. */
tutti_result_t reading_port(struct reading *r, yaml_node_t *node, const char *key, fabric_word_t *out)
{
    const char *text = config_text(node);
    if (!node)
        return TUTTI_SUCCESS;
    bool good = text && *text && strlen(text) <= PORT_NAME && isalnum((unsigned char)*text);
    for (const char *c = text; good && *c; c++)
        good = isalnum((unsigned char)*c) || strchr("-_.:/@", *c);
    if (!good)
        return config_fail(r->file, node, "%s: \"%s\" is no name; write letters, digits and -_.:/@ (%d at most)", key,
                           config_shown(node), PORT_NAME);
    return keep(r, text, out);
}

/* Reads "ADDRESS[/BITS]". Returns the family's index, or -1. */
static int family_of(const char *text, bool bits)
{
    char address[FABRIC_ADDRESS];
    unsigned char binary[16];
    const char *slash = strchr(text, '/');
    size_t length = slash ? (size_t)(slash - text) : strlen(text);
    if (length >= sizeof address || (slash && !bits))
        return -1;
    memcpy(address, text, length);
    address[length] = 0;
    int family = inet_pton(AF_INET, address, binary) == 1 ? 0 : inet_pton(AF_INET6, address, binary) == 1 ? 1 : -1;
    if (family >= 0 && slash) {
        size_t digits = strspn(slash + 1, "0123456789");
        if (digits < 1 || digits > 3 || slash[1 + digits] || atoi(slash + 1) > (family ? 128 : 32))
            return -1;
    }
    return family;
}

tutti_result_t reading_address(struct reading *r, yaml_node_t *node, char out[FABRIC_ADDRESS])
{
    const char *text = config_text(node);
    if (!node)
        return TUTTI_SUCCESS;
    if (!text || family_of(text, false) < 0)
        return config_fail(r->file, node, "address: \"%s\" is no IPv4 or IPv6 address", config_shown(node));
    snprintf(out, FABRIC_ADDRESS, "%s", text);
    return TUTTI_SUCCESS;
}

static tutti_result_t add_address(struct reading *r, yaml_node_t *node, const char *key, bool bits,
                                  fabric_word_t out[2])
{
    const char *text = config_text(node);
    int family = text ? family_of(text, bits) : -1;
    if (family < 0)
        return config_fail(r->file, node, "%s: \"%s\" is no IPv4 or IPv6 address%s", key, config_shown(node),
                           bits ? ", such as 10.0.0.0/31" : "");
    if (out[family])
        return config_fail(r->file, node, "%s: there are two IPv%d addresses; keep one", key, family ? 6 : 4);
    return keep(r, text, &out[family]);
}

static tutti_result_t read_addresses(struct reading *r, yaml_node_t *node, const char *key, bool bits,
                                     fabric_word_t out[2])
{
    tutti_result_t result = TUTTI_SUCCESS;
    if (!node)
        return TUTTI_SUCCESS;
    if (node->type != YAML_SEQUENCE_NODE)
        return add_address(r, node, key, bits, out);
    for (yaml_node_item_t *item = node->data.sequence.items.start; !result && item < node->data.sequence.items.top;
         item++)
        result = add_address(r, yaml_document_get_node(&r->file->document, *item), key, bits, out);
    return result;
}

tutti_result_t reading_wire(struct reading *r, yaml_node_t *map, const struct wire_item *item, bool alone,
                            struct fabric_wire *out)
{
    out->line = (int32_t)map->start_mark.line + 1;
    yaml_node_t *own = item->port       ? item->port
                       : item->far_port ? item->far_port
                       : item->address  ? item->address
                                        : item->next;
    if (own && !alone)
        return config_fail(r->file, own, "ports and addresses are of one link: write an item for each link");
    tutti_result_t result = reading_port(r, item->port, "port", &out->port);
    if (!result)
        result = reading_port(r, item->far_port, "spine_port", &out->far_port);
    if (!result)
        result = reading_port(r, item->vrf, "vrf", &out->vrf);
    if (!result)
        result = read_addresses(r, item->address, "address", true, out->address);
    return result ? result : read_addresses(r, item->next, "next_hop", false, out->next);
}

static tutti_result_t read_vendor(struct reading *r, yaml_node_t *node, fabric_word_t *out)
{
    const char *text = config_text(node);
    for (int v = 0; text && v < VENDORS; v++)
        if (strcmp(text, vendor_names[v]) == 0)
            return keep(r, text, out);
    return config_fail(r->file, node, "vendor: \"%s\" is none of sonic, cisco, ruijie, arista, linux, frr",
                       config_shown(node));
}

static tutti_result_t read_prefixes(struct reading *r, yaml_node_t *node, fabric_word_t *out)
{
    char all[1024] = "";
    size_t used = 0;
    if (node->type != YAML_SEQUENCE_NODE)
        return config_fail(r->file, node, "prefixes must be a list, such as [10.1.0.0/16, fd00:1::/32]");
    for (yaml_node_item_t *item = node->data.sequence.items.start; item < node->data.sequence.items.top; item++) {
        yaml_node_t *one = yaml_document_get_node(&r->file->document, *item);
        const char *text = config_text(one);
        if (!text || !strchr(text, '/') || family_of(text, true) < 0)
            return config_fail(r->file, one, "prefixes: \"%s\" is no prefix, such as 10.1.0.0/16", config_shown(one));
        if (used + strlen(text) + 2 > sizeof all)
            return config_fail(r->file, one, "prefixes: more than %zu characters of them", sizeof all - 1);
        used += (size_t)snprintf(all + used, sizeof all - used, "%s%s", used ? " " : "", text);
    }
    return used ? keep(r, all, out) : TUTTI_SUCCESS;
}

tutti_result_t reading_own(struct reading *r, yaml_node_t *map, const struct own_item *item, struct fabric_own *out)
{
    yaml_node_t *vendor = item->vendor ? item->vendor : r->vendor;
    tutti_result_t result = vendor ? read_vendor(r, vendor, &out->vendor) : TUTTI_SUCCESS;
    out->line = (int32_t)map->start_mark.line + 1;
    out->ranges = item->ranges ? item->ranges : r->ranges;
    return !result && item->prefixes ? read_prefixes(r, item->prefixes, &out->prefixes) : result;
}
