/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An agent's report to a master: the processes of its host, with what has changed in their black boxes. Bytes are those
 * of report.proto. Nothing here reads a file or a socket. A report may be hostile: whatever comes is a report or a
 * sentence, and no more memory than a constant.
 */
#ifndef TUTTI_REPORT_REPORT_H
#define TUTTI_REPORT_REPORT_H

#include "diagnosis/diagnosis.h"

#define REPORT_VERSION    1u
#define REPORT_PROCESSES  1024u  /* of a host */
#define REPORT_COMMS      16384u /* of all processes of a host */
#define REPORT_OPS        131072u
#define REPORT_CALLS      64u   /* of a communicator, besides unfinished ones: more than the rules look at */
#define REPORT_EVENTS     64u   /* of a process */
#define REPORT_SEGMENTS   1024u /* of all lanes of a process */
#define REPORT_SLOW_LANES 16u   /* of a process, where nobody looks at its lanes */
#define REPORT_BYTES      (32u << 20)
#define REPORT_MEMORY     (128u << 20) /* memory, while one report is read */

struct report_process {
    /* A process that is as it was: whose it is, alive and now; no communicators. */
    struct blackbox *box;
    struct process_facts facts;
    uint32_t box_number; /* number among the boxes of one process */
    bool as_before;
    bool lanes; /* lanes are in the report, too */
};

struct report {
    char host[WIRE_BOX_NAME]; /* letters, digits, and .-_: */
    uint64_t agent, number;
    uint64_t realtime; /* time of sending */
    bool alarm;        /* something grave has happened since the report before */
    bool has_lanes;    /* this agent reports lanes when it is asked */
    struct report_process *processes;
    size_t count;
    uint32_t left_out, unreadable; /* processes without room; unreadable black boxes */
};

/* Can a host in a report have this name? */
bool report_host_fits(const char *name);

/* ---- Writing ---- */

/* A report in the making keeps copies of what it needs from the boxes, so the boxes may go. */
struct report_writer;
/* NULL: no memory. */
struct report_writer *report_begin(const struct report *head);
/* Adds the unfinished calls of each communicator, and the latest `calls`. The header's host is not sent: the report has
 * one. False: no memory, or no room; then the process is counted as left out. */
bool report_add(struct report_writer *writer, const struct report_process *process, size_t calls);
/* Counts one more black box that is not in the report. */
void report_count_unreadable(struct report_writer *writer);
/* Ends the writer. The caller frees the bytes; NULL: memory ran out at some time since the beginning. */
uint8_t *report_end(struct report_writer *writer, size_t *size);

/* ---- Reading ---- */

/* TUTTI_INVALID_USAGE, after error_note: the bytes are no report, have another version, or make no sense. The caller
 * frees *out by report_free. */
tutti_result_t report_read(const void *bytes, size_t size, struct report *out);
void report_free(struct report *report);

#endif
