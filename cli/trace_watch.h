/* SPDX-License-Identifier: Apache-2.0 */
/* What lanes remember of all their windows, in words and as JSON. */
#ifndef TUTTI_CLI_TRACE_WATCH_H
#define TUTTI_CLI_TRACE_WATCH_H

#include "wire/boxread.h"

#include <jansson.h>
#include <stdio.h>

/* The queue pairs and addresses of the lane, if it has any. */
void view_print_ends(FILE *out, const struct blackbox_lane *lane);
void view_print_watch(FILE *out, const struct blackbox *box, const struct blackbox_lane *lane);

/* "fe80::1" of 16 bytes; null: not known */
json_t *view_address_json(const uint8_t address[16]);
/* null: nothing is remembered */
json_t *view_watch_json(const struct blackbox *box, const struct blackbox_lane *lane);

#endif
