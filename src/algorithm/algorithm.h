/* SPDX-License-Identifier: Apache-2.0 */
/* The table of algorithms. Adding one: write a file that gives rows, and list them in rows.h. */
#ifndef TUTTI_ALGORITHM_ALGORITHM_H
#define TUTTI_ALGORITHM_ALGORITHM_H

#include "schedule/schedule.h"

/* Number of rows, and row `index` (NULL beyond the end). A name may have several rows, for different collectives. */
int algorithm_count(void);
const struct algorithm *algorithm_row(int index);

/* The algorithm of that name for a collective, NULL if none. Case, '-' and '_' do not matter. */
const struct algorithm *algorithm_find(enum coll coll, const char *name, size_t length);

/* Does any collective have an algorithm of that name? */
bool algorithm_known(const char *name, size_t length);

/* "direct, ring, ..." of a collective (COLL_COUNT: of all), for messages. Returns `out`. */
char *algorithm_names(enum coll coll, char *out, size_t size);

#endif
