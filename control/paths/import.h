/* SPDX-License-Identifier: Apache-2.0 */
/* What other programs know of a network, into devices and cables. */
#ifndef PATHS_IMPORT_H
#define PATHS_IMPORT_H

#include "paths/cabling.h"

/*
 * Adds what a text of `length` bytes says: `lldpcli -f json show neighbors` of the host `host`; the config_db.json of a
 * SONiC switch; or a table (CSV) with a line of headings, as NetBox takes and gives: devices, interfaces, addresses,
 * cables. The text itself says which it is. Errors begin with `label`; nothing is to be written after one.
 */
tutti_result_t import_text(const char *label, const char *host, const char *text, size_t length,
                           struct cabling *cabling);

/* Each of them, of a JSON text, or of a table. */
tutti_result_t import_lldp(const char *host, const json_t *root, struct cabling *cabling);
tutti_result_t import_sonic(const json_t *root, struct cabling *cabling);
tutti_result_t import_table(const char *text, size_t length, struct cabling *cabling);

#endif
