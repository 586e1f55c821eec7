/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cross-memory attach: the kernel copies from the memory of another process. A pid alone does not say which process
 * that is: another PID namespace has its own, and a free pid is given out again. So each process shows a random word of
 * its memory, and who attaches looks whether that word is there, each time.
 */
#ifndef TUTTI_TRANSPORT_SHM_ATTACH_H
#define TUTTI_TRANSPORT_SHM_ATTACH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Where a process shows its word. */
struct attach_word {
    uint64_t address, value; /* 0: it shows none */
};

struct attach {
    pid_t pid; /* as this process sees it */
    struct attach_word word;
};

/* The word of this process. */
struct attach_word attach_mine(void);

/* Can others read this memory of our own, as far as its two ends tell? A device's memory that is mapped cannot be. */
bool attach_shows(const void *data, size_t length);
/* Is it that process, and may its memory be read? */
bool attach_works(const struct attach *attach);
/* Copies all. False, with errno: it is not that process, or its memory cannot be read there; what `to` holds is then
 * undefined. */
bool attach_read(const struct attach *attach, uint64_t from, void *to, size_t length);

#endif
