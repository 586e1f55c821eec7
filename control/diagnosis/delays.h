/* SPDX-License-Identifier: Apache-2.0 */
/* The matrix of delays between workers. Private to the rules. */
#ifndef TUTTI_DIAGNOSIS_DELAYS_H
#define TUTTI_DIAGNOSIS_DELAYS_H

#include "diagnosis/scene.h"
#include "diagnosis/view.h"

/* The matrix of delays of a communicator; no cells if there is no memory. The cells are the caller's. */
void delays_open(struct delays *delays, const struct member_group *group);

#endif
