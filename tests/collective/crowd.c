/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `tutti run -n 2 -- crowd`: a group of thousands of messages between the same two ranks arrives whole and in order.
 * They are short and long ones, each with a length and contents of its own. Then a group of ten times as many takes
 * about ten times as long, not a hundred: messages of each rank to itself, in the processor's time of the process.
 */
#include "tutti/tutti.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MESSAGES = 10000, FEW = 5000, TIMES = 10, ROUNDS = 3, ALLOWED = 80 };

static tutti_comm_t comm;
static int rank;

static void must(tutti_result_t result, const char *what)
{
    if (result == TUTTI_SUCCESS)
        return;
    fprintf(stderr, "%s: %s\n", what, tutti_get_last_error(NULL));
    exit(1);
}

static size_t length_of(size_t i)
{
    return i % 97 ? i * 37 % 3000 : 40000 + i;
}

static unsigned char byte_of(int from, size_t i, size_t at)
{
    return (unsigned char)(((uint32_t)i * 2654435761u + (uint32_t)at * 40503u + (uint32_t)from * 977u) >> 11);
}

static unsigned char *new_bytes(size_t length)
{
    unsigned char *bytes = calloc(length ? length : 1, 1);
    if (!bytes)
        exit(1);
    return bytes;
}

static unsigned char **new_messages(int from)
{
    unsigned char **messages = calloc(MESSAGES, sizeof *messages);
    if (!messages)
        exit(1);
    for (size_t i = 0; i < MESSAGES; i++) {
        messages[i] = new_bytes(length_of(i));
        for (size_t at = 0; from >= 0 && at < length_of(i); at++)
            messages[i][at] = byte_of(from, i, at);
    }
    return messages;
}

static void free_messages(unsigned char **messages)
{
    for (size_t i = 0; i < MESSAGES; i++)
        free(messages[i]);
    free(messages);
}

static void check(unsigned char **got)
{
    for (size_t i = 0; i < MESSAGES; i++)
        for (size_t at = 0; at < length_of(i); at++)
            if (got[i][at] != byte_of(1 - rank, i, at)) {
                fprintf(stderr, "rank %d: byte %zu of message %zu, of %zu bytes, is wrong\n", rank, at, i,
                        length_of(i));
                exit(1);
            }
}

static void exchange(void)
{
    unsigned char **out = new_messages(rank), **in = new_messages(-1);
    must(tutti_group_start(), "start");
    for (size_t i = 0; i < MESSAGES; i++)
        must(tutti_send(out[i], length_of(i), TUTTI_UINT8, 1 - rank, comm, NULL), "send");
    for (size_t i = 0; i < MESSAGES; i++)
        must(tutti_recv(in[i], length_of(i), TUTTI_UINT8, 1 - rank, comm, NULL), "receive");
    must(tutti_group_end(), "end");
    must(tutti_comm_synchronize(comm), "synchronize");
    check(in);
    free_messages(out);
    free_messages(in);
}

static double processor_time(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static double talk_to_itself(size_t count)
{
    unsigned char *out = new_bytes(count), *in = new_bytes(count);
    double begun = processor_time();
    must(tutti_group_start(), "start");
    for (size_t i = 0; i < count; i++) {
        out[i] = byte_of(rank, i, 0);
        must(tutti_send(out + i, 1, TUTTI_UINT8, rank, comm, NULL), "send");
        must(tutti_recv(in + i, 1, TUTTI_UINT8, rank, comm, NULL), "receive");
    }
    must(tutti_group_end(), "end");
    must(tutti_comm_synchronize(comm), "synchronize");
    double spent = processor_time() - begun;
    for (size_t i = 0; i < count; i++)
        if (in[i] != out[i]) {
            fprintf(stderr, "rank %d: message %zu to itself is wrong\n", rank, i);
            exit(1);
        }
    free(out);
    free(in);
    return spent;
}

/* The least of a few tries: caches, and others at work, make some slow. */
static double least(size_t count)
{
    double spent = talk_to_itself(count);
    for (int i = 1; i < ROUNDS; i++) {
        double again = talk_to_itself(count);
        spent = again < spent ? again : spent;
    }
    return spent;
}

static bool grows_evenly(void)
{
    double few = least(FEW), many = least(TIMES * FEW);
    if (many > ALLOWED * few)
        fprintf(stderr, "rank %d: %d messages take %.3f s, %d take %.3f s\n", rank, FEW, few, TIMES * FEW, many);
    return many <= ALLOWED * few;
}

int main(void)
{
    must(tutti_comm_init_from_env(&comm, NULL), "init");
    must(tutti_comm_rank(comm, &rank), "rank");
    exchange();
    bool good = grows_evenly();
    must(tutti_comm_destroy(comm), "destroy");
    return !good;
}
