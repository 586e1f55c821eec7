/* SPDX-License-Identifier: Apache-2.0 */
/* Sending. Packets are built in an arena and leave in batches. Equal-sized neighbours to one peer become one
 * super-packet that the kernel (or nobody, on a local link) cuts again. The long way is a UDP socket per interface,
 * family and source port, bound to the interface, the short one wire_frame.c. */
#include "verbs/counters.h"
#include "verbs/engine.h"
#include "verbs/fault.h"
#include "verbs/wire.h"
#include "verbs/wire_frame.h"
#include "verbs/wire_hop.h"
#include "verbs/wire_port.h"

#include "base/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

/* Two super-packets: what was built is still in the cache when the kernel copies it. */
#define ARENA_SIZE  (128 * 1024)
#define ENTRIES_MAX 64
#define SUPER_MAX   65000 /* bytes of a super-packet after its UDP header */
#define SEGMENT_MAX 64
#define BLOCKED_MS  2
#define AGAIN_NS    (200 * NS_PER_US) /* pause before an interface whose queue was full is tried again */
#define CONTROL_MAX (CMSG_SPACE(sizeof(struct in6_pktinfo)) + CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(uint16_t)))

/* One datagram, perhaps a super-packet. */
struct wire_tx_entry {
    struct path path;
    int fd;
    size_t start, size, segment;
    unsigned count;
    bool closed, framed;
    uint8_t to[6]; /* hardware address of a frame */
};

/* A datagram that its interface's queue had no room for. */
struct wire_tx_waiting {
    struct list node;
    struct wire_tx_entry entry;
    uint8_t bytes[];
};

static struct list backlog = {&backlog, &backlog};
static unsigned tries; /* times that the backlog was tried */
static uint8_t arena[ARENA_SIZE] __attribute__((aligned(64)));
static size_t arena_used;
static struct wire_tx_entry entries[ENTRIES_MAX];
static unsigned entry_count;
static size_t begun; /* size of the packet between begin and commit */
static bool offload;
static int members[2] = {-1, -1}; /* sockets that hold multicast memberships: IPv4, IPv6 */

int wire_open_receivers(void);
void wire_close_receivers(void);

/* Packet sockets pass super-packets of UDP since Linux 6.2. */
static bool kernel_offloads(void)
{
    const char *wish = getenv("SOFTVERBS_GSO");
    struct utsname name;
    int major = 0, minor = 0;
    if (wish)
        return *wish == '1';
    return !uname(&name) && sscanf(name.release, "%d.%d", &major, &minor) == 2 &&
           (major > 6 || (major == 6 && minor >= 2));
}

int wire_open(void)
{
    wire_ports_open();
    offload = kernel_offloads();
    wire_frame_open();
    return wire_open_receivers();
}

static void forget_backlog(void)
{
    struct list *node;
    while ((node = list_pop(&backlog))) {
        struct wire_tx_waiting *waiting = list_entry(node, struct wire_tx_waiting, node);
        waiting->entry.path.device->waiting--;
        free(waiting);
    }
}

void wire_close(void)
{
    forget_backlog();
    wire_close_receivers();
    wire_frame_close();
    wire_hop_forget();
    wire_ports_close();
    for (int i = 0; i < 2; i++) {
        if (members[i] >= 0)
            close(members[i]);
        members[i] = -1;
    }
    entry_count = 0;
    arena_used = 0;
}

bool wire_gid_is_v4(const union ibv_gid *gid)
{
    static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};
    return !memcmp(gid->raw, prefix, sizeof(prefix));
}

/* An entry that waits may name a descriptor that is closed now. */
static int port_fd(const struct path *path, int *out)
{
    if (wire_port_needs_room(path))
        wire_flush();
    return wire_port_fd(path, out);
}

int wire_claim_port(const struct path *path)
{
    int fd;
    return port_fd(path, &fd);
}

static bool same_flow(const struct path *a, const struct path *b)
{
    return a->device == b->device && a->v6 == b->v6 && a->source_port == b->source_port &&
           a->traffic_class == b->traffic_class && !memcmp(a->destination, b->destination, sizeof(a->destination)) &&
           !memcmp(a->source, b->source, sizeof(a->source));
}

bool wire_joins(void)
{
    return offload && !fault_touches_packets();
}

static bool can_append(const struct wire_tx_entry *last, const struct path *path, size_t size)
{
    return wire_joins() && !last->closed && size <= last->segment && last->count < SEGMENT_MAX &&
           last->size + size <= SUPER_MAX && same_flow(&last->path, path);
}

