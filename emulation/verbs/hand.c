/* SPDX-License-Identifier: Apache-2.0 */
/* Handing data over within a host. Sequence numbers, keys, acknowledgements and retries are those of packets: one of
 * these packets stands for up to HAND_PACKETS ordinary ones, and its payload is a list of addresses in its sender's
 * memory. Its opcode is one of the manufacturer's, and it never leaves the loopback interface. Whose memory is read is
 * what the kernel said about the process that asked, never what a packet says. */
#include "verbs/hand.h"
#include "verbs/control.h"
#include "verbs/counters.h"
#include "verbs/fault.h"
#include "verbs/wire.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#define SLOT_COUNT  (1u << (24 - SLOT_BITS))
#define PATIENCE_MS 1000

static pid_t peers[SLOT_COUNT]; /* processes whose memory we can read, by their slots; 0: none */
static uint8_t fetched[HAND_PACKETS * WIRE_PAYLOAD_MAX] __attribute__((aligned(64)));

bool hand_wanted(void)
{
    const char *wish = getenv("SOFTVERBS_HANDOVER");
    return wish && *wish == '1';
}

/* An address of another host cannot be bound. */
static bool is_local(const union ibv_gid *gid)
{
    bool v6 = !wire_gid_is_v4(gid);
    struct sockaddr_in6 six = {.sin6_family = AF_INET6};
    struct sockaddr_in four = {.sin_family = AF_INET};
    memcpy(&six.sin6_addr, gid->raw, 16);
    memcpy(&four.sin_addr, gid->raw + 12, 4);
    int fd = socket(v6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    bool local =
        !(v6 ? bind(fd, (struct sockaddr *)&six, sizeof(six)) : bind(fd, (struct sockaddr *)&four, sizeof(four)));
    close(fd);
    return local;
}

/* Sends a command to the process that has the slot. Whether it was obeyed. */
static bool command(uint32_t slot, const char *text)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX}, own = {.sun_family = AF_UNIX};
    int n = snprintf(to.sun_path + 1, sizeof(to.sun_path) - 1, CONTROL_PREFIX "%u", slot);
    char answer[CONTROL_ANSWER];
    bool good = false;
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    if (!bind(fd, (struct sockaddr *)&own, sizeof(sa_family_t)) &&
        !connect(fd, (struct sockaddr *)&to, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)) &&
        send(fd, text, strlen(text), 0) > 0 && poll(&wait, 1, PATIENCE_MS) == 1)
        good = recv(fd, answer, sizeof(answer), 0) > 0 && answer[0] == '0' && answer[1] == ' ';
    close(fd);
    return good;
}

bool hand_ask(struct qp *qp, const struct ibv_qp_attr *attr)
{
    uint64_t secret = 0;
    char text[80];
    if (!hand_wanted() || !is_local(&attr->ah_attr.grh.dgid) || getrandom(&secret, sizeof(secret), 0) != sizeof(secret))
        return false;
    snprintf(text, sizeof(text), "hand %u %llu %llu", qp_number(qp) >> SLOT_BITS,
             (unsigned long long)(uintptr_t)&secret, (unsigned long long)secret);
    return command((attr->dest_qp_num & QPN_MASK) >> SLOT_BITS, text);
}

static bool fetch(pid_t pid, const struct iovec *pieces, int n, void *to, size_t size)
{
    struct iovec local = {to, size};
    return !fault_fails(FAULT_HAND) && process_vm_readv(pid, &local, 1, pieces, (unsigned long)n, 0) == (ssize_t)size;
}

int hand_answer(pid_t pid, const char *args)
{
    char *at;
    unsigned long slot = strtoul(args, &at, 0);
    struct iovec piece = {(void *)(uintptr_t)strtoull(at, &at, 0), sizeof(uint64_t)};
    uint64_t secret = strtoull(at, NULL, 0), found = 0;
    if (!hand_wanted() || slot >= SLOT_COUNT || pid <= 0)
        return EOPNOTSUPP;
    bool same = fetch(pid, &piece, 1, &found, sizeof(found)) && found == secret;
    peers[slot] = same ? pid : 0;
    return same ? 0 : EPERM;
}

static void put(uint8_t *at, uint64_t value)
{
    for (int i = 0; i < 8; i++)
        at[i] = (uint8_t)(value >> (56 - 8 * i));
}

static uint64_t get(const uint8_t *at)
{
    uint64_t value = 0;
    for (int i = 0; i < 8; i++)
        value = value << 8 | at[i];
    return value;
}

uint32_t hand_describe(const struct iovec *pieces, int n, uint8_t *out)
{
    for (int i = 0; i < n; i++, out += HAND_REF_SIZE) {
        put(out, (uintptr_t)pieces[i].iov_base);
        put(out + 8, pieces[i].iov_len);
    }
    return (uint32_t)n * HAND_REF_SIZE;
}

bool hand_take(const struct qp *qp, struct packet *packet)
{
    struct iovec pieces[HAND_PIECES];
    uint32_t n = packet->length / HAND_REF_SIZE, size = 0, most = HAND_PACKETS * qp->mtu;
    if (!n || n > HAND_PIECES || packet->length % HAND_REF_SIZE)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t length = get(packet->payload + (size_t)i * HAND_REF_SIZE + 8);
        if (!length || length > most - size)
            return false;
        pieces[i] = (struct iovec){(void *)(uintptr_t)get(packet->payload + (size_t)i * HAND_REF_SIZE), length};
        size += (uint32_t)length;
    }
    pid_t pid = peers[qp->attr.dest_qp_num >> SLOT_BITS];
    if (!pid || !fetch(pid, pieces, (int)n, fetched, size))
        return false;
    packet->opcode = SERVICE_RC | OPERATION(packet->opcode);
    packet->payload = fetched;
    packet->length = size;
    packet->span = (size + qp->mtu - 1) / qp->mtu;
    return true;
}
