/* SPDX-License-Identifier: Apache-2.0 */
/* What the application is told besides the errors of its calls: each listener has a queue and a descriptor. */
#ifndef TUTTI_BASE_EVENTS_H
#define TUTTI_BASE_EVENTS_H

#include "tutti/tutti.h"

#include <stdbool.h>

/* Does anybody listen? */
bool events_wanted(void);

/* Tells all listeners; does nothing where there is none. about: kind, rank, lane and process; the rest is filled in
 * here. Any thread, under any lock. */
void events_tell(const tutti_event_t *about, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The public calls, with arguments that have been checked. also: a descriptor that is readable when more may be told;
 * -1: none. */
tutti_result_t events_open(struct tutti_events **out, int also, int *descriptor);
tutti_result_t events_next(struct tutti_events *events, tutti_event_t *event);
/* False: it was the parent's, which this process was forked from. */
bool events_close(struct tutti_events *events);

#endif
