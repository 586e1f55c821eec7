/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the master of a job has found lately, as the agent of a host leaves it for the host's processes: one file in the
 * folder of the black boxes, tutti-<uid of the agent>.verdicts, which another one replaces whenever there is news.
 */
#ifndef TUTTI_WIRE_VERDICTS_H
#define TUTTI_WIRE_VERDICTS_H

#include "tutti/tutti.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VERDICTS_MAGIC   0x54445256u
#define VERDICTS_VERSION 1u
#define VERDICTS_MOST    16u
#define VERDICTS_TEXT    512u

/* A verdict has begun, or is over. */
struct verdict_news {
    uint64_t number;  /* of this news, from 1, in the order of the master */
    uint64_t verdict; /* number of the verdict */
    int32_t rank;     /* to blame, of the largest communicator of its process; -1: none */
    uint32_t process; /* to blame, on its host; 0: none */
    uint32_t over;    /* 1: it is no longer found */
    uint32_t unused;
    char text[VERDICTS_TEXT]; /* one sentence */
};

struct verdict_list {
    uint32_t magic, version;
    uint64_t master; /* drawn when the master begins: numbers are its own */
    uint32_t count, unused;
    struct verdict_news news[VERDICTS_MOST]; /* the oldest first */
};

_Static_assert(sizeof(struct verdict_list) == 24 + 16 * 544, "a layout that processes share");

/* The file's path for agents of this user. */
void verdicts_path(const char *dir, uint32_t uid, char *out, size_t size);

/* Is this a list whose numbers rise? Cuts texts at their ends, and makes a space of each byte that does not print. */
bool verdicts_check(struct verdict_list *list);

/* False: there is no file of that user there, or it is no list. */
bool verdicts_read(const char *dir, uint32_t uid, struct verdict_list *out);

/* Replaces the file at once. TUTTI_SYSTEM_ERROR after error_note. */
tutti_result_t verdicts_write(const char *dir, const struct verdict_list *list);

#endif
