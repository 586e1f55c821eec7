/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses, and the emulated device that has one. */
#ifndef RDMACM_PLACE_H
#define RDMACM_PLACE_H

#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <stdbool.h>

union cm_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_storage storage;
};

struct cm_place {
    __be64 guid; /* 0: no device */
    uint32_t index;
    uint8_t gid_index;
    enum ibv_mtu mtu;
    union ibv_gid gid;
};

socklen_t address_size(const union cm_address *address);
/* IPv4 or IPv6? */
bool address_known(const union cm_address *address);
bool address_is_any(const union cm_address *address);
bool address_is_loopback(const union cm_address *address);
bool address_is_multicast(const union cm_address *address);
/* In host order. */
uint16_t address_port(const union cm_address *address);
void address_set_port(union cm_address *address, uint16_t port);
/* IPv4 in IPv6 becomes IPv4. */
void address_plain(union cm_address *address);
union ibv_gid address_gid(const union cm_address *address);

/* 0 or ENODEV. */
int place_find(const union cm_address *address, struct cm_place *place);

/* Whether its device has not been taken out. */
bool place_is_there(const struct cm_place *place);

/* The address that packets to `to` would leave from: 0 or errno. */
int place_source(const union cm_address *to, union cm_address *from);

#endif
