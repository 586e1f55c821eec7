/* SPDX-License-Identifier: Apache-2.0 */
/* A second process that runs a function as the other party. */
#ifndef TUTTI_TESTS_FORK_H
#define TUTTI_TESTS_FORK_H

#include "owner.h"

#include <sys/types.h>

/* One process's view: its party, the peer's description, and a socket to the other for the test's own words. */
struct solo {
    struct party party;
    struct wire_process peer;
    struct end *end;
    int fd;
};

/* Forks; both sides open a party and lane 0 (opened by the parent). The child runs `body` and exits. */
pid_t solo_fork(struct solo *solo, void (*body)(struct solo *solo, void *context), void *context);
/* Closes, reaps the child and fails the test if it failed; `killed`: it was. */
void solo_join(struct solo *solo, pid_t child, bool killed);
/* Sends `size` bytes to the other process and reads as many. */
void solo_swap(struct solo *solo, const void *out, void *in, size_t size);
/* The child's end comes by accepted(). */
void solo_accept(struct solo *solo);

#endif