uint8_t *wire_begin(const struct path *path, size_t size, struct icrc_flow *flow)
{
    struct wire_tx_entry *last = entry_count ? &entries[entry_count - 1] : NULL;
    if (!last || !can_append(last, path, size)) {
        if (arena_used + SUPER_MAX > ARENA_SIZE || entry_count == ENTRIES_MAX)
            wire_flush(); /* not in the middle of a super-packet */
        last = entry_count ? last : NULL;
        if (last)
            last->closed = true;
        last = &entries[entry_count++];
        *last = (struct wire_tx_entry){.path = *path, .fd = -1, .start = arena_used, .segment = size};
    }
    begun = size;
    flow->v6 = path->v6;
    memcpy(flow->source, path->source, sizeof(flow->source));
    memcpy(flow->destination, path->destination, sizeof(flow->destination));
    flow->source_port = path->source_port;
    flow->ip_id = (uint16_t)last->count;
    flow->ip_fragment = 0x4000;
    return arena + arena_used;
}

/* Puts the packet into its datagram. */
static void append(void)
{
    struct wire_tx_entry *last = &entries[entry_count - 1];
    last->closed = begun < last->segment;
    last->size += begun;
    last->count++;
    arena_used += begun;
    count(sent_packets);
    count_add(sent_bytes, begun);
}

void wire_cancel(void)
{
    if (!entries[entry_count - 1].count)
        entry_count--;
}

void wire_commit(void)
{
    struct wire_tx_entry *last = &entries[entry_count - 1];
    if (!last->path.device->up || last->path.device->frozen) {
        count(dropped_port_down);
        wire_cancel();
        return;
    }
    if (!fault_touches_packets()) {
        append();
        return;
    }
    const struct path path = last->path;
    unsigned copies = fault_packet(FAULT_OUT, &path, arena + arena_used, begun);
    if (!copies) {
        wire_cancel();
        return;
    }
    size_t start = arena_used, size = begun;
    append();
    entries[entry_count - 1].closed = true;
    if (copies > 1)
        wire_resend(&path, arena + start, size);
}

void wire_resend(const struct path *path, const uint8_t *bytes, size_t size)
{
    uint8_t copy[WIRE_PACKET_MAX];
    if (size > sizeof(copy))
        return;
    memcpy(copy, bytes, size);
    if (arena_used + size > ARENA_SIZE || entry_count == ENTRIES_MAX)
        wire_flush();
    if (entry_count)
        entries[entry_count - 1].closed = true;
    entries[entry_count++] = (struct wire_tx_entry){.path = *path, .fd = -1, .start = arena_used, .segment = size};
    memcpy(arena + arena_used, copy, size);
    begun = size;
    append();
    entries[entry_count - 1].closed = true;
}

struct outgoing {
    struct iovec parts[2];
    struct sockaddr_ll link;
    uint8_t headers[WIRE_FRAME_HEADERS];
    struct sockaddr_in6 six;
    struct sockaddr_in four;
    char control[CONTROL_MAX] __attribute__((aligned(8)));
};

static struct cmsghdr *add_control(struct msghdr *message, struct cmsghdr *at, int level, int type, const void *data,
                                   size_t size)
{
    at->cmsg_level = level;
    at->cmsg_type = type;
    at->cmsg_len = CMSG_LEN(size);
    memcpy(CMSG_DATA(at), data, size);
    message->msg_controllen += CMSG_SPACE(size);
    return (struct cmsghdr *)(void *)((char *)at + CMSG_SPACE(size));
}

static void fill_address(struct msghdr *message, struct outgoing *out, const struct path *path)
{
    if (path->v6) {
        out->six = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(ROCE_UDP_PORT)};
        memcpy(&out->six.sin6_addr, path->destination, 16);
        if (IN6_IS_ADDR_LINKLOCAL(&out->six.sin6_addr) || IN6_IS_ADDR_MULTICAST(&out->six.sin6_addr))
            out->six.sin6_scope_id = (uint32_t)path->device->ifindex;
        message->msg_name = &out->six;
        message->msg_namelen = sizeof(out->six);
    } else {
        out->four = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(ROCE_UDP_PORT)};
        memcpy(&out->four.sin_addr, path->destination, 4);
        message->msg_name = &out->four;
        message->msg_namelen = sizeof(out->four);
    }
}

static void fill_frame(struct msghdr *message, struct outgoing *out, const struct wire_tx_entry *entry, uint8_t *bytes)
{
    size_t size =
        wire_frame_headers(out->headers, &entry->path, entry->to, entry->size, entry->count > 1 ? entry->segment : 0);
    wire_frame_address(&out->link, &entry->path);
    out->parts[0] = (struct iovec){out->headers, size};
    out->parts[1] = (struct iovec){bytes, entry->size};
    *message = (struct msghdr){
        .msg_name = &out->link, .msg_namelen = sizeof(out->link), .msg_iov = out->parts, .msg_iovlen = 2};
}

