/* SPDX-License-Identifier: Apache-2.0 */
/* The hosts of a job and their slots, as people write them. */
#ifndef TUTTI_CLI_HOSTS_H
#define TUTTI_CLI_HOSTS_H

#include <stdbool.h>

enum { HOST_NAME = 256, MOST_HOSTS = 1024, MOST_SLOTS = 4096 };

struct host {
    char name[HOST_NAME];
    int slots, first, ranks; /* room; the number of the first rank, and of ranks: hosts_place */
};

struct hosts {
    struct host *all;
    int count;
};

/* Reads "a:2,b,user@c:4": without a number a host has one slot. On failure `why` says what is wrong. */
bool hosts_list(struct hosts *hosts, const char *text, char *why, int size);

/* Reads a line for each host: "a slots=2", "a:2" or "a". '#' begins a comment. */
bool hosts_file(struct hosts *hosts, const char *path, char *why, int size);

/* Gives ranks to hosts in their order, one for each slot, and drops hosts without any. size 0: all slots. Returns the
 * number of ranks; 0 when there are fewer slots than `size`. */
int hosts_place(struct hosts *hosts, int size);

void hosts_close(struct hosts *hosts);

#endif
