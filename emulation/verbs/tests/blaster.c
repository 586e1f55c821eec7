/* SPDX-License-Identifier: Apache-2.0 */
/* What UDP alone can do, to compare the emulator with: goodput of full RoCEv2-sized packets (4096 bytes and 16 of
 * headers and ICRC) as super-packets of 15, and the round trip of 8 bytes; both ends spin. The receiver reads every
 * byte and tells how far it is, and the sender keeps a window, so that nothing is lost: what is counted has arrived.
 * Usage: blaster serve | blaster ADDRESS SECONDS */
#include <arpa/inet.h>
#include <netinet/udp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PORT       4792
#define PAYLOAD    4096
#define SEGMENT    (PAYLOAD + 16)
#define SEGMENTS   15
#define SUPER      (SEGMENTS * SEGMENT)
#define WINDOW     64 /* super-packets in flight */
#define TELL_EVERY 4
#define LOST_NS    100000000u
#define SILENCE_NS 1000000000u
#define TRIPS      20000

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int open_socket(uint16_t port)
{
    int fd = socket(AF_INET, SOCK_DGRAM, 0), size = 64 << 20, on = 1;
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(port)};
    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
    setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size));
    setsockopt(fd, SOL_UDP, UDP_GRO, &on, sizeof(on));
    if (fd < 0 || bind(fd, (struct sockaddr *)&any, sizeof(any))) {
        perror("blaster: opening a socket");
        exit(1);
    }
    return fd;
}

static uint64_t sum_of(const uint64_t *words, size_t n)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += words[i];
    return sum;
}

static volatile uint64_t sink; /* makes the compiler read what arrived */

/* Small packets come back, of others every byte is read. Ends when its client has been silent for a while. */
static int serve(void)
{
    static uint64_t bytes[8192];
    int fd = open_socket(PORT);
    uint64_t bytes_here = 0, supers = 0, heard = 0;
    while (!heard || now_ns() < heard + SILENCE_NS) {
        struct sockaddr_in from;
        socklen_t length = sizeof(from);
        ssize_t n = recvfrom(fd, bytes, sizeof(bytes), MSG_DONTWAIT, (struct sockaddr *)&from, &length);
        if (n <= 0)
            continue;
        heard = now_ns();
        if (n < SEGMENT) {
            sendto(fd, bytes, (size_t)n, 0, (struct sockaddr *)&from, length);
            continue;
        }
        sink += sum_of(bytes, (size_t)n / 8);
        bytes_here += (uint64_t)n;
        if (bytes_here / SUPER / TELL_EVERY != supers) {
            supers = bytes_here / SUPER / TELL_EVERY;
            sendto(fd, &bytes_here, sizeof(bytes_here), 0, (struct sockaddr *)&from, length);
        }
    }
    close(fd);
    return 0;
}

/* Payload bytes per second. The server's count goes on from earlier clients: the first answer is the zero. */
static double goodput(int fd, double seconds)
{
    static uint8_t bytes[SUPER];
    int segment = SEGMENT;
    uint64_t begin = now_ns(), end = begin + (uint64_t)(seconds * 1e9), sent = 0, told = 0, first = 0, heard = begin,
             word;
    memset(bytes, 1, sizeof(bytes)); /* real pages: untouched ones would all be the one page of zeros */
    setsockopt(fd, SOL_UDP, UDP_SEGMENT, &segment, sizeof(segment));
    while (now_ns() < end) {
        if (sent < WINDOW && send(fd, bytes, sizeof(bytes), 0) > 0)
            sent++;
        while (recv(fd, &word, sizeof(word), MSG_DONTWAIT) == sizeof(word)) {
            heard = now_ns();
            if (!first) {
                first = word;
                begin = heard;
            } else {
                sent -= (word - told) / SUPER < sent ? (word - told) / SUPER : sent;
            }
            told = word;
        }
        if (now_ns() > heard + LOST_NS) {
            sent = 0; /* something was lost after all */
            heard = now_ns();
        }
    }
    segment = 0;
    setsockopt(fd, SOL_UDP, UDP_SEGMENT, &segment, sizeof(segment));
    return (double)(told - first) * PAYLOAD / SEGMENT / ((double)(heard - begin) * 1e-9);
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Median. One that is lost is sent again. */
static uint64_t round_trip_ns(int fd)
{
    static uint64_t trips[TRIPS];
    for (uint64_t i = 0; i < TRIPS; i++) {
        uint64_t word = 0, begin = now_ns(), again = begin;
        for (word = ~i; word != i;) {
            if (again <= now_ns()) {
                send(fd, &i, sizeof(i), 0);
                again = now_ns() + LOST_NS;
            }
            recv(fd, &word, sizeof(word), MSG_DONTWAIT);
        }
        trips[i] = now_ns() - begin;
    }
    qsort(trips, TRIPS, sizeof(trips[0]), compare);
    return trips[TRIPS / 2];
}

int main(int argc, char **argv)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    if (argc == 2 && !strcmp(argv[1], "serve"))
        return serve();
    if (argc != 3 || inet_pton(AF_INET, argv[1], &to.sin_addr) != 1) {
        fprintf(stderr, "usage: blaster serve | blaster ADDRESS SECONDS\n");
        return 2;
    }
    int fd = open_socket(0);
    if (connect(fd, (struct sockaddr *)&to, sizeof(to)))
        return 1;
    printf("MB/s %.0f\n", goodput(fd, atof(argv[2])) / 1e6);
    printf("us %.2f\n", (double)round_trip_ns(fd) / 2e3);
    close(fd);
    return 0;
}
