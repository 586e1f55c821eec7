/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Source ports of lanes, given by the path master over the agent of this host. A lane that asks is told later, or by
 * TUTTI_PATHS when its time is over: it never waits for a master that is away. One connection serves the process.
 */
#include "path/path.h"

#include "base/clock.h"
#include "base/fork.h"
#include "base/log.h"
#include "base/param.h"
#include "base/random.h"
#include "path/dnlb.h"
#include "wire/lease.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define CHAINS    1024
#define PAUSE     NS_PER_S /* after an agent could not be reached */
#define SAME_OPEN NS_PER_S /* a lane that is asked for so soon again is still being opened: its peer had declined */

enum lease_state { LEASE_NONE, LEASE_ASKED, LEASE_HAS };

struct lease {
    struct lease *next;
    uint8_t peer[WIRE_UUID_BYTES];
    uint16_t index;
    uint16_t port; /* the latest that was given; 0: none */
    uint16_t used; /* what the lane has opened with, or has been moved to */
    uint32_t number;
    enum lease_state state;
    uint64_t asked, deadline; /* of the question */
    uint64_t handed;          /* when the port was handed out; 0: it was not */
};

static struct {
    int fd; /* -1: no connection */
    struct lease *chain[CHAINS];
    uint32_t number; /* the latest lane's */
    uint64_t away;   /* no agent is looked for before */
    uint64_t slow;   /* no answer is waited for before: one did not come in its time */
} leases = {.fd = -1};
static pthread_mutex_t leases_lock = PTHREAD_MUTEX_INITIALIZER;

/* The connection is the parent's; so are its lanes, whose memory the child keeps. */
static void leases_reset(void)
{
    leases.fd = -1;
    memset(leases.chain, 0, sizeof leases.chain);
    pthread_mutex_init(&leases_lock, NULL);
}

__attribute__((constructor)) static void leases_watch_forks(void)
{
    fork_reset_by(leases_reset);
}

/* ---- lanes ---- */

static struct lease **lease_chain(uint32_t number)
{
    return &leases.chain[mix64(number) % CHAINS];
}

static struct lease *lease_by_number(uint32_t number)
{
    struct lease *lease = *lease_chain(number);
    while (lease && lease->number != number)
        lease = lease->next;
    return lease;
}

/* The number of a lane is made of what names it. */
static uint32_t lease_number(const uint8_t *peer, uint16_t index, uint32_t turn)
{
    return (uint32_t)hash_bytes((uint64_t)turn << 32 | index, peer, WIRE_UUID_BYTES);
}

/* NULL: there is none; *number is its number then. */
static struct lease *lease_find(const uint8_t *peer, uint16_t index, uint32_t *number)
{
    struct lease *lease;
    uint32_t turn = 0;
    *number = lease_number(peer, index, turn);
    while ((lease = lease_by_number(*number)) && (lease->index != index || !wire_same_process(lease->peer, peer)))
        *number = lease_number(peer, index, ++turn);
    return lease;
}

/* NULL: no memory. */
static struct lease *lease_of(const struct path_source *lane)
{
    uint32_t number;
    struct lease *lease = lease_find(lane->peer->uuid, lane->index, &number);
    if (lease || !(lease = calloc(1, sizeof *lease)))
        return lease;
    *lease = (struct lease){.next = *lease_chain(number), .index = lane->index, .number = number};
    memcpy(lease->peer, lane->peer->uuid, sizeof lease->peer);
    *lease_chain(number) = lease;
    return lease;
}

/* ---- the agent ---- */

static void lease_part(uint64_t now)
{
    if (leases.fd >= 0)
        close(leases.fd);
    leases.fd = -1;
    leases.away = now + PAUSE;
    for (int i = 0; i < CHAINS; i++)
        for (struct lease *lease = leases.chain[i]; lease; lease = lease->next)
            lease->state = lease->state == LEASE_ASKED ? LEASE_NONE : lease->state;
}

/* The agent is root's or this user's: a socket that somebody else left there is none. */
static bool lease_trusts(int fd)
{
    struct ucred other = {0};
    socklen_t size = sizeof other;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &other, &size) == 0 && (!other.uid || other.uid == geteuid());
}

static bool lease_meet(uint64_t now)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    const char *path = param_string(PARAM_PATH_AGENT);
    if (leases.fd >= 0 || now < leases.away)
        return leases.fd >= 0;
    if (strlen(path) >= sizeof at.sun_path)
        return false;
    memcpy(at.sun_path, path, strlen(path) + 1);
    leases.fd = fork_socket(AF_UNIX, SOCK_SEQPACKET);
    if (leases.fd >= 0 && connect(leases.fd, (struct sockaddr *)&at, sizeof at) == 0 && lease_trusts(leases.fd))
        return true;
    log_info("no path agent at %s (%s): source ports are those of TUTTI_PATHS", path, strerror(errno));
    lease_part(now);
    return false;
}

