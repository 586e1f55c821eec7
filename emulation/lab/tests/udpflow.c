/* SPDX-License-Identifier: Apache-2.0 */
/* UDP flows with chosen source ports, and a sink that counts them.
 *   udpflow send FROM TO DPORT FIRST LAST PACKETS SIZE TOS    PACKETS from each source port FIRST..LAST
 *   udpflow connect ...                                       the same by connected sockets
 *   udpflow sink ADDRESS DPORT PACKETS IDLE_MS                prints "ready", then how many came: ends after PACKETS or
 * silence */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct sockaddr_in address_of(const char *text, int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    if (inet_pton(AF_INET, text, &address.sin_addr) != 1) {
        fprintf(stderr, "udpflow: %s is no address\n", text);
        exit(2);
    }
    return address;
}

static int open_at(const char *address, int port)
{
    struct sockaddr_in own = address_of(address, port);
    int fd = socket(AF_INET, SOCK_DGRAM, 0), size = 32 << 20;
    if (fd < 0 || bind(fd, (struct sockaddr *)&own, sizeof own) != 0) {
        perror("udpflow: bind");
        exit(1);
    }
    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size);
    return fd;
}

static int send_flow(char **args, int port, int connected)
{
    static char payload[65536];
    struct sockaddr_in target = address_of(args[1], atoi(args[2]));
    int fd = open_at(args[0], port), tos = atoi(args[7]), refused = 0;
    setsockopt(fd, IPPROTO_IP, IP_TOS, &tos, sizeof tos);
    if (connected)
        refused += connect(fd, (struct sockaddr *)&target, sizeof target) != 0;
    for (int i = 0; i < atoi(args[5]); i++)
        refused += sendto(fd, payload, (size_t)atoi(args[6]), 0, connected ? NULL : (struct sockaddr *)&target,
                          connected ? 0 : sizeof target) < 0;
    close(fd);
    return refused;
}

static int sink(const char *address, int port, long wanted, int idle_ms)
{
    static char payload[65536];
    int fd = open_at(address, port);
    struct pollfd ready = {fd, POLLIN, 0};
    long count = 0;
    printf("ready\n");
    fflush(stdout);
    while (count < wanted && poll(&ready, 1, idle_ms) > 0)
        count += recv(fd, payload, sizeof payload, 0) >= 0;
    printf("%ld\n", count);
    close(fd);
    return 0;
}

int main(int argc, char **argv)
{
    int refused = 0;
    if (argc == 6 && strcmp(argv[1], "sink") == 0)
        return sink(argv[2], atoi(argv[3]), atol(argv[4]), atoi(argv[5]));
    int connected = argc == 10 && strcmp(argv[1], "connect") == 0;
    if (argc != 10 || (!connected && strcmp(argv[1], "send") != 0))
        return 2;
    for (int port = atoi(argv[5]); port <= atoi(argv[6]); port++)
        refused += send_flow(argv + 2, port, connected);
    printf("%d refused\n", refused);
    return refused ? 1 : 0;
}
