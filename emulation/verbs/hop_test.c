/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of the next hop's address, in a network namespace of the test's own with a pair of Ethernet devices and
 * neighbours made up. */
#include "verbs/netlink.h"
#include "verbs/packet.h"
#include "verbs/wire_hop.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_arp.h>
#include <net/if.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LONG_TIME 1000000000u /* ns */

static struct rdma_device device = {.hardware = ARPHRD_ETHER, .up = true, .mtu = 4200};

static void ip(const char *arguments)
{
    char command[256];
    snprintf(command, sizeof(command), "ip %s", arguments);
    assert_int_equal(system(command), 0);
}

static int make_net(void **state)
{
    if (system("ip link add e0 type veth peer name e1"))
        return -1;
    ip("link set e0 up");
    ip("link set e1 up");
    ip("addr add 10.7.0.1/24 dev e0");
    ip("addr add fd07::1/64 dev e0 nodad");
    ip("route add 10.8.0.0/16 via 10.7.0.2");
    ip("route add blackhole 10.8.9.0/24");
    ip("-6 route add fd08::/64 via fd07::2");
    ip("neigh add 10.7.0.2 lladdr 02:00:00:00:00:42 dev e0 nud permanent");
    ip("neigh add 10.7.0.3 lladdr 02:00:00:00:00:43 dev e0 nud stale");
    ip("neigh add fd07::2 lladdr 02:00:00:00:00:62 dev e0 nud permanent");
    device.ifindex = (int)if_nametoindex("e0");
    return 0;
}

static struct path path_to(const char *source, const char *destination)
{
    struct path path = {.device = &device, .v6 = strchr(source, ':'), .source_port = 0xc000, .traffic_class = 3};
    int family = path.v6 ? AF_INET6 : AF_INET;
    assert_int_equal(inet_pton(family, source, path.source), 1);
    assert_int_equal(inet_pton(family, destination, path.destination), 1);
    return path;
}

/* The last byte of the hardware address, or minus an errno. */
static int hop_to(const char *source, const char *destination, int index)
{
    uint8_t to[6] = {0};
    struct path path = path_to(source, destination);
    struct netlink_flow flow = {
        .index = index, .v6 = path.v6, .traffic_class = path.traffic_class, .source_port = 0xc000};
    flow.destination_port = ROCE_UDP_PORT;
    flow.source = path.source;
    flow.destination = path.destination;
    int err = netlink_next_hop(&flow, to);
    return err ? -err : to[5];
}

static void neighbours_and_gateways_are_found(void **state)
{
    assert_int_equal(hop_to("10.7.0.1", "10.7.0.2", device.ifindex), 0x42);
    assert_int_equal(hop_to("10.7.0.1", "10.7.0.3", device.ifindex), 0x43);
    assert_int_equal(hop_to("10.7.0.1", "10.8.1.1", device.ifindex), 0x42);
    assert_int_equal(hop_to("fd07::1", "fd07::2", device.ifindex), 0x62);
    assert_int_equal(hop_to("fd07::1", "fd08::9", device.ifindex), 0x62);
}

static void what_the_kernel_does_otherwise_is_left_to_it(void **state)
{
    assert_int_equal(hop_to("10.7.0.1", "10.7.0.9", device.ifindex), -ENOENT); /* a neighbour that nobody knows */
    assert_int_equal(hop_to("fd07::1", "fd07::9", device.ifindex), -ENOENT);
    assert_int_equal(hop_to("10.7.0.1", "10.8.9.1", device.ifindex), -ENOENT);  /* a black hole */
    assert_int_equal(hop_to("10.7.0.1", "10.7.0.1", device.ifindex), -ENOENT);  /* this host */
    assert_int_equal(hop_to("10.7.0.1", "10.7.0.2", 12345), -ENOENT);           /* an unknown interface */
    assert_int_equal(hop_to("10.66.0.1", "10.7.0.2", device.ifindex), -ENOENT); /* not our address */
}

/* The number of packets until one may leave as a frame, 0 when none of many may. */
static int packets_until_known(const struct path *path, uint64_t now, uint8_t to[6])
{
    for (int i = 1; i <= 100; i++)
        if (wire_hop_find(path, now, to))
            return i;
    return 0;
}

static void knowledge_is_refreshed(void **state)
{
    uint8_t to[6];
    struct path path = path_to("10.7.0.1", "10.7.0.4"), other = path_to("10.7.0.1", "10.7.0.2");
    uint64_t now = LONG_TIME;
    wire_hop_forget();
    assert_int_equal(packets_until_known(&path, now, to), 0);
    ip("neigh add 10.7.0.4 lladdr 02:00:00:00:00:44 dev e0 nud permanent");
    assert_int_equal(packets_until_known(&path, now, to), 0); /* asked a moment ago */
    now += LONG_TIME;
    assert_true(packets_until_known(&path, now, to) > 1); /* the kernel sees some first */
    assert_int_equal(to[5], 0x44);
    ip("neigh replace 10.7.0.4 lladdr 02:00:00:00:00:45 dev e0 nud permanent");
    now += LONG_TIME;
    assert_true(packets_until_known(&path, now, to) > 1);
    assert_int_equal(to[5], 0x45);
    assert_true(packets_until_known(&other, now, to) > 1);
    assert_int_equal(to[5], 0x42);
    wire_hop_forget();
    assert_false(wire_hop_find(&path, now, to));
}

static void only_ethernet_has_frames(void **state)
{
    uint8_t to[6];
    struct path path = path_to("10.7.0.1", "10.7.0.2");
    device.hardware = ARPHRD_NONE;
    assert_int_equal(packets_until_known(&path, LONG_TIME, to), 0);
    device.hardware = ARPHRD_ETHER;
    assert_true(packets_until_known(&path, LONG_TIME, to));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(neighbours_and_gateways_are_found),
        cmocka_unit_test(what_the_kernel_does_otherwise_is_left_to_it),
        cmocka_unit_test(knowledge_is_refreshed),
        cmocka_unit_test(only_ethernet_has_frames),
    };
    if (system("ip -V >/dev/null 2>&1"))
        return 77;
    return cmocka_run_group_tests(tests, make_net, NULL);
}
