/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a fabric's file (YAML). Every mistake is named with file, line, column and field. */
#ifndef TUTTI_FABRIC_READ_H
#define TUTTI_FABRIC_READ_H

#include "model/fabric.h"

#include <stddef.h>

/* `label` is the text's name in errors, usually its path. fabric_free(out) after success. */
tutti_result_t fabric_parse(const char *label, const char *yaml, size_t length, struct fabric *out);
tutti_result_t fabric_load(const char *path, struct fabric *out);

/* Does the file describe a fabric (by `clos`, or by lists), and not a lab, whose hosts are a number? */
tutti_result_t fabric_recognise(const char *path, bool *is_fabric);

#endif
