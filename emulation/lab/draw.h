/* SPDX-License-Identifier: Apache-2.0 */
/* The fabric as a picture (SVG), its links coloured by load. */
#ifndef LAB_DRAW_H
#define LAB_DRAW_H

#include "lab/counters.h"

/* Each half of a link is coloured by what the end at it sends: by share of the link's rate if counters were measured
 * over some seconds and the link has a rate, else by share of the busiest link. */
tutti_result_t draw_svg(const struct counters *counters, struct text *out);

#endif
