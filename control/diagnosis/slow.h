/* SPDX-License-Identifier: Apache-2.0 */
/* The rank that the others wait for, call after call. Private to the rules. */
#ifndef TUTTI_DIAGNOSIS_SLOW_H
#define TUTTI_DIAGNOSIS_SLOW_H

#include "diagnosis/scene.h"

/* Fills in, for each member that came last, the part of the time of the common calls in which the others waited for it.
 * Unknown shares stay as they are. */
void slow_shares(struct scene *scene, const struct member_group *group, double *shares);

#endif
