/* SPDX-License-Identifier: Apache-2.0 */
/* The matrix of delays between workers. Private to the rules. */
#ifndef TUTTI_DIAGNOSIS_DELAYS_H
#define TUTTI_DIAGNOSIS_DELAYS_H

#include "diagnosis/scene.h"
#include "diagnosis/view.h"

/* The matrix of delays of a communicator; without memory it has no cells. The caller frees the cells. */
void delays_open(struct delays *delays, const struct member_group *group);

#endif