/* Takes what the agent has said. A port that no plan could give is none. */
static void lease_hear(uint64_t now)
{
    struct wire_lease_answer answer;
    ssize_t got = -1;
    while (leases.fd >= 0 && (got = recv(leases.fd, &answer, sizeof answer, MSG_DONTWAIT)) == sizeof answer) {
        struct lease *lease = answer.magic == WIRE_LEASE_ANSWER ? lease_by_number(answer.number) : NULL;
        if (!lease)
            continue;
        lease->port = answer.port >= DNLB_FIRST ? answer.port : 0;
        lease->state = LEASE_HAS;
    }
    if (leases.fd >= 0 && (got >= 0 || (errno != EAGAIN && errno != EINTR)))
        lease_part(now);
}

static bool lease_ask(struct lease *lease, const struct path_source *lane, bool again, uint64_t now)
{
    struct wire_lease_ask ask = {.magic = WIRE_LEASE_ASK,
                                 .number = lease->number,
                                 .parts = (uint16_t)param_int(PARAM_IB_LANES),
                                 .port = again ? lease->used : lease->port,
                                 .flags = (lane->messages ? WIRE_LEASE_IDLE : 0) | (again ? WIRE_LEASE_AGAIN : 0)};
    memcpy(ask.from, lane->from, sizeof ask.from);
    memcpy(ask.to, lane->to, sizeof ask.to);
    if (!lease_meet(now))
        return false;
    if (send(leases.fd, &ask, sizeof ask, MSG_DONTWAIT | MSG_NOSIGNAL) != sizeof ask) {
        lease_part(now);
        return false;
    }
    lease->state = LEASE_ASKED;
    lease->asked = now;
    lease->deadline = now < leases.slow ? now : now + (uint64_t)param_int(PARAM_PATH_WAIT) * NS_PER_MS;
    lease->handed = 0;
    return true;
}

static void lease_say(const struct lease *lease, const struct path_source *lane, uint64_t now)
{
    char from[INET6_ADDRSTRLEN], to[INET6_ADDRSTRLEN];
    inet_ntop(AF_INET6, lane->from, from, sizeof from);
    inet_ntop(AF_INET6, lane->to, to, sizeof to);
    log_info("lane %u from %s to %s opens with port %u of the path master, %.1f ms after it asked", lane->index, from,
             to, lease->port, (double)(now - lease->asked) / NS_PER_MS);
}

static int lease_hand_out(struct lease *lease, const struct path_source *lane, uint64_t now)
{
    lease->used = lease->port;
    if (!lease->handed) {
        lease->handed = now;
        lease_say(lease, lane, now);
    }
    return lease->port;
}

/* A lane that was up, and does not move, is asked for anew: it failed where it was. One that is asked about is waited
 * for until its time is over; the answer that comes later moves the living lane. */
static int lease_source(struct lease *lease, const struct path_source *lane, uint64_t now)
{
    lease_hear(now);
    if (lease->state == LEASE_HAS && (lane->moves || !lease->handed || now - lease->handed < SAME_OPEN))
        return lease_hand_out(lease, lane, now);
    if (lease->state != LEASE_ASKED && !lease_ask(lease, lane, lease->state == LEASE_HAS, now))
        return lease->port;
    if (now < lease->deadline)
        return -1;
    if (!lease->handed)
        leases.slow = now + PAUSE;
    return lease_hand_out(lease, lane, now);
}

int path_leased_source(const struct path_source *lane, uint64_t now)
{
    if (!*param_string(PARAM_PATH_AGENT) || !lane->known)
        return 0;
    pthread_mutex_lock(&leases_lock);
    struct lease *lease = lease_of(lane);
    int port = lease ? lease_source(lease, lane, now) : 0;
    pthread_mutex_unlock(&leases_lock);
    return port;
}

int path_leased_port(const uint8_t *peer, uint16_t index, uint16_t has, uint64_t now)
{
    uint32_t number;
    pthread_mutex_lock(&leases_lock);
    if (leases.fd >= 0)
        lease_hear(now);
    struct lease *lease = leases.fd >= 0 ? lease_find(peer, index, &number) : NULL;
    int port = lease && lease->state == LEASE_HAS ? lease->port : 0;
    if (port && has == port)
        lease->used = has;
    pthread_mutex_unlock(&leases_lock);
    return port;
}
