/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank of wide.py: `wide-rank COMMUNICATORS BYTES`. Rank 0 sends that number of bytes to each other rank, and gets
 * them back, on the first communicator, and a sixteenth of them on each other one. Other ranks talk to rank 0 alone.
 * Rank 0 prints a line after each step. The last one is `ready`. Then rank 0 waits for a line.
 */
#include "tutti/tutti.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64, LESS = 16, RANKS = 128 };

static void must(tutti_result_t result, const char *what)
{
    if (result == TUTTI_SUCCESS)
        return;
    fprintf(stderr, "%s: %s\n", what, tutti_get_last_error(NULL));
    exit(1);
}

static unsigned char pattern(int comm, int peer, size_t at)
{
    return (unsigned char)(comm * 31 + peer * 7 + (int)(at % 251));
}

/* There and back, each byte as it was sent. */
static void exchange(tutti_comm_t comm, int number, int rank, int peer, unsigned char *bytes, size_t size)
{
    int other = rank ? rank : peer;
    for (size_t i = 0; i < size; i++)
        bytes[i] = rank ? 0 : pattern(number, other, i);
    if (!rank)
        must(tutti_send(bytes, size, TUTTI_UINT8, peer, comm, NULL), "send");
    must(tutti_comm_synchronize(comm), "send");
    if (!rank)
        memset(bytes, 0, size);
    must(tutti_recv(bytes, size, TUTTI_UINT8, peer, comm, NULL), "receive");
    must(tutti_comm_synchronize(comm), "receive");
    for (size_t i = 0; i < size; i++)
        if (bytes[i] != pattern(number, other, i)) {
            fprintf(stderr, "rank %d, communicator %d: byte %zu from rank %d is wrong\n", rank, number, i, peer);
            exit(1);
        }
    if (rank)
        must(tutti_send(bytes, size, TUTTI_UINT8, peer, comm, NULL), "send");
    must(tutti_comm_synchronize(comm), "send");
}

/* A byte there and one back, of all peers at once: else links come up one after another. */
static void meet(tutti_comm_t comm, int rank, int size)
{
    unsigned char word = 1, words[RANKS];
    must(tutti_group_start(), "meet");
    for (int peer = rank ? 0 : 1; peer < (rank ? 1 : size); peer++) {
        must(tutti_send(&word, 1, TUTTI_UINT8, peer, comm, NULL), "meet");
        must(tutti_recv(&words[peer], 1, TUTTI_UINT8, peer, comm, NULL), "meet");
    }
    must(tutti_group_end(), "meet");
    must(tutti_comm_synchronize(comm), "meet");
}

/* What rank 0 has done, of all that it does. */
static void say(int rank, const char *what, int done, int all)
{
    if (rank)
        return;
    printf("%s %d of %d\n", what, done, all);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    int comms = argc > 1 ? atoi(argv[1]) : 0, rank = 0, size = 0;
    size_t bytes = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    tutti_comm_t comm[MOST];
    void *memory;
    if (comms < 1 || comms > MOST || !bytes) {
        fprintf(stderr, "wide-rank COMMUNICATORS BYTES: 1 to %d communicators, 1 byte or more\n", MOST);
        return 2;
    }
    must(tutti_comm_init_from_env(&comm[0], NULL), "join");
    must(tutti_comm_rank(comm[0], &rank), "rank");
    must(tutti_comm_count(comm[0], &size), "count");
    if (!(memory = malloc(bytes))) { /* not of the library, which would stay registered */
        fprintf(stderr, "no memory for %zu bytes\n", bytes);
        return 1;
    }
    say(rank, "communicator", 1, comms);
    for (int i = 1; i < comms; i++) {
        must(tutti_comm_duplicate(comm[0], &comm[i], NULL), "duplicate");
        say(rank, "communicator", i + 1, comms);
    }
    if (size > RANKS) {
        fprintf(stderr, "at most %d ranks\n", RANKS);
        return 2;
    }
    meet(comm[0], rank, size);
    say(rank, "met", size - 1, size - 1);
    for (int i = 0; i < comms; i++) {
        for (int peer = rank ? 0 : 1; peer < (rank ? 1 : size); peer++)
            exchange(comm[i], i, rank, peer, memory, i ? (bytes + LESS - 1) / LESS : bytes);
        say(rank, "exchange", i + 1, comms);
    }
    if (!rank) {
        puts("ready");
        fflush(stdout);
        (void)!getchar();
    }
    unsigned char word = 0; /* the others stay until rank 0 was looked at */
    for (int peer = 1; peer < size && !rank; peer++)
        must(tutti_send(&word, 1, TUTTI_UINT8, peer, comm[0], NULL), "end");
    if (rank)
        must(tutti_recv(&word, 1, TUTTI_UINT8, 0, comm[0], NULL), "end");
    must(tutti_comm_synchronize(comm[0]), "end");
    for (int i = comms - 1; i >= 0; i--)
        must(tutti_comm_destroy(comm[i]), "leave");
    free(memory);
    return 0;
}
