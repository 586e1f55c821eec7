/* SPDX-License-Identifier: Apache-2.0 */
/* The grammar of switches, as tables of functions: what puts rules there, and what takes them away. */
#ifndef PATHS_VENDOR_H
#define PATHS_VENDOR_H

#include "paths/paths.h"

/* A leaf, and which families its uplinks have next hops for. */
struct acl_leaf {
    const struct paths *paths;
    int32_t number;
    bool family[2]; /* IPv4, IPv6 */
    struct text *out;
    int rules; /* so far */
};

/* A range of source ports, and where it goes. */
struct acl_way {
    int uplink; /* number at the leaf */
    int family;
    unsigned first, last;
    const char *next, *port; /* the spine's address; the leaf's port, "": not told */
    bool local;              /* the address is link-local: an IPv6 one, whatever the family */
};

/* A virtual router of a spine, and one of its ports. */
struct acl_plane {
    int number;
    char name[72];
};
struct acl_port {
    const struct acl_plane *plane;
    const char *name;
    const char *address[2]; /* the spine's, with "/BITS"; "": not told. Some switches forget them */
};
struct acl_route {
    const struct acl_port *port;
    int family;
    const char *prefix, *next;
    bool local; /* `next` is a link-local IPv6 address, whatever the family */
    bool again; /* the prefix has a route in this router already */
};

/* Functions that are NULL write nothing. */
struct grammar {
    void (*leaf_begin)(struct acl_leaf *leaf);
    void (*way)(struct acl_leaf *leaf, const struct acl_way *way);
    void (*leaf_end)(struct acl_leaf *leaf);
    void (*plane)(const struct acl_plane *plane, struct text *out);
    void (*port)(const struct acl_port *port, struct text *out);
    void (*route)(const struct acl_route *route, struct text *out);
};

struct vendor {
    const char *name;
    const char *comment; /* NULL: leaves have JSON, which knows none */
    const char *down;    /* a comment: what happens when a next hop is down */
    bool local;          /* policies of both families may have a link-local IPv6 next hop, */
    bool local_route;    /* and routes of a virtual router, too */
    const char *suffix;
    struct grammar put, take;
};

extern const struct vendor vendor_sonic, vendor_cisco, vendor_ruijie, vendor_arista, vendor_linux, vendor_frr;

/* Adds the name of each port of a leaf where a host is. */
void acl_host_ports(const struct acl_leaf *leaf, const char *before, const char *after);
/* Adds the DSCP that lanes carry, if the plan has one. */
void acl_dscp(const struct acl_leaf *leaf, const char *before);
/* 16 becomes 255.255.0.0. */
void acl_mask(int bits, char out[16]);

#endif
