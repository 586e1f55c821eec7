/* SPDX-License-Identifier: Apache-2.0 */
/* The fabric's file that devices and cables make. Items are objects of JSON, which YAML takes, too. */
#include "paths/cabling.h"

#include "base/error.h"
#include "model/fabric.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A cable of a device, or several that are one link to both ends. */
struct cable {
    char far[FABRIC_NAME];        /* the other device */
    const char *port, *far_port;  /* names of the ports that have the addresses */
    const json_t *near, *far_end; /* these ports; far_end may be NULL */
    double rate;                  /* Mbit/s of all; 0: unknown */
};

static const char *word(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static bool is_kind(const json_t *device, const char *kind)
{
    return strcmp(word(device, "kind"), kind) == 0;
}

static const json_t *port_of(const struct cabling *c, const char *device, const char *port)
{
    return json_object_get(json_object_get(json_object_get(c->devices, device), "ports"), port);
}

static double rate_of(const json_t *near, const json_t *far)
{
    double here = atof(word(near, "rate")), there = atof(word(far, "rate"));
    return here > 0 && there > 0 ? (here < there ? here : there) : here + there;
}

/* False: the port leads nowhere. */
static bool cable_at(const struct cabling *c, const char *name, const json_t *port, struct cable *out)
{
    const char *end = word(port, "far end"), *blank = strchr(end, ' ');
    if (!blank)
        return false;
    *out = (struct cable){.port = name, .far_port = blank + 1, .near = port};
    snprintf(out->far, sizeof out->far, "%.*s", (int)(blank - end), end);
    out->far_end = port_of(c, out->far, out->far_port);
    out->rate = rate_of(port, out->far_end);
    return true;
}

/* The link of a bundle, by its first cable to that device. False: this port is not the first one. */
static bool gather(const struct cabling *c, const json_t *ports, const char *first, struct cable *cable)
{
    const char *bundle = word(cable->near, "bundle"), *name;
    struct cable one;
    json_t *port;
    double rate = 0;
    if (!*bundle)
        return true;
    json_object_foreach((json_t *)ports, name, port)
    {
        if (strcmp(word(port, "bundle"), bundle) != 0 || !cable_at(c, name, port, &one) ||
            strcmp(one.far, cable->far) != 0)
            continue;
        if (rate == 0 && strcmp(name, first) != 0)
            return false;
        rate += one.rate > 0 ? one.rate : 1e-9;
    }
    cable->rate = rate < 1 ? 0 : rate;
    cable->port = bundle;
    cable->near = json_object_get(ports, bundle);
    cable->far_port = word(cable->far_end, "bundle");
    cable->far_end = port_of(c, cable->far, cable->far_port);
    return true;
}

/* ---- items ---- */

static void put(json_t *item, const char *key, const char *text)
{
    if (*text)
        json_object_set_new(item, key, json_string(text));
}

static void put_rate(json_t *item, double mbit)
{
    char text[40];
    snprintf(text, sizeof text, "%.0fmbit", mbit);
    put(item, "rate", mbit >= 1 ? text : "");
}

static void put_listed(json_t *item, const char *key, const char *text)
{
    if (!*text)
        return;
    if (!json_object_get(item, key))
        json_object_set_new(item, key, json_array());
    json_array_append_new(json_object_get(item, key), json_string(text));
}

static void without_bits(const char *address, char out[FABRIC_ADDRESS])
{
    snprintf(out, FABRIC_ADDRESS, "%.*s", (int)strcspn(address, "/"), address);
}

/* The other address of a link that has two. */
static bool other_of_two(const char *address, char out[FABRIC_ADDRESS])
{
    uint8_t bytes[16];
    int bits, family = cabling_family(address, &bits);
    without_bits(address, out);
    if (family < 0 || bits != (family ? 127 : 31) || inet_pton(family ? AF_INET6 : AF_INET, out, bytes) != 1)
        return false;
    bytes[family ? 15 : 3] ^= 1;
    return inet_ntop(family ? AF_INET6 : AF_INET, bytes, out, FABRIC_ADDRESS) != NULL;
}

static void put_ends(json_t *item, const struct cable *cable)
{
    char hop[FABRIC_ADDRESS];
    for (int family = 0; family < 2; family++)
        put_listed(item, "address", word(cable->near, cabling_addresses[family]));
    for (int family = 0; family < 2; family++) {
        const char *told = word(cable->far_end, cabling_addresses[family]);
        without_bits(*told ? told : word(cable->near, cabling_nexts[family]), hop);
        if (*hop || other_of_two(word(cable->near, cabling_addresses[family]), hop))
            put_listed(item, "next_hop", hop);
    }
}

static void print(struct text *out, const char *before, json_t *item)
{
    char *line = json_dumps(item, JSON_PRESERVE_ORDER);
    text_add(out, "%s- %s\n", before, line ? line : "");
    out->failed |= !line;
    free(line);
    json_decref(item);
}

/* ---- leaves ---- */

/* The network of an address, whose host bits are zero. */
static void network_of(const char *address, char out[FABRIC_ADDRESS + 4])
{
    uint8_t bytes[16];
    char only[FABRIC_ADDRESS];
    int bits, family = cabling_family(address, &bits), kind = family ? AF_INET6 : AF_INET;
    without_bits(address, only);
    *out = 0;
    if (family < 0 || bits == (family ? 128 : 32) || inet_pton(kind, only, bytes) != 1)
        return;
    for (int i = 0; i < (family ? 16 : 4); i++) {
        int kept = bits - 8 * i < 0 ? 0 : bits - 8 * i > 8 ? 8 : bits - 8 * i;
        bytes[i] &= (uint8_t)(0xff00 >> kept);
    }
    inet_ntop(kind, bytes, only, sizeof only);
    snprintf(out, FABRIC_ADDRESS + 4, "%s/%d", only, bits);
}

/* What is behind a leaf: the networks of its ports that lead to no spine. */
static void put_prefixes(const struct cabling *c, const json_t *ports, json_t *leaf)
{
    const char *name;
    json_t *port, *known = json_object();
    char network[FABRIC_ADDRESS + 4];
    struct cable cable;
    json_object_foreach((json_t *)ports, name, port)
    {
        bool routed = cable_at(c, name, port, &cable) && !is_kind(json_object_get(c->devices, cable.far), "host");
        if (routed || *word(port, "network"))
            json_object_set_new(known, *word(port, "bundle") ? word(port, "bundle") : name, json_null());
    }
    json_object_foreach((json_t *)ports, name, port)
    {
        for (int family = 0; !json_object_get(known, name) && family < 2; family++) {
            network_of(word(port, cabling_addresses[family]), network);
            if (*network && !json_object_get(known, network))
                put_listed(leaf, "prefixes", network);
            json_object_set_new(known, network, json_null());
        }
    }
    json_decref(known);
}

static void write_leaf(const struct cabling *c, const char *name, const json_t *device, struct text *out)
{
    const json_t *ports = json_object_get(device, "ports");
    json_t *item = json_object(), *port;
    struct cable cable;
    const char *at;
    bool any = false;
    put_prefixes(c, ports, item);
    text_add(out, "  - name: \"%s\"\n", name);
    if (json_object_get(item, "prefixes")) {
        char *list = json_dumps(json_object_get(item, "prefixes"), 0);
        text_add(out, "    prefixes: %s\n", list ? list : "");
        free(list);
    }
    json_decref(item);
    json_object_foreach((json_t *)ports, at, port)
    {
        if (!cable_at(c, at, port, &cable) || !is_kind(json_object_get(c->devices, cable.far), "spine") ||
            !gather(c, ports, at, &cable))
            continue;
        text_add(out, "%s", any ? "" : "    uplinks:\n");
        any = true;
        item = json_object();
        put(item, "spine", cable.far);
        put(item, "port", cable.port);
        put(item, "spine_port", cable.far_port);
        put_ends(item, &cable);
        put(item, "vrf", word(cable.far_end, "vrf"));
        put_rate(item, cable.rate);
        print(out, "      ", item);
    }
}

/* ---- hosts ---- */

/* The second port of a bond, at another leaf. */
static bool right_of(const struct cabling *c, const json_t *ports, const struct cable *left, struct cable *out)
{
    const char *bundle = word(left->near, "bundle"), *name;
    json_t *port;
    json_object_foreach((json_t *)ports, name, port)
    {
        if (*bundle && strcmp(word(port, "bundle"), bundle) == 0 && cable_at(c, name, port, out) &&
            is_kind(json_object_get(c->devices, out->far), "leaf") && strcmp(out->far, left->far) != 0)
            return true;
    }
    return false;
}

static void write_nic(const struct cabling *c, const json_t *ports, const char *name, const struct cable *left,
                      struct text *out)
{
    const char *bundle = word(left->near, "bundle");
    const json_t *has = *bundle ? json_object_get(ports, bundle) : left->near;
    json_t *item = json_object();
    char address[FABRIC_ADDRESS];
    struct cable right;
    put(item, "name", *bundle ? bundle : name);
    if (right_of(c, ports, left, &right)) {
        put_listed(item, "bond", left->far);
        put_listed(item, "bond", right.far);
        put_listed(item, "port", left->far_port);
        put_listed(item, "port", right.far_port);
    } else {
        put(item, "leaf", left->far);
        put(item, "port", left->far_port);
    }
    const char *first = word(has, cabling_addresses[0]);
    without_bits(*first ? first : word(has, cabling_addresses[1]), address);
    put(item, "address", address);
    put_rate(item, left->rate);
    print(out, "      ", item);
}

static void write_host(const struct cabling *c, const char *name, const json_t *device, struct text *out)
{
    const json_t *ports = json_object_get(device, "ports");
    json_t *port, *told = json_object();
    struct cable cable;
    const char *at;
    text_add(out, "  - name: \"%s\"\n", name);
    json_object_foreach((json_t *)ports, at, port)
    {
        const char *nic = *word(port, "bundle") ? word(port, "bundle") : at;
        if (!cable_at(c, at, port, &cable) || !is_kind(json_object_get(c->devices, cable.far), "leaf") ||
            json_object_get(told, nic))
            continue;
        text_add(out, "%s", json_object_size(told) ? "" : "    nics:\n");
        json_object_set_new(told, nic, json_null());
        write_nic(c, ports, at, &cable, out);
    }
    json_decref(told);
}

/* ---- the whole ---- */

static size_t count_of(const struct cabling *c, const char *kind)
{
    size_t count = 0;
    const char *name;
    json_t *device;
    json_object_foreach(c->devices, name, device)
    {
        count += is_kind(device, kind);
    }
    return count;
}

/* A host that is at no leaf is at another network. */
static bool is_here(const struct cabling *c, const json_t *device)
{
    const char *at;
    json_t *port;
    struct cable cable;
    json_object_foreach(json_object_get(device, "ports"), at, port)
    {
        if (cable_at(c, at, port, &cable) && is_kind(json_object_get(c->devices, cable.far), "leaf"))
            return true;
    }
    return false;
}

tutti_result_t cabling_write(const struct cabling *c, struct text *out)
{
    const char *name;
    json_t *device;
    if (!count_of(c, "leaf"))
        return error_note(TUTTI_INVALID_ARGUMENT, "%s: no file tells of a leaf", c->label);
    text_add(out,
             "# Imported: look through it, and add what is missing (rates, next hops, GPUs).\n"
             "name: imported\nrate: none\n%s",
             count_of(c, "spine") ? "spines:\n" : "");
    json_object_foreach(c->devices, name, device)
    {
        if (is_kind(device, "spine"))
            text_add(out, "  - {name: \"%s\"}\n", name);
    }
    text_add(out, "leaves:\n");
    json_object_foreach(c->devices, name, device)
    {
        if (is_kind(device, "leaf"))
            write_leaf(c, name, device, out);
    }
    bool any = false;
    json_object_foreach(c->devices, name, device)
    {
        if (!is_kind(device, "host") || !is_here(c, device))
            continue;
        text_add(out, "%s", any ? "" : "hosts:\n");
        any = true;
        write_host(c, name, device, out);
    }
    return text_ok(out);
}
