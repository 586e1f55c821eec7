/* SPDX-License-Identifier: Apache-2.0 */
/* Rates of all links, again and again. */
#ifndef LAB_WATCH_H
#define LAB_WATCH_H

#include "lab/fabric.h"

/* Prints a table every `seconds`; on a terminal each takes the place of the last. `times` 0: until a signal ends us. */
tutti_result_t watch_run(struct lab_fabric *fabric, double seconds, int times);

#endif
