/* SPDX-License-Identifier: Apache-2.0 */
/* What UDP alone can do on loopback, to compare with: goodput of super-packets of 15 x 4096 bytes (segmentation and receive offload),
 * and the round trip of 8 bytes between spinning processes. Usage: blaster SECONDS */
#include <arpa/inet.h>
#include <netinet/udp.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SEGMENT 4096
#define SUPER   (15 * SEGMENT)

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void pin(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof(set), &set);
}

static int make(struct sockaddr_in *address)
{
    int fd = socket(AF_INET, SOCK_DGRAM, 0), size = 64 << 20, on = 1;
    socklen_t length = sizeof(*address);
    *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
    setsockopt(fd, SOL_UDP, UDP_GRO, &on, sizeof(on));
    if (bind(fd, (struct sockaddr *)address, sizeof(*address)) || getsockname(fd, (struct sockaddr *)address, &length))
        exit(1);
    return fd;
}

static void blast(int fd, const struct sockaddr_in *to)
{
    static char bytes[SUPER];
    int segment = SEGMENT;
    memset(bytes, 1, sizeof(bytes)); /* real pages: untouched ones would all be the one page of zeros */
    setsockopt(fd, SOL_UDP, UDP_SEGMENT, &segment, sizeof(segment));
    pin(0);
    for (;;)
        sendto(fd, bytes, sizeof(bytes), 0, (const struct sockaddr *)to, sizeof(*to));
}

static double goodput(double seconds)
{
    static char bytes[65536];
    struct sockaddr_in a, b;
    int receiver = make(&a), sender = make(&b);
    double total = 0;
    pid_t child = fork();
    if (!child)
        blast(sender, &a);
    pin(1);
    double begin = now(), end = begin + seconds;
    while (now() < end)
        total += (double)recv(receiver, bytes, sizeof(bytes), 0);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    close(receiver);
    close(sender);
    return total / (now() - begin);
}

static double round_trip(int rounds)
{
    uint64_t word = 0;
    struct sockaddr_in a, b;
    int one = make(&a), two = make(&b);
    pid_t child = fork();
    pin(child != 0);
    if (!child)
        for (;;)
            if (recv(two, &word, sizeof(word), MSG_DONTWAIT) > 0)
                sendto(two, &word, sizeof(word), 0, (struct sockaddr *)&a, sizeof(a));
    double begin = now();
    for (int i = 0; i < rounds; i++) {
        sendto(one, &word, sizeof(word), 0, (struct sockaddr *)&b, sizeof(b));
        while (recv(one, &word, sizeof(word), MSG_DONTWAIT) <= 0)
            ;
    }
    double us = (now() - begin) / rounds * 1e6;
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    close(one);
    close(two);
    return us;
}

int main(int argc, char **argv)
{
    printf("bare UDP goodput %.0f MB/s\n", goodput(argc > 1 ? atof(argv[1]) : 2) / 1e6);
    printf("bare UDP round trip, spinning %.2f us\n", round_trip(20000));
    return 0;
}
