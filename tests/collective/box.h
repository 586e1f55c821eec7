/* SPDX-License-Identifier: Apache-2.0 */
/* What the black box of this process counts, while it has a communicator. */
#ifndef TUTTI_TESTS_COLLECTIVE_BOX_H
#define TUTTI_TESTS_COLLECTIVE_BOX_H

#include "wire/blackbox.h"

#include <stdbool.h>

/* 0 if there is no box. */
uint64_t box_counter(enum wire_counter which);
/* By what the latest operation of the only communicator went; "": not named. False: there was none. */
bool box_algorithm(char out[17]);

#endif
