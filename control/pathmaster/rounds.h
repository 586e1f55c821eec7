/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts and leaves take turns in probing. */
#ifndef TUTTI_PATHMASTER_ROUNDS_H
#define TUTTI_PATHMASTER_ROUNDS_H

#include "pathmaster/catalogue.h"

/* Gives the paths anew where hosts came or went, or others are to have their turn. False after error_note. */
bool rounds_turn(struct catalogue *catalogue, uint64_t now);

#endif
