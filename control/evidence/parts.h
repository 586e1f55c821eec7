/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the evidence. Texts that others have chosen hold printable ASCII alone when they leave a part. */
#ifndef TUTTI_EVIDENCE_PARTS_H
#define TUTTI_EVIDENCE_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EVIDENCE_LINE 200

/* ---- child.c ---- */

/* Replaces all bytes that are no printable ASCII. */
void evidence_clean(char *text);
/* Runs a program, found by PATH, and takes what it prints. Its whole group is killed after `ms` milliseconds. False: it
 * is not there, failed, or took longer; what it has printed is in `out` all the same. */
bool child_run(char *const argv[], int ms, char *out, size_t size);

/* ---- awaited.c: what a thread waits for ---- */

/* "thread 77 waits in read of /data/a (nfs4, server:/data)"; false: it runs, it waits for no file, or this user may not
 * know. */
bool awaited_line(uint32_t pid, char line[EVIDENCE_LINE]);
/* The same for a socket of this inode, by the text of /proc/PID/net/tcp. */
bool awaited_tcp(const char *text, uint64_t inode, char *out, size_t size);
/* The file system of this path, by the text of /proc/PID/mountinfo. */
bool awaited_mount(const char *text, const char *path, char *out, size_t size);

/* ---- stacks.c ---- */

/* Appends lines to the text, which the caller frees; *text may be NULL. */
void stacks_add(char **text, uint32_t pid);
/* Chooses lines of what gdb or py-spy has printed. */
size_t stacks_choose(const char *printed, char *out, size_t size);

/* ---- counters.c ---- */

#define NIC_COUNTERS 256

struct nic {
    char name[32];
    uint32_t pid; /* a process that uses it: its network namespace counts */
    bool here;    /* this program is in the same namespace */
    size_t count;
    struct nic_counter {
        char name[48];
        uint64_t value;
    } counters[NIC_COUNTERS];
};

/* Reads what tells of errors, drops, pauses, congestion and messages that were sent again. */
void nic_read(struct nic *nic, const char *name, uint32_t pid);
/* "eth1 (1000 Mbit/s, up): rx_errors +12 in 3.0 s"; false: nothing is known of that interface. */
bool nic_line(const struct nic *before, const struct nic *now, uint64_t ns, char line[EVIDENCE_LINE]);
/* Adds the row of this interface in the text of /proc/PID/net/dev. */
void nic_take_device(struct nic *nic, const char *text);
/* Adds columns of a table of /proc/PID/net/snmp or netstat, two lines with the same first word. */
void nic_take_table(struct nic *nic, const char *text, const char *row, const char *const *names);
/* Is this the name of a counter that tells of a fault? */
bool nic_counts(const char *name);

/* ---- neighbour.c ---- */

/* "eth1 is at port Ethernet4 of switch leaf1, says LLDP"; false: no daemon answers, or it knows no neighbour. */
bool neighbour_line(const char *interface, char line[EVIDENCE_LINE]);
/* The same by what lldpcli -f json has printed. */
bool neighbour_in(const char *json, size_t size, const char *interface, char line[EVIDENCE_LINE]);

#endif
