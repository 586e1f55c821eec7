/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What hosts went through, by day: lanes that went down, pauses, slow minutes, verdicts. Looks at black boxes go in,
 * one row for each day and host comes out. Rows are bounded: the oldest day goes first. A file of them is text, one row
 * a line:
 *
 *   2026-11-28 h3 lanes 4 pauses 12 slow 7 verdicts slow:2,link:1
 */
#ifndef TUTTI_DAYS_DAYS_H
#define TUTTI_DAYS_DAYS_H

#include "diagnosis/diagnosis.h"

#include "tutti/tutti.h"

#include <stdio.h>

#define DAYS_MOST 4096 /* rows */
#define DAYS_TEXT 11   /* "2026-11-28", terminated */

struct day_row {
    char day[DAYS_TEXT], host[WIRE_BOX_NAME];
    uint32_t lanes;  /* lanes that went down */
    uint32_t pauses; /* of two seconds and more, outside of calls */
    uint32_t slow;   /* minutes in which a process had less than half of its best speed */
    uint32_t verdicts[FINDING_KINDS];
    uint64_t minute; /* the latest slow one; not kept in files */
    bool changed;    /* since days_clean() */
};

struct days {
    struct day_row *rows; /* by day and host */
    size_t count;
    struct day_mark *marks; /* what was counted of each process */
    size_t mark_count;
};

/* False: no memory. */
bool days_open(struct days *days);
void days_close(struct days *days);
/* Counts what is new in a box. `now`: CLOCK_REALTIME in ns. Of a process that is new, nothing earlier counts. */
void days_note(struct days *days, const struct blackbox *box, const char *host, uint64_t now);
void days_note_verdict(struct days *days, const char *host, enum finding_kind kind, uint64_t now);
/* Adds the counts of a row to those of its day and host. False: the row makes no sense. */
bool days_add(struct days *days, const struct day_row *row);
bool days_changed(const struct days *days);
void days_clean(struct days *days);

/* "slow:2,link:1"; "-": none. */
void days_write_verdicts(const struct day_row *row, char *out, size_t size);
void days_write_row(FILE *out, const struct day_row *row);
/* Reads a line. False: the line is no row. */
bool days_read_row(const char *line, struct day_row *row);
/* Adds the rows of a file; one that is absent has none. After error_note on failure. */
tutti_result_t days_load(struct days *days, const char *path);
/* Replaces the file at once. */
tutti_result_t days_save(const struct days *days, const char *path);
/* As people read them: the hosts with the most verdicts first, and their days. */
void days_print(const struct days *days, FILE *out);

#endif
