/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules for people: a table of actions by round, and a drawing. */
#ifndef TUTTI_SCHEDULE_PRINTER_H
#define TUTTI_SCHEDULE_PRINTER_H

#include "schedule/schedule.h"
#include "tutti/tutti.h"

#include <stdio.h>

#define PRINTER_SVG_RANKS  64
#define PRINTER_SVG_ROUNDS 256

/* The actions of `only_rank` (-1: all ranks), round by round. TUTTI_INVALID_ARGUMENT if the shape does not fit. */
tutti_result_t printer_text(FILE *file, const struct algorithm *algorithm, const struct shape *shape, int only_rank);

/* "send OUT[2..3] to 1": one action, into `out`. Returns `out`. */
char *printer_action(const struct action *action, char *out, size_t size);

/* An SVG: ranks across, rounds downwards, an arrow for each message in the colour of what its receiver does with it.
 * Refuses more than PRINTER_SVG_RANKS ranks or PRINTER_SVG_ROUNDS rounds. */
tutti_result_t printer_svg(FILE *file, const struct algorithm *algorithm, const struct shape *shape);

#endif
