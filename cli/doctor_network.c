/* SPDX-License-Identifier: Apache-2.0 */
/* Network: which interfaces are used, the length of their packets, TCP's buffers and queues. */
#include "cli/doctor.h"

#include "base/error.h"
#include "base/net.h"
#include "base/param.h"

#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define MOST_INTERFACES 16
#define FAST_MBITS      10000 /* faster links cost processors much with packets of 1500 bytes */
#define JUMBO           9000
#define SMALL           1280 /* packets that IPv6 asks of every link */

/* Speed in Mb/s; 0: unknown. */
static int64_t speed_of(const struct doctor *doctor, const char *name)
{
    for (int i = 0; i < doctor->devices.count; i++) {
        const struct topology_node *node = &doctor->devices.nodes[i];
        if (node->kind == TOPOLOGY_NET && strcmp(node->name, name) == 0)
            return node->mbits;
    }
    return 0;
}

void doctor_interfaces(const struct doctor *doctor, struct doctor_result *out)
{
    struct net_interface used[MOST_INTERFACES];
    int count = 0, outside = 0, bridges = 0;
    if (net_interfaces(used, MOST_INTERFACES, &count) != TUTTI_SUCCESS) {
        doctor_found(out, "%s", error_last());
        doctor_complain(
            out, DOCTOR_WRONG, "ranks cannot meet, not even on one host",
            "ip link set lo up; ip address; TUTTI_SOCKET_IFNAME and TUTTI_SOCKET_FAMILY choose among what is there");
        return;
    }
    for (int i = 0; i < count; i++) {
        char text[NET_TEXT];
        bool loopback = net_is_loopback(&used[i].address);
        doctor_found(out, "%s%s %s", i ? ", " : "ranks meet at ", used[i].name, net_format(&used[i].address, text));
        char *port = strrchr(out->found, ':'); /* the text has no port yet */
        if (port && strcmp(port, ":0") == 0)
            *port = 0;
        if (speed_of(doctor, used[i].name))
            doctor_found(out, " (%g Gb/s)", (double)speed_of(doctor, used[i].name) / 1000);
        outside += !loopback;
        bridges += !loopback && net_name_class(used[i].name, false) == 2;
    }
    if (!outside)
        doctor_complain(
            out, DOCTOR_WARN, "ranks of other hosts are not reached",
            "ip link set IF up; ip address add ADDRESS dev IF; or TUTTI_SOCKET_IFNAME=IF (docker: --network=host)");
    else if (bridges == outside)
        doctor_complain(out, DOCTOR_WARN, "a bridge of containers leads to no other host",
                        "export TUTTI_SOCKET_IFNAME=the interface that does");
}

/* The MTU; 0: unknown. */
static int mtu_of(int fd, const char *name)
{
    struct ifreq request = {0};
    snprintf(request.ifr_name, sizeof request.ifr_name, "%.*s", IF_NAMESIZE - 1, name);
    return ioctl(fd, SIOCGIFMTU, &request) == 0 ? request.ifr_mtu : 0;
}

static void judge_mtu(const struct doctor *doctor, struct doctor_result *out, const char *name, int mtu)
{
    if (mtu < SMALL)
        doctor_complain(out, DOCTOR_WARN, "packets are short: processors spend more on each byte",
                        "ip link set %s mtu 1500", name);
    else if (mtu < JUMBO && speed_of(doctor, name) >= FAST_MBITS)
        doctor_complain(out, DOCTOR_WARN,
                        "six times as many packets as with 9000 bytes: processors may be the limit, not the wire",
                        "ip link set %s mtu 9000, on all hosts and the switches between them", name);
}

void doctor_mtu(const struct doctor *doctor, struct doctor_result *out)
{
    struct net_interface used[MOST_INTERFACES];
    int count = 0, first = 0, told = 0, fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (net_interfaces(used, MOST_INTERFACES, &count) != TUTTI_SUCCESS)
        count = 0;
    for (int i = 0; i < count; i++) {
        int mtu = mtu_of(fd, used[i].name);
        if (!mtu || net_is_loopback(&used[i].address) || (i && strcmp(used[i].name, used[i - 1].name) == 0))
            continue;
        doctor_found(out, "%s%s %d", told++ ? ", " : "bytes of a packet: ", used[i].name, mtu);
        judge_mtu(doctor, out, used[i].name, mtu);
        if (first && mtu != first)
            doctor_complain(out, DOCTOR_WARN, "lanes over these interfaces differ in cost", "ip link set %s mtu %d",
                            used[i].name, first);
        first = first ? first : mtu;
    }
    if (fd >= 0)
        close(fd);
    if (!told)
        doctor_found(out, "no interface to other hosts is used");
}

/* Judges a buffer: an administrator of the network gets any size. Others get up to the limit, and a lane asks for no
 * more. */
static void judge_buffer(struct doctor_result *out, const char *name, int force, int64_t wanted)
{
    char path[64];
    int size = (int)wanted, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool any = fd >= 0 && setsockopt(fd, SOL_SOCKET, force, &size, sizeof size) == 0;
    if (fd >= 0)
        close(fd);
    snprintf(path, sizeof path, "/proc/sys/net/core/%s", name);
    int64_t most = topology_read_number("", path, -1);
    if (most >= 0)
        doctor_found(out, "net.core.%s %jd%s, ", name, (intmax_t)most, any ? " (no limit for this user)" : "");
    if (most >= 0 && most < wanted && !any)
        doctor_complain(out, DOCTOR_WARN,
                        "lanes begin with small buffers that grow by themselves: slow to start where the way is long",
                        "sysctl -w net.core.rmem_max=%jd net.core.wmem_max=%jd", (intmax_t)wanted, (intmax_t)wanted);
}

void doctor_tcp(const struct doctor *doctor, struct doctor_result *out)
{
    int64_t backlog = param_int(PARAM_BOOTSTRAP_BACKLOG),
            most = topology_read_number("", "/proc/sys/net/core/somaxconn", -1);
    judge_buffer(out, "wmem_max", SO_SNDBUFFORCE, param_int(PARAM_TCP_BUFFER));
    judge_buffer(out, "rmem_max", SO_RCVBUFFORCE, param_int(PARAM_TCP_BUFFER));
    if (most < 0)
        doctor_found(out, "net.core.somaxconn is not told");
    else
        doctor_found(out, "net.core.somaxconn %jd", (intmax_t)most);
    if (most >= 0 && most < backlog)
        doctor_complain(out, DOCTOR_WARN, "when more ranks than that join at once, some wait a second for another try",
                        "sysctl -w net.core.somaxconn=%jd", (intmax_t)backlog);
}
