/* SPDX-License-Identifier: Apache-2.0 */
/* What the control groups of a process say: quotas, freezers, processes that were killed for memory. Of both versions
 * of control groups. Files that are absent, or that may not be read, say nothing. */
#ifndef TUTTI_DIAGNOSIS_GROUP_H
#define TUTTI_DIAGNOSIS_GROUP_H

#include "diagnosis/diagnosis.h"

/* Adds to the facts what the control groups of this living process say. */
void group_facts(struct process_facts *facts, uint32_t pid);

/* A process that the kernel killed for memory. */
struct group_kill {
    uint32_t pid;   /* in the first PID namespace */
    uint64_t at;    /* ns since boot, about */
    char group[64]; /* whose limit that was; "": the machine's */
};
/* The latest ones in the kernel's log; 0 also where it may not be read. */
size_t group_kills(struct group_kill *kills, size_t most);

/* ---- Parts, for tests ---- */

/* The group of this controller in the text of /proc/PID/cgroup. *folder: where its hierarchy may be mounted, below
 * /sys/fs/cgroup. False: it has none. */
struct group_place {
    char folder[64], group[1024];
    bool old; /* the first version */
};
bool group_place(const char *text, const char *controller, struct group_place *out);
/* The number behind this word, at the begin of a line; 0: it is not there. */
uint64_t group_number(const char *text, const char *word);
/* One record of /dev/kmsg. */
bool group_kill_in(const char *record, struct group_kill *out);
/* Copies a name: its end if it is too long. Bytes that are not printable become "?". */
void group_name(char *to, size_t size, const char *from, size_t length);

#endif
