/* SPDX-License-Identifier: Apache-2.0 */
/* What cannot be in a fabric, and what its owner should know. */
#include "paths/paths.h"

#include "base/error.h"
#include "path/dnlb.h"

#include <arpa/inet.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A thing that may be there once: an address, or a port of a switch. */
struct once {
    int32_t at;   /* the switch; -1: the whole fabric */
    int32_t line; /* of the file */
    unsigned char key[66];
};

struct checking {
    const struct paths *paths;
    const struct fabric *fabric;
    struct text *out;
    int wrong;
    struct once *once;
    size_t count, room;
    double *down; /* rates of the NICs of each leaf */
    bool no_memory;
};

static void say(struct checking *c, int32_t line, const char *kind, const char *format, va_list args)
{
    char sentence[500];
    vsnprintf(sentence, sizeof sentence, format, args);
    if (line)
        text_add(c->out, "%s:%d: %s%s\n", c->paths->label, line, kind, sentence);
    else
        text_add(c->out, "%s: %s%s\n", c->paths->label, kind, sentence);
}

static void wrong(struct checking *c, int32_t line, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void wrong(struct checking *c, int32_t line, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(c, line, "", format, args);
    va_end(args);
    c->wrong++;
}

static void note(struct checking *c, int32_t line, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void note(struct checking *c, int32_t line, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(c, line, "note: ", format, args);
    va_end(args);
}

/* ---- what may be there once ---- */

static void add_once(struct checking *c, int32_t at, int32_t line, const void *key, size_t length)
{
    if (c->count == c->room) {
        size_t room = c->room ? 2 * c->room : 256;
        struct once *grown = realloc(c->once, room * sizeof *grown);
        if (!grown) {
            c->no_memory = true;
            return;
        }
        c->once = grown;
        c->room = room;
    }
    struct once *item = &c->once[c->count++];
    *item = (struct once){.at = at, .line = line};
    memcpy(item->key, key, length < sizeof item->key ? length : sizeof item->key);
}

static int by_key(const void *left, const void *right)
{
    const struct once *a = left, *b = right;
    int order = a->at != b->at ? (a->at < b->at ? -1 : 1) : memcmp(a->key, b->key, sizeof a->key);
    return order ? order : (a->line > b->line) - (a->line < b->line);
}

typedef void (*twice_fn)(struct checking *c, const struct once *first, const struct once *second);

static void find_twice(struct checking *c, twice_fn tell)
{
    if (c->count)
        qsort(c->once, c->count, sizeof *c->once, by_key);
    for (size_t i = 1; i < c->count; i++)
        if (c->once[i - 1].at == c->once[i].at && memcmp(c->once[i - 1].key, c->once[i].key, sizeof c->once->key) == 0)
            tell(c, &c->once[i - 1], &c->once[i]);
    c->count = 0;
}

static void port_twice(struct checking *c, const struct once *first, const struct once *second)
{
    wrong(c, second->line, "port %.66s of %s is used on line %d already", (const char *)second->key,
          paths_switch_name(c->paths, second->at), first->line);
}

static void check_ports(struct checking *c)
{
    const struct fabric *f = c->fabric;
    for (int32_t u = 0; u < f->uplinks; u++) {
        const struct fabric_wire *wire = &f->uplink[u].wire;
        const char *near = fabric_word(f, wire->port), *far = fabric_word(f, wire->far_port);
        if (*near)
            add_once(c, f->uplink[u].leaf, wire->line, near, strlen(near));
        if (*far)
            add_once(c, f->leaves + f->uplink[u].spine, wire->line, far, strlen(far));
    }
    for (int32_t n = 0; n < f->nics; n++)
        for (int32_t p = 0; p < f->nic[n].ports; p++) {
            const char *name = fabric_word(f, f->nic[n].port[p].name);
            if (*name)
                add_once(c, f->nic[n].port[p].leaf, f->nic[n].line, name, strlen(name));
        }
    find_twice(c, port_twice);
}

/* ---- addresses ---- */

/* Reads "ADDRESS[/BITS]" of a family. *bits: -1 if there are none. False: the text is empty. */
static bool binary_of(const char *text, int family, unsigned char out[17], int *bits)
{
    char address[FABRIC_ADDRESS];
    const char *slash = strchr(text, '/');
    snprintf(address, sizeof address, "%.*s", slash ? (int)(slash - text) : (int)strlen(text), text);
    memset(out, 0, 17);
    out[0] = (unsigned char)(4 + 2 * family);
    *bits = slash ? atoi(slash + 1) : -1;
    return *text && inet_pton(family ? AF_INET6 : AF_INET, address, out + 1) == 1;
}

static bool link_local(const unsigned char binary[17])
{
    return binary[0] == 6 && binary[1] == 0xfe && (binary[2] & 0xc0) == 0x80;
}

static bool one_network(const unsigned char a[17], const unsigned char b[17], int bits)
{
    int whole = bits / 8, rest = bits % 8;
    return memcmp(a + 1, b + 1, (size_t)whole) == 0 && (!rest || (a[1 + whole] ^ b[1 + whole]) >> (8 - rest) == 0);
}

static void check_wire(struct checking *c, int32_t number, int family)
{
    const struct fabric *f = c->fabric;
    const struct fabric_wire *wire = &f->uplink[number].wire;
    const char *own = fabric_word(f, wire->address[family]), *next = fabric_word(f, wire->next[family]);
    unsigned char own_bytes[17], next_bytes[17];
    int bits, none;
    bool has_own = binary_of(own, family, own_bytes, &bits), has_next = binary_of(next, family, next_bytes, &none);
    if (has_next && link_local(next_bytes)) {
        if (!wire->port)
            wrong(c, wire->line, "next_hop %s is known on one link alone; add \"port: NAME\" of the leaf", next);
        return;
    }
    if (has_own && has_next && memcmp(own_bytes, next_bytes, sizeof own_bytes) == 0)
        wrong(c, wire->line, "next_hop %s is the leaf's own address", next);
    else if (has_own && has_next && bits >= 0 && !one_network(own_bytes, next_bytes, bits))
        wrong(c, wire->line, "next_hop %s is not in the network of %s", next, own);
    if (has_own && !link_local(own_bytes))
        add_once(c, -1, wire->line, own_bytes, sizeof own_bytes);
}

static void address_twice(struct checking *c, const struct once *first, const struct once *second)
{
    char text[INET6_ADDRSTRLEN] = "";
    inet_ntop(second->key[0] == 6 ? AF_INET6 : AF_INET, second->key + 1, text, sizeof text);
    wrong(c, second->line, "address %s is used on line %d already", text, first->line);
}

static void next_twice(struct checking *c, const struct once *first, const struct once *second)
{
    char text[INET6_ADDRSTRLEN] = "";
    inet_ntop(second->key[0] == 6 ? AF_INET6 : AF_INET, second->key + 1, text, sizeof text);
    wrong(c, second->line, "next_hop %s is that of line %d, too: no rule can choose between these uplinks", text,
          first->line);
}

static void check_addresses(struct checking *c)
{
    const struct fabric *f = c->fabric;
    unsigned char bytes[17];
    int bits;
    for (int32_t u = 0; u < f->uplinks; u++)
        for (int family = 0; family < 2; family++)
            check_wire(c, u, family);
    for (int32_t n = 0; n < f->nics; n++)
        if (binary_of(f->nic[n].address, strchr(f->nic[n].address, ':') != NULL, bytes, &bits))
            add_once(c, -1, f->nic[n].line, bytes, sizeof bytes);
    find_twice(c, address_twice);
    for (int32_t u = 0; u < f->uplinks; u++)
        for (int family = 0; family < 2; family++)
            if (binary_of(fabric_word(f, f->uplink[u].wire.next[family]), family, bytes, &bits) && !link_local(bytes))
                add_once(c, f->uplink[u].leaf, f->uplink[u].wire.line, bytes, sizeof bytes);
    find_twice(c, next_twice);
}

/* ---- leaves ---- */

/* Link-local next hops (unnumbered uplinks) serve both families. */
static bool has_next(const struct fabric *f, const struct fabric_uplink *uplink, int family)
{
    unsigned char bytes[17];
    int bits;
    return uplink->wire.next[family] ||
           (binary_of(fabric_word(f, uplink->wire.next[1]), 1, bytes, &bits) && link_local(bytes));
}

static void check_next_hops(struct checking *c, const struct fabric_leaf *leaf)
{
    const struct fabric *f = c->fabric;
    bool told = false;
    for (int family = 0; family < 2; family++) {
        const struct fabric_uplink *with = NULL, *without = NULL;
        for (int32_t u = leaf->first; u < leaf->first + leaf->count; u++) {
            const struct fabric_uplink *uplink = &f->uplink[u];
            if (uplink->down)
                continue;
            with = has_next(f, uplink, family) ? uplink : with;
            without = has_next(f, uplink, family) ? without : uplink;
        }
        told = told || with;
        if (with && without)
            wrong(c, without->wire.line,
                  "no next_hop for IPv%d, but the uplink on line %d has one: its source ports would have no way",
                  family ? 6 : 4, with->wire.line);
    }
    if (!told && leaf->count && leaf->own.line)
        note(c, leaf->own.line, "leaf %s: its uplinks have no next_hop, so acl has nothing to write for it",
             leaf->name);
}

static void check_ranges(struct checking *c, int32_t number)
{
    const struct fabric_leaf *leaf = &c->fabric->leaf[number];
    int up = 0;
    for (int32_t u = leaf->first; u < leaf->first + leaf->count; u++)
        up += c->paths->way[u].shares > 0;
    if (leaf->own.ranges && up > leaf->own.ranges)
        wrong(c, leaf->own.line, "leaf %s: %d uplinks need as many ranges of ports, and the switch holds %d",
              leaf->name, up, leaf->own.ranges);
    if (up < leaf->count)
        note(c, leaf->own.line, "leaf %s: %d of %d uplinks are down, so the plan leaves them out", leaf->name,
             leaf->count - up, leaf->count);
}

static void check_rates(struct checking *c, int32_t number)
{
    const struct fabric *f = c->fabric;
    const struct fabric_leaf *leaf = &f->leaf[number];
    double up = 0, down = c->down[number];
    for (int32_t u = leaf->first; u < leaf->first + leaf->count; u++)
        up += f->uplink[u].down ? 0 : f->uplink[u].rate;
    if (leaf->ports && f->leaves > 1 && up <= 0)
        wrong(c, leaf->own.line, "leaf %s: %d NICs are at it, and none of its uplinks is up", leaf->name, leaf->ports);
    else if (isfinite(up) && isfinite(down) && down > 1.001 * up && leaf->own.line)
        note(c, leaf->own.line, "leaf %s: its NICs can send %.2f times what its uplinks carry", leaf->name, down / up);
}

/* ---- ways between leaves ---- */

static bool share_a_spine(const struct fabric *f, const struct fabric_leaf *a, const struct fabric_leaf *b)
{
    int32_t i = a->first, j = b->first;
    while (i < a->first + a->count && j < b->first + b->count) {
        if (f->uplink[i].down || f->uplink[i].spine < f->uplink[j].spine)
            i++;
        else if (f->uplink[j].down || f->uplink[j].spine < f->uplink[i].spine)
            j++;
        else
            return true;
    }
    return false;
}

static bool has_core(const struct fabric *f, int32_t zone)
{
    for (int32_t s = 0; s < f->spines; s++)
        if (f->spine[s].zone == zone && f->spine[s].count)
            return true;
    return false;
}

#define PAIRS (1 << 24) /* of leaves that are compared, at most: a larger fabric's first ones */

/* Leaves of one zone reach each other over a spine that both have, or over the core. */
static void check_ways(struct checking *c)
{
    const struct fabric *f = c->fabric;
    int32_t pairs = 0;
    for (int32_t a = 0; a < f->leaves; a++) {
        if (!f->leaf[a].ports || !c->paths->shares[a] || has_core(f, f->leaf[a].zone))
            continue;
        for (int32_t b = 0; b < a && pairs < PAIRS; b++, pairs++)
            if (f->leaf[b].ports && c->paths->shares[b] && f->leaf[b].zone == f->leaf[a].zone &&
                !share_a_spine(f, &f->leaf[a], &f->leaf[b])) {
                wrong(c, f->leaf[a].own.line, "leaf %s: there is no way to leaf %s: no spine has an uplink of both",
                      f->leaf[a].name, f->leaf[b].name);
                break;
            }
    }
}

static void name_twice(struct checking *c, const struct once *first, const struct once *second)
{
    wrong(c, second->line, "%s has two NICs with the name %.66s", c->fabric->host[second->at].name,
          (const char *)second->key);
}

static void check_hosts(struct checking *c)
{
    const struct fabric *f = c->fabric;
    for (int32_t n = 0; n < f->nics; n++) {
        const struct fabric_nic *nic = &f->nic[n];
        add_once(c, nic->host, nic->line, nic->name, strlen(nic->name));
        if (nic->ports == 2 && nic->port[0].leaf == nic->port[1].leaf)
            note(c, nic->line, "both ports of %s's %s are at leaf %s: the NIC is lost with this leaf",
                 f->host[nic->host].name, nic->name, f->leaf[nic->port[0].leaf].name);
        else if (nic->ports == 2 && c->paths->shares[nic->port[0].leaf] != c->paths->shares[nic->port[1].leaf])
            note(c, nic->line, "%s's %s is at leaves of %u and %u shares of ports: the right leaf is loaded unevenly",
                 f->host[nic->host].name, nic->name, c->paths->shares[nic->port[0].leaf],
                 c->paths->shares[nic->port[1].leaf]);
    }
    find_twice(c, name_twice);
    for (int32_t h = 0; h < f->hosts; h++)
        if (f->host[h].nics > DNLB_NICS)
            note(c, f->nic[f->host[h].nic].line, "%s has %d NICs; TUTTI_PATHS tells %d, the others stay with ECMP",
                 f->host[h].name, f->host[h].nics, DNLB_NICS);
}

/* What acl refuses, of switches whose vendor the file tells. */
static void check_switches(struct checking *c)
{
    const struct fabric *f = c->fabric;
    const struct paths_wants wants = {0};
    for (int32_t n = 0; n < f->leaves + f->spines; n++) {
        struct text scratch = {0};
        const char *suffix;
        const struct fabric_own *own = n < f->leaves ? &f->leaf[n].own : &f->spine[n - f->leaves].own;
        if (own->vendor && paths_acl(c->paths, &wants, n, &scratch, &suffix) != TUTTI_SUCCESS) {
            text_add(c->out, "%s\n", error_last());
            c->wrong++;
        }
        text_free(&scratch);
    }
}

int paths_check(const struct paths *paths, struct text *out)
{
    struct checking c = {.paths = paths, .fabric = paths->fabric, .out = out};
    const struct fabric *f = paths->fabric;
    c.down = calloc((size_t)f->leaves + 1, sizeof *c.down);
    if (!c.down)
        return -1;
    for (int32_t n = 0; n < f->nics; n++)
        for (int32_t p = 0; p < f->nic[n].ports; p++)
            c.down[f->nic[n].port[p].leaf] += f->nic[n].port[p].rate;
    check_ports(&c);
    check_addresses(&c);
    check_hosts(&c);
    for (int32_t l = 0; l < f->leaves; l++) {
        check_next_hops(&c, &f->leaf[l]);
        check_ranges(&c, l);
        check_rates(&c, l);
    }
    check_ways(&c);
    if (!c.wrong)
        check_switches(&c);
    free(c.once);
    free(c.down);
    return c.no_memory ? -1 : c.wrong;
}
