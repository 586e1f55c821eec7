/* SPDX-License-Identifier: Apache-2.0 */
/* Wishes for devices, and the worth of addresses. */
#include "transport/verbs/choose.h"

#include <stdlib.h>
#include <string.h>

/* One item of the wish: a name, perhaps with a port. */
static bool item_matches(const char *item, size_t length, bool exact, const char *name, unsigned port)
{
    const char *colon = memchr(item, ':', length);
    size_t of_name = colon ? (size_t)(colon - item) : length;
    if (!of_name || strncmp(item, name, of_name) != 0 || (exact && name[of_name]))
        return false;
    return !colon || strtoul(colon + 1, NULL, 10) == port;
}

bool choose_port(const char *wish, const char *name, unsigned port)
{
    bool all_but = *wish == '^', found = false;
    wish += all_but;
    bool exact = *wish == '=';
    wish += exact;
    if (!*wish)
        return true;
    while (*wish) {
        size_t length = strcspn(wish, ",");
        found |= item_matches(wish, length, exact, name, port);
        wish += length + (wish[length] == ',');
    }
    return found != all_but;
}

static bool is_v4(const union ibv_gid *gid)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    return memcmp(gid->raw, mapped, sizeof mapped) == 0;
}

static bool is_link_local(const union ibv_gid *gid)
{
    return gid->raw[0] == 0xfe && (gid->raw[1] & 0xc0) == 0x80;
}

/* RoCE version 2 can be routed, and of its addresses IPv4 is the one that most networks route. On InfiniBand there is
 * nothing to choose. */
int choose_gid_class(const struct ibv_gid_entry *entry)
{
    static const union ibv_gid none;
    if (memcmp(&entry->gid, &none, sizeof none) == 0)
        return -1;
    if (entry->gid_type == IBV_GID_TYPE_ROCE_V2)
        return is_v4(&entry->gid) ? 0 : is_link_local(&entry->gid) ? 2 : 1;
    return entry->gid_type == IBV_GID_TYPE_IB ? 0 : 3;
}

bool choose_ip(const struct ibv_gid_entry *entry, struct net_address *out)
{
    memset(out, 0, sizeof *out);
    if (choose_gid_class(entry) < 0 || entry->gid_type == IBV_GID_TYPE_IB || is_link_local(&entry->gid))
        return false;
    if (is_v4(&entry->gid)) {
        out->v4.sin_family = AF_INET;
        memcpy(&out->v4.sin_addr, entry->gid.raw + 12, sizeof out->v4.sin_addr);
    } else {
        out->v6.sin6_family = AF_INET6;
        memcpy(&out->v6.sin6_addr, entry->gid.raw, sizeof out->v6.sin6_addr);
    }
    return true;
}

uint32_t choose_rate(unsigned width, unsigned speed)
{
    static const uint32_t lanes[] = {1, 4, 8, 12, 2}, rates[] = {2500, 5000, 10000, 10000, 14000, 25000, 50000, 100000};
    bool known = width && speed && !(width & (width - 1)) && !(speed & (speed - 1)) && width <= 16 && speed <= 128;
    return known ? lanes[__builtin_ctz(width)] * rates[__builtin_ctz(speed)] : 0;
}

bool choose_is_loopback(const union ibv_gid *gid)
{
    static const union ibv_gid v6 = {.raw = {[15] = 1}};
    return (is_v4(gid) && gid->raw[12] == 127) || memcmp(gid, &v6, sizeof v6) == 0;
}
