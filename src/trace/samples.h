/* SPDX-License-Identifier: Apache-2.0 */
/* How quick the process was: the samples in its black box. */
#ifndef TUTTI_TRACE_SAMPLES_H
#define TUTTI_TRACE_SAMPLES_H

#include "wire/blackbox.h"

/* The number of calls that this ring of WIRE_BOX_OPS remembers of the time after `since`, in ticks. *bytes grows by the
 * bytes of collectives. Calls of GPUs have none here: their times do not tell who waits. */
double samples_see(const struct wire_box_op *ring, uint64_t since, double *bytes);

/* Adds a sample, whose time becomes later than the last one's. Where there is no room another one goes. `called`: bytes
 * of collectives since the last sample. One caller at a time. */
void samples_add(struct wire_box_samples *samples, struct wire_box_sample sample, uint64_t called);

#endif
