/* SPDX-License-Identifier: Apache-2.0 */
/* What the black box of this process counts, while it has a communicator. */
#ifndef TUTTI_TESTS_COLLECTIVE_BOX_H
#define TUTTI_TESTS_COLLECTIVE_BOX_H

#include "wire/blackbox.h"

/* 0 if there is no box. */
uint64_t box_counter(enum wire_counter which);

#endif
