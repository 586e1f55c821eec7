/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shared parts of `tutti top`. Data flow one way: two looks at the black boxes give rows, rows and the wishes of
 * who watches give lines, lines are printed or drawn.
 */
#ifndef TUTTI_CLI_TOP_H
#define TUTTI_CLI_TOP_H

#include "cli/trace_set.h"

#include "diagnosis/process.h"

#include <time.h>

/* ---- What is looked at (top_look.c) ---- */

struct top_look {
    struct view_set set;
    struct process_facts *facts;
    struct findings findings;
    uint64_t at;  /* CLOCK_MONOTONIC */
    time_t clock; /* of day */
};

/* False, after a sentence on stderr: the boxes could not be looked for. */
bool top_look(const struct view_options *options, const struct top_look *before, struct top_look *out);
void top_forget(struct top_look *look);

/* A process. */
struct top_row {
    const struct blackbox *box;
    const struct blackbox_comm *world; /* NULL: it has no communicator */
    char program[32];
    bool measured;            /* the look before had it: the rates hold */
    double operations, moved; /* a second; bytes a second, on links and in shared memory */
    double bus;               /* mean bus bandwidth since the look before, GB/s; 0: no operation with a measured time */
    const struct blackbox_comm *comm; /* of the current operation */
    const struct blackbox_op *op;     /* the oldest unfinished one; NULL: none */
    uint64_t waits;                   /* ns that it has waited; 0: it does not wait */
};

enum top_order { TOP_RANK, TOP_OPERATIONS, TOP_BANDWIDTH, TOP_WAIT, TOP_PID, TOP_ORDERS };

struct top_view {
    enum top_order order;
    char filter[64]; /* "": everything */
    bool paused;
};

/* The rows that pass the filter, in order. The caller frees them; NULL: none, or no memory. */
struct top_row *top_rows(const struct top_look *before, const struct top_look *now, const struct top_view *view,
                         size_t *count);
#define TOP_ORDER_NAMES "rank operations bandwidth wait pid"
const char *top_order_name(enum top_order order);

/* ---- What is shown (top_frame.c) ---- */

enum top_style { TOP_PLAIN, TOP_TITLE, TOP_WELL, TOP_BAD, TOP_HEAD, TOP_WAITS, TOP_DIM, TOP_STYLES };

struct top_line {
    enum top_style style;
    char *text;
};

struct top_frame {
    struct top_line *lines;
    size_t count;
    size_t processes, shown; /* processes; of these, with a line */
};

/* The window that lines are for; height 0: all there is, in lines of any length. `skip` processes are above it. */
struct top_window {
    int width, height;
    size_t skip;
};

/* NULL lines: no memory. */
struct top_frame top_frame(const struct top_look *before, const struct top_look *now, const struct top_view *view,
                           const struct top_window *window);
void top_frame_free(struct top_frame *frame);

/* ---- The screen (top_screen.c) ---- */

/* Draws until a key, a signal or the end of the terminal ends it. NULL in a build without ncurses. Exit status. */
int top_screen(const struct view_options *options, struct top_view *view, int interval_ms) __attribute__((weak));

#endif