static void fill_datagram(struct msghdr *message, struct outgoing *out, const struct wire_tx_entry *entry,
                          uint8_t *bytes)
{
    const struct path *path = &entry->path;
    int class = path->traffic_class;
    uint16_t segment = (uint16_t)entry->segment;
    memset(message, 0, sizeof(*message));
    memset(out->control, 0, sizeof(out->control));
    fill_address(message, out, path);
    out->parts[0] = (struct iovec){bytes, entry->size};
    message->msg_iov = out->parts;
    message->msg_iovlen = 1;
    message->msg_control = out->control;
    struct cmsghdr *at = (struct cmsghdr *)(void *)out->control;
    if (path->v6) {
        struct in6_pktinfo info = {.ipi6_ifindex = (unsigned)path->device->ifindex};
        memcpy(&info.ipi6_addr, path->source, 16);
        at = add_control(message, at, IPPROTO_IPV6, IPV6_PKTINFO, &info, sizeof(info));
        at = add_control(message, at, IPPROTO_IPV6, IPV6_TCLASS, &class, sizeof(class));
    } else {
        struct in_pktinfo info = {.ipi_ifindex = path->device->ifindex};
        memcpy(&info.ipi_spec_dst, path->source, 4);
        at = add_control(message, at, IPPROTO_IP, IP_PKTINFO, &info, sizeof(info));
        at = add_control(message, at, IPPROTO_IP, IP_TOS, &class, sizeof(class));
    }
    if (entry->count > 1)
        add_control(message, at, SOL_UDP, UDP_SEGMENT, &segment, sizeof(segment));
}

static void fill(struct msghdr *message, struct outgoing *out, const struct wire_tx_entry *entry, uint8_t *bytes)
{
    if (entry->framed)
        fill_frame(message, out, entry, bytes);
    else
        fill_datagram(message, out, entry, bytes);
}

/* What the network answered to earlier packets is reported to the next send: it is not about that one. */
static void clear_errors(int fd)
{
    uint8_t nothing[1];
    struct iovec part = {nothing, sizeof(nothing)};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    while (recvmsg(fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT) >= 0)
        message = (struct msghdr){.msg_iov = &part, .msg_iovlen = 1};
}

/* How many messages are dealt with: all, or those before the one that the interface's queue had no room for. A full
 * socket buffer is waited for a little; whatever else fails is a lost packet, as on a real wire. */
static unsigned send_all(int fd, struct mmsghdr *messages, unsigned n)
{
    unsigned done = 0;
    bool waited = false, cleared = false;
    while (done < n) {
        int sent = sendmmsg(fd, messages + done, n - done, MSG_DONTWAIT);
        if (sent > 0) {
            done += (unsigned)sent;
        } else if (errno == EAGAIN && !waited) {
            struct pollfd wait = {.fd = fd, .events = POLLOUT};
            poll(&wait, 1, BLOCKED_MS);
            waited = true;
        } else if (errno == ENOBUFS) {
            return done;
        } else if (errno != EINTR && !cleared) {
            clear_errors(fd);
            cleared = true;
        } else if (errno != EINTR) {
            count(send_failed);
            done++;
        }
    }
    return done;
}

static bool leaves_alike(const struct wire_tx_entry *a, const struct wire_tx_entry *b)
{
    return a->segment <= b->segment && same_flow(&a->path, &b->path);
}

static void choose_way(struct wire_tx_entry *entry, const struct wire_tx_entry *before, uint64_t now)
{
    if (before && leaves_alike(entry, before)) {
        entry->fd = before->fd;
        entry->framed = before->framed;
        memcpy(entry->to, before->to, sizeof(entry->to));
        return;
    }
    entry->fd = wire_frame_fd(&entry->path, entry->segment, now, entry->to);
    entry->framed = entry->fd >= 0;
    if (!entry->framed && port_fd(&entry->path, &entry->fd))
        entry->fd = -1;
}

bool wire_waits(const struct rdma_device *device)
{
    return device->waiting;
}

/* An adapter waits until its link has room; so does this. Without memory the datagram is lost. */
static void wait_for_room(const struct wire_tx_entry *entry, uint64_t now)
{
    struct wire_tx_waiting *waiting = malloc(sizeof(*waiting) + entry->size);
    if (!waiting) {
        count(send_failed);
        return;
    }
    waiting->entry = *entry;
    memcpy(waiting->bytes, arena + entry->start, entry->size);
    list_push(&backlog, &waiting->node);
    waiting->entry.path.device->waiting++;
    count(waited_for_queue);
    engine_alarm(now + AGAIN_NS);
}

