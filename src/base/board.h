/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the interfaces of this host do for all processes of a user. A file has a slot for each process, in which it
 * writes what it does itself, and a lock on the slot that ends with the process. Readers add up the slots of those that
 * live: a process that is killed takes along what it had written, for there is no sum that it could leave wrong.
 * All functions may be called from any thread.
 */
#ifndef TUTTI_BASE_BOARD_H
#define TUTTI_BASE_BOARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define BOARD_SLOTS 256
#define BOARD_GPUS  9  /* of the following: those where a process has slots of relays, and its own */
#define BOARD_NICS  41 /* that a process uses, and those GPUs */
#define BOARD_PATH  96

/* What one process does by one interface. */
struct board_use {
    _Atomic uint64_t nic;         /* its name, hashed; 0: none */
    _Atomic uint64_t outstanding; /* bytes put that peers do not have yet */
    _Atomic uint64_t waiting;     /* those of them that borrow it, and have not left this host, as far as can be told */
    _Atomic uint64_t told;        /* when that was written last, ns of CLOCK_MONOTONIC */
    _Atomic uint64_t owned;       /* 1: this process owns it */
    _Atomic uint64_t pace;        /* ns for which it serves a MiB of its owner; 0: not known */
    _Atomic uint64_t out;         /* until when its owner wants it for what it sends, ns of CLOCK_MONOTONIC; */
    _Atomic uint64_t in;          /* until when it is wanted for what comes by it from those who own it at their ends */
};

/* Of the processes but this one. */
struct board_sum {
    uint64_t outstanding;
    uint64_t waiting; /* what a process that stands still had waiting has left */
    uint64_t out, in; /* the latest */
    uint64_t pace;    /* the quickest of an owner; 0: not known */
    int processes;    /* that use the interface, */
    int owners;       /* and own it */
    uint32_t owner;   /* process number of one of those; 0: there is none */
};

struct board;

/* The file of a host's board. The last process that closes it removes it. When that was killed the file stays: a next
 * process of this host uses it, and a process of this user that opens the board of another host removes it. */
void board_path(uint64_t host, char out[BOARD_PATH]);

/* The board of all processes of this user with the same `host`. One for the process: each call is undone by
 * board_close(). NULL: there is none, as without /dev/shm or with too many processes; all goes on without. */
struct board *board_open(uint64_t host);
void board_close(struct board *board);

/* Where this process writes what it does by an interface; NULL: it has too many. */
struct board_use *board_use(struct board *board, uint64_t nic);

/* The interface, of these, that this process is to own: the one with the fewest owners, the first of those. Once
 * chosen, it stays. */
int board_own(struct board *board, const uint64_t *nics, int count);

/* Which processes live is asked again every 2 ms. */
struct board_sum board_look(struct board *board, uint64_t nic, uint64_t now);

/* The name of a GPU on the board, where processes write what they do with its memory: `outstanding`, the bytes of
 * relays' slots that they have there, and `out`, until when they want slots of others to be given back. */
uint64_t board_gpu(const uint8_t uuid[16]);
/* Says on the board that is open, if any, that slots there are to be given back until then. Returns how many bytes of
 * them processes have. */
uint64_t board_ask_back(uint64_t gpu, uint64_t now, uint64_t until);

#endif
