/* SPDX-License-Identifier: Apache-2.0 */
/* UDP sockets by which packets leave: one for each interface, family and source port. A program has as many source
 * ports as it has queue pairs, and opens thousands. */
#include "verbs/wire_port.h"

#include <errno.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define PORTS_LEAST 256
#define PORTS_MOST  8192 /* and a quarter of the descriptors that the process may have */
#define PORTS_HASH  4096
#define SEND_BUFFER (8 * 1024 * 1024)

struct port {
    int fd, ifindex;
    uint16_t number;
    bool v6, used; /* since the hand has last passed */
    unsigned next; /* of those with its hash, and 1; 0: it is the last one */
};

static struct port ports[PORTS_MOST];
static unsigned port_heads[PORTS_HASH]; /* and 1 */
static unsigned port_count, port_most, port_hand;

void wire_ports_open(void)
{
    struct rlimit limit;
    bool few = getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur / 4 < PORTS_LEAST;
    port_most = few ? PORTS_LEAST : limit.rlim_cur / 4 < PORTS_MOST ? (unsigned)limit.rlim_cur / 4 : PORTS_MOST;
}

void wire_ports_close(void)
{
    for (unsigned i = 0; i < port_count; i++)
        close(ports[i].fd);
    memset(port_heads, 0, sizeof(port_heads));
    port_count = port_hand = 0;
}

static void set_options(int fd, bool v6)
{
    int on = 1, size = SEND_BUFFER, whole = IP_PMTUDISC_DO, small = 1;
    struct sock_filter drop[] = {BPF_STMT(BPF_RET | BPF_K, 0)};
    struct sock_fprog program = {.len = 1, .filter = drop};
    setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program));
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
    /* or else the kernel does not tell of a full queue */
    setsockopt(fd, v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_RECVERR : IP_RECVERR, &on, sizeof(on));
    if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)))
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
    if (v6) {
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
        setsockopt(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, &whole, sizeof(whole));
    } else {
        setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &whole,
                   sizeof(whole)); /* "don't fragment" makes the identification 0 */
    }
}

static int open_port(const struct path *path, int *out)
{
    int fd = socket(path->v6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return errno;
    set_options(fd, path->v6);
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(path->source_port)};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(path->source_port)};
    const struct sockaddr *address = path->v6 ? (struct sockaddr *)&six : (struct sockaddr *)&four;
    int err = 0;
    if (setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, path->device->ifname,
                   (socklen_t)strlen(path->device->ifname) + 1) ||
        bind(fd, address, path->v6 ? sizeof(six) : sizeof(four))) {
        err = errno;
        close(fd);
        return err;
    }
    *out = fd;
    return 0;
}

static unsigned *port_chain(int ifindex, uint16_t number)
{
    return &port_heads[(number ^ (unsigned)ifindex * 509) % PORTS_HASH];
}

static struct port *find_port(const struct path *path)
{
    for (unsigned at = *port_chain(path->device->ifindex, path->source_port); at; at = ports[at - 1].next) {
        struct port *port = &ports[at - 1];
        if (port->number == path->source_port && port->ifindex == path->device->ifindex && port->v6 == path->v6)
            return port;
    }
    return NULL;
}

bool wire_port_needs_room(const struct path *path)
{
    return port_count == port_most && !find_port(path);
}

/* A place for one more: that of one that was not used for long, where there is no other. */
static unsigned free_place(void)
{
    if (port_count < port_most)
        return port_count++;
    while (ports[port_hand % port_most].used)
        ports[port_hand++ % port_most].used = false;
    unsigned place = port_hand++ % port_most, *at = port_chain(ports[place].ifindex, ports[place].number);
    close(ports[place].fd);
    while (*at != place + 1)
        at = &ports[*at - 1].next;
    *at = ports[place].next;
    return place;
}

int wire_port_fd(const struct path *path, int *out)
{
    struct port *port = find_port(path);
    if (!port) {
        int fd = -1, err = open_port(path, &fd);
        if (err)
            return err;
        unsigned place = free_place(), *head = port_chain(path->device->ifindex, path->source_port);
        port = &ports[place];
        *port = (struct port){fd, path->device->ifindex, path->source_port, path->v6, false, *head};
        *head = place + 1;
    }
    port->used = true;
    *out = port->fd;
    return 0;
}