/* Whether it is dealt with. */
static bool send_waiting(struct wire_tx_waiting *waiting, uint64_t now)
{
    struct mmsghdr message = {0};
    struct outgoing out;
    struct rdma_device *device = waiting->entry.path.device;
    counters_are(device->counts);
    if (!device->up || device->frozen) {
        count(dropped_port_down);
        return true;
    }
    choose_way(&waiting->entry, NULL, now); /* sockets and neighbours may have changed */
    if (waiting->entry.fd < 0) {
        count(send_failed);
        return true;
    }
    fill(&message.msg_hdr, &out, &waiting->entry, waiting->bytes);
    return send_all(waiting->entry.fd, &message, 1);
}

static void mark(struct qp *qp, void *device)
{
    if (qp->context->device == device)
        engine_mark(qp);
}

/* In order for each interface. Its queue pairs go on when nothing waits any more. */
static void send_backlog(uint64_t now)
{
    if (list_empty(&backlog))
        return;
    tries++;
    list_each_safe(node, &backlog)
    {
        struct wire_tx_waiting *waiting = list_entry(node, struct wire_tx_waiting, node);
        struct rdma_device *device = waiting->entry.path.device;
        if (device->refused_at == tries)
            continue;
        if (!send_waiting(waiting, now)) {
            device->refused_at = tries;
            continue;
        }
        list_remove(node);
        free(waiting);
        if (!--device->waiting)
            engine_each_qp(mark, device);
    }
    if (!list_empty(&backlog))
        engine_alarm(now + AGAIN_NS);
}

/* Sends the first of the entries, and those behind that leave by the same socket; returns how many are dealt with. */
static unsigned send_group(const struct wire_tx_entry *first, unsigned n, uint64_t now)
{
    static struct mmsghdr messages[ENTRIES_MAX];
    static struct outgoing out[ENTRIES_MAX];
    unsigned group = 0, sent = 0;
    counters_are(first->path.device->counts);
    if (wire_waits(first->path.device)) {
        wait_for_room(first, now);
        return 1;
    }
    for (; group < n && first[group].fd == first->fd; group++)
        fill(&messages[group].msg_hdr, &out[group], &first[group], arena + first[group].start);
    if (first->fd < 0) {
        count_add(send_failed, group);
        return group;
    }
    sent = send_all(first->fd, messages, group);
    count_add(sent_frames, first->framed ? sent : 0);
    if (sent < group)
        wait_for_room(&first[sent++], now);
    return sent;
}

void wire_flush(void)
{
    unsigned n = entry_count;
    uint64_t now = n || !list_empty(&backlog) ? clock_ns() : 0;
    entry_count = 0; /* port_fd may come back here */
    send_backlog(now);
    for (unsigned k = 0; k < n; k++)
        choose_way(&entries[k], k ? &entries[k - 1] : NULL, now);
    for (unsigned i = 0; i < n;)
        i += send_group(&entries[i], n - i, now);
    for (const struct wire_tx_entry *sent = entries; sent < entries + n; sent++)
        wire_frame_loop(&sent->path, arena + sent->start, sent->size, sent->count > 1 ? sent->segment : 0);
    arena_used = 0;
}

static int group_v4(int fd, const struct rdma_device *device, const union ibv_gid *gid, bool join)
{
    struct ip_mreqn request = {.imr_ifindex = device->ifindex};
    memcpy(&request.imr_multiaddr, gid->raw + 12, 4);
    return setsockopt(fd, IPPROTO_IP, join ? IP_ADD_MEMBERSHIP : IP_DROP_MEMBERSHIP, &request, sizeof(request)) ? errno
                                                                                                                : 0;
}

static int group_v6(int fd, const struct rdma_device *device, const union ibv_gid *gid, bool join)
{
    struct ipv6_mreq request = {.ipv6mr_interface = (unsigned)device->ifindex};
    memcpy(&request.ipv6mr_multiaddr, gid->raw, 16);
    return setsockopt(fd, IPPROTO_IPV6, join ? IPV6_ADD_MEMBERSHIP : IPV6_DROP_MEMBERSHIP, &request, sizeof(request))
               ? errno
               : 0;
}

int wire_join(const struct rdma_device *device, const union ibv_gid *gid, bool join)
{
    bool v6 = !wire_gid_is_v4(gid);
    if (members[v6] < 0)
        members[v6] = socket(v6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (members[v6] < 0)
        return errno;
    return v6 ? group_v6(members[v6], device, gid, join) : group_v4(members[v6], device, gid, join);
}
