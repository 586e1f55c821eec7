/* SPDX-License-Identifier: Apache-2.0 */
/* Fabrics' files, made of what hosts know of their neighbours. */
#ifndef PATHS_IMPORT_H
#define PATHS_IMPORT_H

#include "model/fabric.h"
#include "wiring/text.h"

#define IMPORT_LEAVES 4096

/* What was read so far. The caller frees `hosts` by text_free(). */
struct neighbours {
    char leaf[IMPORT_LEAVES][FABRIC_NAME];
    size_t leaves;
    struct text hosts;
};

/* Adds a host, and the switches at its interfaces, from the text of `lldpcli -f json show neighbors`. Errors begin with
 * `label`; nothing is to be written after one. */
tutti_result_t import_lldp(const char *label, const char *host, const char *data, size_t length,
                           struct neighbours *import);

void import_write(const struct neighbours *import, struct text *out);

#endif
