/* SPDX-License-Identifier: Apache-2.0 */
/* The rank that each rank waits for. Private to the rules. */
#ifndef TUTTI_DIAGNOSIS_WAITS_H
#define TUTTI_DIAGNOSIS_WAITS_H

#include "diagnosis/scene.h"

/* Fills in `next`, `end`, `ending` and `awaited` of all members. */
void scene_follow(struct scene *scene);

#endif
