/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that wait for each other in a circle, of which `named` is one. Private to the rules. */
#ifndef TUTTI_DIAGNOSIS_CIRCLE_H
#define TUTTI_DIAGNOSIS_CIRCLE_H

#include "diagnosis/finding.h"
#include "diagnosis/habit.h"

/* Are they in several communicators? */
bool circle_in_several(const struct member *named);
bool circle_in_one_call(const struct member *named);
void circle_say_each(struct finding *finding, const struct member *named);
/* The only process of the circle that has broken a habit. Where a GPU stands still, the only rank that has besides made
 * more or fewer calls than the others. NULL: none, or several. */
const struct member *circle_odd(struct scene *scene, enum finding_kind kind, const struct member *named,
                                struct habit *habit);
/* Does a finding, from this one on, name an odd rank of the communicator in which finding `at` only stands, or the same
 * one as finding `at`? */
bool circle_tells(const struct scene *scene, const struct findings *findings, size_t from, size_t at);
/* "rank 3 has made a call twice: after ... came ... each of 40 times, and now ..." */
void circle_say_habit(struct finding *finding, const struct member *odd, const struct habit *habit);
void circle_say_odd(struct finding *finding, const struct member *odd, const struct member *named,
                    const struct habit *habit);

#endif
