/* SPDX-License-Identifier: Apache-2.0 */
/* Values of black boxes as JSON. */
#ifndef TUTTI_CLI_TRACE_VALUES_H
#define TUTTI_CLI_TRACE_VALUES_H

#include "wire/boxread.h"

#include <jansson.h>
#include <stdint.h>

/* Text from outside may not be UTF-8: what is not ASCII becomes a question mark then. */
json_t *view_text_json(const char *text);
json_t *view_time_json(const struct blackbox *box, uint64_t time);
json_t *view_hex_json(uint64_t value);

#endif
