/* SPDX-License-Identifier: Apache-2.0 */
/* What other programs know of a network, into devices and cables. */
#ifndef PATHS_IMPORT_H
#define PATHS_IMPORT_H

#include "paths/cabling.h"

/*
 * Adds what a text of `length` bytes says. It is what `lldpcli -f json show neighbors` prints on the host `host`. Or it
 * is the config_db.json or the minigraph.xml of a SONiC switch, or a port_config.ini for the minigraphs after it. Or it
 * is a table (CSV) with a line of headings, as NetBox takes and gives: devices, interfaces, addresses, cables. The text
 * itself says which it is. Errors begin with `label`; nothing is to be written after one.
 */
tutti_result_t import_text(const char *label, const char *host, const char *text, size_t length,
                           struct cabling *cabling);

/* Each of them, of a JSON text, of a document of import_xml(), or of a table. */
tutti_result_t import_lldp(const char *host, const json_t *root, struct cabling *cabling);
tutti_result_t import_sonic(const json_t *root, struct cabling *cabling);
tutti_result_t import_minigraph(const json_t *document, struct cabling *cabling);
tutti_result_t import_ports(const char *text, size_t length, struct cabling *cabling);
tutti_result_t import_table(const char *text, size_t length, struct cabling *cabling);

/*
 * A document of XML: an element is an object, which has a list of elements for each of their names, its text as "" and
 * its attribute type as "@type". Prefixes of names are left out. The caller drops it; NULL after error_note. At most
 * INT_MAX bytes.
 */
json_t *import_xml(const char *label, const char *text, size_t length);

#endif
