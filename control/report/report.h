/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an agent tells a master: the processes of its host, with what has changed in their black boxes. Bytes are those
 * of report.proto. Nothing here reads a file or a socket. A report may be hostile: whatever comes is a report or a
 * sentence, and no more memory than a constant.
 */
#ifndef TUTTI_REPORT_REPORT_H
#define TUTTI_REPORT_REPORT_H

#include "diagnosis/diagnosis.h"

#define REPORT_VERSION   1u
#define REPORT_PROCESSES 1024u  /* of a host */
#define REPORT_COMMS     16384u /* of all processes of a host */
#define REPORT_OPS       131072u
#define REPORT_CALLS     64u   /* of a communicator, besides those that are not done: more than the rules look at */
#define REPORT_EVENTS    64u   /* of a process */
#define REPORT_SEGMENTS  1024u /* of all lanes of a process */
#define REPORT_BYTES     (32u << 20)
#define REPORT_MEMORY    (128u << 20) /* while one is read */

struct report_process {
    /* Of one that is as it was: whose it is, alive and now; no communicators. */
    struct blackbox *box;
    struct process_facts facts;
    uint32_t box_number; /* of several boxes of one process */
    bool as_before;
    bool lanes; /* tell of them, too */
};

struct report {
    char host[WIRE_BOX_NAME]; /* letters, digits, and .-_: */
    uint64_t agent, number;
    uint64_t realtime; /* when it was sent */
    bool alarm;        /* something grave has happened since the report before */
    bool has_lanes;    /* it tells of them when asked */
    struct report_process *processes;
    size_t count;
    uint32_t left_out, unreadable; /* processes for which there was no room; black boxes */
};

/* Can this be the name of a host in a report? */
bool report_host_fits(const char *name);

/* ---- Writing ---- */

/* A report in the making holds what it was given of the boxes, so these may go. */
struct report_writer;
/* NULL: no memory. */
struct report_writer *report_begin(const struct report *head);
/* Of each communicator the calls that are not done, and the latest `calls`. The header's host is not sent: the report
 * has one. False: no memory, or no room; then it is counted as left out. */
bool report_add(struct report_writer *writer, const struct report_process *process, size_t calls);
/* One more black box that is not in the report. */
void report_count_unreadable(struct report_writer *writer);
/* Ends the writer. The bytes are the caller's; NULL: no memory at any time since the beginning. */
uint8_t *report_end(struct report_writer *writer, size_t *size);

/* ---- Reading ---- */

/* TUTTI_INVALID_USAGE, after error_note: no report, of another version, or it makes no sense. *out is freed by
 * report_free. */
tutti_result_t report_read(const void *bytes, size_t size, struct report *out);
void report_free(struct report *report);

#endif
