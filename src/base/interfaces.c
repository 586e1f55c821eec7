/* SPDX-License-Identifier: Apache-2.0 */
/* Which network interfaces to use: the user's wish, else a sensible order. */
#include "base/net.h"
#include "base/error.h"
#include "base/param.h"

#include <errno.h>
#include <ifaddrs.h>
#include <stdio.h>
#include <string.h>

bool net_name_wanted(const char *wish, const char *name)
{
    bool refuse = *wish == '^', exact, found = false;
    wish += refuse;
    exact = *wish == '=';
    wish += exact;
    while (*wish && !found) {
        size_t length = strcspn(wish, ",");
        found = length && strncmp(wish, name, length) == 0 && (!exact || !name[length]);
        wish += length + (wish[length] == ',');
    }
    return found != refuse;
}

int net_name_class(const char *name, bool loopback)
{
    static const char *const bridges[] = {"docker", "virbr", "br-", "veth", "cni", "podman", "lxc", "cali", "flannel"};
    if (loopback)
        return 3;
    for (size_t i = 0; i < sizeof bridges / sizeof *bridges; i++)
        if (strncmp(name, bridges[i], strlen(bridges[i])) == 0)
            return 2;
    return strncmp(name, "ib", 2) == 0 ? 0 : 1;
}

static bool usable_address(const struct ifaddrs *one)
{
    int64_t family = param_int(PARAM_SOCKET_FAMILY);
    if (!one->ifa_addr || !(one->ifa_flags & IFF_UP))
        return false;
    if (one->ifa_addr->sa_family == AF_INET)
        return family != 2;
    if (one->ifa_addr->sa_family != AF_INET6 || family == 1)
        return false;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)one->ifa_addr;
    return !IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr);
}

/* The group of `one`, or -1 if it must not be used. With a wish all matches are equal. */
static int interfaces_class_of(const struct ifaddrs *one)
{
    const char *wish = param_string(PARAM_SOCKET_IFNAME);
    if (!usable_address(one))
        return -1;
    if (*wish && !net_name_wanted(wish, one->ifa_name))
        return -1;
    if (*wish && *wish != '^')
        return 0;
    return net_name_class(one->ifa_name, one->ifa_flags & IFF_LOOPBACK);
}

static void interfaces_put(struct net_interface *out, const struct ifaddrs *one)
{
    memset(out, 0, sizeof *out);
    snprintf(out->name, sizeof out->name, "%s", one->ifa_name);
    memcpy(&out->address, one->ifa_addr,
           one->ifa_addr->sa_family == AF_INET ? sizeof out->address.v4 : sizeof out->address.v6);
}

static int interfaces_collect(const struct ifaddrs *all, struct net_interface *out, int room)
{
    int best = -1, count = 0;
    for (const struct ifaddrs *one = all; one; one = one->ifa_next) {
        int class = interfaces_class_of(one);
        if (class >= 0 && (best < 0 || class < best))
            best = class;
    }
    for (const struct ifaddrs *one = all; one && best >= 0 && count < room; one = one->ifa_next)
        if (interfaces_class_of(one) == best)
            interfaces_put(&out[count++], one);
    return count;
}

static void list_names(const struct ifaddrs *all, char *out, size_t size)
{
    size_t used = 0;
    *out = 0;
    for (const struct ifaddrs *one = all; one && used < size; one = one->ifa_next)
        if (usable_address(one))
            used += (size_t)snprintf(out + used, size - used, " %s", one->ifa_name);
}

tutti_result_t net_interfaces(struct net_interface *out, int room, int *count)
{
    struct ifaddrs *all = NULL;
    char names[200];
    if (getifaddrs(&all) < 0)
        return error_set(TUTTI_SYSTEM_ERROR, "cannot list network interfaces: %s", strerror(errno));
    *count = interfaces_collect(all, out, room);
    list_names(all, names, sizeof names);
    freeifaddrs(all);
    if (*count)
        return TUTTI_SUCCESS;
    return error_set(TUTTI_INVALID_USAGE, "no interface fits %s=\"%s\" and %s=%s; this host has:%s",
                     param_row(PARAM_SOCKET_IFNAME)->name, param_string(PARAM_SOCKET_IFNAME),
                     param_row(PARAM_SOCKET_FAMILY)->name, param_string(PARAM_SOCKET_FAMILY), *names ? names : " none");
}
