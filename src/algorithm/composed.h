/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of collectives over several hosts: the row "two-level" of the table of algorithms. */
#ifndef TUTTI_ALGORITHM_COMPOSED_H
#define TUTTI_ALGORITHM_COMPOSED_H

#include "schedule/steps.h"

/* NULL: this collective has none. */
const struct steps_row *composed_steps(enum coll coll);

#endif
