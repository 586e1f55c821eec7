/* SPDX-License-Identifier: Apache-2.0 */
/* Whom the others wait for, call after call. Private to the rules. */
#ifndef TUTTI_DIAGNOSIS_SLOW_H
#define TUTTI_DIAGNOSIS_SLOW_H

#include "diagnosis/scene.h"

/* In which part of the time of the calls that all remember the others waited for each member, which was last: by
 * member. Those that are not known stay as they are. */
void slow_shares(struct scene *scene, const struct member_group *group, double *shares);

#endif
