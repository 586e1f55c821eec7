/* SPDX-License-Identifier: Apache-2.0 */
/* The outputs of `tutti trace`, a function each: they return the exit status, where there is one. */
#ifndef TUTTI_CLI_TRACE_H
#define TUTTI_CLI_TRACE_H

#include "cli/trace_set.h"
#include "diagnosis/diagnosis.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

int cmd_trace(int argc, char **argv);
int cmd_diagnose(int argc, char **argv);

/* The ledger of a communicator on a GPU. */
void view_memory_line(FILE *out, const struct blackbox_comm *comm);
json_t *view_memory_json(const struct blackbox_comm *comm);
void view_table(FILE *out, const struct view_options *options, const struct view_set *set);
void view_event_line(FILE *out, const struct blackbox *box, const struct blackbox_event *event);
/* The findings of one look; the caller frees them by findings_free. */
struct findings view_findings(const struct view_options *options, const struct view_set *set);
json_t *view_lanes_json(const struct blackbox *box, uint32_t segments);
json_t *view_findings_json(const struct findings *findings);
/* The verdict, then a line for each communicator. Is anything wrong? */
bool view_summary(FILE *out, const struct view_options *options, const struct view_set *set);
int view_json(const struct view_options *options, const struct view_set *set);
int view_follow(const struct view_options *options);
/* Prints what lanes carry, and draws it into the file options->plot, if there is one. */
int view_lanes(const struct view_options *options, const struct view_set *set);
/* Prints what calls, lanes and ranks took. */
int view_profile(const struct view_options *options, const struct view_set *set);
/* Prints the lanes again and again, until no process lives. */
int view_follow_lanes(const struct view_options *options);
int view_perfetto(const struct view_options *options, const struct view_set *set);
int view_recorder(const struct view_options *options, const struct view_set *set);
int view_show_counters(const struct view_options *options, const struct view_set *set);
/* A JSON value as a Python pickle, protocol 2. False when it could not be written. */
bool view_pickle(const json_t *value, FILE *file);

#endif
